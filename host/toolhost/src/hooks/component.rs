//! Adapter that runs a plugin as a hook of the kernel.

use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::hook::{PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_contract::{BoxFuture, CallError, Failure, Outcome, ToolHook};
use toolhost_kernel::hooks::{Hook, HookCall, HookError, HookEvent};
use toolhost_runtime::{HookOrigin, Plugin};

use crate::settings::HookSettings;

pub struct ComponentHook {
    plugin: Arc<Plugin>,
    before: bool,
    after: bool,
    timeout: Duration,
}

impl ComponentHook {
    pub fn new(plugin: Arc<Plugin>, hook: &HookSettings) -> Self {
        Self {
            plugin,
            before: hook.on.contains(&HookEvent::BeforeTool),
            after: hook.on.contains(&HookEvent::AfterTool),
            timeout: hook.timeout,
        }
    }

    /// How long the kernel waits: longer than the sandbox, whose timeout error is more specific.
    pub fn kernel_timeout(&self) -> Duration {
        self.timeout + Duration::from_secs(5)
    }
}

impl Hook for ComponentHook {
    fn before<'a>(
        &'a self,
        call: &'a HookCall,
    ) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(async move {
            if !self.before {
                return Ok(PreHookResponse::default());
            }
            let response = self
                .plugin
                .run_pre_hook(to_runtime_call(call, HookOrigin::Configured), self.timeout)
                .await;
            response.map_err(|error| hook_error(&error))
        })
    }

    fn after<'a>(
        &'a self,
        call: &'a HookCall,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        Box::pin(async move {
            if !self.after {
                return Ok(PostHookResponse::Keep);
            }
            let response = self
                .plugin
                .run_post_hook(
                    to_runtime_call(call, HookOrigin::Configured),
                    outcome,
                    self.timeout,
                )
                .await;
            response.map_err(|error| hook_error(&error))
        })
    }
}

/// The hooks of a plugin for its own tools. They run without configuration, so they can only make the host more careful:
/// they have no files and cannot answer in place of the tool.
pub struct OwnHooks(pub Arc<Plugin>);

/// Time limit of a plugin's hook for its own tools.
const OWN_TIMEOUT: Duration = Duration::from_secs(5);

impl OwnHooks {
    pub fn kernel_timeout() -> Duration {
        OWN_TIMEOUT + Duration::from_secs(5)
    }

    fn guards(&self, call: &HookCall, hook: ToolHook) -> bool {
        call.plugin == *self.0.name() && call.tool.hooks.contains(hook)
    }
}

impl Hook for OwnHooks {
    fn before<'a>(
        &'a self,
        call: &'a HookCall,
    ) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(async move {
            if !self.guards(call, ToolHook::PreToolUse) {
                return Ok(PreHookResponse::default());
            }
            let own_call = to_runtime_call(call, HookOrigin::OwnTool);
            let decided = self.0.run_pre_hook(own_call, OWN_TIMEOUT).await;
            let mut response = decided.map_err(|error| hook_error(&error))?;
            match &mut response.decision {
                PreHookDecision::Result(_) => Err(HookError(
                    "a hook for the plugin's own tools may not return `result`".to_owned(),
                )),
                // It must not look like a result of the tool.
                PreHookDecision::Deny {
                    reason,
                    outcome: Some(outcome),
                } if outcome.error.is_none() => {
                    let reason = reason
                        .as_deref()
                        .unwrap_or("a hook of the plugin denied the call");
                    outcome.error = Some(Failure::new("permission_denied", reason));
                    Ok(response)
                }
                _ => Ok(response),
            }
        })
    }

    fn after<'a>(
        &'a self,
        call: &'a HookCall,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        Box::pin(async move {
            if !self.guards(call, ToolHook::PostToolUse) {
                return Ok(PostHookResponse::Keep);
            }
            let own_call = to_runtime_call(call, HookOrigin::OwnTool);
            let revised = self.0.run_post_hook(own_call, outcome, OWN_TIMEOUT);
            revised.await.map_err(|error| hook_error(&error))
        })
    }
}

fn to_runtime_call(call: &HookCall, origin: HookOrigin) -> toolhost_runtime::HookCall<'_> {
    toolhost_runtime::HookCall {
        call: &call.call,
        tool: &call.tool,
        mode: &call.mode,
        origin,
    }
}

fn hook_error(error: &CallError) -> HookError {
    HookError(error.to_string())
}
