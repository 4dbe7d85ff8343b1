//! Validated names of tools and plugins, digests, and name suggestions.

use std::fmt;

use serde::{Deserialize, Serialize};

const MAX_NAME_LEN: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} name `{name}` is not valid: {rule}")]
pub struct NameError {
    kind: &'static str,
    /// Escaped and truncated, because it comes from a guest.
    name: String,
    rule: &'static str,
}

/// The name by which a model calls a tool: `[a-z][a-z0-9_]{0,63}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ToolName(String);

impl ToolName {
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let rule =
            "a lower-case letter followed by up to 63 lower-case letters, digits or underscores";
        check("tool", name, rule, |c| c == '_').map(Self)
    }

    /// Returns the qualified name `plugin__tool`, used if another plugin has a tool with the same name.
    ///
    /// If the qualified name exceeds the length limit, the plugin part is shortened and a hash is added. Truncating the
    /// tail would produce equal names.
    #[must_use]
    pub fn qualified(&self, plugin: &PluginName) -> Self {
        let front = plugin.as_str().replace('-', "_");
        let full = format!("{front}__{}", self.0);
        if full.len() <= MAX_NAME_LEN {
            return Self(full);
        }
        let hash = full.bytes().fold(0x811c_9dc5_u32, |h, b| {
            (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
        });
        let room = MAX_NAME_LEN.saturating_sub(self.0.len() + 9);
        let front = &front[..room.min(front.len())];
        let mut name = format!("{front}_{:06x}__{}", hash & 0xff_ffff, self.0);
        name.truncate(MAX_NAME_LEN);
        Self(name)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name in title case: `read_file` → `Read File`.
    pub fn title(&self) -> String {
        let mut title = String::with_capacity(self.0.len());
        for word in self.0.split('_').filter(|word| !word.is_empty()) {
            if !title.is_empty() {
                title.push(' ');
            }
            let (first, rest) = word.split_at(1);
            title.push_str(&first.to_ascii_uppercase());
            title.push_str(rest);
        }
        title
    }
}

/// The name of a plugin: `[a-z][a-z0-9-]{0,63}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PluginName(String);

impl PluginName {
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let rule = "a lower-case letter followed by up to 63 lower-case letters, digits or hyphens";
        check("plugin", name, rule, |c| c == '-').map(Self)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check(
    kind: &'static str,
    name: &str,
    rule: &'static str,
    extra: fn(char) -> bool,
) -> Result<String, NameError> {
    let fits = name.len() <= MAX_NAME_LEN
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || extra(c));
    if fits {
        Ok(name.to_owned())
    } else {
        Err(NameError {
            kind,
            name: crate::text::escape_line(name, 80),
            rule,
        })
    }
}

/// SHA-256 of a component. Approvals and cache entries are bound to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Digest {
    /// Parses `sha256:` and 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let error = || DigestError(crate::text::escape_line(text, 80));
        let hex = text.strip_prefix("sha256:").ok_or_else(error)?;
        let is_digit = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        if hex.len() != 64 || !hex.bytes().all(is_digit) {
            return Err(error());
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let digits = str::from_utf8(digits).map_err(|_| error())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| error())?;
        }
        Ok(Self(bytes))
    }

    /// The hexadecimal digits without `sha256:`.
    pub fn hex(&self) -> String {
        self.to_string().split_off("sha256:".len())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest: `sha256:` and 64 lower-case hexadecimal digits")]
pub struct DigestError(String);

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! impl_str_traits {
    ($($name:ident)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    )*};
}
impl_str_traits!(ToolName PluginName);

/// Maximum length in bytes of a name that is compared with others.
const MAX_COMPARED_LEN: usize = 256;

/// Returns up to `count` names of `known` that are similar to `query`, best match first.
pub fn nearest<'a>(
    query: &str,
    known: impl IntoIterator<Item = &'a str>,
    count: usize,
) -> Vec<&'a str> {
    // The comparison takes quadratic time, and callers control the length.
    if query.len() > MAX_COMPARED_LEN {
        return Vec::new();
    }
    let query = query.to_lowercase();
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|name| {
            let lower = name.to_lowercase();
            let part = !query.is_empty() && (lower.contains(&query) || query.contains(&lower));
            (
                strsim::jaro_winkler(&query, &lower) + if part { 0.2 } else { 0.0 },
                name,
            )
        })
        .filter(|(score, _)| *score >= 0.7)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored
        .into_iter()
        .take(count)
        .map(|(_, name)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Comparing a name of 1 MB took 14 seconds.
    #[test]
    fn h_11_long_names_are_not_compared() {
        let long = "read_file".repeat(100);
        assert_eq!(nearest(&long, ["read_file"], 1), Vec::<&str>::new());
        assert_eq!(nearest("raed_file", ["read_file"], 1), ["read_file"]);
    }

    #[test]
    fn tool_names_are_valid_for_every_model() {
        for good in ["a", "read_file", "x2", &"a".repeat(64)] {
            assert!(ToolName::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "Read",
            "2x",
            "_a",
            "a-b",
            "a/b",
            "a\u{200b}",
            "a\0",
            "é",
            &"a".repeat(65),
        ] {
            assert!(ToolName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn errors_escape_unsafe_names() {
        let error = ToolName::parse("\u{1b}[2Jx\u{202e}")
            .unwrap_err()
            .to_string();
        assert!(error.contains(r"\u{1b}[2Jx\u{202e}"), "{error}");
    }

    #[test]
    fn qualified_names_stay_distinct_when_they_are_shortened() {
        let tool = ToolName::parse(&"t".repeat(50)).unwrap();
        let names: Vec<_> = ["aaaaaaaaaaaaaaaaaaaa-one", "aaaaaaaaaaaaaaaaaaaa-two"]
            .map(|plugin| tool.qualified(&PluginName::parse(plugin).unwrap()))
            .into();
        assert_ne!(names[0], names[1]);
        assert!(
            names
                .iter()
                .all(|name| name.as_str().len() <= 64 && name.as_str().ends_with(tool.as_str()))
        );
    }

    #[test]
    fn nearest_names_come_best_first() {
        let known = ["read_file", "write_file", "grep", "glob"];
        assert_eq!(nearest("readfile", known, 1), ["read_file"]);
        assert_eq!(nearest("Grep", known, 3), ["grep"]);
        assert!(nearest("zzz", known, 3).is_empty());
    }

    #[test]
    fn titles_are_derived_from_names() {
        assert_eq!(ToolName::parse("read_file").unwrap().title(), "Read File");
    }
}
