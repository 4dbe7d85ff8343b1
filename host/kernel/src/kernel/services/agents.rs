//! The interface `agents` for a running call.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::Value;
use toolhost_contract::lifecycle::CallOrigin;
use toolhost_contract::{AgentInfo, AgentService, BoxFuture, Failure, Services as _, text};

use super::{CallServices, MAX_CALLS};
use crate::kernel::CallContext;
use crate::services::AgentTask;

/// Maximum depth of sub-agents. Stops a sub-agent that starts itself.
const MAX_DEPTH: usize = 3;

impl AgentService for CallServices {
    fn agents(&self) -> Vec<AgentInfo> {
        let kernel = self.kernel();
        kernel.map_or_else(|_| Vec::new(), |kernel| kernel.agents.agents_for(&self.id))
    }

    fn run_agent(&self, task: Value) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(self.delegate(task))
    }
}

impl CallServices {
    async fn delegate(&self, task: Value) -> Result<Value, Failure> {
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
        if self.counts.calls.fetch_add(1, Relaxed) >= MAX_CALLS {
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
            policy: Arc::clone(&self.policy),
            call: self.id.clone(),
            caller: (*self.caller).clone(),
            context: CallContext {
                origin: CallOrigin::Model,
                parent: Some(self.id.clone()),
                batch: None,
                mode: Some(self.mode()),
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
}
