//! Checks before a commit: path conflicts, and saving the content that an undo needs.

use super::{
    ApplyError, Conflict, Op, Roots,
    items::above,
    plan::{Arrival, Plan, Planned, Step},
    run::{differs, inside, keep_failed, names},
};
use crate::{Blobs, FileImage, Image, Location};

pub(super) fn conflicts(
    roots: &Roots,
    plan: &Plan,
    ops: &[Op],
) -> Result<Vec<Conflict>, ApplyError> {
    let mut conflicts = Vec::new();
    for planned in &plan.steps {
        for (at, image) in seen_before(plan, planned) {
            if image == Image::Absent {
                conflicts.extend(homeless(roots, plan, planned.step.place(), at)?);
            }
            let base = ops.get(planned.change).and_then(|op| op.base.as_ref());
            let seen = roots.look(at, base.map(|base| (&image, base)))?;
            if matches!(
                (&image, &planned.step),
                (Image::Dir { .. }, Step::Remove { .. })
            ) && seen.is(&image)
            {
                conflicts.extend(unlisted(roots, plan, at)?);
            }
            conflicts.extend(differs(at, &image, seen));
        }
    }
    conflicts.sort_by(|one, other| one.at.cmp(&other.at));
    conflicts.dedup_by(|one, other| one.at == other.at);
    Ok(conflicts)
}

/// The paths in the tree before the changes that a step depends on, with their expected states.
fn seen_before<'a>(plan: &Plan, planned: &'a Planned) -> Vec<(&'a Location, Image)> {
    // Where another step removes something first, that step does the check; a new directory is empty.
    let home = above(planned.step.place()).find_map(|dir| plan.arrivals.get(&dir).copied());
    let free = |at: &'a Location| {
        let looked_at = home != Some(Arrival::Made) && !plan.vacated.contains(at);
        looked_at.then_some((at, Image::Absent))
    };
    match &planned.step {
        Step::Remove { was_at, was, .. } => vec![(was_at, was.clone())],
        Step::Move {
            was_from,
            was_to,
            what,
            ..
        } => std::iter::once((was_from, what.clone()))
            .chain(free(was_to))
            .collect(),
        Step::MakeDir { was_at, .. } => free(was_at).into_iter().collect(),
        Step::Put { was_at, before, .. } => match before {
            Image::Absent => free(was_at).into_iter().collect(),
            Image::File(_) | Image::Dir { .. } | Image::Link { .. } => {
                vec![(was_at, before.clone())]
            }
        },
        Step::Mode { was_at, before, .. } => vec![(was_at, Image::Dir { mode: *before })],
    }
}

/// A new entry needs a parent directory, unless the list itself creates it or moves it there.
fn homeless(
    roots: &Roots,
    plan: &Plan,
    place: &Location,
    was_at: &Location,
) -> Result<Option<Conflict>, ApplyError> {
    if above(place).any(|dir| plan.arrivals.contains_key(&dir)) || roots.parent(was_at)?.is_some() {
        return Ok(None);
    }
    let expected = Image::Dir { mode: 0o755 };
    for dir in above(was_at).collect::<Vec<_>>().iter().rev() {
        let seen = roots.look(dir, None)?;
        if !matches!(seen.image, Some(Image::Dir { .. })) {
            return Ok(differs(dir, &expected, seen));
        }
    }
    Ok(None)
}

/// The entries of a removed directory that the list does not account for.
fn unlisted(roots: &Roots, plan: &Plan, dir: &Location) -> Result<Vec<Conflict>, ApplyError> {
    let mut conflicts = Vec::new();
    for name in names(&roots.spot(dir)?)? {
        let entry = inside(dir, &name);
        if !plan.vacated.contains(&entry) {
            conflicts.extend(differs(&entry, &Image::Absent, roots.look(&entry, None)?));
        }
    }
    Ok(conflicts)
}

pub(super) fn keep(roots: &Roots, plan: &Plan, blobs: &Blobs) -> Result<(), ApplyError> {
    /// Each pending blob holds a file descriptor.
    const AT_ONCE: usize = 256;
    let mut pending = Vec::new();
    let mut last = None;
    for planned in &plan.steps {
        let Some((at, image)) = replaced(&planned.step) else {
            continue;
        };
        if blobs.has(image.hash, image.size) && blobs.renew(image.hash).is_ok() {
            continue;
        }
        let file = roots.spot(at)?.open_file()?;
        let copy = blobs.write(&file).map_err(keep_failed(at))?;
        if (copy.hash, copy.size) != (image.hash, image.size) {
            let seen = roots.look(at, None)?;
            let changed = differs(at, &Image::File(*image), seen);
            return Err(ApplyError::Changed(changed.into_iter().collect()));
        }
        pending.push(copy);
        last = Some(at);
        if pending.len() == AT_ONCE {
            blobs
                .publish(std::mem::take(&mut pending))
                .map_err(keep_failed(at))?;
        }
    }
    match last {
        Some(at) => blobs.publish(pending).map_err(keep_failed(at)),
        None => Ok(()),
    }
}

fn replaced(step: &Step) -> Option<(&Location, &FileImage)> {
    match step {
        Step::Remove {
            was_at,
            was: Image::File(image),
            ..
        }
        | Step::Put {
            was_at,
            before: Image::File(image),
            ..
        } => Some((was_at, image)),
        Step::Remove { .. }
        | Step::Put { .. }
        | Step::Move { .. }
        | Step::MakeDir { .. }
        | Step::Mode { .. } => None,
    }
}
