//! The complete effect of a patch, computed before any file changes.

use std::collections::HashSet;
use std::fs;

use toolhost_sdk::prelude::*;
use toolhost_sdk::serde_json::Map;

use super::apply::{HunkError, apply};
use super::section::{Action, FileMode, Hunk, Section};
use crate::edit::commit::FileStep;
use crate::edit::draft::{Draft, writable};
use crate::edit::errors;
use crate::edit::find::Leniency;
use crate::edit::multi_file_report::FileChange;
use crate::file_writer::load;
use crate::media;
use crate::pasted_output;
use crate::path::Target;
use crate::read::sha256;
use crate::text::{self, Encoding};

#[derive(Debug, Default)]
pub struct Plan {
    pub files: Vec<PlannedFile>,
    /// Possible mistakes in the patch.
    pub warnings: Vec<String>,
}

#[derive(Debug)]
pub struct PlannedFile {
    pub target: Target,
    pub kind: PlannedChange,
    /// The new mode of the file.
    pub mode: Option<FileMode>,
    /// The file changed since the model read it.
    pub has_changed: bool,
    /// Temporary name of a moved file whose place is taken by another file of the patch.
    via: Option<Target>,
}

#[derive(Debug)]
pub enum PlannedChange {
    /// A new file with this content.
    Add(String),
    Update(Draft),
    /// Only the mode changes. The file is rewritten unchanged, because the host sets modes only on files written by the
    /// call.
    Keep {
        bytes: Vec<u8>,
    },
    Delete {
        bytes: Vec<u8>,
        /// The text for display, if it is text.
        text: Option<String>,
    },
    Move {
        to: Target,
        /// The new content, if it changes as well.
        draft: Option<Draft>,
        /// The current content.
        bytes: Vec<u8>,
    },
}

impl Plan {
    pub fn from_sections(cx: &Context, sections: Vec<Section>) -> Result<Self> {
        let mut plan = Self::default();
        for section in sections {
            cx.check()?;
            plan.add(cx, section)?;
        }
        plan.check_places()?;
        for file in &mut plan.files {
            if let PlannedChange::Update(draft)
            | PlannedChange::Move {
                draft: Some(draft), ..
            } = &file.kind
            {
                file.has_changed = draft.check_fresh(cx)?;
                let shown = &file.target.shown;
                let warnings = draft.warnings(cx)?.into_iter();
                plan.warnings
                    .extend(warnings.map(|warning| format!("{shown}: {warning}")));
            }
        }
        let is_idle = |file: &PlannedFile| {
            let is_same = matches!(&file.kind, PlannedChange::Update(draft) if !draft.is_changed());
            is_same && file.mode.is_none()
        };
        if plan.files.iter().all(is_idle) {
            return Err(errors::no_change(
                "the patch changes nothing: the files already have this content",
            ));
        }
        Ok(plan)
    }

    fn add(&mut self, cx: &Context, section: Section) -> Result<()> {
        let Section {
            path,
            action,
            mode,
            line,
        } = section;
        let target = writable(cx, &path)?;
        let mut files = self.files.iter_mut();
        let known = files.find(|file| file.collides(&target, &action));
        if let Some(file) = known {
            return match (&mut file.kind, action) {
                (PlannedChange::Update(draft), Action::Update { to: None, hunks }) => {
                    file.mode = mode.or(file.mode);
                    patch(draft, &hunks)
                }
                _ => Err(errors::invalid_edit(format!(
                    "line {line} of the patch changes {path} again; merge it with the earlier part"
                ))),
            };
        }
        let kind = match action {
            Action::Add { content } => {
                let suspects = pasted_output::check(&content, "", "", &target.path)?;
                let description = format!("the new file {}", target.shown);
                let warnings = pasted_output::reject_pasted(cx, &target, &suspects, &description)?;
                self.warnings.extend(warnings);
                PlannedChange::Add(content)
            }
            Action::Delete { hunks } => delete(&target, &hunks)?,
            Action::Update { to: None, hunks } if hunks.is_empty() => keep(&target)?,
            Action::Update { to: None, hunks } => {
                PlannedChange::Update(update(writable(cx, &path)?, &hunks)?)
            }
            Action::Update {
                to: Some(to),
                hunks,
            } => {
                let to = writable(cx, &to)?;
                let bytes = load(&target)?.ok_or_else(|| target.not_found())?;
                let draft = if hunks.is_empty() {
                    None
                } else {
                    Some(update(writable(cx, &path)?, &hunks)?)
                };
                PlannedChange::Move { to, draft, bytes }
            }
        };
        self.files.push(PlannedFile {
            target,
            kind,
            mode,
            has_changed: false,
            via: None,
        });
        Ok(())
    }

