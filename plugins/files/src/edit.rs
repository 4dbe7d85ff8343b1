//! `edit_file`: replaces text in a file.

use std::fmt::Write as _;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::count;

use crate::pasted_output;
use crate::read_state;
use crate::text::Encoding;

pub mod commit;
pub mod diff;
pub mod draft;
pub mod edit_input;
#[cfg(test)]
mod error_tests;
pub mod errors;
pub mod find;
mod freshness;
#[cfg(test)]
mod fuzz;
mod fuzzy_match;
pub mod indentation;
pub mod line_breaks;
pub mod lines;
pub mod multi_file_report;
pub mod normalized_text;
mod pasted_prefixes;
pub mod similar_region;
pub mod snippet;
#[cfg(test)]
mod tests;
mod token_match;

use commit::commit;
use diff::{DiffStat, Difference};
use draft::{AppliedEdit, Draft, Edit};
use edit_input::{EditInput, Replacement};

/// Result of an edit.
#[data]
pub struct Edited {
    /// Absolute path.
    path: String,
    /// Number of replacements.
    replacements: usize,
    /// How the text matched: `exact`, `create` for a new file, or loosely by `line_endings`, `characters`,
    /// `indentation`, `line_numbers`, `escapes`, `whitespace` or `fuzzy`; the loosest if there are several edits.
    strategy: String,
    /// The file is new.
    created: bool,
    /// Nothing was written.
    dry_run: bool,
    /// Lines added and removed.
    diff_stat: DiffStat,
    /// First and last line of each change in the new file; at most 1000 changes.
    ranges: Vec<Vec<usize>>,
    /// Encoding: `utf-8`, `utf-16le` …
    encoding: String,
    /// `lf`, `crlf`, `mixed` or `none`.
    line_ending: String,
    /// New size in bytes.
    size: usize,
    /// New SHA-256 in hexadecimal.
    sha256: String,
    /// Possible mistakes in the new text, which was written unchanged.
    warnings: Option<Vec<String>>,
}

/// Limit of reported ranges.
const MOST_RANGES: usize = 1000;

/// Replace text in a file or create a file. For notebooks use notebook_edit. For several files use multi_edit or
/// apply_patch.
#[tool(
    writes,
    plain_text,
    category = "file",
    kind = "edit",
    requires = ["fs.read", "fs.write", "session"],
    icon = "pencil",
    aliases = ["replace", "fs_edit"],
    tags = ["file", "text"],
    output = Edited,
    example(description = "Change one place", input = r#"{"path": "src/main.rs", "old_string": "let retries = 3;", "new_string": "let retries = 5;"}"#),
    example(description = "Rename everywhere in a file", input = r#"{"path": "src/main.rs", "old_string": "old_name", "new_string": "new_name", "replace_all": true}"#),
    example(description = "Several places at once", input = r#"{"path": "src/main.rs", "edits": [{"old_string": "let retries = 3;", "new_string": "let retries = 5;"}, {"old_string": "wait(1)", "new_string": "wait(2)"}]}"#),
    example(description = "Create a file", input = r##"{"path": "docs/notes.md", "old_string": "", "new_string": "# Notes\n"}"##),
)]
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of a tool are its schema"
)]
pub fn edit_file(
    cx: &Context,
    /// Workspace-relative or absolute.
    #[arg(aliases = ["file_path", "filePath", "absolute_path", "target_file"])]
    path: String,
    /// Exact text to replace, without line numbers; must be unique unless `replace_all`. Empty to create the file.
    #[arg(aliases = ["oldText", "old_text", "old", "find", "search"])]
    old_string: Option<String>,
    /// Replacement.
    #[arg(aliases = ["newText", "new_text", "new", "replace"])]
    new_string: Option<String>,
    /// Replace every match.
    #[arg(default = false, aliases = ["allow_multiple", "replaceAll"])]
    replace_all: bool,
    /// Required number of matches.
    #[arg(min = 1)]
    expected_replacements: Option<u32>,
    /// Several replacements in order, all or none, instead of `old_string` and `new_string`.
    #[arg(default = Vec::<Replacement>::new(), max_len = 500)]
    edits: Vec<Replacement>,
    /// Purpose, shown to the user.
    #[arg(max_len = 10_000)]
    instruction: Option<String>,
    /// Write nothing.
    #[arg(default = false, aliases = ["dryRun"])]
    dry_run: bool,
    /// Required SHA-256 of the file.
    #[arg(min_len = 64, max_len = 64)]
    expected_sha256: Option<String>,
    /// Encoding, if it cannot be detected.
    #[arg(default = "auto")]
    encoding: Encoding,
) -> Result<Outcome> {
    if let Some(instruction) = &instruction {
        cx.debug(instruction);
    }
    let form = EditInput {
        old: old_string,
        new: new_string,
        all: replace_all,
        expected: expected_replacements.map(|count| count as usize),
    };
    let edits = form.edits(edits)?;
    if encoding == Encoding::Base64 {
        let message = "base64 is binary data, and only text can be edited; use write_file";
        return Err(errors::invalid_edit(message));
    }
    let mut draft = Draft::open(cx, &path, encoding)?;
    if let Some(expected) = expected_sha256 {
        draft.expect(&expected)?;
    }
    let applied = apply(cx, &mut draft, &edits).map_err(|error| draft.explain(cx, error))?;
    let has_changed = draft.check_fresh(cx)?;
    let warnings = draft.warnings(cx)?;
    let bytes = draft.new_bytes()?;
    let (size, sha256) = (bytes.len(), crate::read::sha256(&bytes));
    cx.check()?;
    if !dry_run {
        commit(&[draft.step(bytes)])?;
        read_state::record_seen(cx, &draft.target, &sha256, None);
    }

    let old = draft.original.as_deref();
    let difference = Difference::of(old.unwrap_or_default(), &draft.text);
    let ranges = difference.ranges();
    let edited = Edited {
        path: draft.target.path.display().to_string(),
        replacements: applied.iter().map(|one| one.replacements).sum(),
        strategy: least_exact(&applied),
        created: draft.is_new(),
        dry_run,
        diff_stat: difference.stat(),
        ranges: ranges
            .iter()
            .take(MOST_RANGES)
            .map(|&(first, last)| vec![first, last])
            .collect(),
        encoding: draft.encoding().to_owned(),
        line_ending: draft.line_ending().to_owned(),
        size,
        sha256,
        warnings: pasted_output::output_member(&warnings),
    };
    let summary = headline(&draft, &edited);
    let mut text = summary.clone();
    pasted_output::append_warnings(&mut text, &warnings);
    if has_changed {
        text.push_str("\n(the file changed since it was read; the edit still applied, but read the file again before the next one)");
    }
    notes(&mut text, &applied);
    let _ = write!(text, "\n{}", snippet::changed(&draft.text, &ranges));
    let outcome = Outcome::text(text.trim_end())
        .summary(summary)
        .structured(&edited);
    Ok(
        match diff::display(&draft.target.shown, old, &draft.text, &difference) {
            Some(diff) => outcome.display(Display::diff(diff)),
            None => outcome,
        },
    )
}

