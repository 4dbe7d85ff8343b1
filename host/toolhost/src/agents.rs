//! Sub-agents that are commands: `[agents.NAME] command = …`. A task goes in as JSON, an answer comes out as JSON.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use toolhost_contract::{AgentInfo, BoxFuture, Failure, text};
use toolhost_kernel::hooks::process::{ProcessError, run};
use toolhost_kernel::{Agents, Task};

use crate::settings::AgentSettings;

/// Bytes of an answer.
const MAX_ANSWER: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_mins(10);
/// Set for a sub-agent's command, so that a host inside of it hands nothing further on.
const DEPTH: &str = "TOOLHOST_AGENT_DEPTH";

pub struct CommandAgents {
    agents: Vec<AgentSettings>,
    /// This host was started by a sub-agent.
    nested: bool,
}

impl CommandAgents {
    pub fn new(agents: Vec<AgentSettings>) -> Self {
        Self {
            agents,
            nested: std::env::var_os(DEPTH).is_some(),
        }
    }

    async fn answer(&self, task: Task) -> Result<Value, Failure> {
        let failed = |reason: String| Failure::new("agent_failed", reason);
        let agent = self
            .agents
            .iter()
            .find(|agent| agent.info.name == task.agent)
            .ok_or_else(|| {
                Failure::new(
                    "agent_not_found",
                    format!("no sub-agent `{}`", text::inline(&task.agent, 80)),
                )
            })?;
        if self.nested {
            return Err(failed("a sub-agent cannot hand tasks on".to_owned()));
        }
        let [program, arguments @ ..] = &agent.command[..] else {
            return Err(failed("its command is empty".to_owned()));
        };
        let mut command = Command::new(program);
        command.args(arguments).env(DEPTH, "1");
        let mut input = task.task;
        input["call"] = json!(task.call.0);
        input["session"] = json!(task.caller.session);
        input["parent_agent"] = json!(task.caller.agent);
        let timeout = agent.timeout.unwrap_or(TIMEOUT);
        let name = &agent.info.name;
        let input = input.to_string();
        let running = run(command, input.as_bytes(), MAX_ANSWER);
        let ran = match tokio::time::timeout(timeout, running).await {
            Ok(Ok(ran)) => ran,
            Ok(Err(error @ ProcessError::Start(_))) => {
                return Err(failed(format!("the command of sub-agent `{name}` {error}")));
            }
            Ok(Err(error)) => return Err(failed(format!("sub-agent `{name}` {error}"))),
            Err(_) => {
                let message = format!("sub-agent `{name}` took longer than {}s", timeout.as_secs());
                return Err(Failure::new("timeout", message));
            }
        };
        if !ran.status.success() {
            let words = String::from_utf8_lossy(&ran.stderr);
            let words = text::block(words.trim(), 2_000);
            return Err(failed(format!(
                "sub-agent `{name}` ended with {}: {words}",
                ran.status
            )));
        }
        let answer = String::from_utf8_lossy(&ran.stdout);
        Ok(match serde_json::from_str::<Value>(answer.trim()) {
            Ok(answer) if answer.get("text").is_some_and(Value::is_string) => answer,
            // Whoever writes plain text means it as the answer.
            Ok(_) | Err(_) => json!({"text": answer.trim()}),
        })
    }
}

impl Agents for CommandAgents {
    fn agents(&self) -> Vec<AgentInfo> {
        self.agents.iter().map(|agent| agent.info.clone()).collect()
    }

    fn run(&self, task: Task) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(self.answer(task))
    }
}
