//! The interface `tools` for a running call: calls of other tools.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolhost_contract::lifecycle::CallOrigin;
use toolhost_contract::{
    BackgroundCall, BoxFuture, CallError, CallEvent, CallId, ErrorClass, Failure, Outcome, Sink,
    ToolService, VisibleTool,
};

use super::{CallServices, MAX_CALLS};
use crate::kernel::{CallContext, CallRequest};

impl ToolService for CallServices {
    fn tools(&self) -> Vec<VisibleTool> {
        let Ok(kernel) = self.kernel() else {
            return Vec::new();
        };
        let registry = kernel.registry();
        let listed = registry.list().filter(|entry| kernel.is_visible(entry));
        let facts = listed.map(|entry| VisibleTool {
            name: entry.name.to_string(),
            plugin: entry.plugin.name.to_string(),
            description: entry.tool.description.clone(),
            input_schema: entry.tool.input_schema.clone(),
            aliases: entry.tool.aliases.clone(),
            tags: entry.tool.tags.clone(),
            can_background: entry.tool.can_background,
        });
        facts.collect()
    }

    fn call_tool(&self, tool: String, input: Value) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(self.call(tool, input))
    }

    fn start_tool(
        &self,
        tool: String,
        input: Value,
        timeout_ms: Option<u32>,
    ) -> Result<BackgroundCall, Failure> {
        self.start(tool, input, timeout_ms)
    }

    fn running_tools(&self) -> Vec<BackgroundCall> {
        self.session.jobs().list()
    }

    fn wait_tool(
        &self,
        id: String,
        wait_ms: u32,
    ) -> BoxFuture<'_, Result<Option<Result<Outcome, CallError>>, Failure>> {
        Box::pin(async move { self.session.jobs().wait(&id, wait_ms).await })
    }

    fn stop_tool(&self, id: &str) -> Result<BackgroundCall, Failure> {
        self.session.jobs().stop(id)
    }
}

impl CallServices {
    /// Creates a nested call. It is limited to what this call may do, and rules see that a tool made it.
    pub(super) fn nested_request(
        &self,
        tool: String,
        input: Value,
        origin: CallOrigin,
    ) -> Result<CallRequest, Failure> {
        let number = self.counts.calls.fetch_add(1, Relaxed) + 1;
        if number > MAX_CALLS {
            let message = format!("this call has reached the limit of {MAX_CALLS} nested calls");
            return Err(Failure::new("too_many_calls", message));
        }
        if self.context.is_nested() {
            let message = "a tool that was called by another tool cannot call further tools";
            return Err(Failure::new("nested_call", message));
        }
        Ok(CallRequest {
            context: CallContext {
                origin,
                parent: Some(self.id.clone()),
                batch: None,
                ..self.context.clone()
            },
            ..CallRequest::new(
                CallId(format!("{}/{}-{number}", self.id, origin.as_str())),
                tool,
                input,
                (*self.caller).clone(),
            )
        })
    }

    async fn call(&self, tool: String, input: Value) -> Result<Outcome, CallError> {
        let refused = |failure: Failure| {
            CallError::new(ErrorClass::Unavailable, failure.message)
                .code(failure.code.as_deref().unwrap_or("unavailable"))
        };
        let kernel = self.kernel().map_err(refused)?;
        let request = self
            .nested_request(tool, input, CallOrigin::Tool)
            .map_err(refused)?;
        let sink: Arc<dyn Sink> = Arc::new(CancelSink(self.cancel.token().clone()));
        let _wait = self.waiting.begin();
        kernel.call(request, sink).await.result
    }
}

/// Drops all events and forwards the cancellation of the calling call.
struct CancelSink(CancellationToken);

impl Sink for CancelSink {
    fn event(&self, _event: CallEvent) {}

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
