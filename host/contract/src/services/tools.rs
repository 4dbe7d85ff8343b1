//! The interface `tools`: calls of other tools.

use serde_json::Value;

use crate::{BoxFuture, CallError, Failure, Outcome};

pub trait ToolService: Send + Sync {
    /// Returns the tools that are visible to the call.
    fn tools(&self) -> Vec<VisibleTool>;

    fn call_tool(&self, tool: String, input: Value) -> BoxFuture<'_, Result<Outcome, CallError>>;

    fn start_tool(
        &self,
        tool: String,
        input: Value,
        timeout_ms: Option<u32>,
    ) -> Result<BackgroundCall, Failure>;

    fn running_tools(&self) -> Vec<BackgroundCall>;

    /// Waits for a background call. Returns `None` if it is still running after `wait_ms`.
    fn wait_tool(
        &self,
        id: String,
        wait_ms: u32,
    ) -> BoxFuture<'_, Result<Option<Result<Outcome, CallError>>, Failure>>;

    fn stop_tool(&self, id: &str) -> Result<BackgroundCall, Failure>;
}

#[derive(Debug, Clone, PartialEq)]
pub struct VisibleTool {
    pub name: String,
    pub plugin: String,
    pub description: String,
    pub input_schema: Value,
    pub aliases: Vec<String>,
    pub tags: Vec<String>,
    pub can_background: bool,
}

/// A call that continues after the call that started it has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct BackgroundCall {
    pub id: String,
    pub tool: String,
    pub ended: bool,
    pub started_ms: f64,
}
