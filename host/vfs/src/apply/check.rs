//! Checks before a commit: path conflicts, and saving the content that an undo needs.

use super::{
    ApplyError, Conflict, FileOp, Roots,
    items::ancestors,
    plan::{Arrival, Plan, Planned, Step},
    run::{child_location, conflict_if_changed, names, save_error},
};
use crate::{BlobStore, FileState, Location, PathState};

pub(super) fn conflicts(
    roots: &Roots,
    plan: &Plan,
    ops: &[FileOp],
) -> Result<Vec<Conflict>, ApplyError> {
    let mut conflicts = Vec::new();
    for planned in &plan.steps {
        for (at, image) in expected_before(plan, planned) {
            if image == PathState::Absent {
                conflicts.extend(missing_parent(roots, plan, planned.step.location(), at)?);
            }
            let base = ops.get(planned.change).and_then(|op| op.base.as_ref());
            let observation = roots.observe(at, base.map(|base| (&image, base)))?;
            if matches!(
                (&image, &planned.step),
                (PathState::Dir { .. }, Step::Remove { .. })
            ) && observation.is(&image)
            {
                conflicts.extend(unlisted_entries(roots, plan, at)?);
            }
            conflicts.extend(conflict_if_changed(at, &image, observation));
        }
    }
    conflicts.sort_by(|one, other| one.at.cmp(&other.at));
    conflicts.dedup_by(|one, other| one.at == other.at);
    Ok(conflicts)
}

/// The paths in the tree before the changes that a step depends on, with their expected states.
fn expected_before<'a>(plan: &Plan, planned: &'a Planned) -> Vec<(&'a Location, PathState)> {
    // Where another step removes something first, that step does the check; a new directory is empty.
    let home = ancestors(planned.step.location()).find_map(|dir| plan.arrivals.get(&dir).copied());
    let free = |at: &'a Location| {
        let looked_at = home != Some(Arrival::Made) && !plan.vacated.contains(at);
        looked_at.then_some((at, PathState::Absent))
    };
    match &planned.step {
        Step::Remove { was_at, was, .. } => vec![(was_at, was.clone())],
        Step::Move {
            was_from,
            was_to,
            state,
            ..
        } => std::iter::once((was_from, state.clone()))
            .chain(free(was_to))
            .collect(),
        Step::MakeDir { was_at, .. } => free(was_at).into_iter().collect(),
        Step::Put { was_at, before, .. } => match before {
            PathState::Absent => free(was_at).into_iter().collect(),
            PathState::File(_) | PathState::Dir { .. } | PathState::Link { .. } => {
                vec![(was_at, before.clone())]
            }
        },
        Step::Mode { was_at, before, .. } => vec![(was_at, PathState::Dir { mode: *before })],
    }
}

/// A new entry needs a parent directory, unless the list itself creates it or moves it there.
fn missing_parent(
    roots: &Roots,
    plan: &Plan,
    location: &Location,
    was_at: &Location,
) -> Result<Option<Conflict>, ApplyError> {
    if ancestors(location).any(|dir| plan.arrivals.contains_key(&dir))
        || roots.parent(was_at)?.is_some()
    {
        return Ok(None);
    }
    let expected = PathState::Dir { mode: 0o755 };
    for dir in ancestors(was_at).collect::<Vec<_>>().iter().rev() {
        let observation = roots.observe(dir, None)?;
        if !matches!(observation.image, Some(PathState::Dir { .. })) {
            return Ok(conflict_if_changed(dir, &expected, observation));
        }
    }
    Ok(None)
}

/// The entries of a removed directory that the list does not account for.
fn unlisted_entries(
    roots: &Roots,
    plan: &Plan,
    dir: &Location,
) -> Result<Vec<Conflict>, ApplyError> {
    let mut conflicts = Vec::new();
    for name in names(&roots.entry(dir)?)? {
        let entry = child_location(dir, &name);
        if !plan.vacated.contains(&entry) {
            conflicts.extend(conflict_if_changed(
                &entry,
                &PathState::Absent,
                roots.observe(&entry, None)?,
            ));
        }
    }
    Ok(conflicts)
}

pub(super) fn save_before_images(
    roots: &Roots,
    plan: &Plan,
    blobs: &BlobStore,
) -> Result<(), ApplyError> {
    /// Each pending blob holds a file descriptor.
    const AT_ONCE: usize = 256;
    let mut pending = Vec::new();
    let mut last = None;
    for planned in &plan.steps {
        let Some((at, image)) = replaced_file(&planned.step) else {
            continue;
        };
        if blobs.has(image.hash, image.size) && blobs.renew(image.hash).is_ok() {
            continue;
        }
        let file = roots.entry(at)?.open_file()?;
        let copy = blobs.write(&file).map_err(save_error(at))?;
        if (copy.hash, copy.size) != (image.hash, image.size) {
            let observation = roots.observe(at, None)?;
            let changed = conflict_if_changed(at, &PathState::File(*image), observation);
            return Err(ApplyError::Conflicts(changed.into_iter().collect()));
        }
        pending.push(copy);
        last = Some(at);
        if pending.len() == AT_ONCE {
            blobs
                .publish(std::mem::take(&mut pending))
                .map_err(save_error(at))?;
        }
    }
    match last {
        Some(at) => blobs.publish(pending).map_err(save_error(at)),
        None => Ok(()),
    }
}

fn replaced_file(step: &Step) -> Option<(&Location, &FileState)> {
    match step {
        Step::Remove {
            was_at,
            was: PathState::File(image),
            ..
        }
        | Step::Put {
            was_at,
            before: PathState::File(image),
            ..
        } => Some((was_at, image)),
        Step::Remove { .. }
        | Step::Put { .. }
        | Step::Move { .. }
        | Step::MakeDir { .. }
        | Step::Mode { .. } => None,
    }
}
