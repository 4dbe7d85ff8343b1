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

use crate::inherited::{INHERITED_VARIABLE, InheritedGrants};
use crate::settings::{AgentSettings, Settings};

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
    /// Passed to the commands, with the rules of the calls.
    grants: InheritedGrants,
    /// Whether this host was started by a sub-agent.
    nested: bool,
    /// Agent and task ids that each user may resume.
    resumable: Mutex<BTreeMap<UserId, VecDeque<(String, String)>>>,
}

/// Variables that are added to the environment of a command.
type AgentVariables = [(&'static str, String); 2];

/// The result of a command that exited within its output limit.
struct CommandOutput {
    is_success: bool,
    status: String,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl CommandAgents {
    /// `settings`: what the host grants, and the commands.
    pub fn new(settings: &Settings, launcher: Option<Launcher>) -> Self {
        Self {
            agents: settings.external_access.agents.clone(),
            launcher,
            grants: InheritedGrants::of(settings),
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
        let variables = [
            (DEPTH_VARIABLE, "1".to_owned()),
            (
                INHERITED_VARIABLE,
                self.grants.to_variable(&task).map_err(failed)?,
            ),
        ];
        let mut input = task.task;
        input["call"] = json!(task.call.0);
        input["session"] = json!(task.caller.session);
        input["user"] = json!(user.name());
        input["parent_agent"] = json!(task.caller.agent);
        let timeout = agent.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let input = input.to_string();
        let ended = tokio::time::timeout(
            timeout,
            self.run_command(agent, &variables, input.as_bytes()),
        );
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
        variables: &AgentVariables,
        input: &[u8],
    ) -> Result<CommandOutput, String> {
        let name = &agent.info.name;
        let [program, arguments @ ..] = &agent.command[..] else {
            return Err(format!("the command of sub-agent `{name}` is empty"));
        };
        let Some(launcher) = &self.launcher else {
            let mut command = Command::new(program);
            command.args(arguments);
            command.envs(variables.iter().map(|(name, value)| (name, value)));
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
        let command = piped_command(program, arguments, variables)
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
fn piped_command(
    program: &str,
    arguments: &[String],
    added: &AgentVariables,
) -> std::io::Result<PipedCommand> {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| added.iter().all(|(added, _)| added != name))
        .chain(
            added
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone())),
        );
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
        sandbox: None,
    })
}

/// Whether a sub-agent started this host.
fn is_nested() -> bool {
    ancestor_variable(DEPTH_VARIABLE).is_some()
}

/// The value of an environment variable in this process or in its nearest ancestor that has it. Ancestors are inspected
/// too, because a sub-agent can start a host without its environment, as MCP clients do.
pub fn ancestor_variable(name: &str) -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt as _;
    if let Some(value) = std::env::var_os(name) {
        return Some(value.into_vec());
    }
    let mut process = std::os::unix::process::parent_id();
    for _ in 0..MAX_ANCESTORS {
        if let Some(value) = variable_of(process, name) {
            return Some(value);
        }
        process = parent_of(process).filter(|parent| *parent >= 2)?;
    }
    None
}

fn variable_of(process: u32, name: &str) -> Option<Vec<u8>> {
    let variables = fs::read(format!("/proc/{process}/environ")).ok()?;
    let mut variables = variables.split(|byte| *byte == 0);
    variables.find_map(|variable| {
        let value = variable.strip_prefix(name.as_bytes())?;
        value.strip_prefix(b"=").map(<[u8]>::to_owned)
    })
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
        let agents = CommandAgents::new(&Settings::default(), None);
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
