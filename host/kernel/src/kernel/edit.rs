//! Edits that the user made to proposed changes: the edited contents are committed, and the model is told about them.

use std::fmt::Write as _;

use toolhost_contract::life::Step;
use toolhost_contract::policy::Subject;
use toolhost_contract::{Edit, Edited, Effects, FileDiff, Outcome, Part, Staged, text};

use super::judge::request_of;
use super::run::Run;
use super::{Kernel, Refusal};
use crate::Entry;

/// Characters of one diff in the note to the model, of all diffs, and the number of files it names.
const DIFF: usize = 2_000;
const DIFFS: usize = 8_000;
const NAMED: usize = 50;

impl Kernel {
    /// Applies the edits and checks the new changes against the rules, which may have changed since the question was
    /// asked.
    pub(super) async fn edit(
        &self,
        entry: &Entry,
        staged: Box<dyn Staged>,
        edits: Vec<Edit>,
        by: &str,
        run: &mut Run<'_>,
    ) -> Result<Edited, Refusal> {
        let by = by.to_owned();
        run.life.step(Step::Released { by, commit: None }).await?;
        let halt = run.halt.clone();
        let editing = async { staged.edit(edits).await.map_err(Refusal::from) };
        let edited = halt.after_run(editing).await?;
        if let Effects::Held(staged) = &edited.effects {
            let named = Subject::of(&entry.tool, &run.input);
            let subject = named.known(staged.changes());
            if let Some(denial) = self
                .policy_of(&run.session)
                .forbids(request_of(entry, run, &subject))
            {
                return Err(run.refused(denial).into());
            }
        }
        Ok(edited)
    }
}

/// Appends the diffs to the outcome: the tool has not seen the edits, so its result describes what it proposed.
pub(super) fn tell(outcome: &mut Outcome, diffs: &[FileDiff]) {
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
    let mut left = DIFFS;
    for diff in diffs.iter().take(NAMED) {
        note.push_str("\n\n");
        note.push_str(&text::inline(&diff.file_name, 300));
        note.push('\n');
        if left == 0 {
            note.push_str("(omitted: no space left)");
            continue;
        }
        let shown = shown(diff.body(), DIFF.min(left));
        left = left.saturating_sub(shown.chars().count());
        note.push_str(shown.trim_end_matches('\n'));
    }
    if diffs.len() > NAMED {
        let _ = write!(note, "\n\nand {} more files", diffs.len() - NAMED);
    }
    note
}

/// Cuts after escaping, which makes the text longer, and marks the cut.
fn shown(body: &str, max: usize) -> String {
    let shown = text::block(body, max);
    match shown.char_indices().nth(max) {
        Some((at, _)) => format!("{}\n(cut)", &shown[..at]),
        None => shown,
    }
}
