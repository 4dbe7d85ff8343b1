//! Descriptions of calls by their tool: the functions of the interface `preview`. They and the plugin's hooks for its own
//! tools share an instance without grants for each call.

use std::time::Duration;

use toolhost_contract::policy::Mode;
use toolhost_contract::{
    Call, CallError, Descriptor, ErrorClass, Outcome, Preview, Rendering, ToolHook,
};
use wasmtime::Store;

use crate::api::v0_1::hooks::outcome_to_wit;
use crate::api::v0_1::preview::{self, Previewer};
use crate::api::v0_1::{self, types};
use crate::export::Export;
use crate::guards::GuardsPre;
use crate::instance::CallEnvironment;
use crate::load::without_recommendations;
use crate::plugin::Plugin;
use crate::request;
use crate::state::State;

/// Processor time of the functions before a call together, and of each rendering.
const PROCESSOR_TIME: Duration = Duration::from_millis(50);
/// Limit for a machine that is so busy that the functions hardly run.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the content that a tool adds to a prompt, in bytes.
const MAX_PERMISSION_BYTES: u64 = 16 << 10;

impl Plugin {
    /// Calls the functions before a call in one instance. The ones that restrict the call come first, so that a crash of
    /// another one does not affect them.
    pub(crate) async fn run_preview(&self, call: Call, mode: Mode) -> Result<Preview, CallError> {
        let Some(tool) = self.find_tool(&call) else {
            return Ok(Preview::default());
        };
        let Some(functions) = self.preview_functions().await? else {
            return Ok(Preview::default());
        };
        let mut progress = Progress::new(tool);
        let (environment, state) = (self.preview_environment(), call.state.clone());
        let request = self.preview_request(call, mode);
        let ended = functions
            .run_shared(environment, &state, async |store, guards| {
                progress.run(guards.preview()?, store, &request).await
            })
            .await;
        progress.finish(ended.err())
    }

    pub(crate) async fn run_render_permission(&self, call: Call, mode: Mode) -> Rendering {
        let Some(functions) = self.rendering(&call, ToolHook::RenderPermission).await? else {
            return Ok(Vec::new());
        };
        let (environment, state) = (self.preview_environment(), call.state.clone());
        let request = self.preview_request(call, mode);
        let blocks = functions
            .run_shared(environment, &state, async |store, guards| {
                let preview = guards.preview()?.toolhost_plugin_preview();
                preview.call_render_permission(store, &request).await
            })
            .await?;
        preview::blocks(blocks, MAX_PERMISSION_BYTES)
    }

    pub(crate) async fn run_render_result(
        &self,
        call: Call,
        mode: Mode,
        outcome: Outcome,
    ) -> Rendering {
        let Some(functions) = self.rendering(&call, ToolHook::RenderResult).await? else {
            return Ok(Vec::new());
        };
        let (environment, state) = (self.preview_environment(), call.state.clone());
        let request = self.preview_request(call, mode);
        let limit = self.limits().output;
        let outcome = outcome_to_wit(&outcome, limit)?;
        let blocks = functions
            .run_shared(environment, &state, async |store, guards| {
                let preview = guards.preview()?.toolhost_plugin_preview();
                preview.call_render_result(store, &request, &outcome).await
            })
            .await?;
        preview::blocks(blocks, limit)
    }

    async fn rendering(
        &self,
        call: &Call,
        hook: ToolHook,
    ) -> Result<Option<&Export<GuardsPre>>, CallError> {
        let tool = self.find_tool(call);
        if tool.is_none_or(|tool| !tool.hooks.contains(hook)) {
            return Ok(None);
        }
        self.preview_functions().await
    }

    async fn preview_functions(&self) -> Result<Option<&Export<GuardsPre>>, CallError> {
        let guards = self.loaded().code().await?.guards.as_ref();
        Ok(guards.filter(|guards| guards.bindings().has_preview()))
    }

    fn preview_request(&self, call: Call, mode: Mode) -> types::Request {
        request::for_call(&call, self.no_files().scope(), mode)
    }

    fn preview_environment(&self) -> CallEnvironment<'_> {
        CallEnvironment {
            processor_time: Some(PROCESSOR_TIME),
            ..CallEnvironment::without_grants(self.limits(), TIMEOUT)
        }
    }
}

/// The functions of one tool that have been called, and their results.
struct Progress<'a> {
    tool: &'a Descriptor,
    /// In the order of the calls.
    pending: Vec<ToolHook>,
    refusal: Option<CallError>,
    preview: Preview,
}

impl<'a> Progress<'a> {
    fn new(tool: &'a Descriptor) -> Self {
        let order = [
            ToolHook::Validate,
            ToolHook::Confirm,
            ToolHook::Locations,
            ToolHook::DescribeCall,
        ];
        let pending = order.into_iter().rev();
        Self {
            tool,
            pending: pending.filter(|hook| tool.hooks.contains(*hook)).collect(),
            refusal: None,
            preview: Preview::default(),
        }
    }

    async fn run(
        &mut self,
        previewer: &Previewer,
        store: &mut Store<State>,
        request: &types::Request,
    ) -> wasmtime::Result<()> {
        let functions = previewer.toolhost_plugin_preview();
        while let Some(hook) = self.pending.last() {
            match hook {
                ToolHook::Validate => {
                    if let Err(raw) = functions.call_validate(&mut *store, request).await? {
                        self.refusal = Some(v0_1::error(types::ToolError::InvalidInput(raw)));
                        self.pending.clear();
                        return Ok(());
                    }
                }
                ToolHook::Confirm => {
                    let reason = functions.call_confirm(&mut *store, request).await?;
                    self.preview.confirm = reason.as_deref().map(preview::reason);
                }
                ToolHook::Locations => {
                    let raw = functions.call_locations(&mut *store, request).await?;
                    match preview::locations(raw) {
                        Ok(locations) => self.preview.locations = locations,
                        Err(why) => {
                            self.preview.has_unknown_locations = true;
                            self.warn(&why);
                        }
                    }
                }
                ToolHook::DescribeCall => {
                    let raw = functions.call_describe_call(&mut *store, request).await?;
                    self.preview.description = preview::line(&raw);
                }
                ToolHook::RenderPermission
                | ToolHook::RenderResult
                | ToolHook::PreToolUse
                | ToolHook::PostToolUse => {}
            }
            self.pending.pop();
        }
        Ok(())
    }

    /// Functions that did not return make the host more careful.
    fn finish(mut self, error: Option<CallError>) -> Result<Preview, CallError> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        let Some(error) = error else {
            return Ok(self.preview);
        };
        if self.pending.contains(&ToolHook::Validate) {
            let message = format!(
                "`{}` could not validate its input: {}",
                self.tool.name, error.message
            );
            return Err(CallError {
                stderr: error.stderr,
                ..CallError::new(ErrorClass::Failed, message)
                    .code("validation_failed")
                    .cause(error.cause.unwrap_or_default())
            });
        }
        if self.pending.contains(&ToolHook::Confirm) {
            self.preview.confirm =
                Some("the tool failed to decide whether it requires approval".to_owned());
        }
        self.preview.has_unknown_locations |= self.pending.contains(&ToolHook::Locations);
        let function = self.pending.last().map_or("preview", |hook| hook.as_str());
        self.warn(&format!(
            "its function `{function}` failed: {}",
            without_recommendations(&error)
        ));
        Ok(self.preview)
    }

    fn warn(&mut self, why: &str) {
        let warning = format!(
            "`{}` cannot fully describe this call: {why}",
            self.tool.name
        );
        self.preview.warnings.push(warning);
    }
}
