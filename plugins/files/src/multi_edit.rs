//! `multi_edit`: several replacements in one or more files, all or none.

use std::fmt::Write as _;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::count;

use crate::edit::commit::{FileStep, commit};
use crate::edit::diff::DiffStat;
use crate::edit::draft::{AppliedEdit, Draft, Edit, writable};
use crate::edit::multi_file_report::{FileChange, report};
use crate::edit::{errors, notes};
use crate::pasted_output;
use crate::read::sha256;
use crate::read_state;
use crate::text::Encoding;

/// One replacement in a file.
#[data]
pub struct FileEdit {
    /// Default: `path` of the call.
    #[arg(aliases = ["file_path", "filePath", "absolute_path", "target_file"])]
    path: Option<String>,
    /// Exact text to replace, without line numbers; must be unique unless `replace_all`. Empty to create the file.
    #[arg(aliases = ["oldText", "old_text", "old", "find", "search"])]
    old_string: String,
    /// Replacement.
    #[arg(aliases = ["newText", "new_text", "new", "replace"])]
    new_string: String,
    /// Replace every match.
    #[arg(default = false, aliases = ["allow_multiple", "replaceAll"])]
    replace_all: bool,
}

/// Result of the edits.
#[data]
pub struct MultiEdited {
    /// One result per edit, in order.
    edits: Vec<EditResult>,
    /// Changed files.
    files: Vec<EditedFile>,
    /// Nothing was written.
    dry_run: bool,
    /// Possible mistakes in the new text, which was written unchanged.
    warnings: Option<Vec<String>>,
}

/// Result of one edit.
#[data]
pub struct EditResult {
    /// Path as in the call.
    path: String,
    /// Whether it was applied.
    status: Status,
    /// Number of replacements.
    replacements: usize,
    /// How the text matched: `exact` or a looser match.
    strategy: Option<String>,
    /// Why it was not applied.
    error: Option<String>,
}

/// Whether an edit was applied.
#[data]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Ok,
    /// Not applied because another edit failed.
    Skipped,
    Error,
}

/// One changed file.
#[data]
pub struct EditedFile {
    /// Absolute path.
    path: String,
    /// The file is new.
    created: bool,
    /// Lines added and removed.
    diff_stat: DiffStat,
    /// New SHA-256 in hexadecimal.
    sha256: String,
}

/// Replace several texts in one or more files; each edit sees the previous ones.
#[tool(
    writes,
    plain_text,
    category = "file",
    kind = "edit",
    requires = ["fs.read", "fs.write", "session"],
    icon = "pencil",
    aliases = ["fs_multi_edit"],
    tags = ["file", "text"],
    output = MultiEdited,
    example(description = "Two places in a file", input = r#"{"path": "src/main.rs", "edits": [{"old_string": "let retries = 3;", "new_string": "let retries = 5;"}, {"old_string": "wait(1)", "new_string": "wait(2)"}]}"#),
    example(description = "A name in two files", input = r#"{"edits": [{"path": "src/main.rs", "old_string": "old_name", "new_string": "new_name", "replace_all": true}, {"path": "src/lib.rs", "old_string": "old_name", "new_string": "new_name"}]}"#),
)]
pub fn multi_edit(
    cx: &Context,
    /// For edits without their own path.
    #[arg(aliases = ["file_path", "filePath", "absolute_path", "target_file"])]
    path: Option<String>,
    /// Applied in order.
    #[arg(min_len = 1, max_len = 500)]
    edits: Vec<FileEdit>,
    /// All or none; with `false`, apply what succeeds and report the rest.
    #[arg(default = true)]
    atomic: bool,
    /// Write nothing.
    #[arg(default = false, aliases = ["dryRun"])]
    dry_run: bool,
) -> Result<Outcome> {
    let mut batch = Batch::default();
    for edit in edits {
        cx.check()?;
        batch.make(cx, path.as_deref(), edit);
    }
    batch.check_fresh(cx);
    let failed = batch.tries.iter().filter(|one| one.result.is_err()).count();
    let is_refused = failed == batch.tries.len() || (atomic && failed > 0);
    if is_refused {
        return Ok(batch.refuse(dry_run));
    }
    batch.drafts.retain(Draft::is_changed);
    if batch.drafts.is_empty() {
        let message = "the edits cancel each other out, so no file would change";
        return Err(errors::no_change(message));
    }
    let bytes: Vec<Vec<u8>> = batch
        .drafts
        .iter()
        .map(Draft::new_bytes)
        .collect::<Result<_>>()?;
    let hashes: Vec<String> = bytes.iter().map(|bytes| sha256(bytes)).collect();
    cx.check()?;
    if !dry_run {
        let steps = batch.drafts.iter().zip(bytes);
        let steps: Vec<FileStep> = steps.map(|(draft, bytes)| draft.step(bytes)).collect();
        commit(&steps)?;
        for (draft, sha256) in batch.drafts.iter().zip(&hashes) {
            read_state::record_seen(cx, &draft.target, sha256, None);
        }
    }
    Ok(batch.outcome(&hashes, dry_run))
}