    /// Refuses destinations that are occupied, and finds the files that have to move first.
    fn check_places(&mut self) -> Result<()> {
        let goals: Vec<&Target> = self.files.iter().filter_map(PlannedFile::goal).collect();
        let mut taken = HashSet::new();
        for goal in &goals {
            let goes = self
                .files
                .iter()
                .any(|file| file.leaves() && file.target.path == goal.path);
            let is_there = fs::symlink_metadata(&goal.path).is_ok();
            if is_there && !goes || !taken.insert(goal.path.as_path()) {
                return Err(Error::invalid_input(format!(
                    "{} exists already; change it with `*** Update File:`, or delete it first with a separate patch",
                    goal.shown
                ))
                .code("attempt_to_create_existing_file"));
            }
        }
        let in_between: Vec<Option<Target>> = self
            .files
            .iter()
            .enumerate()
            .map(|(index, file)| {
                let is_move = matches!(file.kind, PlannedChange::Move { .. });
                let is_in_the_way = goals
                    .iter()
                    .any(|goal| goal.path.starts_with(&file.target.path));
                (is_move && is_in_the_way).then(|| file.target.unused_sibling(index))
            })
            .collect();
        for (file, via) in self.files.iter_mut().zip(in_between) {
            file.via = via;
        }
        Ok(())
    }

    /// Whether the file must be removed before new ones are created.
    fn makes_room(&self, target: &Target) -> bool {
        let mut goals = self.files.iter().filter_map(PlannedFile::goal);
        goals.any(|goal| goal.path.starts_with(&target.path))
    }

    /// The steps to execute, and the hash of each file afterwards.
    pub fn steps(&self) -> Result<(Vec<FileStep<'_>>, Vec<Option<String>>)> {
        let mut steps = Steps::default();
        let mut hashes = Vec::new();
        for file in &self.files {
            let PlannedFile {
                target, kind, via, ..
            } = file;
            let new = match kind {
                PlannedChange::Add(content) => Some(content.clone().into_bytes()),
                PlannedChange::Update(draft)
                | PlannedChange::Move {
                    draft: Some(draft), ..
                } => Some(draft.new_bytes()?),
                PlannedChange::Keep { bytes } | PlannedChange::Move { bytes, .. } => {
                    Some(bytes.clone())
                }
                PlannedChange::Delete { .. } => None,
            };
            hashes.push(new.as_deref().map(sha256));
            if let PlannedChange::Move { to, .. } = kind {
                steps.rename(target, via.as_ref(), to);
            }
            let (new, old, goal) = match (kind, new) {
                (PlannedChange::Delete { bytes, .. }, _) => {
                    let step = FileStep::Remove { target, old: bytes };
                    // Deletions are hard to undo, so they come last.
                    if self.makes_room(target) {
                        steps.before.push(step);
                    } else {
                        steps.after.push(step);
                    }
                    continue;
                }
                (_, None) => continue,
                (PlannedChange::Add(_), Some(new)) => (new, None, target),
                (PlannedChange::Update(draft), Some(new)) => (new, draft.old_bytes(), target),
                (PlannedChange::Keep { bytes }, Some(new)) => (new, Some(bytes.as_slice()), target),
                (PlannedChange::Move { to, bytes, .. }, Some(new)) => {
                    (new, Some(bytes.as_slice()), to)
                }
            };
            // A file with only a new mode is rewritten too: the host sets modes only on files written by the call.
            if old != Some(new.as_slice()) || file.mode.is_some() {
                steps.puts.push(FileStep::Put {
                    target: goal,
                    old,
                    new,
                });
            }
        }
        Ok((steps.in_order(), hashes))
    }

