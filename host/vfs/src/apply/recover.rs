//! Restores a tree to its state before a list of changes that was interrupted at any point.
//!
//! Each path is handled by its current state: as the change left it, it is restored; as it was before, it is left;
//! in any other state it was changed by another process, and is reported and left alone. Each rollback step is
//! atomic, so recovery can be interrupted and run again.

use std::collections::HashMap;

use rustix::{fs::AtFlags, io::Errno};

use super::{
    ApplyError, Conflict,
    moves::{exchange, remove, rename_new, take_away},
    plan::{Planned, Step},
    prepare::Ready,
    roots::{Seen, Spot, same},
    run::{Run, differs, first_name, inside, keep_failed, named},
};
use crate::{Image, Location};

/// Result of the rollback of one path.
type Verdict = Result<Option<Conflict>, ApplyError>;

impl<'a> Run<'a> {
    /// Only the first `begun` steps can have run.
    pub(super) fn put_back_all(&mut self, begun: usize) -> Result<Vec<Conflict>, ApplyError> {
        let begun = self.first_move_not_made()?.min(begun);
        let mut conflicts = Vec::new();
        let mut failed = None;
        let given_way = self.given_way();
        for (n, planned) in self.plan.steps.iter().enumerate().rev() {
            let verdict = if n < begun {
                self.put_back(n, planned)
                    .map_err(named(planned.step.place()))
            } else {
                Ok(None)
            };
            let verdict = verdict.map(|conflict| {
                conflict.filter(|conflict| {
                    let earlier = given_way.get(&conflict.at);
                    let found = conflict.found.as_ref();
                    !earlier
                        .zip(found)
                        .is_some_and(|(earlier, found)| same(earlier, found))
                })
            });
            // A path that cannot be restored must not keep the others from being restored.
            match verdict.and_then(|conflict| Ok((conflict, self.clear(&planned.aside)?))) {
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
    fn first_move_not_made(&self) -> Result<usize, ApplyError> {
        for (n, planned) in self.plan.steps.iter().enumerate() {
            let Step::Move {
                from,
                was_from,
                to,
                reused,
                ..
            } = &planned.step
            else {
                continue;
            };
            let arrived = self.exists(to)?;
            let left = *reused || !(self.exists(from)? || self.exists(was_from)?);
            if !(arrived && left) {
                return Ok(n);
            }
        }
        Ok(self.plan.steps.len())
    }

    /// What must be removed before another entry can take its path. Where it still exists, nothing was written.
    fn given_way(&self) -> HashMap<&'a Location, &'a Image> {
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

    fn put_back(&mut self, n: usize, planned: &Planned) -> Verdict {
        let aside = &planned.aside;
        match &planned.step {
            Step::Remove { at, was, .. } => self.bring_back(at, was, aside),
            Step::Move { from, to, what, .. } => self.move_back(from, to, what),
            Step::MakeDir { at, mode, .. } => self.remove_dir(at, *mode),
            Step::Put {
                at, before, after, ..
            } => {
                if self.blobs.is_marked(&self.marker(n)) {
                    return self.write_back(n, at, before);
                }
                self.replace_back(n, at, before, after, aside)
            }
            Step::Mode {
                at, before, after, ..
            } => {
                let (before, after) = (Image::Dir { mode: *before }, Image::Dir { mode: *after });
                let seen = self.roots.look(at, None)?;
                match (&before, seen.is(&after)) {
                    _ if seen.is(&before) => Ok(None),
                    (Image::Dir { mode }, true) => {
                        let spot = self.roots.spot(at)?;
                        self.set_mode(&spot, *mode).map(|()| None)
                    }
                    _ => Ok(differs(at, &after, seen)),
                }
            }
        }
    }

    fn bring_back(&mut self, at: &Location, was: &Image, aside: &Location) -> Verdict {
        let Some(spot) = self.roots.parent(at)? else {
            return Ok(differs(at, was, self.roots.look(at, None)?));
        };
        let seen = spot.look(None)?;
        if !seen.is_absent() {
            return Ok(differs(at, was, seen));
        }
        let aside = self.roots.spot(aside)?;
        if let Ready::InPlace(_) = self.ensure(&aside, was, &spot, false)? {
            return Err(spot.io("write", Errno::ACCESS.into()));
        }
        (self.step)("restore");
        if rename_new(&aside, &spot)? {
            Ok(None)
        } else {
            Ok(differs(at, was, spot.look(None)?))
        }
    }

    fn move_back(&mut self, from: &Location, to: &Location, what: &Image) -> Verdict {
        let seen = self.roots.look(to, None)?;
        if !seen.is(what) {
            return Ok(differs(to, what, seen));
        }
        let (new, Some(old)) = (self.roots.spot(to)?, self.roots.parent(from)?) else {
            return Ok(differs(from, what, self.roots.look(from, None)?));
        };
        (self.step)("move back");
        if rename_new(&new, &old)? {
            Ok(None)
        } else {
            Ok(differs(from, &Image::Absent, old.look(None)?))
        }
    }

    fn remove_dir(&mut self, at: &Location, mode: u32) -> Verdict {
        let seen = self.roots.look(at, None)?;
        if seen.is_absent() {
            return Ok(None);
        }
        let expected = Image::Dir { mode };
        if !seen.is(&expected) {
            return Ok(differs(at, &expected, seen));
        }
        let spot = self.roots.spot(at)?;
        (self.step)("remove a directory");
        match rustix::fs::unlinkat(&spot.dir, &spot.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let name = first_name(&spot)?.unwrap_or_default();
                let entry = inside(at, &name);
                let found = self.roots.look(&entry, None)?;
                Ok(differs(&entry, &Image::Absent, found))
            }
            Err(errno) => Err(spot.failed("remove")(errno)),
        }
    }

    fn replace_back(
        &mut self,
        n: usize,
        at: &Location,
        before: &Image,
        after: &Image,
        aside: &Location,
    ) -> Verdict {
        let seen = self.roots.look(at, None)?;
        if seen.is(before) {
            return Ok(None);
        }
        if !seen.is(after) {
            return Ok(differs(at, after, seen));
        }
        let (spot, aside) = (self.roots.spot(at)?, self.roots.spot(aside)?);
        let done = if *before == Image::Absent {
            (self.step)("remove");
            remove(&aside)?;
            take_away(&spot, &aside, &seen)?
        } else {
            let replaces = matches!(after, Image::File(_));
            let ready = self.ensure(&aside, before, &spot, replaces)?;
            if let (Ready::InPlace(content), Image::File(image)) = (ready, before) {
                return self.write_in_place(n, &spot, content, image).map(|()| None);
            }
            (self.step)("replace back");
            exchange(&aside, &spot, &seen)?
        };
        if done {
            Ok(None)
        } else {
            Ok(differs(at, after, spot.look(None)?))
        }
    }

    /// The file can be partially written, so its content proves nothing; the marker proves that this commit wrote
    /// it.
    fn write_back(&mut self, n: usize, at: &Location, before: &Image) -> Verdict {
        let seen: Seen = self.roots.look(at, None)?;
        match (before, &seen.image) {
            _ if seen.is(before) => Ok(None),
            (Image::File(image), Some(Image::File(_))) => {
                if !self.blobs.has(image.hash, image.size) {
                    return Err(ApplyError::NotKept(at.clone()));
                }
                let kept = std::fs::File::open(self.blobs.path(image.hash));
                let spot = self.roots.spot(at)?;
                self.write_in_place(n, &spot, kept.map_err(keep_failed(at))?, image)?;
                Ok(None)
            }
            _ => Ok(differs(at, before, seen)),
        }
    }

    /// Makes sure that `image` is at `aside`: displaced there by the step, or recreated from the blob store.
    fn ensure(
        &mut self,
        aside: &Spot,
        image: &Image,
        place: &Spot,
        replaces: bool,
    ) -> Result<Ready, ApplyError> {
        if !aside.look(None)?.is(image) {
            (self.step)("remove what is aside");
            remove(aside)?;
            match image {
                Image::Absent => {}
                Image::Dir { mode } => self.make_dir(aside, place, *mode)?,
                Image::Link { target } => {
                    (self.step)("make a link aside");
                    rustix::fs::symlinkat(target.as_os_str(), &aside.dir, &aside.name)
                        .map_err(aside.failed("write"))?;
                }
                Image::File(file) => {
                    let ready = self.prepare_kept(&place.at, file, Some(place), aside, replaces)?;
                    if let Ready::Aside(file) = &ready {
                        file.sync_all().map_err(|error| aside.io("write", error))?;
                    }
                    return Ok(ready);
                }
            }
        }
        Ok(Ready::Done)
    }

    /// Removes prepared and displaced files. A directory in which another process created something stays.
    fn clear(&mut self, aside: &Location) -> Verdict {
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
        Ok(differs(aside, &Image::Absent, spot.look(None)?))
    }
}
