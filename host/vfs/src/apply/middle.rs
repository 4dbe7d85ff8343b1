//! Orders the creation, moves and removal of directories by their dependencies.

use std::collections::{HashMap, HashSet};

use super::{
    ApplyError,
    items::{above, rebased},
    plan::Step,
};
use crate::{Image, Location};

/// A step that creates, moves or removes a directory, or moves a file.
#[derive(Debug)]
pub(super) struct Structural {
    pub change: usize,
    /// In the tree before the changes.
    pub source: Option<Location>,
    /// In the tree after the changes.
    pub dest: Option<Location>,
    pub was_dest: Location,
    pub image: Image,
}

/// Runs each pending step once it is unblocked.
pub(super) struct Middle {
    pending: Vec<Structural>,
    sources: HashSet<Location>,
    dests: HashSet<Location>,
    /// Number of pending sources inside each directory.
    inside: HashMap<Location, usize>,
    moved: HashMap<Location, Location>,
}

impl Middle {
    pub(super) fn new(mut pending: Vec<Structural>) -> Self {
        // Parents are created before children and removed after them, so that one pass is usually enough.
        pending.sort_by(|one, other| match (&one.dest, &other.dest) {
            (Some(one), Some(other)) => one.cmp(other),
            (None, None) => other.source.cmp(&one.source),
            (one, other) => one.is_none().cmp(&other.is_none()),
        });
        let sources: HashSet<_> = pending.iter().filter_map(|p| p.source.clone()).collect();
        let mut inside = HashMap::new();
        for dir in sources.iter().flat_map(above) {
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
                return Err(ApplyError::List { at, why });
            }
        }
        Ok(steps)
    }

    fn is_ready(&self, structural: &Structural) -> bool {
        match (&structural.source, &structural.dest) {
            (Some(source), None) => !self.inside.contains_key(source),
            (_, Some(dest)) => {
                !self.sources.contains(dest) && !above(dest).any(|dir| self.dests.contains(&dir))
            }
            (None, None) => true,
        }
    }

    fn step(&mut self, done: Structural, made: &HashSet<Location>) -> (usize, Step) {
        if let Some(source) = &done.source {
            self.sources.remove(source);
            for dir in above(source) {
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
                let from = self.now(&was_from);
                self.moved.insert(was_from.clone(), to.clone());
                Step::Move {
                    reused: made.contains(&from) || made.contains(&was_from),
                    from,
                    was_from,
                    to,
                    was_to: done.was_dest,
                    what: done.image,
                }
            }
            (Some(was_at), None) => Step::Remove {
                at: self.now(&was_at),
                was_at,
                was: done.image,
            },
            (None, dest) => Step::MakeDir {
                at: dest.unwrap_or_else(|| done.was_dest.clone()),
                was_at: done.was_dest,
                mode: match done.image {
                    Image::Dir { mode } => mode,
                    Image::Absent | Image::File(_) | Image::Link { .. } => 0o700,
                },
            },
        };
        (done.change, step)
    }

    /// The current path of an entry of the tree before, after the moves so far.
    fn now(&self, was: &Location) -> Location {
        above(was)
            .find_map(|dir| Some(rebased(was, &dir, self.moved.get(&dir)?)))
            .unwrap_or_else(|| was.clone())
    }
}