    /// The executable bits that the host should set, for the `meta` of the outcome.
    pub fn executable(&self) -> Option<Value> {
        let files = self.files.iter().filter_map(|file| {
            let is_executable = file.mode? == FileMode::Executable;
            let goal = file.goal().unwrap_or(&file.target);
            Some((goal.path.display().to_string(), is_executable.into()))
        });
        let files: Map<String, Value> = files.collect();
        (!files.is_empty()).then(|| json!({ "executable": files }))
    }
}

/// The steps of a patch by phase.
#[derive(Default)]
struct Steps<'a> {
    before: Vec<FileStep<'a>>,
    renames: Vec<FileStep<'a>>,
    second_renames: Vec<FileStep<'a>>,
    puts: Vec<FileStep<'a>>,
    after: Vec<FileStep<'a>>,
}

impl<'a> Steps<'a> {
    fn rename(&mut self, from: &'a Target, via: Option<&'a Target>, to: &'a Target) {
        match via {
            Some(via) => {
                self.before.push(FileStep::Rename { from, to: via });
                self.second_renames.push(FileStep::Rename { from: via, to });
            }
            None => self.renames.push(FileStep::Rename { from, to }),
        }
    }

    fn in_order(self) -> Vec<FileStep<'a>> {
        let parts = [
            self.before,
            self.renames,
            self.second_renames,
            self.puts,
            self.after,
        ];
        parts.into_iter().flatten().collect()
    }
}

impl PlannedFile {
    /// Where a new file is created.
    fn goal(&self) -> Option<&Target> {
        match &self.kind {
            PlannedChange::Add(_) => Some(&self.target),
            PlannedChange::Move { to, .. } => Some(to),
            PlannedChange::Update(_)
            | PlannedChange::Keep { .. }
            | PlannedChange::Delete { .. } => None,
        }
    }

    /// Whether nothing of the old file stays at its path.
    fn leaves(&self) -> bool {
        matches!(
            self.kind,
            PlannedChange::Move { .. } | PlannedChange::Delete { .. }
        )
    }

    /// Whether another part of the patch may not do `action` with `target`. A new file may replace one that moves away.
    fn collides(&self, target: &Target, action: &Action) -> bool {
        let is_there = self.goal().is_some_and(|goal| goal.path == target.path);
        let is_from_there = self.target.path == target.path;
        match action {
            Action::Update { to: None, .. } => is_there || is_from_there,
            Action::Add { .. } => is_from_there && !self.leaves(),
            Action::Delete { .. } | Action::Update { to: Some(_), .. } => {
                is_from_there && !matches!(self.kind, PlannedChange::Add(_))
            }
        }
    }

    pub fn piece(&self) -> FileChange<'_> {
        let shown = self.target.shown.as_str();
        match &self.kind {
            PlannedChange::Add(content) => FileChange {
                shown,
                old: None,
                new: Some(content),
            },
            PlannedChange::Update(draft) => FileChange {
                shown,
                old: draft.original.as_deref(),
                new: Some(&draft.text),
            },
            PlannedChange::Keep { .. } => FileChange {
                shown,
                old: None,
                new: None,
            },
            PlannedChange::Delete { text, .. } => FileChange {
                shown,
                old: text.as_deref(),
                new: None,
            },
            PlannedChange::Move { to, draft, .. } => FileChange {
                shown: &to.shown,
                old: draft.as_ref().and_then(|draft| draft.original.as_deref()),
                new: draft.as_ref().map(|draft| draft.text.as_str()),
            },
        }
    }
}

