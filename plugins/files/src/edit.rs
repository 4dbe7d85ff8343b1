//! `edit_file`: replaces a piece of a file's text, and touches nothing else.

use std::fmt::Write as _;

use toolhost_sdk::prelude::*;

use crate::artefacts;
use crate::seen;
use crate::text::{Encoding, count};

pub mod breaks;
pub mod commit;
pub mod diff;
pub mod draft;
pub mod failure;
pub mod find;
pub mod form;
mod fresh;
#[cfg(test)]
mod fuzz;
mod fuzzy;
pub mod indent;
pub mod lines;
mod loose;
mod pasted;
#[cfg(test)]
mod refusals;
pub mod region;
pub mod several;
pub mod snippet;
#[cfg(test)]
mod tests;
pub mod view;

use commit::commit;
use diff::Difference;
use draft::{Applied, Draft, Edit};
use form::{Form, Replacement};

/// What was edited.
#[data]
pub struct Edited {
    /// Absolute path.
    path: String,
    /// How many places were replaced.
    replacements: usize,
    /// How the text was found: `exact`, `create` for a new file, or the reading that was needed: `line_endings`,
    /// `characters`, `indentation`, `line_numbers`, `escapes`, `whitespace`, `fuzzy`. Several edits have the least
    /// exact one.
    strategy: String,
    /// The file is new.
    created: bool,
    /// Nothing was written.
    dry_run: bool,
    /// Lines added and removed.
    diff_stat: DiffStat,
    /// First and last lines of what changed, as they are now; at most 1000.
    ranges: Vec<Vec<usize>>,
    /// How the file is stored: `utf-8`, `utf-16le` …
    encoding: String,
    /// `lf`, `crlf`, `mixed` or `none`.
    line_ending: String,
    /// Size of the file in bytes, as it is now.
    size: usize,
    /// SHA-256 of the file, in hexadecimal, as it is now.
    sha256: String,
    /// What in the new text may be a mistake; it was written as it is.
    warnings: Option<Vec<String>>,
}

/// Where more changed, nobody goes through all of it.
const MOST_RANGES: usize = 1000;

/// Lines added and removed.
#[data]
pub struct DiffStat {
    /// Lines that are new.
    pub added: usize,
    /// Lines that are gone.
    pub removed: usize,
}

/// Replace text in a file, or create a file.
///
/// Give the text to replace as it is in the file, without line numbers, and enough of it to be there only once; or
/// set `replace_all`. An empty `old_string` creates a file. Several replacements in one file go into `edits`: each
/// sees what the ones before it did, and either all are made or none. Encoding and line endings stay. For a notebook
/// use notebook_edit; for several files multi_edit or apply_patch.
#[tool(
    writes,
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
    example(description = "A new file", input = r##"{"path": "docs/notes.md", "old_string": "", "new_string": "# Notes\n"}"##),
)]
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of a tool are its schema"
)]
pub fn edit_file(
    cx: &Context,
    /// Path of the file, relative to the workspace or absolute, for example `src/main.rs`.
    #[arg(aliases = ["file_path", "filePath", "absolute_path", "target_file"])]
    path: String,
    /// Text to replace, exactly as in the file; empty to create a file.
    #[arg(aliases = ["oldText", "old_text", "old", "find", "search"])]
    old_string: Option<String>,
    /// Text to put in its place; empty to delete it.
    #[arg(aliases = ["newText", "new_text", "new", "replace"])]
    new_string: Option<String>,
    /// Replace every match instead of the only one.
    #[arg(default = false, aliases = ["allow_multiple", "replaceAll"])]
    replace_all: bool,
    /// Replace exactly so many matches, or none.
    #[arg(min = 1)]
    expected_replacements: Option<u32>,
    /// Several replacements, in place of `old_string` and `new_string`. At most 500.
    #[arg(default = Vec::<Replacement>::new(), max_len = 500)]
    edits: Vec<Replacement>,
    /// What the edit is for, in a few words, for people.
    #[arg(max_len = 10_000)]
    instruction: Option<String>,
    /// Show what would change and write nothing.
    #[arg(default = false, aliases = ["dryRun"])]
    dry_run: bool,
    /// Edit only if this is the SHA-256 of the file as it is.
    #[arg(min_len = 64, max_len = 64)]
    expected_sha256: Option<String>,
    /// How the file is stored, where that cannot be told from its bytes.
    #[arg(default = "auto")]
    encoding: Encoding,
) -> Result<Outcome> {
    if let Some(instruction) = &instruction {
        cx.debug(instruction);
    }
    let form = Form {
        old: old_string,
        new: new_string,
        all: replace_all,
        expected: expected_replacements.map(|count| count as usize),
    };
    let edits = form.edits(edits)?;
    if encoding == Encoding::Base64 {
        let message = "base64 stands for bytes, and only text is edited; use write_file";
        return Err(failure::unprepared(message));
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
        seen::note(cx, &draft.target, &sha256, None);
    }

    let old = draft.original.as_deref();
    let difference = Difference::of(old.unwrap_or_default(), &draft.text);
    let (added, removed) = difference.stat();
    let ranges = difference.ranges();
    let edited = Edited {
        path: draft.target.path.display().to_string(),
        replacements: applied.iter().map(|one| one.replacements).sum(),
        strategy: least_exact(&applied),
        created: draft.is_new(),
        dry_run,
        diff_stat: DiffStat { added, removed },
        ranges: ranges
            .iter()
            .take(MOST_RANGES)
            .map(|&(first, last)| vec![first, last])
            .collect(),
        encoding: draft.encoding().to_owned(),
        line_ending: draft.line_ending().to_owned(),
        size,
        sha256,
        warnings: artefacts::told(&warnings),
    };
    let told = headline(&draft, &edited);
    let mut text = told.clone();
    artefacts::warn(&mut text, &warnings);
    if has_changed {
        text.push_str("\n(the file has changed since it was read; the edit fits all the same, but read it again before the next)");
    }
    notes(&mut text, &applied);
    let _ = write!(text, "\n{}", snippet::changed(&draft.text, &ranges));
    let outcome = Outcome::text(text.trim_end())
        .summary(told)
        .structured(&edited);
    Ok(
        match diff::display(&draft.target.shown, old, &draft.text, &difference) {
            Some(diff) => outcome.display(Display::diff(diff)),
            None => outcome,
        },
    )
}

/// Makes all edits or, in the draft as well, none that matters: a failed call forgets the draft.
fn apply(cx: &Context, draft: &mut Draft, edits: &[Edit]) -> Result<Vec<Applied>> {
    let mut applied = Vec::with_capacity(edits.len());
    for (index, edit) in edits.iter().enumerate() {
        cx.check()?;
        applied.push(draft.apply(edit).map_err(|mut error| {
            if edits.len() > 1 {
                let (number, all) = (index + 1, edits.len());
                error.message = format!(
                    "edit {number} of {all} failed, and none was made: {}",
                    error.message
                );
            }
            error
        })?);
    }
    if !draft.is_changed() {
        let shown = &draft.target.shown;
        let message = format!("the edits undo one another, so {shown} would not change");
        return Err(failure::no_change(message));
    }
    Ok(applied)
}

/// The strategy that is worth a look.
fn least_exact(applied: &[Applied]) -> String {
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
    let rank = |one: &&Applied| {
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

/// Says where the file was not what the model wrote.
pub fn notes(text: &mut String, applied: &[Applied]) {
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
            "\n(old_string is not exactly in the file; found by `{strategy}`, in place of this:)\n{}",
            before.trim_end()
        );
    }
    text.push_str("\n(what is there now:)");
}
