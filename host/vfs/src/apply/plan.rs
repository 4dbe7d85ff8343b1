//! Orders a list of changes into steps, and assigns each step a path for prepared and displaced files.
//!
//! The paths of a list refer to two trees. `moved_from` and the paths of removals are in the tree before; every
//! other `at` is in the tree after. Changes inside a moved directory are listed after the move, under its new path.
//! A path that was moved away and is reused has a separate change.
//!
//! Order: files are removed or moved away first, before any directory moves. Then directories are created, moved
//! and removed as their dependencies allow. Then files are written. A rollback runs in reverse, so every step meets
//! the tree as it left it.
//!
//! Prepared and displaced files are placed in the nearest directory that no step creates, moves or removes, so
//! their path is valid before, during and after all steps.

use std::collections::{HashMap, HashSet};

use super::{
    ApplyError,
    items::{Item, ancestors, items, resolve_file_moves},
    structural::{StructuralOrder, StructuralStep},
};
use crate::{Change, Location, PathState};

#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub step: Step,
    /// Where new content is prepared, and where a displaced entry is kept until all steps are done.
    pub aside: Location,
    /// Index of the change that this step belongs to.
    pub change: usize,
}

/// One change of the tree. The paths are valid when the step runs.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Remove {
        at: Location,
        /// The path in the tree before.
        was_at: Location,
        was: PathState,
    },
    Move {
        from: Location,
        was_from: Location,
        to: Location,
        was_to: Location,
        state: PathState,
        /// A later step creates another entry at `from`.
        reused: bool,
    },
    MakeDir {
        at: Location,
        was_at: Location,
        mode: u32,
    },
    /// Writes a file or a link, possibly over another.
    Put {
        at: Location,
        was_at: Location,
        before: PathState,
        after: PathState,
    },
    /// Changes the mode of a directory.
    Mode {
        at: Location,
        was_at: Location,
        before: u32,
        after: u32,
    },
}

#[derive(Debug)]
pub(super) struct Plan {
    pub steps: Vec<Planned>,
    /// Paths of the tree before that are removed or moved away.
    pub vacated: HashSet<Location>,
    /// Paths of the tree after at which a directory is created or a moved entry arrives.
    pub arrivals: HashMap<Location, Arrival>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    Made,
    Moved,
}

impl Plan {
    pub(super) fn of(changes: &[Change], id: &str) -> Result<Self, ApplyError> {
        let items = resolve_file_moves(items(changes))?;
        let mut order = StepOrder::default();
        for item in &items {
            order.add_item(item)?;
        }
        order.check(&items)?;
        order.run(id)
    }
}

#[derive(Default)]
struct StepOrder {
    first: Vec<(usize, Step)>,
    middle: Vec<StructuralStep>,
    last: Vec<(usize, Step)>,
    vacated: HashSet<Location>,
    arrivals: HashMap<Location, Arrival>,
}

impl StepOrder {
    fn add_item(&mut self, item: &Item) -> Result<(), ApplyError> {
        let change = item.change;
        let (at, was_at) = (item.at.clone(), item.was_at.clone());
        if item.from.is_some() || needs_free_target(&item.before, &item.after) {
            match &item.before {
                PathState::Absent => {}
                PathState::File(_) | PathState::Link { .. } => {
                    self.vacate(&was_at)?;
                    let step = Step::Remove {
                        at: was_at.clone(),
                        was_at: was_at.clone(),
                        was: item.before.clone(),
                    };
                    self.first.push((change, step));
                }
                PathState::Dir { .. } => {
                    self.vacate(&was_at)?;
                    self.middle.push(StructuralStep {
                        change,
                        source: Some(was_at.clone()),
                        dest: None,
                        was_dest: was_at.clone(),
                        image: item.before.clone(),
                    });
                }
            }
        }
        match (&item.from, &item.before, &item.after) {
            (Some(from), _, _) => {
                self.vacate(from)?;
                self.add_arrival(&at, Arrival::Moved)?;
                self.middle.push(StructuralStep {
                    change,
                    source: Some(from.clone()),
                    dest: Some(at),
                    was_dest: was_at,
                    image: item.after.clone(),
                });
            }
            (None, _, PathState::Absent) => {}
            (None, PathState::Dir { mode: before }, PathState::Dir { mode: after }) => {
                let (before, after) = (*before, *after);
                let step = Step::Mode {
                    at,
                    was_at,
                    before,
                    after,
                };
                self.last.push((change, step));
            }
            (None, _, PathState::Dir { .. }) => {
                self.add_arrival(&at, Arrival::Made)?;
                self.middle.push(StructuralStep {
                    change,
                    source: None,
                    dest: Some(at),
                    was_dest: was_at,
                    image: item.after.clone(),
                });
            }
            (None, before, PathState::File(_) | PathState::Link { .. }) => {
                let before = match before {
                    PathState::Dir { .. } => PathState::Absent,
                    PathState::Absent | PathState::File(_) | PathState::Link { .. } => {
                        before.clone()
                    }
                };
                let after = item.after.clone();
                let step = Step::Put {
                    at,
                    was_at,
                    before,
                    after,
                };
                self.last.push((change, step));
            }
        }
        Ok(())
    }