fn keep(target: &Target) -> Result<PlannedChange> {
    crate::ignore_rules::check_readable(target)?;
    let bytes = load(target)?.ok_or_else(|| target.not_found())?;
    Ok(PlannedChange::Keep { bytes })
}

fn update(target: Target, hunks: &[Hunk]) -> Result<Draft> {
    let mut draft = Draft::from_any_target(target, Encoding::Auto)?;
    if draft.is_new() {
        return Err(draft
            .target
            .not_found()
            .recommend("create a new file with `*** Add File:`"));
    }
    patch(&mut draft, hunks)?;
    Ok(draft)
}

fn patch(draft: &mut Draft, hunks: &[Hunk]) -> Result<()> {
    let leniency = Leniency::for_path(&draft.target.path);
    if hunks.iter().any(|hunk| {
        hunk.lines
            .iter()
            .any(|(_, line)| line.starts_with('\u{feff}'))
    }) {
        draft.show_mark();
    }
    let shown = &draft.target.shown;
    let patched = apply(&draft.text, hunks, leniency)
        .map_err(|error| hunk_error(error, shown, &draft.text, hunks))?;
    let added: Vec<&str> = hunks.iter().flat_map(Hunk::added).collect();
    let added = added.join("\n");
    let known = draft.text.clone();
    draft.check_placeholders(&added, &known, "the added lines")?;
    draft.rewrite(patched.text, &added, patched.line, patched.is_exact)?;
    draft.check_notebook()
}

fn hunk_error(error: HunkError, shown: &str, text: &str, hunks: &[Hunk]) -> Error {
    const MOST_LINES: usize = 10;
    let at = |hunk: usize| {
        let line = hunks[hunk].line;
        format!("hunk {} (line {line} of the patch)", hunk + 1)
    };
    match error {
        HunkError::Missing { hunk, wanted } => errors::no_match(
            shown,
            text,
            &wanted,
            &format!("the old lines of {}", at(hunk)),
        ),
        HunkError::MissingContext { hunk, context } => errors::no_match(
            shown,
            text,
            &context,
            &format!("the `@@` line of {}", at(hunk)),
        ),
        HunkError::Ambiguous { hunk, lines } => {
            let shown_lines = lines.iter().take(MOST_LINES).map(ToString::to_string);
            let shown_lines: Vec<String> = shown_lines.collect();
            let more = if lines.len() > MOST_LINES { " …" } else { "" };
            Error::failed(format!(
                "{} has {} matches in {shown}, at lines {}{more}",
                at(hunk),
                lines.len(),
                shown_lines.join(", ")
            ))
            .code("edit_expected_occurrence_mismatch")
            .recommend("add lines around the change, or `@@ LINE` with a line above it, until it is unique")
        }
        HunkError::Behind { hunk, line } => errors::invalid_edit(format!(
            "{} matches line {line} of {shown}, before the previous hunk; put the hunks in the order of the file",
            at(hunk)
        )),
    }
}

fn delete(target: &Target, hunks: &[Hunk]) -> Result<PlannedChange> {
    crate::ignore_rules::check_readable(target)?;
    let bytes = load(target)?.ok_or_else(|| target.not_found())?;
    let shown = &target.shown;
    let text = if media::is_binary(&bytes) {
        None
    } else {
        let decoded = text::decode(bytes.clone(), Encoding::Auto, shown)?;
        Some(decoded.text)
    };
    if !hunks.is_empty() {
        let rest = apply(text.as_deref().unwrap_or_default(), hunks, Leniency::Data);
        if !rest.is_ok_and(|rest| rest.text.is_empty()) {
            let message = format!("{shown} differs from what the patch deletes");
            return Err(Error::failed(message)
                .code("edit_stale")
                .recommend("read the file, and delete it if that is still intended"));
        }
    }
    Ok(PlannedChange::Delete { bytes, text })
}
