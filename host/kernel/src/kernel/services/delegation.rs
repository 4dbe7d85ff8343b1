//! Services for a running call: other tools, sub-agents and permission requests.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolhost_contract::lifecycle::CallOrigin;
use toolhost_contract::{
    CallError, CallId, ErrorClass, Failure, Outcome, Sink, UserAnswer, UserQuestion,
    UserQuestionKind, VisibleTool, text,
};

use super::{CallServices, MAX_CALLS};
use crate::kernel::{CallContext, CallRequest};
use crate::services::AgentTask;

/// Maximum depth of sub-agents. Stops a sub-agent that starts itself.
const MAX_DEPTH: usize = 3;
/// Maximum number of entries per list of a permission request.
const MAX_ENTRIES: usize = 16;
/// Maximum size of one entry, in bytes. The user is shown all of it.
const MAX_ENTRY_BYTES: usize = 500;

impl CallServices {
    pub(super) fn list(&self) -> Vec<VisibleTool> {
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

    /// Creates a nested call. It is limited to what this call may do, and rules see that a tool made it.
    pub(super) fn nested_request(
        &self,
        tool: String,
        input: Value,
        origin: CallOrigin,
    ) -> Result<CallRequest, Failure> {
        let number = self.called.fetch_add(1, Relaxed) + 1;
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

    pub(super) async fn call(&self, tool: String, input: Value) -> Result<Outcome, CallError> {
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

    pub(super) async fn delegate(&self, task: Value) -> Result<Value, Failure> {
        let kernel = self.kernel()?;
        if !task.is_object() {
            let message = "a task is an object such as `{\"agent\": …, \"prompt\": …}`";
            return Err(Failure::new("invalid_task", message));
        }
        if self.context.depth >= MAX_DEPTH {
            let message = format!(
                "the limit of {MAX_DEPTH} nested sub-agents is reached; do the work without another one"
            );
            return Err(Failure::new("too_deep", message));
        }
        if self.called.fetch_add(1, Relaxed) >= MAX_CALLS {
            let message = format!("this call has reached the limit of {MAX_CALLS} delegated tasks");
            return Err(Failure::new("too_many_calls", message));
        }
        let name = task["agent"].as_str().unwrap_or("general").to_owned();
        let known = kernel.agents.agents_for(&self.id);
        if !known.is_empty() && !known.iter().any(|agent| agent.name == name) {
            let names: Vec<&str> = known.iter().map(|agent| agent.name.as_str()).collect();
            return Err(Failure::new(
                "agent_not_found",
                format!(
                    "no sub-agent `{}`; available sub-agents: {}",
                    text::escape_line(&name, 80),
                    names.join(", ")
                ),
            ));
        }
        let task = AgentTask {
            agent: name,
            task,
            call: self.id.clone(),
            caller: (*self.caller).clone(),
            context: CallContext {
                origin: CallOrigin::Model,
                parent: Some(self.id.clone()),
                batch: None,
                mode: Some(toolhost_contract::Services::mode(self)),
                depth: self.context.depth + 1,
                ..self.context.clone()
            },
        };
        let _wait = self.waiting.begin();
        tokio::select! {
            biased;
            () = self.cancel.token().cancelled() => Err(Failure::new("cancelled", "the call was cancelled")),
            result = kernel.agents.run(task) => result,
        }
    }

    /// Asks the user for permissions for the session. They cannot exceed what the operator granted and only avoid
    /// questions: reads follow the mode of the session, and each call is still evaluated.
    pub(super) async fn permissions(&self, wish: Value) -> Result<Value, Failure> {
        let list = |name: &str| -> Vec<String> {
            let items = wish[name].as_array().into_iter().flatten();
            items
                .filter_map(Value::as_str)
                .take(MAX_ENTRIES)
                .map(str::to_owned)
                .collect()
        };
        let (read, write, hosts) = (list("read"), list("write"), list("hosts"));
        if read.is_empty() && write.is_empty() && hosts.is_empty() {
            return Err(Failure::new(
                "invalid_permission_request",
                "name at least one of `read`, `write` and `hosts`",
            ));
        }
        for name in read.iter().chain(&write).chain(&hosts) {
            // The user must be able to read exactly what is granted.
            let steps_back = name.split('/').any(|step| step == "..");
            if name.trim().is_empty() || name.len() > MAX_ENTRY_BYTES || steps_back {
                let shown = text::escape_line(name, 80);
                let message = format!(
                    "`{shown}` cannot be requested: it must have 1 to {MAX_ENTRY_BYTES} bytes and no `..`"
                );
                return Err(Failure::new("invalid_permission_request", message));
            }
        }
        let line = |what: &str, names: &[String]| {
            let shown = |name: &String| text::escape_line(name, MAX_ENTRY_BYTES);
            let names: Vec<String> = names.iter().map(shown).collect();
            if names.is_empty() {
                String::new()
            } else {
                format!("\n  {what}: {}", names.join(", "))
            }
        };
        // The reason of the tool is short and comes first, so that the text of the host is next to the answer.
        let reason = text::escape_line(wish["reason"].as_str().unwrap_or("no reason given"), 500);
        let question = format!(
            "reason given by the tool: {reason}\n\nAllow until this session ends?{}{}{}",
            line("read", &read),
            line("change", &write),
            line("reach", &hosts)
        );
        let query = UserQuestion {
            question,
            header: "permissions".to_owned(),
            kind: UserQuestionKind::YesNo,
            options: Vec::new(),
            multi_select: false,
            placeholder: None,
        };
        let replies = self.interview(vec![query]).await?;
        if replies.first() != Some(&UserAnswer::YesNo(true)) {
            return Err(Failure::new("user_denied", "the user denied the request"));
        }
        let kernel = self.kernel()?;
        kernel
            .allow_in_session(&self.caller.session_key(), &write, &hosts)
            .await?;
        Ok(json!({"read": read, "write": write, "hosts": hosts, "scope": "session"}))
    }
}

/// Drops all events and forwards the cancellation of the calling call.
struct CancelSink(CancellationToken);

impl Sink for CancelSink {
    fn event(&self, _event: toolhost_contract::CallEvent) {}

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
