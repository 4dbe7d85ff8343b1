//! Reads a list of changes: which place of the tree before and which of the tree after each of them means.

use std::collections::{HashMap, HashSet};

use super::ApplyError;
use crate::{Change, Image, Location};

/// A change with both of its places.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub change: usize,
    pub at: Location,
    pub was_at: Location,
    pub before: Image,
    pub after: Image,
    pub from: Option<Location>,
}

/// The list that undoes the list.
pub fn inverted(changes: &[Change]) -> Vec<Change> {
    let items = items(changes);
    let sources: HashSet<&Location> = items.iter().filter_map(|item| item.from.as_ref()).collect();
    let mut early = Vec::new();
    let mut late = Vec::new();
    for item in &items {
        let before = if sources.contains(&item.at) && item.from.is_none() {
            // What was there moves back by itself.
            Image::Absent
        } else {
            item.before.clone()
        };
        match &item.from {
            Some(from) => {
                late.push(Change {
                    at: from.clone(),
                    before: Image::Absent,
                    after: item.after.clone(),
                    moved_from: Some(item.at.clone()),
                });
                if before != Image::Absent {
                    late.push(change(item.at.clone(), Image::Absent, before));
                }
            }
            None if item.was_at == item.at => {
                early.push(change(item.at.clone(), item.after.clone(), before));
            }
            None => late.push(change(item.was_at.clone(), item.after.clone(), before)),
        }
    }
    // What is listed before the move to its place belongs to what was there earlier, see `items`.
    for list in [&mut early, &mut late] {
        list.sort_by(|one, other| one.at.cmp(&other.at));
    }
    early.append(&mut late);
    early
}

fn change(at: Location, before: Image, after: Image) -> Change {
    Change {
        at,
        before,
        after,
        moved_from: None,
    }
}

/// Finds the place in the tree before for each change: inside of what moved, it is where that came from.
pub(super) fn items(changes: &[Change]) -> Vec<Item> {
    let moves: HashMap<&Location, (usize, &Location)> = changes
        .iter()
        .enumerate()
        .filter_map(|(n, change)| Some((&change.at, (n, change.moved_from.as_ref()?))))
        .collect();
    let item = |(n, change): (usize, &Change)| {
        let was_at = above(&change.at).find_map(|dir| {
            let (moved, from) = moves.get(&dir)?;
            // What is listed earlier was in the directory that had this place before.
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
        .filter(|item| matches!(item.after, Image::Dir { .. }))
        .filter_map(|item| item.from.clone())
        .collect();
    for item in &mut items {
        let renewed = item.from.is_none() && item.was_at == item.at && item.after != Image::Absent;
        if renewed
            && std::iter::once(item.at.clone())
                .chain(above(&item.at))
                .any(|at| left.contains(&at))
        {
            // Whatever was at this place went with the directory that moved away.
            item.before = Image::Absent;
        }
    }
    items
}

/// A file that moves onto another, or whose old place is used anew, is put there from what is kept of it: then the
/// new place never lacks a file, and the old place only changes its content.
pub(super) fn carried_out(mut items: Vec<Item>) -> Result<Vec<Item>, ApplyError> {
    let used: HashMap<Location, usize> = items
        .iter()
        .enumerate()
        .filter(|(_, item)| item.after != Image::Absent)
        .map(|(n, item)| (item.was_at.clone(), n))
        .collect();
    for n in 0..items.len() {
        let Some(from) = items[n].from.clone() else {
            continue;
        };
        let user = used.get(&from).copied();
        let what = items[n].after.clone();
        match what {
            Image::Absent => {
                let (at, why) = (from, "is moved and gone at once");
                return Err(ApplyError::List { at, why });
            }
            Image::Dir { .. } => {
                if let Some(user) = user {
                    if matches!(items[n].before, Image::Dir { .. }) {
                        let (at, why) = (from, "changes places with another directory");
                        return Err(ApplyError::List { at, why });
                    }
                    items[user].before = Image::Absent;
                }
            }
            Image::File(_) | Image::Link { .. } => {
                if user.is_none() && items[n].before == Image::Absent {
                    continue;
                }
                items[n].from = None;
                let change = items[n].change;
                match user {
                    Some(user) => items[user].before = what,
                    None => items.push(Item {
                        change,
                        at: from.clone(),
                        was_at: from,
                        before: what,
                        after: Image::Absent,
                        from: None,
                    }),
                }
            }
        }
    }
    Ok(items)
}

/// The directories that a place is in, the nearest first, without the root.
pub(super) fn above(place: &Location) -> impl Iterator<Item = Location> + use<> {
    let dir = |place: &Location| {
        Some(Location {
            root: place.root.clone(),
            path: place.path.rsplit_once('/')?.0.to_owned(),
        })
    };
    std::iter::successors(dir(place), dir)
}

/// `place`, which is inside `dir`, when `dir` is called `new`.
pub(super) fn rebased(place: &Location, dir: &Location, new: &Location) -> Location {
    Location {
        root: new.root.clone(),
        path: format!("{}{}", new.path, &place.path[dir.path.len()..]),
    }
}
