//! Protected paths: files that can execute code later or grant access. Writing them requires approval in every mode
//! except yolo.

use std::collections::HashMap;

use super::PathContext;
use super::domain_pattern::matches_wildcard;
use super::path_pattern::{PathPattern, PathRef};

/// The table of protected names; its format is described in the file.
const TABLE: &str = include_str!("protected.txt");

/// Reason for paths protected by the configuration.
const CONFIGURED: &str = "the configuration protects it";
/// Reason for paths whose target cannot be determined.
const AMBIGUOUS: &str = "its target cannot be determined";
/// Reason for changes of executable files.
pub(super) const EXECUTABLE: &str = "it is executable";

#[derive(Debug, Clone)]
pub(super) struct ProtectedPaths {
    anywhere: ProtectedNames,
    files: ProtectedNames,
    patterns: Vec<PathPattern>,
}

/// Names in lower case with the reason for their protection.
#[derive(Debug, Clone, Default)]
struct ProtectedNames {
    /// A map, because every write is looked up here.
    plain: HashMap<String, &'static str>,
    /// Names with capitals, matched exactly.
    exact: HashMap<&'static str, &'static str>,
    /// Consecutive names anywhere in a path; `*` stands for any characters of one name.
    sequences: Vec<(Vec<String>, &'static str)>,
}

impl ProtectedNames {
    fn add(&mut self, name: &str, why: &'static str) {
        let name = name.to_lowercase();
        if name.contains(['/', '*']) {
            let run = name.split('/').map(str::to_owned).collect();
            self.sequences.push((run, why));
        } else {
            self.plain.entry(name).or_insert(why);
        }
    }

    fn reason(&self, parts: &[&str]) -> Option<&'static str> {
        let plain = parts.iter().find_map(|part| self.plain.get(*part).copied());
        let fits = |run: &[String], found: &[&str]| {
            run.iter()
                .zip(found)
                .all(|(name, part)| matches_wildcard(name, part))
        };
        let run = || {
            self.sequences.iter().find_map(|(run, why)| {
                let mut windows = parts.windows(run.len());
                windows.any(|found| fits(run, found)).then_some(*why)
            })
        };
        plain.or_else(run)
    }
}

impl ProtectedPaths {
    /// Loads the table and the paths protected by the configuration.
    pub(super) fn new<'a>(
        texts: impl IntoIterator<Item = &'a str>,
        path_context: &PathContext,
    ) -> Result<Self, String> {
        let mut protected = Self {
            anywhere: ProtectedNames::default(),
            files: ProtectedNames::default(),
            patterns: Vec::new(),
        };
        let mut why = "";
        for line in TABLE.lines() {
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
                protected
                    .patterns
                    .push(PathPattern::parse(text, path_context)?);
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
    pub(super) fn reason(&self, path_ref: &PathRef) -> Option<&'static str> {
        let of_path = |path: &str| {
            let lower = path.to_lowercase();
            let parts: Vec<&str> = lower.split('/').collect();
            let last = parts.last().copied().unwrap_or_default();
            let written = path.rsplit('/').next().unwrap_or_default();
            self.anywhere
                .reason(&parts)
                .or_else(|| self.files.reason(&[last]))
                .or_else(|| self.files.exact.get(written).copied())
        };
        let by_pattern = || {
            let mut patterns = self.patterns.iter();
            patterns
                .any(|pattern| pattern.may_match(path_ref))
                .then_some(CONFIGURED)
        };
        path_ref
            .interpretations()
            .find_map(of_path)
            .or_else(by_pattern)
            .or_else(|| path_ref.is_ambiguous().then_some(AMBIGUOUS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_no_invalid_lines() {
        let mut seen = std::collections::BTreeSet::new();
        let mut why = "";
        for line in TABLE.lines().filter(|line| !line.is_empty()) {
            match line.split_once(' ') {
                Some(("=", text)) => why = text,
                Some((kind @ ("anywhere" | "files"), names)) => {
                    assert!(!why.is_empty(), "{line}");
                    for name in names.split(' ') {
                        assert!(!name.is_empty() && seen.insert((kind, name)), "{line}");
                    }
                }
                _ => assert!(line.starts_with('#'), "{line}"),
            }
        }
        assert!(seen.len() > 450, "{}", seen.len());
    }
}
