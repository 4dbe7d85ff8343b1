//! Information that a tool supplies about its own calls: before authorization, in prompts, and about results.

use toolhost_contract::policy::{HookAsk, Subject};
use toolhost_contract::{CallError, CallEvent, Outcome, Question, Rendering, Sink as _, ToolHook};

use super::running_call::RunningCall;
use super::{Kernel, Refusal};
use crate::ToolEntry;
use crate::hooks::HookHints;

impl Kernel {
    /// Asks the tool about a call whose input is valid.
    pub(super) async fn preview(
        &self,
        entry: &ToolEntry,
        run: &mut RunningCall<'_>,
    ) -> Result<(), Refusal> {
        let asking = entry
            .backend
            .preview(run.backend_call(entry), self.mode_of(run));
        let cancel = run.cancel.clone();
        let asking = async { asking.await.map_err(Refusal::from) };
        let preview = cancel.unless_cancelled(asking).await?;
        for warning in &preview.warnings {
            run.warn(warning);
        }
        if let Some(description) = &preview.description {
            run.sink.event(CallEvent::Progress {
                message: Some(description.clone()),
                progress: None,
                total: None,
            });
        }
        run.attempt.preview = Some(Box::new(preview));
        Ok(())
    }

    /// Adds the tool's own description of the call to a question.
    pub(super) async fn describe_question(
        &self,
        entry: &ToolEntry,
        run: &RunningCall<'_>,
        question: &mut Question,
    ) {
        let preview = run.attempt.preview.as_ref();
        question.description = preview.and_then(|preview| preview.description.clone());
        if entry.tool.hooks.contains(ToolHook::RenderPermission) {
            let call = run.backend_call(entry);
            let rendering = entry.backend.render_permission(call, self.mode_of(run));
            question.rendering = accept(entry, run, rendering.await);
        }
    }

    /// Renders the outcome for users.
    pub(super) async fn render_result(
        &self,
        entry: &ToolEntry,
        run: &mut RunningCall<'_>,
        outcome: &Outcome,
    ) -> Result<(), Refusal> {
        if entry.tool.hooks.contains(ToolHook::RenderResult) {
            let call = run.backend_call(entry);
            let rendering = entry
                .backend
                .render_result(call, self.mode_of(run), outcome.clone());
            let cancel = run.cancel.clone();
            let rendering = async { Ok(rendering.await) };
            let rendering = cancel.unless_cancelled_after_run(rendering).await?;
            run.report.rendering = accept(entry, run, rendering);
        }
        Ok(())
    }
}

impl RunningCall<'_> {
    /// Returns the subject of the call, from its input and from the tool's preview.
    pub(super) fn subject(&self, entry: &ToolEntry) -> Subject {
        let subject = Subject::of(&entry.tool, &self.input);
        match &self.attempt.preview {
            Some(preview) => subject.with_locations(preview),
            None => subject,
        }
    }

    /// The demand for approval by a hook or by the tool itself.
    pub(super) fn required_approval(
        &self,
        entry: &ToolEntry,
        hints: &HookHints,
    ) -> Option<HookAsk> {
        let confirm = self.attempt.preview.as_ref();
        let confirm = confirm.and_then(|preview| preview.confirm.as_ref());
        let confirm = confirm.map(|reason| format!("`confirm` of `{}`: {reason}", entry.name));
        let Some(ask) = &hints.ask else {
            return confirm.map(|reason| HookAsk {
                reason: Some(reason),
                meta: None,
            });
        };
        let reason = ask.reason();
        Some(HookAsk {
            reason: Some(match confirm {
                Some(confirm) => format!("{reason}; {confirm}"),
                None => reason,
            }),
            meta: ask.meta.clone(),
        })
    }
}

/// A rendering that failed is ignored.
fn accept(
    entry: &ToolEntry,
    run: &RunningCall<'_>,
    rendering: Rendering,
) -> Vec<toolhost_contract::Display> {
    rendering.unwrap_or_else(|error: CallError| {
        run.warn(&format!(
            "`{}` cannot render this call: {}",
            entry.name, error.message
        ));
        Vec::new()
    })
}
