//! Tool versions and version requirements: `1.2.3`, `1.2.*`, `^1.2`, `>=1.2`, `<2`, several separated by commas.

use std::fmt;

use crate::text;

/// The version of a tool or plugin. An invalid version is lower than all valid ones and equal only to itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    Invalid(String),
    Valid(semver::Version),
}

impl Version {
    pub fn parse(text: &str) -> Self {
        semver::Version::parse(text).map_or_else(|_| Self::Invalid(text.to_owned()), Self::Valid)
    }

    /// Returns whether this is a release: `1.2.3`, not `1.2.3-rc.1`.
    pub fn is_stable(&self) -> bool {
        matches!(self, Self::Valid(version) if version.pre.is_empty())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(version) => f.write_str(&text::escape_line(version, 60)),
            Self::Valid(version) => version.fmt(f),
        }
    }
}

/// Splits a name and an optional version requirement: `grep@1.2.3`, `search/grep@^1`.
pub fn split_version(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('@') {
        Some((name, version)) => (name.trim_end(), Some(version.trim())),
        None => (name, None),
    }
}

/// A version requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionReq {
    comparators: Vec<(Op, Vec<u64>)>,
    /// Set if the requirement is one complete version, which matches only itself.
    exact: Option<Version>,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Exact,
    Compatible,
    AtLeast,
    Below,
}

impl VersionReq {
    pub fn parse(wanted: &str) -> Result<Self, String> {
        let wanted = wanted.trim();
        let shown = text::escape_line(wanted, 60);
        let whole = Version::parse(wanted.strip_prefix('=').unwrap_or(wanted).trim());
        let whole = Some(whole).filter(|_| wanted.len() < 64);
        let whole = whole.filter(|whole| matches!(whole, Version::Valid(_)));
        if whole.as_ref().is_some_and(|whole| !whole.is_stable()) {
            return Ok(Self {
                comparators: Vec::new(),
                exact: whole,
                text: shown,
            });
        }
        let mut all = Vec::new();
        for one in wanted.split(',').map(str::trim) {
            let (op, number) = if let Some(rest) = one.strip_prefix(">=") {
                (Op::AtLeast, rest)
            } else if let Some(rest) = one.strip_prefix('<') {
                (Op::Below, rest)
            } else if let Some(rest) = one.strip_prefix('^') {
                (Op::Compatible, rest)
            } else {
                (Op::Exact, one.strip_prefix('=').unwrap_or(one))
            };
            let number = number.trim();
            let number = number.strip_suffix(".*").unwrap_or(number);
            let number = whole.as_ref().map_or(number, |_| core(number));
            let parts = numbers(number).filter(|_| number.len() < 64).ok_or_else(|| {
                format!(
                    "`{}` is not a version requirement; use one such as `1.2.3`, `1.2.*`, `^1.2` or `>=1.2, <2`",
                    text::escape_line(wanted, 60)
                )
            })?;
            all.push((op, parts));
        }
        Ok(Self {
            comparators: all,
            exact: whole,
            text: shown,
        })
    }

    /// Returns whether the requirement selects this version. A complete version selects only itself, not its
    /// pre-releases.
    pub fn selects(&self, version: &Version) -> bool {
        match (&self.exact, version) {
            (Some(whole), version) => whole == version,
            (None, Version::Valid(read)) => self.applies_to(&read.to_string()) == Some(true),
            (None, Version::Invalid(_)) => false,
        }
    }

    /// Returns whether a rule with this requirement applies to this version. A pre-release counts as its release.
    /// `None` if the version is invalid.
    pub fn applies_to(&self, version: &str) -> Option<bool> {
        if self.comparators.is_empty() {
            let version = Version::parse(version);
            return matches!(version, Version::Valid(_)).then(|| self.selects(&version));
        }
        let version = numbers(core(version))?;
        Some(self.comparators.iter().all(|(op, wanted)| {
            let starts_alike = |count: usize| {
                wanted
                    .iter()
                    .take(count)
                    .eq(version.iter().take(count.min(wanted.len())))
            };
            let at_least = padded(&version) >= padded(wanted);
            match op {
                Op::Exact => starts_alike(wanted.len()),
                Op::AtLeast => at_least,
                Op::Below => !at_least,
                Op::Compatible => {
                    // The first nonzero number must be equal.
                    let keep = wanted
                        .iter()
                        .position(|n| *n != 0)
                        .unwrap_or(wanted.len() - 1)
                        + 1;
                    at_least && starts_alike(keep)
                }
            }
        }))
    }
}