/// All edits of a call and their files.
#[derive(Default)]
struct Batch {
    drafts: Vec<Draft>,
    tries: Vec<EditAttempt>,
    warnings: Vec<String>,
}

struct EditAttempt {
    /// As in the call.
    path: String,
    /// Index of the draft.
    draft: Option<usize>,
    result: Result<AppliedEdit>,
    has_changed: bool,
}

impl Batch {
    /// Applies an edit to its draft regardless of earlier failures, so that the model sees all errors at once.
    fn make(&mut self, cx: &Context, common: Option<&str>, edit: FileEdit) {
        let FileEdit {
            path,
            old_string,
            new_string,
            replace_all,
        } = edit;
        let mut one = EditAttempt {
            path: path.as_deref().or(common).unwrap_or_default().to_owned(),
            draft: None,
            result: Err(errors::invalid_edit(
                "no file; set `path` of the edit or of the call",
            )),
            has_changed: false,
        };
        if path.is_some() || common.is_some() {
            let edit = Edit {
                old: old_string,
                new: new_string,
                all: replace_all,
                expected: None,
            };
            one.result = self.draft(cx, &one.path).and_then(|index| {
                one.draft = Some(index);
                let draft = &mut self.drafts[index];
                draft.apply(&edit).map_err(|error| draft.explain(cx, error))
            });
        }
        self.tries.push(one);
    }

    fn draft(&mut self, cx: &Context, path: &str) -> Result<usize> {
        let target = writable(cx, path)?;
        let known = self
            .drafts
            .iter()
            .position(|draft| draft.target.path == target.path);
        if let Some(index) = known {
            return Ok(index);
        }
        self.drafts
            .push(Draft::from_target(target, Encoding::Auto)?);
        Ok(self.drafts.len() - 1)
    }

    fn check_fresh(&mut self, cx: &Context) {
        for (index, draft) in self.drafts.iter_mut().enumerate() {
            let fresh = draft.check_fresh(cx).and_then(|has_changed| {
                let shown = &draft.target.shown;
                let warnings = draft.warnings(cx)?.into_iter();
                self.warnings
                    .extend(warnings.map(|warning| format!("{shown}: {warning}")));
                Ok(has_changed)
            });
            let tries = self.tries.iter_mut();
            for one in tries.filter(|one| one.draft == Some(index) && one.result.is_ok()) {
                match &fresh {
                    Ok(has_changed) => one.has_changed = *has_changed,
                    Err(error) => one.result = Err(error.clone()),
                }
            }
            // Without `atomic`, the other files are written.
            if fresh.is_err() {
                draft.reset();
            }
        }
    }

    /// The result when nothing is written.
    fn refuse(self, dry_run: bool) -> Outcome {
        let failed = self.tries.iter().filter(|one| one.result.is_err()).count();
        let edits = count(self.tries.len(), "edit");
        let summary = format!("{failed} of {edits} failed, so nothing was written");
        let mut text = summary.clone();
        self.list(&mut text, Status::Skipped);
        let first = self.tries.iter().find_map(|one| one.result.as_ref().err());
        let mut error = first.cloned().unwrap_or_else(|| errors::invalid_edit(""));
        error.message.clone_from(&summary);
        let edited = MultiEdited {
            edits: self.results(Status::Skipped),
            files: Vec::new(),
            dry_run,
            warnings: None,
        };
        Outcome::text(text)
            .summary(summary)
            .structured(&edited)
            .logical_error(error)
    }

