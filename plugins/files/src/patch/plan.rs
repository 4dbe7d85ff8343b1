//! Everything that a patch will do, worked out before anything is done.

use std::fs;

use toolhost_sdk::prelude::*;

use super::apply::{Misfit, apply};
use super::section::{Action, Hunk, Section};
use crate::artefacts;
use crate::edit::commit::Step;
use crate::edit::draft::{Draft, writable};
use crate::edit::failure;
use crate::edit::find::Leniency;
use crate::edit::several::Piece;
use crate::media;
use crate::path::Target;
use crate::read::sha256;
use crate::store::load;
use crate::text::{self, Encoding};

#[derive(Debug, Default)]
pub struct Plan {
    pub files: Vec<File>,
}

#[derive(Debug)]
pub struct File {
    pub target: Target,
    pub kind: Kind,
    /// The model has seen another content.
    pub has_changed: bool,
}

#[derive(Debug)]
pub enum Kind {
    /// A new file with this content.
    Add(String),
    Update(Draft),
    Delete {
        bytes: Vec<u8>,
        /// For people, where it is text.
        text: Option<String>,
    },
    Move {
        to: Target,
        /// Its content, where that changes as well.
        draft: Option<Draft>,
        /// Of the content as it is.
        sha256: String,
    },
}

impl Plan {
    pub fn of(cx: &Context, sections: Vec<Section>) -> Result<Self> {
        let mut plan = Self::default();
        for section in sections {
            cx.check()?;
            plan.add(cx, section)?;
        }
        for file in &mut plan.files {
            if let Kind::Update(draft)
            | Kind::Move {
                draft: Some(draft), ..
            } = &file.kind
            {
                file.has_changed = draft.check_fresh(cx)?;
            }
        }
        let is_idle =
            |file: &File| matches!(&file.kind, Kind::Update(draft) if !draft.is_changed());
        if plan.files.iter().all(is_idle) {
            return Err(failure::no_change(
                "the patch changes nothing: the files are so already",
            ));
        }
        Ok(plan)
    }

    fn add(&mut self, cx: &Context, section: Section) -> Result<()> {
        let Section { path, action, line } = section;
        let target = writable(cx, &path)?;
        let known = self.files.iter().position(|file| file.concerns(&target));
        if let Some(index) = known {
            return match (&mut self.files[index].kind, action) {
                (Kind::Update(draft), Action::Update { to: None, hunks }) => patch(draft, &hunks),
                _ => Err(failure::unprepared(format!(
                    "line {line} of the patch is about {path}, and so is an earlier part; put all of it into one"
                ))),
            };
        }
        let kind = match action {
            Action::Add { content } => {
                self.check_free(&target)?;
                artefacts::check(&content, "", &target.path)?;
                Kind::Add(content)
            }
            Action::Delete { hunks } => delete(&target, &hunks)?,
            Action::Update { to: None, hunks } => {
                Kind::Update(update(writable(cx, &path)?, &hunks)?)
            }
            Action::Update {
                to: Some(to),
                hunks,
            } => {
                let to = writable(cx, &to)?;
                self.check_free(&to)?;
                let bytes = load(&target)?.ok_or_else(|| target.not_found())?;
                let draft = if hunks.is_empty() {
                    None
                } else {
                    Some(update(writable(cx, &path)?, &hunks)?)
                };
                Kind::Move {
                    to,
                    draft,
                    sha256: sha256(&bytes),
                }
            }
        };
        self.files.push(File {
            target,
            kind,
            has_changed: false,
        });
        Ok(())
    }

    /// Refuses to put something where something is.
    fn check_free(&self, target: &Target) -> Result<()> {
        let is_taken = fs::symlink_metadata(&target.path).is_ok()
            || self.files.iter().any(|file| file.concerns(target));
        if !is_taken {
            return Ok(());
        }
        Err(Error::invalid_input(format!(
            "{} exists already; change it with `*** Update File:`, or delete it first in a patch of its own",
            target.shown
        ))
        .code("attempt_to_create_existing_file"))
    }