impl fmt::Display for VersionReq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for VersionReq {
    type Err = String;

    fn from_str(wanted: &str) -> Result<Self, String> {
        Self::parse(wanted)
    }
}

/// Returns the three numbers, without pre-release and build metadata.
fn core(version: &str) -> &str {
    version.split(['-', '+']).next().unwrap_or_default()
}

fn numbers(text: &str) -> Option<Vec<u64>> {
    let parts: Option<Vec<u64>> = text.split('.').map(|part| part.parse().ok()).collect();
    parts.filter(|parts| (1..=3).contains(&parts.len()))
}

fn padded(parts: &[u64]) -> [u64; 3] {
    std::array::from_fn(|at| parts.get(at).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::{Version, VersionReq, split_version};

    #[test]
    fn requirements_compare_version_numbers() {
        for (wanted, version, expected) in [
            ("1.2.3", "1.2.3", Some(true)),
            ("1.2.3", "1.2.4", Some(false)),
            ("1.2", "1.2.9", Some(true)),
            ("1.2.*", "1.20.0", Some(false)),
            ("^1.2", "1.10.0", Some(true)),
            ("^1.2", "2.0.0", Some(false)),
            ("^0.2.1", "0.2.9", Some(true)),
            ("^0.2.1", "0.3.0", Some(false)),
            (">=1.2, <2", "1.9.9", Some(true)),
            (">=1.2, <2", "2.0.0", Some(false)),
            (">=1", "1.0.0-rc.1", Some(true)),
            ("1", "unreadable", None),
            ("1.2.3", "1.2.3-rc.1", Some(true)),
            ("1.2.3-rc.1", "1.2.3-rc.1", Some(true)),
            ("1.2.3-rc.1", "1.2.3", Some(false)),
            ("1.2.3-rc.1", "unreadable", None),
        ] {
            let req = VersionReq::parse(wanted).unwrap();
            assert_eq!(req.applies_to(version), expected, "{wanted} {version}");
        }
        for bad in ["", "x", "1..2", "1.2.3.4", "*", "~1"] {
            assert!(VersionReq::parse(bad).is_err(), "{bad}");
        }
    }
    #[test]
    fn r_493_a_complete_version_selects_only_itself() {
        for (wanted, version, expected) in [
            ("1.2.3", "1.2.3", true),
            ("=1.2.3", "1.2.3", true),
            ("1.2.3", "1.2.3-rc.1", false),
            ("1.2.3-rc.1", "1.2.3-rc.1", true),
            ("1.2.3+a", "1.2.3+b", false),
            ("^1.2", "1.3.0-rc.1", true),
            ("1", "one", false),
            ("one", "one", false),
        ] {
            let means =
                VersionReq::parse(wanted).is_ok_and(|req| req.selects(&Version::parse(version)));
            assert_eq!(means, expected, "{wanted} {version}");
        }
    }

    #[test]
    fn r_493_versions_are_ordered() {
        let order = [
            "zzz",
            "0.9.9",
            "1.0.0-rc.1",
            "1.0.0-rc.2",
            "1.0.0",
            "1.9.0",
            "1.10.0",
        ];
        assert!(order.map(Version::parse).is_sorted());
        assert!(!Version::parse("1.0.0-rc.1").is_stable() && !Version::parse("zzz").is_stable());
    }

    #[test]
    fn names_can_include_a_version() {
        assert_eq!(split_version("grep"), ("grep", None));
        assert_eq!(split_version("a/grep@^1"), ("a/grep", Some("^1")));
        assert_eq!(split_version("@"), ("", Some("")));
    }
}