    fn outcome(&self, hashes: &[String], dry_run: bool) -> Outcome {
        let pieces: Vec<FileChange> = self
            .drafts
            .iter()
            .map(|draft| FileChange {
                shown: &draft.target.shown,
                old: draft.original.as_deref(),
                new: Some(&draft.text),
            })
            .collect();
        let report = report(&pieces);
        let made = self.tries.iter().filter(|one| one.result.is_ok()).count();
        let (verb, end) = if dry_run {
            ("Would make", "; nothing was written")
        } else {
            ("Made", "")
        };
        let edits = count(self.tries.len(), "edit");
        let of = if made == self.tries.len() {
            edits
        } else {
            format!("{made} of {edits}")
        };
        let summary = format!("{verb} {of} in {}{end}", count(self.drafts.len(), "file"));
        let mut text = summary.clone();
        self.list(&mut text, Status::Ok);
        pasted_output::append_warnings(&mut text, &self.warnings);
        let applied: Vec<AppliedEdit> = self
            .tries
            .iter()
            .filter_map(|one| one.result.clone().ok())
            .collect();
        notes(&mut text, &applied);
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{}", report.snippets.trim_end());
        let files = self.drafts.iter().zip(&report.stats).zip(hashes);
        let edited = MultiEdited {
            edits: self.results(Status::Ok),
            files: files
                .map(|((draft, &diff_stat), sha256)| EditedFile {
                    path: draft.target.path.display().to_string(),
                    created: draft.is_new(),
                    diff_stat,
                    sha256: sha256.clone(),
                })
                .collect(),
            dry_run,
            warnings: pasted_output::output_member(&self.warnings),
        };
        let outcome = Outcome::text(text).summary(summary).structured(&edited);
        match report.display {
            Some(display) => outcome.display(display),
            None => outcome,
        }
    }

    /// One line per edit.
    fn list(&self, text: &mut String, good: Status) {
        for (index, (one, error)) in self.tries.iter().zip(self.errors()).enumerate() {
            let result = match &one.result {
                Ok(applied) => {
                    let replacements = count(applied.replacements, "replacement");
                    let note = match (good, one.has_changed) {
                        (Status::Skipped, _) => " (valid, not applied)",
                        (_, true) => {
                            " (the file changed since it was read; the edit still applied)"
                        }
                        (_, false) => "",
                    };
                    format!("{replacements} at line {}{note}", applied.line)
                }
                Err(_) => format!("error: {}", error.unwrap_or_default()),
            };
            let _ = write!(text, "\n{}. {}: {result}", index + 1, one.path);
        }
    }

    /// The error texts of failed edits: complete for the first few, one line for the others.
    fn errors(&self) -> Vec<Option<String>> {
        const MOST_LONG: usize = 5;
        let mut failed = 0;
        let errors = self.tries.iter().map(|one| {
            let message = &one.result.as_ref().err()?.message;
            failed += 1;
            Some(if failed > MOST_LONG {
                message.lines().next().unwrap_or_default().to_owned()
            } else {
                message.clone()
            })
        });
        errors.collect()
    }

    fn results(&self, good: Status) -> Vec<EditResult> {
        let tries = self.tries.iter().zip(self.errors());
        let results = tries.map(|(one, error)| match &one.result {
            Ok(applied) => EditResult {
                path: one.path.clone(),
                status: good,
                replacements: if good == Status::Ok {
                    applied.replacements
                } else {
                    0
                },
                strategy: Some(applied.strategy.clone()),
                error: None,
            },
            Err(_) => EditResult {
                path: one.path.clone(),
                status: Status::Error,
                replacements: 0,
                strategy: None,
                error,
            },
        });
        results.collect()
    }
}

#[cfg(test)]
mod tests;
