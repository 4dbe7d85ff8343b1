//! Paths whose content decides what runs later, or who may come in: a write there is asked about in every mode but
//! the freest.

use std::collections::HashMap;

use super::Places;
use super::address::wildcard;
use super::place::{PathPattern, Spot};

/// The table; the file says what its lines mean.
const DATA: &str = include_str!("protected.txt");

/// Why a path that the configuration names is asked about.
const CONFIGURED: &str = "the configuration protects it";
/// Why a path is asked about that leads nobody knows where.
const UNSURE: &str = "its target cannot be determined";
/// Why a change of a file is asked about that may be run as a program.
pub(super) const EXECUTABLE: &str = "it is executable";

#[derive(Debug, Clone)]
pub(super) struct Protected {
    anywhere: Names,
    files: Names,
    patterns: Vec<PathPattern>,
}

/// Names in lower case, and why they are protected.
#[derive(Debug, Clone, Default)]
struct Names {
    /// A map, because every write looks here.
    plain: HashMap<String, &'static str>,
    /// In capitals.
    exact: HashMap<&'static str, &'static str>,
    /// Names that follow one another anywhere in a path; `*` stands for any characters of one name.
    runs: Vec<(Vec<String>, &'static str)>,
}

impl Names {
    fn add(&mut self, name: &str, why: &'static str) {
        let name = name.to_lowercase();
        if name.contains(['/', '*']) {
            let run = name.split('/').map(str::to_owned).collect();
            self.runs.push((run, why));
        } else {
            self.plain.entry(name).or_insert(why);
        }
    }

    fn why(&self, parts: &[&str]) -> Option<&'static str> {
        let plain = parts.iter().find_map(|part| self.plain.get(*part).copied());
        let fits = |run: &[String], found: &[&str]| {
            run.iter()
                .zip(found)
                .all(|(name, part)| wildcard(name, part))
        };
        let run = || {
            self.runs.iter().find_map(|(run, why)| {
                let mut windows = parts.windows(run.len());
                windows.any(|found| fits(run, found)).then_some(*why)
            })
        };
        plain.or_else(run)
    }
}

impl Protected {
    /// The table, and what the configuration adds to it.
    pub(super) fn new<'a>(
        texts: impl IntoIterator<Item = &'a str>,
        places: &Places,
    ) -> Result<Self, String> {
        let mut protected = Self {
            anywhere: Names::default(),
            files: Names::default(),
            patterns: Vec::new(),
        };
        let mut why = "";
        for line in DATA.lines() {
            // A line that cannot be read is found by a test.
            match line.split_once(' ') {
                Some(("=", text)) => why = text,
                Some(("anywhere", names)) => {
                    names
                        .split(' ')
                        .for_each(|name| protected.anywhere.add(name, why));
                }
                Some(("files", names)) => names
                    .split(' ')
                    .for_each(|name| protected.add_file(name, why)),
                _ => {}
            }
        }
        for text in texts {
            let name = text.trim_end_matches('/').to_lowercase();
            let anchored = ["/", "~/", "./", "../"]
                .iter()
                .any(|anchor| name.starts_with(anchor));
            if name.is_empty()
                || anchored
                || name.contains("**")
                || name.contains(['?', '[', '{', '\\'])
            {
                protected.patterns.push(PathPattern::parse(text, places)?);
            } else {
                protected.anywhere.add(&name, CONFIGURED);
            }
        }
        Ok(protected)
    }

    fn add_file(&mut self, name: &'static str, why: &'static str) {
        if name.chars().any(|c| c.is_ascii_uppercase()) {
            self.files.exact.insert(name, why);
        } else {
            self.files.add(name, why);
        }
    }

    /// Why a change of this path is asked about; None: it is not protected.
    pub(super) fn why(&self, spot: &Spot) -> Option<&'static str> {
        let of_path = |path: &str| {
            let lower = path.to_lowercase();
            let parts: Vec<&str> = lower.split('/').collect();
            let last = parts.last().copied().unwrap_or_default();
            let written = path.rsplit('/').next().unwrap_or_default();
            self.anywhere
                .why(&parts)
                .or_else(|| self.files.why(&[last]))
                .or_else(|| self.files.exact.get(written).copied())
        };
        let by_pattern = || {
            let mut patterns = self.patterns.iter();
            patterns
                .any(|pattern| pattern.maybe(spot))
                .then_some(CONFIGURED)
        };
        spot.readings()
            .find_map(of_path)
            .or_else(by_pattern)
            .or_else(|| spot.is_unsure().then_some(UNSURE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let mut seen = std::collections::BTreeSet::new();
        let mut why = "";
        for line in DATA.lines().filter(|line| !line.is_empty()) {
            match line.split_once(' ') {
                Some(("=", text)) => why = text,
                Some((word @ ("anywhere" | "files"), names)) => {
                    assert!(!why.is_empty(), "{line}");
                    for name in names.split(' ') {
                        assert!(!name.is_empty() && seen.insert((word, name)), "{line}");
                    }
                }
                _ => assert!(line.starts_with('#'), "{line}"),
            }
        }
        assert!(seen.len() > 450, "{}", seen.len());
    }
}