    fn vacate(&mut self, location: &Location) -> Result<(), ApplyError> {
        if self.vacated.insert(location.clone()) {
            return Ok(());
        }
        let (at, why) = (location.clone(), "is removed twice");
        Err(ApplyError::InvalidChanges { at, why })
    }

    fn add_arrival(&mut self, location: &Location, how: Arrival) -> Result<(), ApplyError> {
        if self.arrivals.insert(location.clone(), how).is_none() {
            return Ok(());
        }
        let (at, why) = (location.clone(), "is created twice");
        Err(ApplyError::InvalidChanges { at, why })
    }

    /// Checks that every new entry has a parent directory.
    fn check(&self, items: &[Item]) -> Result<(), ApplyError> {
        let mut made = HashSet::new();
        for item in items.iter().filter(|item| item.after != PathState::Absent) {
            if !made.insert(&item.at) {
                let (at, why) = (item.at.clone(), "is created twice");
                return Err(ApplyError::InvalidChanges { at, why });
            }
            let homeless = ancestors(&item.at)
                .take_while(|dir| !self.arrivals.contains_key(dir))
                .find(|dir| self.vacated.contains(dir));
            if homeless.is_some() {
                let (at, why) = (item.at.clone(), "is in a directory that is removed before");
                return Err(ApplyError::InvalidChanges { at, why });
            }
        }
        Ok(())
    }

    fn run(mut self, id: &str) -> Result<Plan, ApplyError> {
        let middle = std::mem::take(&mut self.middle);
        let mut unstable: HashSet<Location> = HashSet::new();
        for structural in &middle {
            unstable.extend(structural.source.iter().chain(&structural.dest).cloned());
        }
        let puts = self.last.iter().map(|(_, step)| step.location());
        let made = self.arrivals.keys().chain(puts).cloned().collect();
        let middle = StructuralOrder::new(middle).run(&made, &mut unstable)?;
        let steps = self.first.into_iter().chain(middle).chain(self.last);
        let steps = steps
            .enumerate()
            .map(|(n, (change, step))| Planned {
                aside: aside(
                    step.location(),
                    &unstable,
                    &format!(".toolhost-{id}-{n}.tmp"),
                ),
                step,
                change,
            })
            .collect();
        Ok(Plan {
            steps,
            vacated: self.vacated,
            arrivals: self.arrivals,
        })
    }
}

/// Between files and links one rename is enough; a directory has to be removed first, or its target freed.
fn needs_free_target(before: &PathState, after: &PathState) -> bool {
    let is_dir = |image: &PathState| matches!(image, PathState::Dir { .. });
    *after == PathState::Absent || is_dir(before) != is_dir(after)
}

impl Step {
    /// The path that the step changes.
    pub(super) fn location(&self) -> &Location {
        match self {
            Self::Remove { at, .. }
            | Self::MakeDir { at, .. }
            | Self::Put { at, .. }
            | Self::Mode { at, .. } => at,
            Self::Move { to, .. } => to,
        }
    }
}

fn aside(location: &Location, unstable: &HashSet<Location>, name: &str) -> Location {
    let mut dirs: Vec<Location> = ancestors(location).collect();
    dirs.reverse();
    let stable = dirs
        .iter()
        .take_while(|dir| !unstable.contains(*dir))
        .last();
    Location {
        root: location.root.clone(),
        path: stable.map_or_else(|| name.to_owned(), |dir| format!("{}/{name}", dir.path)),
    }
}
