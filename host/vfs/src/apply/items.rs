//! Maps each change to its path in the tree before and its path in the tree after.

use std::collections::{HashMap, HashSet};

use super::ApplyError;
use crate::{Change, Location, PathState};

/// A change with its path before and its path after.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub change: usize,
    pub at: Location,
    pub was_at: Location,
    pub before: PathState,
    pub after: PathState,
    pub from: Option<Location>,
}

/// The list that undoes `changes`.
pub fn inverted(changes: &[Change]) -> Vec<Change> {
    let items = items(changes);
    let sources: HashSet<&Location> = items.iter().filter_map(|item| item.from.as_ref()).collect();
    let mut early = Vec::new();
    let mut late = Vec::new();
    for item in &items {
        let before = if sources.contains(&item.at) && item.from.is_none() {
            // The replaced entry moves back in a separate change.
            PathState::Absent
        } else {
            item.before.clone()
        };
        match &item.from {
            Some(from) => {
                late.push(Change {
                    at: from.clone(),
                    before: PathState::Absent,
                    after: item.after.clone(),
                    moved_from: Some(item.at.clone()),
                });
                if before != PathState::Absent {
                    late.push(change(item.at.clone(), PathState::Absent, before));
                }
            }
            None if item.was_at == item.at => {
                early.push(change(item.at.clone(), item.after.clone(), before));
            }
            None => late.push(change(item.was_at.clone(), item.after.clone(), before)),
        }
    }
    // A change listed before the move to its path belongs to the earlier entry, see `items`.
    for list in [&mut early, &mut late] {
        list.sort_by(|one, other| one.at.cmp(&other.at));
    }
    early.append(&mut late);
    early
}

fn change(at: Location, before: PathState, after: PathState) -> Change {
    Change {
        at,
        before,
        after,
        moved_from: None,
    }
}

/// Finds the path in the tree before for each change: inside a moved directory, it is below the source of the move.
pub(super) fn items(changes: &[Change]) -> Vec<Item> {
    let moves: HashMap<&Location, (usize, &Location)> = changes
        .iter()
        .enumerate()
        .filter_map(|(n, change)| Some((&change.at, (n, change.moved_from.as_ref()?))))
        .collect();
    let item = |(n, change): (usize, &Change)| {
        let was_at = ancestors(&change.at).find_map(|dir| {
            let (moved, from) = moves.get(&dir)?;
            // An entry listed earlier was in the directory that had this path before.
            (*moved < n).then(|| rebased(&change.at, &dir, from))
        });
        Item {
            change: n,
            at: change.at.clone(),
            was_at: was_at.unwrap_or_else(|| change.at.clone()),
            before: change.before.clone(),
            after: change.after.clone(),
            from: change.moved_from.clone(),
        }
    };
    let mut items: Vec<Item> = changes.iter().enumerate().map(item).collect();
    let left: HashSet<Location> = items
        .iter()
        .filter(|item| matches!(item.after, PathState::Dir { .. }))
        .filter_map(|item| item.from.clone())
        .collect();
    for item in &mut items {
        let renewed =
            item.from.is_none() && item.was_at == item.at && item.after != PathState::Absent;
        if renewed
            && std::iter::once(item.at.clone())
                .chain(ancestors(&item.at))
                .any(|at| left.contains(&at))
        {
            // The entry at this path went with the moved directory.
            item.before = PathState::Absent;
        }
    }
    items
}

/// Turns some file moves into writes of the saved content.
///
/// This applies to a move over an existing file, and to a move whose source path is reused. The target then always
/// has a file, and the source only changes its content.
pub(super) fn resolve_file_moves(mut items: Vec<Item>) -> Result<Vec<Item>, ApplyError> {
    let used: HashMap<Location, usize> = items
        .iter()
        .enumerate()
        .filter(|(_, item)| item.after != PathState::Absent)
        .map(|(n, item)| (item.was_at.clone(), n))
        .collect();
    for n in 0..items.len() {
        let Some(from) = items[n].from.clone() else {
            continue;
        };
        let user = used.get(&from).copied();
        let after = items[n].after.clone();
        match after {
            PathState::Absent => {
                let (at, why) = (from, "is both moved and removed");
                return Err(ApplyError::InvalidChanges { at, why });
            }
            PathState::Dir { .. } => {
                if let Some(user) = user {
                    if matches!(items[n].before, PathState::Dir { .. }) {
                        let (at, why) = (from, "is swapped with another directory");
                        return Err(ApplyError::InvalidChanges { at, why });
                    }
                    items[user].before = PathState::Absent;
                }
            }
            PathState::File(_) | PathState::Link { .. } => {
                if user.is_none() && items[n].before == PathState::Absent {
                    continue;
                }
                items[n].from = None;
                let change = items[n].change;
                match user {
                    Some(user) => items[user].before = after,
                    None => items.push(Item {
                        change,
                        at: from.clone(),
                        was_at: from,
                        before: after,
                        after: PathState::Absent,
                        from: None,
                    }),
                }
            }
        }
    }
    Ok(items)
}

/// The parent directories of a path, nearest first, without the root.
pub(super) fn ancestors(location: &Location) -> impl Iterator<Item = Location> + use<> {
    let dir = |location: &Location| {
        Some(Location {
            root: location.root.clone(),
            path: location.path.rsplit_once('/')?.0.to_owned(),
        })
    };
    std::iter::successors(dir(location), dir)
}

/// `location` inside `dir`, after `dir` is renamed to `new`.
pub(super) fn rebased(location: &Location, dir: &Location, new: &Location) -> Location {
    Location {
        root: new.root.clone(),
        path: format!("{}{}", new.path, &location.path[dir.path.len()..]),
    }
}
