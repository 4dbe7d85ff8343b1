//! Matching hooks to tools by name.

use std::fmt;

use regex::Regex;
use toolhost_contract::{Descriptor, PluginName, ToolName};

use crate::register::qualified_names;

/// A regular expression that must match a whole name or alias of the tool. Case is ignored.
#[derive(Debug, Clone)]
pub struct Matcher(Option<Regex>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a valid tool pattern: {reason}")]
pub struct MatcherError {
    pattern: String,
    reason: String,
}

impl Matcher {
    pub fn everything() -> Self {
        Self(None)
    }

    /// Parses a pattern. `""` and `*` match everything; otherwise a regular expression such as `read_file|grep` or
    /// `mcp__.*`.
    pub fn parse(pattern: &str) -> Result<Self, MatcherError> {
        if matches!(pattern, "" | "*") {
            return Ok(Self::everything());
        }
        regex::RegexBuilder::new(&format!("^(?:{pattern})$"))
            .case_insensitive(true)
            .size_limit(1 << 20)
            .build()
            .map(|regex| Self(Some(regex)))
            .map_err(|error| MatcherError {
                pattern: toolhost_contract::text::escape_line(pattern, 200),
                reason: error
                    .to_string()
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim()
                    .to_owned(),
            })
    }

    /// Whether the pattern matches the tool. `name` is the name under which the tool is served.
    pub fn matches_tool(&self, plugin: &PluginName, name: &ToolName, tool: &Descriptor) -> bool {
        let Some(regex) = &self.0 else {
            return true;
        };
        // All names are checked, so that a hook on `Edit` cannot be bypassed by calling `edit_file`.
        [name.as_str(), tool.name.as_str()]
            .into_iter()
            .chain(tool.aliases.iter().map(String::as_str))
            .any(|name| regex.is_match(name))
            || qualified_names(plugin, &tool.name)
                .iter()
                .any(|name| regex.is_match(name))
    }
}

/// Formats the pattern as it was written.
impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let regex = self.0.as_ref().map_or("*", Regex::as_str);
        let written = regex
            .strip_prefix("^(?:")
            .and_then(|rest| rest.strip_suffix(")$"));
        f.write_str(written.unwrap_or(regex))
    }
}
