//! A person has said yes to changes and saved other contents for them: what is committed is what they saved, and the
//! model is told so.

use std::fmt::Write as _;

use toolhost_contract::life::Step;
use toolhost_contract::policy::Subject;
use toolhost_contract::{Edit, Edited, Effects, FileDiff, Outcome, Part, Staged, text};

use super::judge::request_of;
use super::run::Run;
use super::{Kernel, Refusal};
use crate::Entry;

/// Characters of one difference that the model is told, of all of them, and how many files are named.
const DIFF: usize = 2_000;
const DIFFS: usize = 8_000;
const NAMED: usize = 50;

impl Kernel {
    /// Takes the contents in, and looks once more whether a rule forbids what is there now: rules may be others than
    /// when the question was asked.
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

/// The tool has not seen what the person saved, so its result tells of what it proposed.
pub(super) fn tell(outcome: &mut Outcome, diffs: &[FileDiff]) {
    if diffs.is_empty() {
        return;
    }
    if outcome.llm.is_empty() && outcome.structured.is_some() {
        // A model reads the structured value only where there is nothing else to read.
        outcome.llm.push(Part::Text(outcome.model_text()));
    }
    outcome.llm.push(Part::Text(note(diffs)));
}

fn note(diffs: &[FileDiff]) -> String {
    let mut note = "The person who allowed this call has changed what it proposed, and what they saved is what was \
                    made. From the proposal to what was saved:"
        .to_owned();
    let mut left = DIFFS;
    for diff in diffs.iter().take(NAMED) {
        note.push_str("\n\n");
        note.push_str(&text::inline(&diff.file_name, 300));
        note.push('\n');
        if left == 0 {
            note.push_str("(no room to show it)");
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

/// Escaping makes it longer, and it says so when it was cut.
fn shown(body: &str, max: usize) -> String {
    let shown = text::block(body, max);
    match shown.char_indices().nth(max) {
        Some((at, _)) => format!("{}\n(cut)", &shown[..at]),
        None => shown,
    }
}
