//! Hook plugins: called before and after tool calls, in a new instance each time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolhost_contract::hook::{After, Before};
use toolhost_contract::{
    BoxFuture, Call, CallError, Descriptor, Effect, ErrorClass, NoSink, Outcome,
};

use crate::api::v0_1::hooks::{self, HookPre, Room};
use crate::api::v0_1::types;
use crate::capabilities::Allowed;
use crate::instance::{self, Setting};
use crate::plugin::{self, Plugin};
use crate::state::State;

/// The call and tool that a hook is called for.
#[derive(Debug, Clone)]
pub struct HookCall {
    pub call: Call,
    /// Permission mode of the session, for example `default` or `plan`.
    pub mode: String,
    pub aliases: Vec<String>,
    /// Version of the tool.
    pub version: String,
    pub kind: String,
    pub effect: Effect,
}

impl HookCall {
    pub fn new(call: Call, tool: &Descriptor, mode: impl Into<String>) -> Self {
        Self {
            call,
            mode: mode.into(),
            aliases: tool.aliases.clone(),
            version: tool.version.clone(),
            kind: tool.kind.clone(),
            effect: tool.effect(),
        }
    }
}

/// Whether the hook runs before or after the call.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Before,
    After,
}

impl Moment {
    fn as_str(self) -> &'static str {
        match self {
            Moment::Before => "PreToolUse",
            Moment::After => "PostToolUse",
        }
    }
}

impl Plugin {
    /// Runs this plugin's pre-call hook. An error means that the hook failed for any reason; the caller decides
    /// what that means for the call.
    pub fn before<'a>(
        &'a self,
        call: &'a HookCall,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Before, CallError>> {
        Box::pin(async move {
            let pre = self.hook()?;
            let request = self.request(call, Moment::Before);
            let verdict = instance::run(pre.engine(), self.setting(timeout), async |store| {
                let hook = pre.instantiate_async(&mut *store).await?;
                hook.toolhost_plugin_hooks()
                    .call_pre_tool_use(store, &request)
                    .await
            })
            .await?;
            hooks::before(verdict, self.room())
        })
    }

    /// Runs this plugin's post-call hook on an outcome.
    pub fn after<'a>(
        &'a self,
        call: &'a HookCall,
        outcome: &'a Outcome,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<After, CallError>> {
        Box::pin(async move {
            let pre = self.hook()?;
            let request = self.request(call, Moment::After);
            let outcome = hooks::show(outcome, self.room().output)?;
            let revision = instance::run(pre.engine(), self.setting(timeout), async |store| {
                let hook = pre.instantiate_async(&mut *store).await?;
                hook.toolhost_plugin_hooks()
                    .call_post_tool_use(store, &request, &outcome)
                    .await
            })
            .await?;
            hooks::after(revision, self.room())
        })
    }

    fn hook(&self) -> Result<&HookPre<State>, CallError> {
        self.loaded().hooks().ok_or_else(|| {
            CallError::new(
                ErrorClass::Unavailable,
                format!("plugin `{}` has no hooks", self.name()),
            )
        })
    }

    /// A hook gets no files or variables of the call. It can read what the operator granted its plugin, for example
    /// a deny list.
    fn setting(&self, timeout: Duration) -> Setting<'_> {
        Setting {
            allowed: Allowed::default(),
            limits: self.limits(),
            files: self.read_only().clone(),
            env: &[],
            timeout,
            sink: Arc::new(NoSink),
        }
    }

    fn request(&self, call: &HookCall, moment: Moment) -> types::Request {
        let scope = self.read_only().scope();
        let mode = call.mode.parse().unwrap_or_default();
        let mut request = plugin::request(call.call.clone(), scope, mode);
        request.context.mode.clone_from(&call.mode);
        request.context.extra = Some(extra(call, moment).to_string());
        request
    }

    fn room(&self) -> Room {
        Room {
            input: self.limits().input,
            output: self.limits().output,
        }
    }
}

/// Hook data that the request record has no field for.
fn extra(call: &HookCall, moment: Moment) -> Value {
    json!({
        "event": moment.as_str(),
        "aliases": call.aliases,
        "version": call.version,
        "kind": call.kind,
        "effect": call.effect.as_str(),
    })
}

#[cfg(test)]
mod tests;
