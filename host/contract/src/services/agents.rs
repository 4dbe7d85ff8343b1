//! The interface `agents`: sub-agents.

use serde_json::Value;

use crate::{BoxFuture, Failure};

pub trait AgentService: Send + Sync {
    fn agents(&self) -> Vec<AgentInfo>;

    fn run_agent(&self, task: Value) -> BoxFuture<'_, Result<Value, Failure>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInfo {
    pub name: String,
    pub description: String,
}
