//! Sub-agents that are commands: `[agents.NAME] command = …`. Task and answer are JSON.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use toolhost_contract::exact_integers::parse_exact;
use toolhost_contract::{AgentInfo, BoxFuture, Failure, UserId, text};
use toolhost_kernel::hooks::process::{ProcessError, run};
use toolhost_kernel::{AgentTask, Agents};
use toolhost_process::{ExitReason, Launcher, PipedCommand, run_piped};

use crate::settings::AgentSettings;

/// Maximum size of an answer in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(10);
/// Environment variable of a sub-agent's command. A nested host that sees it does not start sub-agents.
const DEPTH_VARIABLE: &str = "TOOLHOST_AGENT_DEPTH";
/// Maximum number of ancestor processes to inspect.
const MAX_ANCESTORS: usize = 64;
/// Maximum length of a resumable task id in bytes.
const MAX_ID_BYTES: usize = 128;
/// Maximum number of remembered task ids for each user; the oldest are dropped.
const MAX_IDS: usize = 256;

pub struct CommandAgents {
    agents: Vec<AgentSettings>,
    /// Supervises sub-agents and kills all descendants. Without it only the process group is killed.
    launcher: Option<Launcher>,
    /// Whether this host was started by a sub-agent.
    nested: bool,
    /// Agent and task ids that each user may resume.
    resumable: Mutex<BTreeMap<UserId, VecDeque<(String, String)>>>,
}

