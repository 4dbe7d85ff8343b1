//! Adapter that runs a plugin as a hook of the kernel.

use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::hook::{PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_contract::{BoxFuture, CallError, Descriptor, Failure, Outcome, PluginName, ToolHook};
use toolhost_kernel::hooks::{Hook, HookCall, HookError, HookEvent, HookPoint};
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
    fn runs(&self, point: HookPoint, _: &PluginName, _: &Descriptor) -> bool {
        match point {
            HookPoint::Before => self.before,
            HookPoint::After => self.after,
        }
    }

    fn before<'a>(
        &'a self,
        call: &'a HookCall,
    ) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(async move {
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
}

impl Hook for OwnHooks {
    fn runs(&self, point: HookPoint, plugin: &PluginName, tool: &Descriptor) -> bool {
        let function = match point {
            HookPoint::Before => ToolHook::PreToolUse,
            HookPoint::After => ToolHook::PostToolUse,
        };
        *plugin == *self.0.name() && tool.hooks.contains(function)
    }

    fn before<'a>(
        &'a self,
        call: &'a HookCall,
    ) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(async move {
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
