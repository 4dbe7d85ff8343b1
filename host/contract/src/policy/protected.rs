//! Protected paths: files that can execute code later or grant access. Writing them requires approval in every mode
//! except yolo.

use std::collections::HashMap;

use super::Places;
use super::address::wildcard;
use super::place::{PathPattern, Spot};

/// The table of protected names; its format is described in the file.
const DATA: &str = include_str!("protected.txt");

/// Reason for paths protected by the configuration.
const CONFIGURED: &str = "the configuration protects it";
/// Reason for paths whose target cannot be determined.
const UNSURE: &str = "its target cannot be determined";
/// Reason for changes of executable files.
pub(super) const EXECUTABLE: &str = "it is executable";

#[derive(Debug, Clone)]
pub(super) struct Protected {
    anywhere: Names,
    files: Names,
    patterns: Vec<PathPattern>,
}

/// Names in lower case with the reason for their protection.
#[derive(Debug, Clone, Default)]
struct Names {
    /// A map, because every write is looked up here.
    plain: HashMap<String, &'static str>,
    /// Names with capitals, matched exactly.
    exact: HashMap<&'static str, &'static str>,
    /// Consecutive names anywhere in a path; `*` stands for any characters of one name.
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
    /// Loads the table and the paths protected by the configuration.
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
            // A test rejects invalid lines.
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

    /// Why a change of this path requires approval; `None` if it is not protected.
    pub(super) fn why(&self, path_ref: &Spot) -> Option<&'static str> {
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
                .any(|pattern| pattern.maybe(path_ref))
                .then_some(CONFIGURED)
        };
        path_ref
            .readings()
            .find_map(of_path)
            .or_else(by_pattern)
            .or_else(|| path_ref.is_unsure().then_some(UNSURE))
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
