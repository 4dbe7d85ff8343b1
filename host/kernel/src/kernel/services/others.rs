//! Other tools, sub-agents and permissions, for one running call.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolhost_contract::life::Origin;
use toolhost_contract::{
    CallError, CallId, ErrorClass, Failure, Outcome, Query, QueryKind, Reply, Sink, ToolFacts, text,
};

use super::{CALLS, CallServices};
use crate::kernel::{CallRequest, Within};
use crate::services::Task;

/// Sub-agents above a call that hands a task on. One that starts itself ends here.
const DEPTH: usize = 3;
/// Texts of a wish for permissions.
const MAX_WISHES: usize = 16;
/// Bytes of one of them. A person is shown all of it.
const MAX_WISH: usize = 500;

impl CallServices {
    pub(super) fn list(&self) -> Vec<ToolFacts> {
        let Ok(kernel) = self.kernel() else {
            return Vec::new();
        };
        let registry = kernel.registry();
        let listed = registry.list().filter(|entry| kernel.lists(entry));
        let facts = listed.map(|entry| ToolFacts {
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

    /// A call like any other, below this one. It may do no more than this one may, and rules see that a tool made it.
    pub(super) fn below(
        &self,
        tool: String,
        input: Value,
        origin: Origin,
    ) -> Result<CallRequest, Failure> {
        let number = self.called.fetch_add(1, Relaxed) + 1;
        if number > CALLS {
            let message = format!("this call has made {CALLS} calls already");
            return Err(Failure::new("too_many_calls", message));
        }
        if self.within.is_below() {
            let message = "a tool that another tool has called cannot call further ones";
            return Err(Failure::new("nested_call", message));
        }
        Ok(CallRequest {
            within: Within {
                origin,
                parent: Some(self.id.clone()),
                batch: None,
                ..self.within.clone()
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
        let request = self.below(tool, input, Origin::Tool).map_err(refused)?;
        let sink: Arc<dyn Sink> = Arc::new(Stopping(self.halt.token().clone()));
        let _wait = self.waiting.begin();
        kernel.call(request, sink).await.result
    }

    pub(super) async fn delegate(&self, task: Value) -> Result<Value, Failure> {
        let kernel = self.kernel()?;
        if !task.is_object() {
            let message = "a task is an object such as `{\"agent\": …, \"prompt\": …}`";
            return Err(Failure::new("invalid_task", message));
        }
        if self.within.depth >= DEPTH {
            let message = format!(
                "{DEPTH} sub-agents have handed this task on already; do the work without another one"
            );
            return Err(Failure::new("too_deep", message));
        }
        if self.called.fetch_add(1, Relaxed) >= CALLS {
            let message = format!("this call has handed on {CALLS} tasks already");
            return Err(Failure::new("too_many_calls", message));
        }
        let name = task["agent"].as_str().unwrap_or("general").to_owned();
        let known = kernel.agents.agents_for(&self.id);
        if !known.is_empty() && !known.iter().any(|agent| agent.name == name) {
            let names: Vec<&str> = known.iter().map(|agent| agent.name.as_str()).collect();
            return Err(Failure::new(
                "agent_not_found",
                format!(
                    "no sub-agent `{}`; there are {}",
                    text::inline(&name, 80),
                    names.join(", ")
                ),
            ));
        }
        let task = Task {
            agent: name,
            task,
            call: self.id.clone(),
            caller: (*self.caller).clone(),
            within: Within {
                origin: Origin::Model,
                parent: Some(self.id.clone()),
                batch: None,
                mode: Some(toolhost_contract::Services::mode(self)),
                depth: self.within.depth + 1,
                ..self.within.clone()
            },
        };
        let _wait = self.waiting.begin();
        tokio::select! {
            biased;
            () = self.halt.token().cancelled() => Err(Failure::new("cancelled", "the call was cancelled")),
            result = kernel.agents.run(task) => result,
        }
    }

    /// Nothing beyond what the operator granted can be given, so a yes here only spares the questions: it is the
    /// session's mode for reads, and a note for the model. What it names is still judged call by call.
    pub(super) async fn permissions(&self, wish: Value) -> Result<Value, Failure> {
        let list = |name: &str| -> Vec<String> {
            let items = wish[name].as_array().into_iter().flatten();
            items
                .filter_map(Value::as_str)
                .take(MAX_WISHES)
                .map(str::to_owned)
                .collect()
        };
        let (read, write, hosts) = (list("read"), list("write"), list("hosts"));
        if read.is_empty() && write.is_empty() && hosts.is_empty() {
            return Err(Failure::new(
                "invalid_wish",
                "name what is wanted: `read`, `write` or `hosts`",
            ));
        }
        for name in read.iter().chain(&write).chain(&hosts) {
            // What a person reads must be what they give.
            let steps_back = name.split('/').any(|step| step == "..");
            if name.trim().is_empty() || name.len() > MAX_WISH || steps_back {
                let shown = text::inline(name, 80);
                let message =
                    format!("`{shown}` cannot be asked for: 1 to {MAX_WISH} bytes, without `..`");
                return Err(Failure::new("invalid_wish", message));
            }
        }
        let line = |what: &str, names: &[String]| {
            let shown = |name: &String| text::inline(name, MAX_WISH);
            let names: Vec<String> = names.iter().map(shown).collect();
            if names.is_empty() {
                String::new()
            } else {
                format!("\n  {what}: {}", names.join(", "))
            }
        };
        // Short, and above what the host itself says: what a yes means stands last, next to where it is typed.
        let reason = text::inline(wish["reason"].as_str().unwrap_or("no reason given"), 500);
        let question = format!(
            "its reason: {reason}\n\nMay this session do more, until it ends?{}{}{}",
            line("read", &read),
            line("change", &write),
            line("reach", &hosts)
        );
        let query = Query {
            question,
            header: "permissions".to_owned(),
            kind: QueryKind::YesNo,
            options: Vec::new(),
            multi_select: false,
            placeholder: None,
        };
        let replies = self.interview(vec![query]).await?;
        if replies.first() != Some(&Reply::YesNo(true)) {
            return Err(Failure::new("user_denied", "the user said no"));
        }
        let kernel = self.kernel()?;
        kernel
            .allow_in_session(&self.caller.session_key(), &write, &hosts)
            .await?;
        Ok(json!({"read": read, "write": write, "hosts": hosts, "scope": "session"}))
    }
}

/// Hears nothing, and passes on that the call above was cancelled.
struct Stopping(CancellationToken);

impl Sink for Stopping {
    fn event(&self, _event: toolhost_contract::Event) {}

    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