/// The result of a command that exited within its output limit.
struct CommandOutput {
    is_success: bool,
    status: String,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl CommandAgents {
    pub fn new(agents: Vec<AgentSettings>, launcher: Option<Launcher>) -> Self {
        Self {
            agents,
            launcher,
            nested: is_nested(),
            resumable: Mutex::default(),
        }
    }

    async fn run_task(&self, task: AgentTask) -> Result<Value, Failure> {
        let failed = |reason: String| Failure::new("agent_failed", reason);
        let agent = self
            .agents
            .iter()
            .find(|agent| agent.info.name == task.agent)
            .ok_or_else(|| {
                Failure::new(
                    "agent_not_found",
                    format!("no sub-agent `{}`", text::escape_line(&task.agent, 80)),
                )
            })?;
        if self.nested {
            return Err(failed("a sub-agent cannot start sub-agents".to_owned()));
        }
        let (name, user) = (&agent.info.name, &task.caller.user);
        if !self.may_resume(user, name, &task.task["resume"]) {
            let resume = &task.task["resume"];
            let id = resume
                .as_str()
                .map_or_else(|| resume.to_string(), str::to_owned);
            let id = text::escape_line(&id, 80);
            let message =
                format!("no task `{id}` of sub-agent `{name}` to resume; start a new one");
            return Err(Failure::new("task_not_found", message));
        }
        let mut input = task.task;
        input["call"] = json!(task.call.0);
        input["session"] = json!(task.caller.session);
        input["user"] = json!(user.name());
        input["parent_agent"] = json!(task.caller.agent);
        let timeout = agent.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let input = input.to_string();
        let ended = tokio::time::timeout(timeout, self.run_command(agent, input.as_bytes()));
        let ended = ended.await.map_err(|_| {
            let message = format!("sub-agent `{name}` took longer than {}s", timeout.as_secs());
            Failure::new("timeout", message)
        })?;
        let ended = ended.map_err(failed)?;
        if !ended.is_success {
            let stderr = String::from_utf8_lossy(&ended.stderr);
            let stderr = text::escape_lines(text::tail(stderr.trim(), 2_000), 2_000);
            let status = ended.status;
            return Err(failed(format!(
                "sub-agent `{name}` ended with {status}: {stderr}"
            )));
        }
        let answer = String::from_utf8_lossy(&ended.stdout);
        Ok(match parse_exact::<Value>(answer.trim()) {
            Ok(answer) if answer.get("text").is_some_and(Value::is_string) => {
                if let Some(id) = answer["id"].as_str() {
                    self.remember(user, name, id);
                }
                answer
            }
            // Plain text is the answer itself.
            Ok(_) | Err(_) => json!({"text": answer.trim()}),
        })
    }

    async fn run_command(
        &self,
        agent: &AgentSettings,
        input: &[u8],
    ) -> Result<CommandOutput, String> {
        let name = &agent.info.name;
        let [program, arguments @ ..] = &agent.command[..] else {
            return Err(format!("the command of sub-agent `{name}` is empty"));
        };
        let Some(launcher) = &self.launcher else {
            let mut command = Command::new(program);
            command.args(arguments).env(DEPTH_VARIABLE, "1");
            let ran = run(command, input, MAX_ANSWER_BYTES).await;
            let ran = ran.map_err(|error| match error {
                ProcessError::Start(_) => format!("the command of sub-agent `{name}` {error}"),
                _ => format!("sub-agent `{name}` {error}"),
            })?;
            return Ok(CommandOutput {
                is_success: ran.status.success(),
                status: ran.status.to_string(),
                stdout: ran.stdout,
                stderr: ran.stderr,
            });
        };
        let command = piped_command(program, arguments)
            .map_err(|error| format!("the command of sub-agent `{name}`: {error}"))?;
        let ran = run_piped(launcher, &command, input, MAX_ANSWER_BYTES).await;
        let ran = ran.map_err(|error| format!("the command of sub-agent `{name}`: {error}"))?;
        if ran.stdout.is_truncated {
            return Err(format!(
                "sub-agent `{name}` wrote more than {MAX_ANSWER_BYTES} bytes to its standard output"
            ));
        }
        Ok(CommandOutput {
            is_success: ran.exit == ExitReason::Code(0),
            status: match ran.exit {
                ExitReason::Code(code) => format!("exit code {code}"),
                ExitReason::Signal(signal) => format!("signal {signal}"),
                other => format!("{other:?}").to_lowercase(),
            },
            stdout: ran.stdout.bytes,
            stderr: ran.stderr.bytes,
        })
    }

    /// Whether the user may resume the task. The local user controls the commands and may resume any task. Task ids can
    /// be guessable, so other users may only resume ids that they received.
    fn may_resume(&self, user: &UserId, agent: &str, id: &Value) -> bool {
        // A command may read a number like its digits, so only texts are ids.
        let Some(id) = id.as_str() else {
            return id.is_null();
        };
        let all = self.resumable.lock();
        let all = all.unwrap_or_else(PoisonError::into_inner);
        let mut known = all.get(user).into_iter().flatten();
        *user == UserId::Local || known.any(|known| (&*known.0, &*known.1) == (agent, id))
    }

    fn remember(&self, user: &UserId, agent: &str, id: &str) {
        if *user == UserId::Local || id.len() > MAX_ID_BYTES {
            return;
        }
        let mut all = self
            .resumable
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(user.clone()).or_default();
        let new = (agent.to_owned(), id.to_owned());
        known.retain(|known| *known != new);
        known.push_back(new);
        if known.len() > MAX_IDS {
            known.pop_front();
        }
    }
}

/// The command with the environment and working directory of the host.
fn piped_command(program: &str, arguments: &[String]) -> std::io::Result<PipedCommand> {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name != DEPTH_VARIABLE)
        .chain([(DEPTH_VARIABLE.to_owned(), "1".to_owned())]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = if program.contains('/') {
        std::path::absolute(program)?.to_string_lossy().into_owned()
    } else {
        program.to_owned()
    };
    Ok(PipedCommand {
        program,
        arguments: arguments.to_vec(),
        cwd: std::env::current_dir()?,
        variables: variables.collect(),
        path: std::env::split_paths(&path).collect(),
    })
}

/// Whether a sub-agent started this host. Ancestor processes are inspected too, because a sub-agent can start a host
/// without its environment, as MCP clients do.
fn is_nested() -> bool {
    if std::env::var_os(DEPTH_VARIABLE).is_some() {
        return true;
    }
    let mut process = std::os::unix::process::parent_id();
    for _ in 0..MAX_ANCESTORS {
        if has_depth(process) {
            return true;
        }
        match parent_of(process) {
            Some(parent @ 2..) => process = parent,
            Some(_) | None => return false,
        }
    }
    false
}

fn has_depth(process: u32) -> bool {
    let variables = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    let mut names = variables
        .split(|byte| *byte == 0)
        .filter_map(|variable| variable.split(|byte| *byte == b'=').next());
    names.any(|name| name == DEPTH_VARIABLE.as_bytes())
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"));
    // The program name is in parentheses and can contain parentheses.
    let stat = stat.ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

impl Agents for CommandAgents {
    fn agents(&self) -> Vec<AgentInfo> {
        self.agents.iter().map(|agent| agent.info.clone()).collect()
    }

    fn run(&self, task: AgentTask) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(self.run_task(task))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m_09_only_texts_are_ids_of_tasks() {
        let agents = CommandAgents::new(Vec::new(), None);
        let ann = UserId::from_name(Some("ann"));
        agents.remember(&ann, "general", "5");
        for (resume, expected) in [
            (json!(null), true),
            (json!("5"), true),
            (json!("6"), false),
            (json!(5), false),
            (json!(["5"]), false),
            (json!({"id": "5"}), false),
        ] {
            assert_eq!(
                agents.may_resume(&ann, "general", &resume),
                expected,
                "{resume}"
            );
        }
    }
}
