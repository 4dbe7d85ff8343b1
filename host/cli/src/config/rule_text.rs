//! The text of rule forms such as `Bash(git *)`, validated when parsed.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};
use toolhost_contract::policy::{Decision, PathContext, RuleSpec};

/// The form of a rule: a tool by any of its names, `plugin/*`, `mcp__server__*` or `*`, optionally with a condition
/// on the call in parentheses.
#[derive(Debug, Clone)]
pub struct RuleText {
    text: String,
    /// Line and column, if known.
    pub position: Option<(usize, usize)>,
}

/// Forms with the same text are equal, regardless of their position.
impl PartialEq for RuleText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl RuleText {
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for RuleText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for RuleText {
    type Err = String;

    /// Rejects a form that the policy cannot parse: it would match nothing, so a deny rule would have no effect.
    /// Validity does not depend on the home directory.
    fn from_str(text: &str) -> Result<Self, String> {
        let path_context = PathContext {
            home: Some("/".to_owned()),
            ..PathContext::default()
        };
        RuleSpec::new(Decision::Deny, text)
            .compile(1, &path_context)
            .map_err(|diagnostic| diagnostic.message)?;
        Ok(Self {
            text: text.trim().to_owned(),
            position: None,
        })
    }
}

impl<'de> Deserialize<'de> for RuleText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}