    /// What it takes, and the hash of each file afterwards.
    pub fn steps(&self) -> Result<(Vec<Step<'_>>, Vec<Option<String>>)> {
        let (mut steps, mut last, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        for File { target, kind, .. } in &self.files {
            let hash = match kind {
                Kind::Add(content) => {
                    let new = content.clone().into_bytes();
                    let hash = sha256(&new);
                    steps.push(Step::Put {
                        target,
                        old: None,
                        new,
                    });
                    Some(hash)
                }
                Kind::Update(draft) => {
                    let new = draft.new_bytes()?;
                    let hash = sha256(&new);
                    if draft.is_changed() {
                        steps.push(draft.step(new));
                    }
                    Some(hash)
                }
                Kind::Delete { bytes, .. } => {
                    // What is gone is hard to bring back, so it goes when all else is done.
                    last.push(Step::Remove { target, old: bytes });
                    None
                }
                Kind::Move {
                    to,
                    draft,
                    sha256: before,
                } => {
                    steps.push(Step::Rename { from: target, to });
                    match draft {
                        Some(draft) => {
                            let new = draft.new_bytes()?;
                            let hash = sha256(&new);
                            steps.push(draft.step_at(to, new));
                            Some(hash)
                        }
                        None => Some(before.clone()),
                    }
                }
            };
            hashes.push(hash);
        }
        steps.append(&mut last);
        Ok((steps, hashes))
    }
}

impl File {
    fn concerns(&self, target: &Target) -> bool {
        let is_new_name = matches!(&self.kind, Kind::Move { to, .. } if to.path == target.path);
        self.target.path == target.path || is_new_name
    }

    pub fn piece(&self) -> Piece<'_> {
        let shown = self.target.shown.as_str();
        match &self.kind {
            Kind::Add(content) => Piece {
                shown,
                old: None,
                new: Some(content),
            },
            Kind::Update(draft) => Piece {
                shown,
                old: draft.original.as_deref(),
                new: Some(&draft.text),
            },
            Kind::Delete { text, .. } => Piece {
                shown,
                old: text.as_deref(),
                new: None,
            },
            Kind::Move { to, draft, .. } => Piece {
                shown: &to.shown,
                old: draft.as_ref().and_then(|draft| draft.original.as_deref()),
                new: draft.as_ref().map(|draft| draft.text.as_str()),
            },
        }
    }
}

fn update(target: Target, hunks: &[Hunk]) -> Result<Draft> {
    let mut draft = Draft::of(target, Encoding::Auto)?;
    if draft.is_new() {
        return Err(draft
            .target
            .not_found()
            .recommend("a new file is made with `*** Add File:`"));
    }
    patch(&mut draft, hunks)?;
    Ok(draft)
}

fn patch(draft: &mut Draft, hunks: &[Hunk]) -> Result<()> {
    let leniency = Leniency::of(&draft.target.path);
    let shown = &draft.target.shown;
    let patched = apply(&draft.text, hunks, leniency).map_err(|misfit| match misfit {
        Misfit::Missing { hunk, wanted } => {
            let line = hunks[hunk].line;
            let what = format!("the old lines of hunk {} (line {line} of the patch)", hunk + 1);
            failure::no_match(shown, &draft.text, &wanted, &what)
        }
        Misfit::Behind { hunk, line } => failure::unprepared(format!(
            "hunk {} for {shown} (line {} of the patch) belongs to line {line}, in front of the hunk before it; \
             put the hunks in the order of the file",
            hunk + 1,
            hunks[hunk].line
        )),
    })?;
    let added: Vec<&str> = hunks.iter().flat_map(Hunk::added).collect();
    let added = added.join("\n");
    artefacts::check(&added, &draft.text, &draft.target.path).map_err(|mut error| {
        error.message = error.message.replace("`content`", "the added lines");
        error
    })?;
    draft.rewrite(patched.text, &added, patched.line, patched.is_exact)
}

fn delete(target: &Target, hunks: &[Hunk]) -> Result<Kind> {
    crate::ignored::check_readable(target)?;
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
            let message = format!("{shown} is not what the patch wants to delete");
            return Err(Error::failed(message)
                .code("edit_stale")
                .recommend("read the file, and delete it if that is still right"));
        }
    }
    Ok(Kind::Delete { bytes, text })
}
