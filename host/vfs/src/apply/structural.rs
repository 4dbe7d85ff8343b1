//! Orders the creation, moves and removal of directories by their dependencies.

use std::collections::{HashMap, HashSet};

use super::{
    ApplyError,
    items::{ancestors, rebased},
    plan::Step,
};
use crate::{Location, PathState};

/// A step that creates, moves or removes a directory, or moves a file.
#[derive(Debug)]
pub(super) struct StructuralStep {
    pub change: usize,
    /// In the tree before the changes.
    pub source: Option<Location>,
    /// In the tree after the changes.
    pub dest: Option<Location>,
    pub was_dest: Location,
    pub image: PathState,
}

/// Runs each pending step once it is unblocked.
pub(super) struct StructuralOrder {
    pending: Vec<StructuralStep>,
    sources: HashSet<Location>,
    dests: HashSet<Location>,
    /// Number of pending sources inside each directory.
    inside: HashMap<Location, usize>,
    moved: HashMap<Location, Location>,
}

impl StructuralOrder {
    pub(super) fn new(mut pending: Vec<StructuralStep>) -> Self {
        // Parents are created before children and removed after them, so that one pass is usually enough.
        pending.sort_by(|one, other| match (&one.dest, &other.dest) {
            (Some(one), Some(other)) => one.cmp(other),
            (None, None) => other.source.cmp(&one.source),
            (one, other) => one.is_none().cmp(&other.is_none()),
        });
        let sources: HashSet<_> = pending.iter().filter_map(|p| p.source.clone()).collect();
        let mut inside = HashMap::new();
        for dir in sources.iter().flat_map(ancestors) {
            *inside.entry(dir).or_insert(0) += 1;
        }
        Self {
            dests: pending.iter().filter_map(|p| p.dest.clone()).collect(),
            sources,
            inside,
            pending,
            moved: HashMap::new(),
        }
    }

    pub(super) fn run(
        mut self,
        made: &HashSet<Location>,
        unstable: &mut HashSet<Location>,
    ) -> Result<Vec<(usize, Step)>, ApplyError> {
        let mut steps = Vec::with_capacity(self.pending.len());
        while !self.pending.is_empty() {
            let all = std::mem::take(&mut self.pending);
            let before = all.len();
            for structural in all {
                if self.is_ready(&structural) {
                    let (change, step) = self.step(structural, made);
                    if let Step::Remove { at, .. } | Step::Move { from: at, .. } = &step {
                        unstable.insert(at.clone());
                    }
                    steps.push((change, step));
                } else {
                    self.pending.push(structural);
                }
            }
            if let Some(stuck) = self
                .pending
                .first()
                .filter(|_| self.pending.len() == before)
            {
                let at = stuck.dest.clone().unwrap_or_else(|| stuck.was_dest.clone());
                let why = "has a circular dependency";
                return Err(ApplyError::InvalidChanges { at, why });
            }
        }
        Ok(steps)
    }

    fn is_ready(&self, structural: &StructuralStep) -> bool {
        match (&structural.source, &structural.dest) {
            (Some(source), None) => !self.inside.contains_key(source),
            (_, Some(dest)) => {
                !self.sources.contains(dest)
                    && !ancestors(dest).any(|dir| self.dests.contains(&dir))
            }
            (None, None) => true,
        }
    }

    fn step(&mut self, done: StructuralStep, made: &HashSet<Location>) -> (usize, Step) {
        if let Some(source) = &done.source {
            self.sources.remove(source);
            for dir in ancestors(source) {
                if let Some(count) = self.inside.get_mut(&dir) {
                    *count -= 1;
                    if *count == 0 {
                        self.inside.remove(&dir);
                    }
                }
            }
        }
        if let Some(dest) = &done.dest {
            self.dests.remove(dest);
        }
        let step = match (done.source, done.dest) {
            (Some(was_from), Some(to)) => {
                let from = self.current_path(&was_from);
                self.moved.insert(was_from.clone(), to.clone());
                Step::Move {
                    reused: made.contains(&from) || made.contains(&was_from),
                    from,
                    was_from,
                    to,
                    was_to: done.was_dest,
                    state: done.image,
                }
            }
            (Some(was_at), None) => Step::Remove {
                at: self.current_path(&was_at),
                was_at,
                was: done.image,
            },
            (None, dest) => Step::MakeDir {
                at: dest.unwrap_or_else(|| done.was_dest.clone()),
                was_at: done.was_dest,
                mode: match done.image {
                    PathState::Dir { mode } => mode,
                    PathState::Absent | PathState::File(_) | PathState::Link { .. } => 0o700,
                },
            },
        };
        (done.change, step)
    }

    /// The current path of an entry of the tree before, after the moves so far.
    fn current_path(&self, was: &Location) -> Location {
        ancestors(was)
            .find_map(|dir| Some(rebased(was, &dir, self.moved.get(&dir)?)))
            .unwrap_or_else(|| was.clone())
    }
}
