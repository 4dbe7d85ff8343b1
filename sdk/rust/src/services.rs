//! What a call can have its host do beside running it: remember, run programs, ask people, hand tasks on, use other
//! tools, fetch. Each needs the capability of that name in the plugin's manifest; without it the host refuses.

pub mod http;
pub mod process;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::http::{Request, Response};
use self::process::{Chunk, Command, Finished, Job};
use crate::{Context, Error, Outcome, Result};

/// What an agent has been shown of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    /// Absolute, as the plugin sees it.
    pub path: String,
    /// SHA-256 of the whole file at that time, in hexadecimal.
    pub sha256: String,
    /// First and last line that were shown; none for all of them.
    pub lines: Option<(u32, u32)>,
}

/// A sub-agent that tasks can be handed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    pub name: String,
    pub description: String,
}

/// Another tool of the same host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSummary {
    pub name: String,
    pub plugin: String,
    pub description: String,
    pub input_schema: Value,
    pub aliases: Vec<String>,
    pub tags: Vec<String>,
    pub can_background: bool,
}

/// A call that goes on when the one that began it has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Background {
    pub id: String,
    pub tool: String,
    /// `running` or `ended`.
    pub state: String,
    /// Milliseconds since 1970.
    pub started_ms: f64,
}

/// What a session remembers. Capability `session`. What is stored counts when the result of the call counts.
impl Context {
    /// What this plugin stored last under `key` in this session.
    pub fn recall<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.backend.get(key)? else {
            return Ok(None);
        };
        serde_json::from_value(value).map(Some).map_err(|error| {
            let message = format!("what the session remembers as `{key}` is not as expected");
            Error::failed(message).cause(error)
        })
    }

    pub fn remember(&self, key: &str, value: &impl Serialize) -> Result<()> {
        self.backend.set(key, Some(serde_json::to_value(value)?))
    }

    pub fn forget(&self, key: &str) -> Result<()> {
        self.backend.set(key, None)
    }

    /// Notes that the agent is shown this file, or has written it.
    pub fn saw(&self, path: &str, sha256: &str, lines: Option<(u32, u32)>) -> Result<()> {
        self.backend.saw(&Sight {
            path: path.to_owned(),
            sha256: sha256.to_owned(),
            lines,
        })
    }

    /// What the agent was shown last of this file, by any plugin.
    pub fn last_seen(&self, path: &str) -> Result<Option<Sight>> {
        self.backend.last_seen(path)
    }
}

/// Programs. Capability `process`.
impl Context {
    /// Runs a program to its end; its output is shown live.
    pub fn run_program(&self, command: &Command) -> Result<Finished> {
        self.backend.run_program(command)
    }

    pub fn start_program(&self, command: &Command) -> Result<Job> {
        self.backend.start_program(command)
    }

    /// The programs that were started in this session.
    pub fn jobs(&self) -> Result<Vec<Job>> {
        self.backend.jobs()
    }

    /// Output of a job from the byte `after` on; waits up to `wait_ms` for some when there is none.
    pub fn read_job(&self, id: &str, after: u64, max: u32, wait_ms: u32) -> Result<Chunk> {
        self.backend.read_job(id, after, max, wait_ms)
    }

    pub fn write_job(&self, id: &str, bytes: &[u8]) -> Result<()> {
        self.backend.write_job(id, bytes)
    }

    /// `signal` is `TERM`, `INT`, `HUP`, `QUIT`, `USR1`, `USR2` or `KILL`.
    pub fn kill_job(&self, id: &str, signal: &str) -> Result<Job> {
        self.backend.kill_job(id, signal)
    }
}

/// The network. Capability `net`, and an address that the operator allows.
impl Context {
    /// Sends one request and reads one answer. A redirect is an answer like any other.
    pub fn fetch(&self, request: &Request) -> Result<Response> {
        self.backend.fetch(request)
    }
}

/// People. Capability `people`.
impl Context {
    /// Asks up to four questions; the shape is that of `people.ask` in the WIT.
    pub fn ask(&self, questions: &Value) -> Result<Value> {
        self.backend.ask(questions)
    }

    /// Asks for another permission mode; comes back with the one that holds now.
    pub fn change_mode(&self, to: &str, reason: &str) -> Result<String> {
        self.backend.change_mode(to, reason)
    }

    /// Asks for permissions; comes back with those that were given.
    pub fn request_permissions(&self, wish: &Value) -> Result<Value> {
        self.backend.request_permissions(wish)
    }
}

/// Sub-agents. Capability `agents`.
impl Context {
    pub fn agents(&self) -> Result<Vec<Agent>> {
        self.backend.agents()
    }

    /// Hands a task on: `{agent, prompt, …}`, back comes `{text, …}`.
    pub fn run_agent(&self, task: &Value) -> Result<Value> {
        self.backend.run_agent(task)
    }
}

/// Other tools. Capability `tools`. Each call goes the whole way of a call, with this one as its parent.
impl Context {
    /// The tools that this call may see.
    pub fn tools(&self) -> Result<Vec<ToolSummary>> {
        self.backend.tools()
    }

    pub fn call_tool(&self, tool: &str, input: &Value) -> Result<Outcome> {
        self.backend.call_tool(tool, input)
    }

    /// Begins a call that goes on when this one has ended.
    pub fn start_tool(
        &self,
        tool: &str,
        input: &Value,
        timeout_ms: Option<u32>,
    ) -> Result<Background> {
        self.backend.start_tool(tool, input, timeout_ms)
    }

    pub fn running_tools(&self) -> Result<Vec<Background>> {
        self.backend.running_tools()
    }

    /// Waits up to `wait_ms` for the end of a call that was started; none while it is still running.
    pub fn wait_tool(&self, id: &str, wait_ms: u32) -> Result<Option<Result<Outcome>>> {
        self.backend.wait_tool(id, wait_ms)
    }

    pub fn stop_tool(&self, id: &str) -> Result<Background> {
        self.backend.stop_tool(id)
    }
}

/// Resources of MCP servers. Capability `resources`.
impl Context {
    pub fn resources(&self, server: Option<&str>) -> Result<Value> {
        self.backend.resources(server)
    }

    pub fn read_resource(&self, uri: &str, server: Option<&str>) -> Result<Vec<crate::Part>> {
        self.backend.read_resource(uri, server)
    }
}
