//! Host services: session state, programs, questions to the user, sub-agents, other tools, and the network. Each needs
//! the capability of that name in the plugin's manifest.

pub mod http;
pub mod process;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::http::{Request, Response};
use self::process::{Chunk, Command, Job, RunOutput};
use crate::{Context, Error, Outcome, Result};

/// A version of a file that the agent has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileObservation {
    /// Absolute path as seen by the plugin.
    pub path: String,
    /// SHA-256 of the whole file at that time, in hexadecimal.
    pub sha256: String,
    /// First and last line shown; `None` for all lines.
    pub lines: Option<(u32, u32)>,
}

/// A sub-agent.
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

/// A call that continues after the call that started it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackgroundCall {
    pub id: String,
    pub tool: String,
    /// `running` or `ended`.
    pub state: String,
    /// Milliseconds since 1970.
    pub started_ms: f64,
}

/// Session state. Capability `session`. Values are stored only if the result of the call is accepted.
impl Context {
    /// The value that this plugin last stored under `key` in this session.
    pub fn recall<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.backend.get(key)? else {
            return Ok(None);
        };
        serde_json::from_value(value).map(Some).map_err(|error| {
            let message = format!("the session state `{key}` has an unexpected format");
            Error::failed(message).cause(error)
        })
    }

    pub fn remember(&self, key: &str, value: &impl Serialize) -> Result<()> {
        self.backend.set(key, Some(serde_json::to_value(value)?))
    }

    pub fn forget(&self, key: &str) -> Result<()> {
        self.backend.set(key, None)
    }

    /// Records that the agent was shown this file or has written it.
    pub fn record_observation(
        &self,
        path: &str,
        sha256: &str,
        lines: Option<(u32, u32)>,
    ) -> Result<()> {
        self.backend.record_observation(&FileObservation {
            path: path.to_owned(),
            sha256: sha256.to_owned(),
            lines,
        })
    }

    /// The last recorded version of this file, from any plugin.
    pub fn last_observation(&self, path: &str) -> Result<Option<FileObservation>> {
        self.backend.last_observation(path)
    }
}

/// Programs. Capability `process`.
impl Context {
    /// Runs a program to completion; its output is streamed.
    pub fn run_program(&self, command: &Command) -> Result<RunOutput> {
        self.backend.run_program(command)
    }

    pub fn start_program(&self, command: &Command) -> Result<Job> {
        self.backend.start_program(command)
    }

    /// The programs started in this session.
    pub fn jobs(&self) -> Result<Vec<Job>> {
        self.backend.jobs()
    }

    /// Output of a job after the byte offset `after`; waits up to `wait_ms` if there is none.
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

/// The network. Capability `net`, and a host that the operator allows.
impl Context {
    /// Sends one request and returns one response. Redirects are not followed.
    pub fn fetch(&self, request: &Request) -> Result<Response> {
        self.backend.fetch(request)
    }
}

/// The user. Capability `user`.
impl Context {
    /// Asks up to four questions, in the format of `user.ask` in the WIT.
    pub fn ask(&self, questions: &Value) -> Result<Value> {
        self.backend.ask(questions)
    }

    /// Requests another permission mode; returns the resulting one.
    pub fn change_mode(&self, to: &str, reason: &str) -> Result<String> {
        self.backend.change_mode(to, reason)
    }

    /// Requests permissions; returns those that were granted.
    pub fn request_permissions(&self, request: &Value) -> Result<Value> {
        self.backend.request_permissions(request)
    }
}

/// Sub-agents. Capability `agents`.
impl Context {
    pub fn agents(&self) -> Result<Vec<Agent>> {
        self.backend.agents()
    }

    /// Delegates a task: takes `{agent, prompt, …}` and returns `{text, …}`.
    pub fn run_agent(&self, task: &Value) -> Result<Value> {
        self.backend.run_agent(task)
    }
}

/// Other tools. Capability `tools`. Each call is authorized like any other, with this one as its parent.
impl Context {
    /// The tools that are visible to this call.
    pub fn tools(&self) -> Result<Vec<ToolSummary>> {
        self.backend.tools()
    }

    pub fn call_tool(&self, tool: &str, input: &Value) -> Result<Outcome> {
        self.backend.call_tool(tool, input)
    }

    /// Starts a call that continues after this one.
    pub fn start_tool(
        &self,
        tool: &str,
        input: &Value,
        timeout_ms: Option<u32>,
    ) -> Result<BackgroundCall> {
        self.backend.start_tool(tool, input, timeout_ms)
    }

    pub fn running_tools(&self) -> Result<Vec<BackgroundCall>> {
        self.backend.running_tools()
    }

    /// Waits up to `wait_ms` for the end of a started call; `None` while it is running.
    pub fn wait_tool(&self, id: &str, wait_ms: u32) -> Result<Option<Result<Outcome>>> {
        self.backend.wait_tool(id, wait_ms)
    }

    pub fn stop_tool(&self, id: &str) -> Result<BackgroundCall> {
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
