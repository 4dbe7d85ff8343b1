//! What stands behind the services of the kernel that it cannot give itself: sub-agents and foreign resources.

use serde_json::Value;
use toolhost_contract::{AgentInfo, BoxFuture, CallId, Failure, Part, Principal};

use crate::kernel::Within;

/// Sub-agents: a command, an MCP client that samples, or an agent that embeds the host.
pub trait Agents: Send + Sync {
    fn agents(&self) -> Vec<AgentInfo>;

    /// Those that this call can hand a task to: more when its client brings one of its own.
    fn agents_for(&self, _call: &CallId) -> Vec<AgentInfo> {
        self.agents()
    }

    /// Runs a task to its end. Dropping the future ends it. Comes back with `{text, …}`.
    fn run(&self, task: Task) -> BoxFuture<'_, Result<Value, Failure>>;
}

#[derive(Debug, Clone)]
pub struct Task {
    /// One of [`Agents::agents_for`].
    pub agent: String,
    /// As the tool wrote it.
    pub task: Value,
    /// The call that hands it on.
    pub call: CallId,
    pub caller: Principal,
    /// What the parent is held to. A call of the sub-agent goes with this, and so may do no more than its parent.
    pub within: Within,
}

/// Resources of MCP servers.
pub trait Resources: Send + Sync {
    fn list(&self, server: Option<String>) -> BoxFuture<'_, Result<Value, Failure>>;

    fn read(
        &self,
        uri: String,
        server: Option<String>,
    ) -> BoxFuture<'_, Result<Vec<Part>, Failure>>;
}

/// A host that has neither.
pub struct Without;

impl Agents for Without {
    fn agents(&self) -> Vec<AgentInfo> {
        Vec::new()
    }

    fn run(&self, task: Task) -> BoxFuture<'_, Result<Value, Failure>> {
        let name = toolhost_contract::text::inline(&task.agent, 80);
        Box::pin(async move {
            Err(Failure::new(
                "not_configured",
                format!("no sub-agent `{name}`: this host has none; configure `[agents.NAME]`"),
            ))
        })
    }
}

impl Resources for Without {
    fn list(&self, _server: Option<String>) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(async { Ok(Value::Array(Vec::new())) })
    }

    fn read(
        &self,
        uri: String,
        _server: Option<String>,
    ) -> BoxFuture<'_, Result<Vec<Part>, Failure>> {
        let uri = toolhost_contract::text::inline(&uri, 200);
        Box::pin(async move {
            Err(Failure::new(
                "mcp_resource_not_found",
                format!("resource `{uri}` not found: this host is connected to no MCP server"),
            ))
        })
    }
}
