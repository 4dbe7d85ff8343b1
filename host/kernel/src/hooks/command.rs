//! A hook that is a program: it reads one JSON object and answers with another, or with its exit code.
//!
//! It is started anew for each event, in a process group of its own, and whatever it started dies with it. A child
//! that leaves the group (`setsid`) gets away; what must outlive the hook is to be started like that.

mod answer;
pub mod process;
mod protocol;
mod strict;

use std::path::PathBuf;

use serde_json::Value;
use tokio::process::Command;
use toolhost_contract::hook::{After, Before, Decision};
use toolhost_contract::{BoxFuture, Outcome, nearest, text};

use self::process::{ProcessError, Ran};
use self::protocol::{after, before, reason, told_of_call, told_of_messages, withheld};
use super::{Hook, HookCall, HookError};

/// The code of the failure in whose name a command said `continue: false`.
pub const STOP_CODE: &str = "stop_execution";

/// All a command gets from the environment of the host, whose secrets are none of its business.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TERM"];
/// Exit code of a command that blocks.
const BLOCKS: i32 = 2;
const MAX_STDERR_SHOWN: usize = 300;

/// What a command can be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookEvent {
    BeforeTool,
    AfterTool,
    MessagesChanged,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not an event of hooks; {fix}")]
pub struct HookEventError {
    word: String,
    fix: String,
}

impl HookEvent {
    /// The word in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            HookEvent::BeforeTool => "PreToolUse",
            HookEvent::AfterTool => "PostToolUse",
            HookEvent::MessagesChanged => "MessagesChanged",
        }
    }

    /// Any name that people know the event by.
    pub fn parse(word: &str) -> Result<Self, HookEventError> {
        match word {
            "PreToolUse" | "BeforeTool" => Ok(HookEvent::BeforeTool),
            "PostToolUse" | "AfterTool" => Ok(HookEvent::AfterTool),
            "MessagesChanged" => Ok(HookEvent::MessagesChanged),
            _ => {
                let known = [
                    "PreToolUse",
                    "BeforeTool",
                    "PostToolUse",
                    "AfterTool",
                    "MessagesChanged",
                ];
                let fix = match nearest(word, known, 1).first() {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "write PreToolUse, PostToolUse or MessagesChanged".to_owned(),
                };
                Err(HookEventError {
                    word: text::inline(word, 80),
                    fix,
                })
            }
        }
    }
}

/// A program and when to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandHook {
    /// A bare name is looked for in `PATH`; a relative path starts at `dir`.
    pub program: PathBuf,
    pub args: Vec<String>,
    /// Where it runs.
    pub dir: PathBuf,
    /// On top of `PATH`, `HOME`, `LANG` and `TERM`, which it gets from the host.
    pub env: Vec<(String, String)>,
    /// It is not started for any other.
    pub events: Vec<HookEvent>,
}

#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("`{program}` {error}")]
    Process {
        program: String,
        error: ProcessError,
    },
    #[error("`{program}` ended with {how}{}", after_colon(stderr))]
    Ended {
        program: String,
        how: String,
        stderr: String,
    },
    #[error("`{program}` gave an answer that cannot be used: {error}")]
    Answer {
        program: String,
        error: answer::ProtocolError,
    },
}

fn after_colon(stderr: &str) -> String {
    if stderr.is_empty() {
        String::new()
    } else {
        format!(": {stderr}")
    }
}

impl From<CommandError> for HookError {
    fn from(error: CommandError) -> Self {
        Self(error.to_string())
    }
}

/// How a command that ran as it should put its answer.
enum Answered {
    /// With what it wrote to standard output.
    Words(Vec<u8>),
    /// With its exit code, and why.
    Blocks(Option<String>),
}

impl CommandHook {
    fn hears(&self, event: HookEvent) -> bool {
        self.events.contains(&event)
    }

    async fn run(&self, told: &Value) -> Result<Answered, CommandError> {
        let Ran {
            status,
            stdout,
            stderr,
        } = process::run(
            self.command(),
            told.to_string().as_bytes(),
            process::MAX_STDOUT,
        )
        .await
        .map_err(|error| CommandError::Process {
            program: self.shown(),
            error,
        })?;
        match status.code() {
            Some(0) => Ok(Answered::Words(stdout)),
            Some(BLOCKS) => Ok(Answered::Blocks(reason(&stderr))),
            code => {
                let words = String::from_utf8_lossy(&stderr);
                let last = text::tail(words.trim(), MAX_STDERR_SHOWN);
                Err(CommandError::Ended {
                    program: self.shown(),
                    how: code.map_or_else(
                        || status.to_string(),
                        |code| format!("exit code {code}; 0 is an answer, 2 blocks"),
                    ),
                    stderr: text::inline(last, MAX_STDERR_SHOWN),
                })
            }
        }
    }

    fn command(&self) -> Command {
        let is_path = self.program.components().count() > 1;
        // Joining leaves an absolute path as it is.
        let mut command = if is_path {
            Command::new(self.dir.join(&self.program))
        } else {
            Command::new(&self.program)
        };
        command.args(&self.args).current_dir(&self.dir).env_clear();
        for name in INHERITED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    fn shown(&self) -> String {
        text::inline(&self.program.to_string_lossy(), 120)
    }

    fn read<T>(&self, said: Result<T, answer::ProtocolError>) -> Result<T, HookError> {
        let wrap = |error| CommandError::Answer {
            program: self.shown(),
            error,
        };
        Ok(said.map_err(wrap)?)
    }
}

impl Hook for CommandHook {
    fn before<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Result<Before, HookError>> {
        Box::pin(async move {
            if !self.hears(HookEvent::BeforeTool) {
                return Ok(Before::default());
            }
            let told = told_of_call(HookEvent::BeforeTool, call, None, &self.dir);
            match self.run(&told).await? {
                Answered::Words(stdout) => self.read(before(&stdout)),
                Answered::Blocks(reason) => Ok(Before {
                    decision: Decision::Deny {
                        reason,
                        outcome: None,
                    },
                    updated_input: None,
                }),
            }
        })
    }

    fn after<'a>(
        &'a self,
        call: &'a HookCall,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<After, HookError>> {
        Box::pin(async move {
            if !self.hears(HookEvent::AfterTool) {
                return Ok(After::Keep);
            }
            let told = told_of_call(HookEvent::AfterTool, call, Some(outcome), &self.dir);
            match self.run(&told).await? {
                Answered::Words(stdout) => self.read(after(&stdout, outcome)),
                Answered::Blocks(reason) => Ok(withheld(reason.as_deref())),
            }
        })
    }

    fn messages_changed<'a>(
        &'a self,
        session: &'a str,
        messages: &'a Value,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            if self.hears(HookEvent::MessagesChanged) {
                // There is nothing to block, and nobody waits for an answer.
                self.run(&told_of_messages(session, messages, &self.dir))
                    .await?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
