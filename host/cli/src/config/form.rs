//! The text form of a rule, as in `Bash(git *)`, checked where it is written.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};
use toolhost_contract::policy::{Decision, Places, RuleSpec};

/// What a rule speaks of: a tool by any of its names, `plugin/*`, `mcp__server__*`, `*`, or one of them with what the
/// call has to be about in parentheses.
#[derive(Debug, Clone)]
pub struct Form {
    text: String,
    /// Line and column, where they are known.
    pub at: Option<(usize, usize)>,
}

/// Two forms are the same when they say the same, wherever they stand.
impl PartialEq for Form {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Form {
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Form {
    type Err = String;

    /// A form that the policy cannot read would match nothing, which in a deny rule is the opposite of what its writer
    /// wants. Whether it is well
    /// formed does not depend on where home is.
    fn from_str(text: &str) -> Result<Self, String> {
        let places = Places {
            home: Some("/".to_owned()),
            ..Places::default()
        };
        RuleSpec::new(Decision::Deny, text)
            .compile(1, &places)
            .map_err(|diagnostic| diagnostic.message)?;
        Ok(Self {
            text: text.trim().to_owned(),
            at: None,
        })
    }
}

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}
