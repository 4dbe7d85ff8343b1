//! Edits that the user made to proposed changes: the edited contents are committed, and the model is informed.

use std::fmt::Write as _;

use toolhost_contract::lifecycle::Transition;
use toolhost_contract::{
    EditedChanges, FileDiff, Outcome, Part, StagedChanges, StagedEffects, UserEdit, text,
};

use super::authorization::call_policy_request;
use super::running_call::RunningCall;
use super::{Kernel, Refusal};
use crate::ToolEntry;

/// Characters of one diff in the note to the model, of all diffs, and the number of files it names.
const MAX_DIFF: usize = 2_000;
const MAX_DIFFS: usize = 8_000;
const MAX_FILES: usize = 50;

impl Kernel {
    /// Applies the edits and checks the new changes against the rules, which may have changed since the question was
    /// asked.
    pub(super) async fn apply_edits(
        &self,
        entry: &ToolEntry,
        staged: Box<dyn StagedChanges>,
        edits: Vec<UserEdit>,
        by: &str,
        run: &mut RunningCall<'_>,
    ) -> Result<EditedChanges, Refusal> {
        let by = by.to_owned();
        run.journal
            .step(Transition::CommitAuthorized { by, commit: None })
            .await?;
        let cancellation = run.cancel.clone();
        let editing = async { staged.edit(edits).await.map_err(Refusal::from) };
        let edited = cancellation.unless_cancelled_after_run(editing).await?;
        if let StagedEffects::Staged(staged) = &edited.effects {
            let subject = run.subject(entry).with_changes(staged.changes());
            if let Some(denial) = self
                .policy_for(&run.session)
                .find_denial(call_policy_request(entry, run, &subject))
            {
                return Err(run.deny(denial).into());
            }
        }
        Ok(edited)
    }
}

/// Appends the diffs to the outcome: the tool has not seen the edits, so its result describes what it proposed.
pub(super) fn append_note(outcome: &mut Outcome, diffs: &[FileDiff]) {
    if diffs.is_empty() {
        return;
    }
    if outcome.llm.is_empty() && outcome.structured.is_some() {
        // The model reads the structured value only if there is no text, so it is added as text first.
        outcome.llm.push(Part::Text(outcome.model_text()));
    }
    outcome.llm.push(Part::Text(note(diffs)));
}

fn note(diffs: &[FileDiff]) -> String {
    let mut note = "The user who approved this call edited the proposed changes. The edited contents were written. \
                    Differences from the proposal:"
        .to_owned();
    let mut left = MAX_DIFFS;
    for diff in diffs.iter().take(MAX_FILES) {
        note.push_str("\n\n");
        note.push_str(&text::escape_line(&diff.file_name, 300));
        note.push('\n');
        if left == 0 {
            note.push_str("(omitted: no space left)");
            continue;
        }
        let shown = shown(diff.body(), MAX_DIFF.min(left));
        left = left.saturating_sub(shown.chars().count());
        note.push_str(shown.trim_end_matches('\n'));
    }
    if diffs.len() > MAX_FILES {
        let _ = write!(note, "\n\nand {} more files", diffs.len() - MAX_FILES);
    }
    note
}

/// Cuts after escaping, which makes the text longer, and marks the cut.
fn shown(body: &str, max: usize) -> String {
    let shown = text::escape_lines(body, max);
    match shown.char_indices().nth(max) {
        Some((at, _)) => format!("{}\n(cut)", &shown[..at]),
        None => shown,
    }
}
