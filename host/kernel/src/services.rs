//! Providers of services that the kernel does not implement itself: sub-agents and MCP resources.

use std::sync::Arc;

use serde_json::Value;
use toolhost_contract::policy::Policy;
use toolhost_contract::{AgentInfo, BoxFuture, CallId, Failure, Part, Principal};

use crate::kernel::CallContext;

/// Runs sub-agents: a command, an MCP client that samples, or an agent that embeds the host.
pub trait Agents: Send + Sync {
    fn agents(&self) -> Vec<AgentInfo>;

    /// Returns the sub-agents to which this call can delegate. Its client may provide additional ones.
    fn agents_for(&self, _call: &CallId) -> Vec<AgentInfo> {
        self.agents()
    }

    /// Runs a task to completion and returns `{text, …}`. Dropping the future cancels it.
    fn run(&self, task: AgentTask) -> BoxFuture<'_, Result<Value, Failure>>;
}

#[derive(Debug, Clone)]
pub struct AgentTask {
    /// One of [`Agents::agents_for`].
    pub agent: String,
    /// The task as the tool wrote it.
    pub task: Value,
    /// The rules of the delegating call.
    pub policy: Arc<Policy>,
    /// The call that delegates the task.
    pub call: CallId,
    pub caller: Principal,
    /// The context of the delegating call. Calls of the sub-agent use it, so they are limited to what it may do.
    pub context: CallContext,
}

/// Resources of MCP servers.
///
/// `limits` are the lists of directories that limit the files of the call, as in `Grant::directory_limits`.
pub trait Resources: Send + Sync {
    fn list(
        &self,
        server: Option<String>,
        limits: Vec<Arc<[String]>>,
    ) -> BoxFuture<'_, Result<Value, Failure>>;

    fn read(
        &self,
        uri: String,
        server: Option<String>,
        limits: Vec<Arc<[String]>>,
    ) -> BoxFuture<'_, Result<Vec<Part>, Failure>>;
}

/// A provider without sub-agents and resources.
pub struct NoServices;

impl Agents for NoServices {
    fn agents(&self) -> Vec<AgentInfo> {
        Vec::new()
    }

    fn run(&self, task: AgentTask) -> BoxFuture<'_, Result<Value, Failure>> {
        let name = toolhost_contract::text::escape_line(&task.agent, 80);
        Box::pin(async move {
            Err(Failure::new(
                "not_configured",
                format!("no sub-agent `{name}`: this host has none; configure `[agents.NAME]`"),
            ))
        })
    }
}

impl Resources for NoServices {
    fn list(
        &self,
        _server: Option<String>,
        _limits: Vec<Arc<[String]>>,
    ) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(async { Ok(Value::Array(Vec::new())) })
    }

    fn read(
        &self,
        uri: String,
        _server: Option<String>,
        _limits: Vec<Arc<[String]>>,
    ) -> BoxFuture<'_, Result<Vec<Part>, Failure>> {
        let uri = toolhost_contract::text::escape_line(&uri, 200);
        Box::pin(async move {
            Err(Failure::new(
                "mcp_resource_not_found",
                format!("resource `{uri}` not found: this host is not connected to any MCP server"),
            ))
        })
    }
}
