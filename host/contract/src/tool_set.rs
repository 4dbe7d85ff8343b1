//! The tools that are listed for a model. All others can still be called: `tool_search` finds them.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::Deserialize;

use crate::text;

/// The tools of the set `core`: what a coding agent uses in most sessions.
pub const CORE: &[&str] = &[
    "ask_user",
    "edit_file",
    "glob",
    "grep",
    "list_directory",
    "read_file",
    "shell",
    "todo_write",
    "web_fetch",
    "write_file",
];

/// Listed with every set, because they find and call the other tools.
pub const REACH: &[&str] = &["tool_chain", "tool_search"];

/// Maximum number of names in a set.
const MAX_NAMES: usize = 256;
/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// A selection of tools by set, plugin, server or tool name, for example `core,search`. The default is all tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct ToolSet(Option<BTreeSet<String>>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolSetError {
    #[error(
        "a set of tools is empty; write `all`, `core`, or names of plugins and tools separated by commas"
    )]
    Empty,
    #[error(
        "`{0}` is not a name of a set, plugin or tool; write names separated by commas, for example `core,search`"
    )]
    InvalidName(String),
    #[error("a set of tools has more than {MAX_NAMES} names")]
    TooMany,
}

impl ToolSet {
    /// Returns whether the set contains a tool of a plugin or server.
    pub fn contains(&self, plugin: &str, tool: &str) -> bool {
        let Some(names) = &self.0 else {
            return true;
        };
        names.contains(plugin)
            || names.contains(tool)
            || names.contains("core") && CORE.contains(&tool)
            || REACH.contains(&tool)
    }

    /// Returns the names as written; none for all tools.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flatten().map(String::as_str)
    }

    /// Returns the names of plugins and tools in the set, without those of sets.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.words().filter(|name| *name != "core")
    }
}

impl FromStr for ToolSet {
    type Err = ToolSetError;

    fn from_str(text: &str) -> Result<Self, ToolSetError> {
        let mut names = BTreeSet::new();
        for name in text.split(',').map(str::trim) {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./@".contains(c);
            if name.is_empty() && text.trim().is_empty() {
                return Err(ToolSetError::Empty);
            }
            if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_plain) {
                return Err(ToolSetError::InvalidName(text::escape_line(name, 60)));
            }
            names.insert(name.to_owned());
            if names.len() > MAX_NAMES {
                return Err(ToolSetError::TooMany);
            }
        }
        Ok(Self((!names.contains("all")).then_some(names)))
    }
}

impl TryFrom<Vec<String>> for ToolSet {
    type Error = ToolSetError;

    fn try_from(names: Vec<String>) -> Result<Self, ToolSetError> {
        names.join(",").parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_what_it_names() {
        for (set, plugin, tool, expected) in [
            ("all", "files", "move_file", true),
            ("core, all", "files", "move_file", true),
            ("core", "files", "read_file", true),
            ("core", "files", "move_file", false),
            ("core,files", "files", "move_file", true),
            ("files", "search", "grep", false),
            ("files,grep", "search", "grep", true),
            ("files", "agent", "tool_search", true),
            ("files", "agent", "task", false),
        ] {
            let parsed: ToolSet = set.parse().unwrap();
            assert_eq!(
                parsed.contains(plugin, tool),
                expected,
                "{set} {plugin}/{tool}"
            );
        }
        assert!(ToolSet::default().contains("a", "b"));
    }

    #[test]
    fn an_invalid_set_is_refused() {
        let too_many = (0..300)
            .map(|i| format!("t{i}"))
            .collect::<Vec<_>>()
            .join(",");
        for (set, message) in [
            (
                "",
                "a set of tools is empty; write `all`, `core`, or names of plugins and tools separated by commas",
            ),
            (
                "core,",
                "`` is not a name of a set, plugin or tool; write names separated by commas, for example `core,search`",
            ),
            (
                "a b",
                "`a b` is not a name of a set, plugin or tool; write names separated by commas, for example `core,search`",
            ),
            (&too_many, "a set of tools has more than 256 names"),
        ] {
            assert_eq!(set.parse::<ToolSet>().unwrap_err().to_string(), message);
        }
    }
}
