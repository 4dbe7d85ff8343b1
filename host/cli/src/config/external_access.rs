//! Access beyond files and environment variables: hosts, programs, memory, skills, sub-agents and secrets.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use toolhost_contract::text;

use super::{Variable, values};

/// `[agents.NAME]`: a command that reads a task as JSON from standard input and prints its answer as JSON.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentTable {
    pub command: CommandLine,
    #[serde(default)]
    pub description: String,
    #[serde(default, deserialize_with = "values::duration")]
    pub timeout: Option<Duration>,
}

/// A program and its arguments, written as a list or as one string with shell quoting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    pub program: String,
    pub args: Vec<String>,
}

impl<'de> Deserialize<'de> for CommandLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a command as a string or a list of strings")]
        enum Either {
            Text(String),
            List(Vec<String>),
        }
        let mut command = match Either::deserialize(deserializer)? {
            Either::Text(text) => crate::shell_words::split_command(&text)
                .map_err(|why| D::Error::custom(format!("the command: {why}")))?,
            Either::List(command) => command,
        }
        .into_iter();
        match command.next().filter(|program| !program.is_empty()) {
            Some(program) => Ok(Self {
                program,
                args: command.collect(),
            }),
            None => Err(D::Error::custom("the command has no program")),
        }
    }
}

/// `[secrets.NAME]`: a value that plugins cannot read and that is sent only to these hosts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretTable {
    /// The environment variable with the value.
    pub env: Variable,
    pub hosts: Vec<String>,
}

/// The name of an agent or a secret: letters, digits, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryName(String);

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for EntryName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            let shown = text::escape_line(&name, 40);
            return Err(D::Error::custom(format!(
                "`{shown}` is not a valid name; use letters, digits, `_` and `-`"
            )));
        }
        Ok(Self(name))
    }
}

/// The name of a program that may be started: `git`, `bash`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramName(String);

impl ProgramName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for ProgramName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        if name.is_empty() || name.len() > 128 || !name.chars().all(plain) || name == ".." {
            let shown = text::escape_line(name, 40);
            return Err(format!(
                "`{shown}` is not a program name such as `git`; paths are not accepted"
            ));
        }
        Ok(Self(name.to_owned()))
    }
}

impl<'de> Deserialize<'de> for ProgramName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(D::Error::custom)
    }
}
