//! Hook plugins: called before and after tool calls, in a new instance each time. The hooks of a plugin for its own tools
//! share the instance of the call's preview.

use std::time::Duration;

use serde::Serialize;
use toolhost_contract::hook::{PostHookResponse, PreHookResponse};
use toolhost_contract::{BoxFuture, Call, CallError, Descriptor, ErrorClass, Outcome};
use wasmtime::Store;

use crate::api::v0_1::hooks::{self, Hook, HookLimits};
use crate::api::v0_1::types;
use crate::guards::Guards;
use crate::instance::CallEnvironment;
use crate::plugin::Plugin;
use crate::request;
use crate::state::State;

/// The call and tool that a hook is called for.
#[derive(Debug, Clone, Copy)]
pub struct HookCall<'a> {
    pub call: &'a Call,
    pub tool: &'a Descriptor,
    /// Permission mode of the session, for example `default` or `plan`.
    pub mode: &'a str,
    pub origin: HookOrigin,
}

/// Why a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookOrigin {
    /// The operator configured it.
    Configured,
    /// Its plugin guards its own tools. Then it has no files.
    OwnTool,
}

/// Whether the hook runs before or after the call.
#[derive(Debug, Clone, Copy)]
enum HookPoint {
    Before,
    After,
}

impl HookPoint {
    fn as_str(self) -> &'static str {
        match self {
            HookPoint::Before => "PreToolUse",
            HookPoint::After => "PostToolUse",
        }
    }
}

impl Plugin {
    /// Runs this plugin's pre-call hook. An error means that the hook failed for any reason; the caller decides
    /// what that means for the call.
    pub fn run_pre_hook<'a>(
        &'a self,
        call: HookCall<'a>,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<PreHookResponse, CallError>> {
        Box::pin(async move {
            let request = self.request(call, HookPoint::Before);
            let verdict = self
                .run_hook(call, timeout, async |store, hook| {
                    let hook = hook.toolhost_plugin_hooks();
                    hook.call_pre_tool_use(store, &request).await
                })
                .await?;
            hooks::before(verdict, self.hook_limits())
        })
    }

    /// Runs this plugin's post-call hook on an outcome.
    pub fn run_post_hook<'a>(
        &'a self,
        call: HookCall<'a>,
        outcome: &'a Outcome,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<PostHookResponse, CallError>> {
        Box::pin(async move {
            let request = self.request(call, HookPoint::After);
            let outcome = hooks::outcome_to_wit(outcome, self.hook_limits().output)?;
            let revision = self
                .run_hook(call, timeout, async |store, hook| {
                    let hook = hook.toolhost_plugin_hooks();
                    hook.call_post_tool_use(store, &request, &outcome).await
                })
                .await?;
            hooks::after(revision, self.hook_limits())
        })
    }

    /// A hook gets no files or variables of the call. A configured hook can read what the operator granted its plugin,
    /// for example a deny list.
    async fn run_hook<R>(
        &self,
        call: HookCall<'_>,
        timeout: Duration,
        work: impl AsyncFnOnce(&mut Store<State>, &Hook) -> wasmtime::Result<R>,
    ) -> Result<R, CallError> {
        let guards = self.loaded().code().await?.guards.as_ref();
        let guards = guards.filter(|guards| guards.bindings().has_hooks());
        let guards = guards.ok_or_else(|| {
            CallError::new(
                ErrorClass::Unavailable,
                format!("plugin `{}` has no hooks", self.name()),
            )
        })?;
        let work =
            async |store: &mut Store<State>, guards: &Guards| work(store, guards.hooks()?).await;
        let environment = CallEnvironment::without_grants(self.limits(), timeout);
        if call.origin == HookOrigin::OwnTool {
            return guards.run_shared(environment, &call.call.state, work).await;
        }
        let environment = CallEnvironment {
            files: self.read_only().clone(),
            ..environment
        };
        guards.run(environment, work).await
    }

    fn request(&self, call: HookCall<'_>, moment: HookPoint) -> types::Request {
        let scope = self.read_only().scope();
        let mode = call.mode.parse().unwrap_or_default();
        let mut request = request::for_call(call.call, scope, mode);
        call.mode.clone_into(&mut request.context.mode);
        request.context.extra = Some(extra(call.tool, moment));
        request
    }

    fn hook_limits(&self) -> HookLimits {
        HookLimits {
            input: self.limits().input,
            output: self.limits().output,
        }
    }
}

/// Hook data that the request record has no field for, as JSON.
fn extra(tool: &Descriptor, moment: HookPoint) -> String {
    #[derive(Serialize)]
    struct Extra<'a> {
        event: &'a str,
        aliases: &'a [String],
        version: &'a str,
        kind: &'a str,
        effect: &'a str,
    }
    let extra = Extra {
        event: moment.as_str(),
        aliases: &tool.aliases,
        version: &tool.version,
        kind: &tool.kind,
        effect: tool.effect().as_str(),
    };
    serde_json::to_string(&extra).expect("strings serialize to JSON")
}

#[cfg(test)]
mod tests;
