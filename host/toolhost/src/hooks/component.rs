//! Adapter that runs a plugin as a hook of the kernel.

use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::hook::{PostHookResponse, PreHookResponse};
use toolhost_contract::{BoxFuture, CallError, Outcome};
use toolhost_kernel::hooks::{Hook, HookCall, HookError, HookEvent};
use toolhost_runtime::Plugin;

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
            let said = self
                .plugin
                .run_pre_hook(&to_runtime_call(call), self.timeout)
                .await;
            said.map_err(|error| hook_error(&error))
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
            let said = self
                .plugin
                .run_post_hook(&to_runtime_call(call), outcome, self.timeout)
                .await;
            said.map_err(|error| hook_error(&error))
        })
    }
}

fn to_runtime_call(call: &HookCall) -> toolhost_runtime::HookCall {
    toolhost_runtime::HookCall::new(call.call.clone(), &call.tool, call.mode.clone())
}

fn hook_error(error: &CallError) -> HookError {
    HookError(error.to_string())
}
