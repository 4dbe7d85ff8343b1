//! Hooks implemented as programs, which read one JSON object and answer with another or with their exit code.
//!
//! The program is started for each event in its own process group, and the group is killed at its end. A child that
//! leaves the group (`setsid`) survives; use that for processes that must outlive the hook.

mod answer;
pub mod process;
mod protocol;
mod strict;

use std::path::PathBuf;

use serde_json::Value;
use tokio::process::Command;
use toolhost_contract::hook::{PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_contract::{BoxFuture, Descriptor, Outcome, PluginName, nearest, text};

use self::process::{ProcessError, ProcessOutput};
use self::protocol::{after, before, call_event, messages_event, reason, withheld_outcome};
use super::{Hook, HookCall, HookError, HookPoint};

/// Error code of a failure that a command requested with `continue: false`.
pub const STOP_CODE: &str = "stop_execution";

/// Variables that a command inherits. The others are withheld because they may contain secrets of the host.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TERM"];
/// Exit code of a command that blocks.
const BLOCKING_EXIT_CODE: i32 = 2;
const MAX_STDERR_SHOWN: usize = 300;

/// The events that a command can handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookEvent {
    BeforeTool,
    AfterTool,
    MessagesChanged,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a hook event; {fix}")]
pub struct HookEventError {
    name: String,
    fix: String,
}

impl HookEvent {
    /// Returns the name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            HookEvent::BeforeTool => "PreToolUse",
            HookEvent::AfterTool => "PostToolUse",
            HookEvent::MessagesChanged => "MessagesChanged",
        }
    }

    /// Parses any known name of an event.
    pub fn parse(name: &str) -> Result<Self, HookEventError> {
        match name {
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
                let fix = match nearest(name, known, 1).first() {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "use PreToolUse, PostToolUse or MessagesChanged".to_owned(),
                };
                Err(HookEventError {
                    name: text::escape_line(name, 80),
                    fix,
                })
            }
        }
    }
}

/// A program and the events for which it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandHook {
    /// A bare name is looked up in `PATH`; a relative path is relative to `dir`.
    pub program: PathBuf,
    pub args: Vec<String>,
    /// Working directory of the program.
    pub dir: PathBuf,
    /// Variables in addition to the inherited `PATH`, `HOME`, `LANG` and `TERM`.
    pub env: Vec<(String, String)>,
    /// Events for which the program is started.
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
    #[error("`{program}` returned an invalid answer: {error}")]
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

/// The answer of a command that ended regularly.
enum CommandAnswer {
    /// Standard output.
    Output(Vec<u8>),
    /// The exit code for blocking, with the reason.
    Block(Option<String>),
}

impl CommandHook {
    async fn run(&self, event: &Value) -> Result<CommandAnswer, CommandError> {
        let ProcessOutput {
            status,
            stdout,
            stderr,
        } = process::run(
            self.command(),
            event.to_string().as_bytes(),
            process::MAX_STDOUT,
        )
        .await
        .map_err(|error| CommandError::Process {
            program: self.shown(),
            error,
        })?;
        match status.code() {
            Some(0) => Ok(CommandAnswer::Output(stdout)),
            Some(BLOCKING_EXIT_CODE) => Ok(CommandAnswer::Block(reason(&stderr))),
            code => {
                let stderr_text = String::from_utf8_lossy(&stderr);
                let last = text::tail(stderr_text.trim(), MAX_STDERR_SHOWN);
                Err(CommandError::Ended {
                    program: self.shown(),
                    how: code.map_or_else(
                        || status.to_string(),
                        |code| format!("exit code {code}; exit with 0 to answer or 2 to block"),
                    ),
                    stderr: text::escape_line(last, MAX_STDERR_SHOWN),
                })
            }
        }
    }

    fn command(&self) -> Command {
        let is_path = self.program.components().count() > 1;
        // Joining keeps an absolute path unchanged.
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
        text::escape_line(&self.program.to_string_lossy(), 120)
    }

    fn read<T>(&self, parsed: Result<T, answer::ProtocolError>) -> Result<T, HookError> {
        let wrap = |error| CommandError::Answer {
            program: self.shown(),
            error,
        };
        Ok(parsed.map_err(wrap)?)
    }
}

impl Hook for CommandHook {
    fn runs(&self, point: HookPoint, _: &PluginName, _: &Descriptor) -> bool {
        self.events.contains(&match point {
            HookPoint::Before => HookEvent::BeforeTool,
            HookPoint::After => HookEvent::AfterTool,
        })
    }

    fn before<'a>(
        &'a self,
        call: &'a HookCall,
    ) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(async move {
            let event = call_event(HookEvent::BeforeTool, call, None, &self.dir);
            match self.run(&event).await? {
                CommandAnswer::Output(stdout) => self.read(before(&stdout)),
                CommandAnswer::Block(reason) => Ok(PreHookResponse {
                    decision: PreHookDecision::Deny {
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
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        Box::pin(async move {
            let event = call_event(HookEvent::AfterTool, call, Some(outcome), &self.dir);
            match self.run(&event).await? {
                CommandAnswer::Output(stdout) => self.read(after(&stdout, outcome)),
                CommandAnswer::Block(reason) => Ok(withheld_outcome(reason.as_deref())),
            }
        })
    }

    fn messages_changed<'a>(
        &'a self,
        session: &'a str,
        messages: &'a Value,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            if self.events.contains(&HookEvent::MessagesChanged) {
                // The event cannot be blocked, so the answer is ignored.
                self.run(&messages_event(session, messages, &self.dir))
                    .await?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
