//! Adapter that runs a plugin as a hook of the kernel.

use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::hook::{After, Before};
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
    pub fn patience(&self) -> Duration {
        self.timeout + Duration::from_secs(5)
    }
}

impl Hook for ComponentHook {
    fn before<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Result<Before, HookError>> {
        Box::pin(async move {
            if !self.before {
                return Ok(Before::default());
            }
            let said = self.plugin.before(&seen(call), self.timeout).await;
            said.map_err(|error| words(&error))
        })
    }

    fn after<'a>(
        &'a self,
        call: &'a HookCall,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<After, HookError>> {
        Box::pin(async move {
            if !self.after {
                return Ok(After::Keep);
            }
            let said = self.plugin.after(&seen(call), outcome, self.timeout).await;
            said.map_err(|error| words(&error))
        })
    }
}

fn seen(call: &HookCall) -> toolhost_runtime::HookCall {
    toolhost_runtime::HookCall::new(call.call.clone(), &call.tool, call.mode.clone())
}

fn words(error: &CallError) -> HookError {
    HookError(error.to_string())
}