/// Applies all edits to the draft; resets the draft if one fails.
fn apply(cx: &Context, draft: &mut Draft, edits: &[Edit]) -> Result<Vec<AppliedEdit>> {
    let mut applied = Vec::with_capacity(edits.len());
    for (index, edit) in edits.iter().enumerate() {
        cx.check()?;
        applied.push(draft.apply(edit).map_err(|mut error| {
            if edits.len() > 1 {
                let (number, all) = (index + 1, edits.len());
                error.message = format!(
                    "edit {number} of {all} failed, and none was applied: {}",
                    error.message
                );
            }
            error
        })?);
    }
    if !draft.is_changed() {
        let shown = &draft.target.shown;
        let message = format!("the edits cancel each other out, so {shown} would not change");
        return Err(errors::no_change(message));
    }
    Ok(applied)
}

/// The least exact matching strategy.
fn least_exact(applied: &[AppliedEdit]) -> String {
    const ORDER: [&str; 9] = [
        "exact",
        "create",
        "line_endings",
        "characters",
        "indentation",
        "line_numbers",
        "escapes",
        "whitespace",
        "fuzzy",
    ];
    let rank = |one: &&AppliedEdit| {
        let last = one.strategy.rsplit('+').next().unwrap_or_default();
        ORDER.iter().position(|known| *known == last)
    };
    applied
        .iter()
        .max_by_key(rank)
        .map_or(String::new(), |one| one.strategy.clone())
}

fn headline(draft: &Draft, edited: &Edited) -> String {
    let shown = &draft.target.shown;
    let DiffStat { added, removed } = edited.diff_stat;
    let replacements = count(edited.replacements, "replacement");
    match (edited.dry_run, edited.created) {
        (false, true) => format!("Created {shown} ({})", count(added, "line")),
        (true, true) => format!(
            "Would create {shown} ({}); nothing was written",
            count(added, "line")
        ),
        (false, false) => format!("Edited {shown}: {replacements}, +{added} -{removed} lines"),
        (true, false) => format!(
            "Would edit {shown}: {replacements}, +{added} -{removed} lines; nothing was written"
        ),
    }
}

/// Reports where the file differed from `old_string`.
pub fn notes(text: &mut String, applied: &[AppliedEdit]) {
    const MOST: usize = 5;
    let mut inexact = applied
        .iter()
        .filter_map(|one| Some((&one.strategy, one.before.as_deref()?)))
        .take(MOST)
        .peekable();
    if inexact.peek().is_none() {
        return;
    }
    for (strategy, before) in inexact {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n(old_string does not occur exactly; matched by `{strategy}` against:)\n{}",
            before.trim_end()
        );
    }
    text.push_str("\n(new text:)");
}
