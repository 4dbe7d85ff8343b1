//! `apply_patch`: applies a patch to any number of files, completely or not at all.

use std::fmt::Write as _;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::count;

mod apply;
#[cfg(test)]
mod fuzz;
mod names;
mod parse;
mod plan;
mod section;
mod unified_diff;

use crate::edit::commit::commit;
use crate::edit::diff::DiffStat;
use crate::edit::multi_file_report::{FileChange, report};
use crate::pasted_output;
use crate::read_state;
use plan::{Plan, PlannedChange};
use section::FileMode;

/// Result of a patch.
#[data]
pub struct Patched {
    /// Files in the order of the patch.
    files: Vec<PatchedFile>,
    /// Nothing was written.
    dry_run: bool,
    /// Possible mistakes in the patch, which was written unchanged.
    warnings: Option<Vec<String>>,
}

/// Result for one file.
#[data]
pub struct PatchedFile {
    /// Absolute path; for a moved file the new one.
    path: String,
    /// Kind of change.
    change: Change,
    /// Former path of a moved file.
    moved_from: Option<String>,
    /// Lines added and removed.
    diff_stat: DiffStat,
    /// New SHA-256 in hexadecimal; absent for a deleted file.
    sha256: Option<String>,
    /// Executable bit, if the patch sets or clears it.
    executable: Option<bool>,
}

/// Kind of change.
#[data]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Added,
    Updated,
    Deleted,
    /// Renamed, possibly with changed content.
    Moved,
}

/// Apply a patch completely or not at all: a unified diff, or text in this format, with three context lines around each
/// change and paths relative to the workspace:
///
/// ```text
/// *** Begin Patch
/// *** Add File: docs/new.md
/// +each line of the new file
/// *** Update File: src/main.rs
/// *** Move to: src/app.rs
/// @@ fn main() {
///  context line
/// -removed line
/// +added line
/// *** Delete File: old.txt
/// *** End Patch
/// ```
///
/// `@@ LINE` (a line above the change) and `*** Move to:` are optional. Symbolic links, submodules and binary files are
/// not supported.
#[tool(
    writes,
    plain_text,
    category = "file",
    kind = "edit",
    requires = ["fs.read", "fs.write", "session"],
    icon = "pencil",
    tags = ["file", "text"],
    output = Patched,
    example(description = "Change a line and add a file", input = r#"{"patch": "*** Begin Patch\n*** Update File: src/main.rs\n@@ fn main() {\n-    wait(1);\n+    wait(2);\n*** Add File: docs/notes.md\n+# Notes\n*** End Patch\n"}"#),
    example(description = "A unified diff", input = r#"{"patch": "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1,2 +1,2 @@\n fn main() {\n-    wait(1);\n+    wait(2);\n"}"#),
)]
pub fn apply_patch(
    cx: &Context,
    /// The complete patch.
    #[arg(min_len = 1, max_len = 1_048_576, aliases = ["input", "diff"])]
    patch: String,
    /// Write nothing.
    #[arg(default = false, aliases = ["dryRun"])]
    dry_run: bool,
) -> Result<Outcome> {
    let sections = parse::parse(&patch)?;
    let plan = Plan::from_sections(cx, sections).map_err(|error| {
        error.recommend("nothing was changed; read the file again and resend the whole patch")
    })?;
    let (steps, hashes) = plan.steps()?;
    cx.check()?;
    if !dry_run {
        commit(&steps)?;
        for (file, sha256) in plan.files.iter().zip(&hashes) {
            let target = match &file.kind {
                PlannedChange::Move { to, .. } => to,
                PlannedChange::Add(_)
                | PlannedChange::Update(_)
                | PlannedChange::Keep { .. }
                | PlannedChange::Delete { .. } => &file.target,
            };
            if let Some(sha256) = sha256 {
                read_state::record_seen(cx, target, sha256, None);
            }
        }
    }
    let outcome = tell(&plan, &hashes, dry_run);
    Ok(match plan.executable() {
        Some(meta) if !dry_run => outcome.meta(meta),
        Some(_) | None => outcome,
    })
}

fn tell(plan: &Plan, hashes: &[Option<String>], dry_run: bool) -> Outcome {
    let pieces: Vec<FileChange> = plan.files.iter().map(plan::PlannedFile::piece).collect();
    let report = report(&pieces);
    let added: usize = report.stats.iter().map(|stat| stat.added).sum();
    let removed: usize = report.stats.iter().map(|stat| stat.removed).sum();
    let files = count(plan.files.len(), "file");
    let summary = if dry_run {
        format!("Would patch {files}, +{added} -{removed} lines; nothing was written")
    } else {
        format!("Patched {files}, +{added} -{removed} lines")
    };
    let mut text = summary.clone();
    pasted_output::append_warnings(&mut text, &plan.warnings);
    let mut patched = Vec::new();
    for ((file, &diff_stat), sha256) in plan.files.iter().zip(&report.stats).zip(hashes) {
        let (sign, change, name) = match &file.kind {
            PlannedChange::Add(_) => ('A', Change::Added, file.target.shown.clone()),
            PlannedChange::Update(_) | PlannedChange::Keep { .. } => {
                ('M', Change::Updated, file.target.shown.clone())
            }
            PlannedChange::Delete { .. } => ('D', Change::Deleted, file.target.shown.clone()),
            PlannedChange::Move { to, .. } => {
                let name = format!("{} → {}", file.target.shown, to.shown);
                ('R', Change::Moved, name)
            }
        };
        let note = if file.has_changed {
            " (it changed since it was read; the patch still applied)"
        } else {
            ""
        };
        let executable = file.mode.map(|mode| mode == FileMode::Executable);
        let mode = match executable {
            Some(true) => ", executable",
            Some(false) => ", not executable",
            None => "",
        };
        let DiffStat { added, removed } = diff_stat;
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{sign} {name} +{added} -{removed}{mode}{note}");
        let path = file.target.path.display().to_string();
        let (path, moved_from) = match &file.kind {
            PlannedChange::Move { to, .. } => (to.path.display().to_string(), Some(path)),
            PlannedChange::Add(_)
            | PlannedChange::Update(_)
            | PlannedChange::Keep { .. }
            | PlannedChange::Delete { .. } => (path, None),
        };
        patched.push(PatchedFile {
            path,
            change,
            moved_from,
            diff_stat,
            sha256: sha256.clone(),
            executable,
        });
    }
    let _ = write!(text, "\n{}", report.snippets);
    let outcome = Outcome::text(text.trim_end())
        .summary(summary)
        .structured(&Patched {
            files: patched,
            dry_run,
            warnings: pasted_output::output_member(&plan.warnings),
        });
    match report.display {
        Some(display) => outcome.display(display),
        None => outcome,
    }
}

#[cfg(all(test, unix))]
mod git;
#[cfg(test)]
mod tests;
