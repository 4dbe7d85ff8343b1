//! Which versions of a tool a rule speaks of: `1.2.3`, `1.2.*`, `^1.2`, `>=1.2`, `<2`, several with commas.

use crate::text;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VersionReq(Vec<(Op, Vec<u64>)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Exact,
    Compatible,
    AtLeast,
    Below,
}

impl VersionReq {
    pub(super) fn parse(wanted: &str) -> Result<Self, String> {
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
            let parts = numbers(number).filter(|_| number.len() < 64).ok_or_else(|| {
                format!(
                    "`{}` is not a version; write one such as `1.2.3`, `1.2.*`, `^1.2` or `>=1.2, <2`",
                    text::inline(wanted, 60)
                )
            })?;
            all.push((op, parts));
        }
        Ok(Self(all))
    }

    /// `None`: the tool's version cannot be read.
    pub(super) fn matches(&self, version: &str) -> Option<bool> {
        let core = version.split(['-', '+']).next().unwrap_or_default();
        let version = numbers(core)?;
        Some(self.0.iter().all(|(op, wanted)| {
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
                    // The first number that is not zero has to stay.
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

fn numbers(text: &str) -> Option<Vec<u64>> {
    let parts: Option<Vec<u64>> = text.split('.').map(|part| part.parse().ok()).collect();
    parts.filter(|parts| (1..=3).contains(&parts.len()))
}

fn padded(parts: &[u64]) -> [u64; 3] {
    std::array::from_fn(|at| parts.get(at).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::VersionReq;

    #[test]
    fn a_version_is_compared_by_its_numbers() {
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
        ] {
            let req = VersionReq::parse(wanted).unwrap();
            assert_eq!(req.matches(version), expected, "{wanted} {version}");
        }
        for bad in ["", "x", "1..2", "1.2.3.4", "*", "~1"] {
            assert!(VersionReq::parse(bad).is_err(), "{bad}");
        }
    }
}
