//! Restores a tree to its state before a list of changes that was interrupted at any point.
//!
//! Each path is handled by its current state: as the change left it, it is restored; as it was before, it is left;
//! in any other state it was changed by another process, and is reported and left alone. Each rollback step is
//! atomic, so recovery can be interrupted and run again.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};

use rustix::{fs::AtFlags, io::Errno};

use super::{
    ApplyError, Conflict,
    plan::{Planned, Step},
    prepare::PreparedContent,
    renames::{exchange, move_aside, remove, rename_new},
    roots::{EntryRef, Observation},
    run::{Run, child_location, conflict_if_changed, first_name, save_error, with_target_path},
};
use crate::{FileState, Location, PathState};

/// Result of the rollback of one path.
type RollbackResult = Result<Option<Conflict>, ApplyError>;

impl<'a> Run<'a> {
    /// Only the first `begun` steps can have run.
    pub(super) fn roll_back(&mut self, begun: usize) -> Result<Vec<Conflict>, ApplyError> {
        let missing = self.first_missing_move()?.max(self.done);
        let mut conflicts = Vec::new();
        let mut failed = None;
        let given_way = self.removed_before();
        for (n, planned) in self.plan.steps.iter().enumerate().rev() {
            let ran = if n >= begun {
                Ok(false)
            } else if n < missing {
                Ok(true)
            } else {
                self.has_displaced(n, planned)
            };
            let verdict = ran.and_then(|ran| {
                if ran {
                    self.roll_back_step(n, planned)
                } else {
                    Ok(None)
                }
            });
            let verdict = verdict.map_err(with_target_path(planned.step.location()));
            let verdict = verdict.map(|conflict| {
                conflict.filter(|conflict| {
                    let earlier = given_way.get(&conflict.at);
                    let found = conflict.found.as_ref();
                    !earlier
                        .zip(found)
                        .is_some_and(|(earlier, found)| earlier.is_same(found))
                })
            });
            // A path that cannot be restored must not keep the others from being restored.
            match verdict.and_then(|conflict| Ok((conflict, self.remove_leftover(&planned.aside)?)))
            {
                Ok((conflict, leftover)) => conflicts.extend(conflict.into_iter().chain(leftover)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        self.sync_directories()?;
        if let Some(error) = failed {
            return Err(error);
        }
        self.unmark_all()?;
        conflicts.sort_by(|one, other| one.at.cmp(&other.at));
        Ok(conflicts)
    }

    /// Steps run in order, and a move changes the meaning of later paths, so no step after a missing move has run.
    fn first_missing_move(&self) -> Result<usize, ApplyError> {
        let mut displaced = HashMap::new();
        for (n, planned) in self.plan.steps.iter().enumerate() {
            if let Step::Remove { at, .. } = &planned.step {
                displaced.insert(at, &planned.aside);
            }
            let Step::Move {
                from,
                was_from,
                to,
                state,
                reused,
                ..
            } = &planned.step
            else {
                continue;
            };
            // What is at the target can be the entry that gives way to the moved one.
            let has_given_way = match displaced.get(to) {
                Some(aside) => self.exists(aside)?,
                None => true,
            };
            let is_at_source = self.exists(from)? || self.exists(was_from)?;
            let is_missing = if !(has_given_way && self.exists(to)?) {
                *reused || is_at_source
            } else if *reused || !is_at_source {
                false
            } else {
                // Another program has created an entry at the source after the move, or at the target before it.
                let (arrived, left) = (
                    self.roots.observe(to, None)?,
                    self.roots.observe(from, None)?,
                );
                !arrived.is(state) || left.is(state)
            };
            if is_missing {
                return Ok(n);
            }
        }
        Ok(self.plan.steps.len())
    }

    /// Whether the step certainly ran, and so a move before it that another program reverted: the entry that it displaced
    /// is still aside, or it wrote in place.
    fn has_displaced(&self, n: usize, planned: &Planned) -> Result<bool, ApplyError> {
        let before = match &planned.step {
            Step::Remove { was, .. } => was,
            Step::Put { before, after, .. } if before != after => before,
            Step::Put { .. } | Step::Move { .. } | Step::MakeDir { .. } | Step::Mode { .. } => {
                return Ok(false);
            }
        };
        let is_aside = || Ok(self.roots.observe(&planned.aside, None)?.is(before));
        Ok(*before != PathState::Absent && (self.blobs.is_marked(&self.marker(n)) || is_aside()?))
    }

    /// What must be removed before another entry can take its path. Where it still exists, nothing was written.
    fn removed_before(&self) -> HashMap<&'a Location, &'a PathState> {
        let removed = self
            .plan
            .steps
            .iter()
            .filter_map(|planned| match &planned.step {
                Step::Remove { at, was, .. } => Some((at, was)),
                Step::Move { .. } | Step::MakeDir { .. } | Step::Put { .. } | Step::Mode { .. } => {
                    None
                }
            });
        removed.collect()
    }

    fn exists(&self, at: &Location) -> Result<bool, ApplyError> {
        let spot = self.roots.parent(at)?;
        Ok(spot.is_some_and(|spot| spot.stat().is_some()))
    }

    fn roll_back_step(&mut self, n: usize, planned: &Planned) -> RollbackResult {
        let aside = &planned.aside;
        match &planned.step {
            Step::Remove { at, was, .. } => self.restore(at, was, aside),
            Step::Move {
                from, to, state, ..
            } => self.move_back(from, to, state),
            Step::MakeDir { at, mode, .. } => self.remove_dir(at, *mode),
            Step::Put {
                at, before, after, ..
            } => {
                if self.blobs.is_marked(&self.marker(n)) {
                    return self.restore_in_place(n, at, before, after);
                }
                self.restore_replaced(n, at, before, after, aside)
            }
            Step::Mode {
                at, before, after, ..
            } => {
                let (before, after) = (
                    PathState::Dir { mode: *before },
                    PathState::Dir { mode: *after },
                );
                let observation = self.roots.observe(at, None)?;
                match (&before, observation.is(&after)) {
                    _ if observation.is(&before) => Ok(None),
                    (PathState::Dir { mode }, true) => {
                        let spot = self.roots.entry(at)?;
                        self.set_mode(&spot, *mode).map(|()| None)
                    }
                    _ => Ok(conflict_if_changed(at, &after, observation)),
                }
            }
        }
    }

    fn restore(&mut self, at: &Location, was: &PathState, aside: &Location) -> RollbackResult {
        let Some(spot) = self.roots.parent(at)? else {
            return Ok(conflict_if_changed(at, was, self.roots.observe(at, None)?));
        };
        let observation = spot.observe(None)?;
        if !observation.is_absent() {
            return Ok(conflict_if_changed(at, was, observation));
        }
        let aside = self.roots.entry(aside)?;
        if let PreparedContent::InPlace(_) = self.ensure_prepared(&aside, was, &spot, false)? {
            return Err(spot.io("write", Errno::ACCESS.into()));
        }
        (self.step)("restore");
        if rename_new(&aside, &spot)? {
            Ok(None)
        } else {
            Ok(conflict_if_changed(at, was, spot.observe(None)?))
        }
    }

    fn move_back(&mut self, from: &Location, to: &Location, state: &PathState) -> RollbackResult {
        let observation = self.roots.observe(to, None)?;
        if !observation.is(state) {
            return Ok(conflict_if_changed(to, state, observation));
        }
        let (new, Some(old)) = (self.roots.entry(to)?, self.roots.parent(from)?) else {
            return Ok(conflict_if_changed(
                from,
                state,
                self.roots.observe(from, None)?,
            ));
        };
        (self.step)("move back");
        if rename_new(&new, &old)? {
            Ok(None)
        } else {
            Ok(conflict_if_changed(
                from,
                &PathState::Absent,
                old.observe(None)?,
            ))
        }
    }

    fn remove_dir(&mut self, at: &Location, mode: u32) -> RollbackResult {
        let observation = self.roots.observe(at, None)?;
        if observation.is_absent() {
            return Ok(None);
        }
        let expected = PathState::Dir { mode };
        if !observation.is(&expected) {
            return Ok(conflict_if_changed(at, &expected, observation));
        }
        let spot = self.roots.entry(at)?;
        (self.step)("remove a directory");
        match rustix::fs::unlinkat(&spot.dir, &spot.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let name = first_name(&spot)?.unwrap_or_default();
                let entry = child_location(at, &name);
                let found = self.roots.observe(&entry, None)?;
                Ok(conflict_if_changed(&entry, &PathState::Absent, found))
            }
            Err(errno) => Err(spot.failed("remove")(errno)),
        }
    }

    fn restore_replaced(
        &mut self,
        n: usize,
        at: &Location,
        before: &PathState,
        after: &PathState,
        aside: &Location,
    ) -> RollbackResult {
        let observation = self.roots.observe(at, None)?;
        if observation.is(before) {
            return Ok(None);
        }
        if !observation.is(after) {
            return Ok(conflict_if_changed(at, after, observation));
        }
        let (spot, aside) = (self.roots.entry(at)?, self.roots.entry(aside)?);
        let done = if *before == PathState::Absent {
            (self.step)("remove");
            remove(&aside)?;
            move_aside(&spot, &aside, &observation)?
        } else {
            let replaces = matches!(after, PathState::File(_));
            let ready = self.ensure_prepared(&aside, before, &spot, replaces)?;
            if let (PreparedContent::InPlace(content), PathState::File(image)) = (ready, before) {
                return self.write_in_place(n, &spot, content, image).map(|()| None);
            }
            (self.step)("replace back");
            exchange(&aside, &spot, &observation)?
        };
        if done {
            Ok(None)
        } else {
            Ok(conflict_if_changed(at, after, spot.observe(None)?))
        }
    }

    /// The marker says that this commit may have written the file, completely or in part.
    fn restore_in_place(
        &mut self,
        n: usize,
        at: &Location,
        before: &PathState,
        after: &PathState,
    ) -> RollbackResult {
        let observation: Observation = self.roots.observe(at, None)?;
        match (before, after, &observation.image) {
            _ if observation.is(before) => Ok(None),
            (PathState::File(old), PathState::File(new), Some(PathState::File(_))) => {
                let saved = self.open_saved(at, old)?;
                let spot = self.roots.entry(at)?;
                let found = spot.open_file()?;
                let written = self.open_saved(at, new)?;
                if !is_partial_write(&found, &saved, &written).map_err(save_error(at))? {
                    return Ok(conflict_if_changed(at, after, observation));
                }
                self.write_in_place(n, &spot, saved, old)?;
                Ok(None)
            }
            _ => Ok(conflict_if_changed(at, before, observation)),
        }
    }

    fn open_saved(&self, at: &Location, image: &FileState) -> Result<File, ApplyError> {
        if !self.blobs.has(image.hash, image.size) {
            return Err(ApplyError::ContentNotSaved(at.clone()));
        }
        File::open(self.blobs.path(image.hash)).map_err(save_error(at))
    }

    /// Makes sure that `image` is at `aside`: displaced there by the step, or recreated from the blob store.
    fn ensure_prepared(
        &mut self,
        aside: &EntryRef,
        image: &PathState,
        entry: &EntryRef,
        replaces: bool,
    ) -> Result<PreparedContent, ApplyError> {
        if !aside.observe(None)?.is(image) {
            (self.step)("remove what is aside");
            remove(aside)?;
            match image {
                PathState::Absent => {}
                PathState::Dir { mode } => self.make_dir(aside, entry, *mode)?,
                PathState::Link { target } => {
                    (self.step)("make a link aside");
                    rustix::fs::symlinkat(target.as_os_str(), &aside.dir, &aside.name)
                        .map_err(aside.failed("write"))?;
                }
                PathState::File(file) => {
                    let ready =
                        self.prepare_from_blob(&entry.at, file, Some(entry), aside, replaces)?;
                    if let PreparedContent::Aside(file) = &ready {
                        file.sync_all().map_err(|error| aside.io("write", error))?;
                    }
                    return Ok(ready);
                }
            }
        }
        Ok(PreparedContent::Done)
    }

    /// Removes prepared and displaced files. A directory in which another process created something stays.
    fn remove_leftover(&mut self, aside: &Location) -> RollbackResult {
        let Some(spot) = self.roots.parent(aside)? else {
            return Ok(None);
        };
        if spot.stat().is_none() {
            return Ok(None);
        }
        (self.step)("remove what is aside");
        if remove(&spot)? {
            return Ok(None);
        }
        Ok(conflict_if_changed(
            aside,
            &PathState::Absent,
            spot.observe(None)?,
        ))
    }
}

/// Whether the content can be that of a file during the change from `old` to `new`: each byte is that of one of them, or
/// zero, because a file system can extend a file before it writes to it. Reads all files from their positions.
fn is_partial_write(found: &File, old: &File, new: &File) -> io::Result<bool> {
    loop {
        let now = read_chunk(found)?;
        if now.is_empty() {
            return Ok(true);
        }
        let (was, will) = (read_chunk(old)?, read_chunk(new)?);
        let is_known = |(at, byte): (usize, &u8)| {
            was.get(at) == Some(byte)
                || will.get(at) == Some(byte)
                || (*byte == 0 && at < was.len().max(will.len()))
        };
        if !now.iter().enumerate().all(is_known) {
            return Ok(false);
        }
    }
}

/// Shorter than the others only at the end of the file.
fn read_chunk(file: &File) -> io::Result<Vec<u8>> {
    const CHUNK: u64 = 64 << 10;
    let mut chunk = Vec::new();
    file.take(CHUNK).read_to_end(&mut chunk)?;
    Ok(chunk)
}
