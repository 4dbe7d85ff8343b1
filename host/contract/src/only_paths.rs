//! The directories to which a caller narrows one call.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::text;

/// The directories that a call may use, as a part of those that were granted. Without any path the call may use no
/// directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<OnlyPath>", into = "Vec<OnlyPath>")]
pub struct OnlyPaths(Arc<[OnlyPath]>);

impl OnlyPaths {
    pub const MAX_PATHS: usize = 64;
    /// Maximum number of paths in the text.
    const MAX_SHOWN: usize = 8;

    /// Formats a list of directories, which can be that of a record.
    pub fn format(paths: &[impl fmt::Display]) -> String {
        if paths.is_empty() {
            return "no directory".to_owned();
        }
        let shown = paths.iter().take(Self::MAX_SHOWN);
        let shown: Vec<String> = shown.map(ToString::to_string).collect();
        let list = shown.join(", ");
        match paths.len() - shown.len() {
            0 => list,
            more => format!("{list} and {more} more"),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &OnlyPath> {
        self.0.iter()
    }
}

impl fmt::Display for OnlyPaths {
    /// Escapes the paths and shortens the list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Self::format(&self.0))
    }
}

impl From<OnlyPaths> for Vec<OnlyPath> {
    fn from(paths: OnlyPaths) -> Self {
        paths.0.to_vec()
    }
}

impl TryFrom<Vec<OnlyPath>> for OnlyPaths {
    type Error = String;

    fn try_from(paths: Vec<OnlyPath>) -> Result<Self, String> {
        if paths.len() > Self::MAX_PATHS {
            return Err(format!(
                "a call can be narrowed to {} directories, not to {}; name a directory above them",
                Self::MAX_PATHS,
                paths.len()
            ));
        }
        Ok(Self(paths.into()))
    }
}

/// A directory as a guest names it, `/workspace/src`, relative to `/workspace`, or with its path on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OnlyPath(String);

impl OnlyPath {
    /// In bytes.
    pub const MAX_LEN: usize = 4_096;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OnlyPath {
    /// Escapes and shortens the path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::escape_line(&self.0, 200))
    }
}

impl From<OnlyPath> for String {
    fn from(path: OnlyPath) -> Self {
        path.0
    }
}

impl TryFrom<String> for OnlyPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for OnlyPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = if text.is_empty() {
            "it is empty; write `.` for the workspace"
        } else if text.len() > Self::MAX_LEN {
            "it is longer than 4096 bytes"
        } else if text.contains('\0') {
            "it contains a NUL character"
        } else if text.split('/').any(|part| part == "..") {
            // Behind a link, it would not be the directory that the text seems to name.
            "it contains `..`; name the directory itself"
        } else {
            return Ok(Self(text.to_owned()));
        };
        let shown = text::escape_line(text, 80);
        Err(format!("`{shown}` cannot be an allowed path: {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_111_only_plain_paths_are_accepted() {
        for (text, accepted) in [
            ("src", true),
            (".", true),
            ("/workspace/a b", true),
            ("a/..b", true),
            ("", false),
            ("..", false),
            ("a/../b", false),
            ("a\0", false),
            (&"x".repeat(4_097), false),
        ] {
            assert_eq!(text.parse::<OnlyPath>().is_ok(), accepted, "{text:?}");
        }
    }

    #[test]
    fn r_111_the_number_of_paths_is_limited() {
        for (count, accepted) in [(0, true), (64, true), (65, false)] {
            let list = serde_json::to_string(&vec!["a"; count]).unwrap();
            let parsed = serde_json::from_str::<OnlyPaths>(&list);
            assert_eq!(parsed.is_ok(), accepted, "{count}");
        }
        assert!(serde_json::from_str::<OnlyPaths>("[\"a\", \"..\"]").is_err());
    }
}
