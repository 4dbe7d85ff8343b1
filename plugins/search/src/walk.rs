//! Traversal of the files below a path, sorted by name, without ignored entries.

use std::io;
use std::ops::ControlFlow;

use crate::disk::{Directory, Kind, Listing};
use crate::ignore_rules::{AppliedRules, IgnoreState, RuleFiles, Rules};
use crate::search_path::SearchPath;
use crate::time_limit::{SearchClock, StopReason};

/// Depth limit of a traversal. Each level uses stack space, and a stack overflow would lose all results.
const DEEPEST: usize = 256;

/// A visited entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub path: &'a str,
    pub name: &'a str,
    /// Path relative to the start of the traversal.
    pub below: &'a str,
    /// Path relative to the first root.
    pub shown: &'a str,
    pub kind: Kind,
    /// The directory that contains it.
    pub dir: &'a Directory,
}

/// What a traversal skips.
pub struct Options<'a> {
    pub honour: AppliedRules,
    /// Visit entries whose name starts with a dot.
    pub dot: bool,
    /// Number of levels; 1 visits only the entries of the start.
    pub depth: usize,
    /// Skips an entry, including everything below it.
    pub excluded: &'a dyn Fn(&Entry<'_>) -> bool,
}

/// Counts of skipped entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkipCounts {
    /// Entries ignored by git rules; a directory counts once.
    pub git: u64,
    /// Entries ignored by tool rules; a directory counts once.
    pub tool: u64,
    /// Directories that cannot be listed or are too deep, and names that are not Unicode.
    pub unreadable: u64,
}

/// Calls `visit` with every entry below `start` until it breaks. Fails only if `start` cannot be listed.
pub fn walk(
    start: &SearchPath,
    options: &Options<'_>,
    clock: &SearchClock<'_>,
    visit: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<StopReason>,
) -> io::Result<(SkipCounts, ControlFlow<StopReason>)> {
    let mut rules = Rules::new(options.honour);
    for directory in start.ancestors() {
        rules.enter_unlisted(directory);
    }
    let path = start.path().to_owned();
    let mut walk = Walk {
        start,
        options,
        rules,
        clock,
        visit,
        path,
        tally: SkipCounts::default(),
    };
    let dir = Directory::open(start.path())?;
    let listing = dir.list()?;
    let flow = walk.entries(&dir, listing, 1);
    Ok((walk.tally, flow))
}

struct Walk<'a, 'c> {
    start: &'a SearchPath,
    options: &'a Options<'a>,
    rules: Rules,
    clock: &'a SearchClock<'c>,
    visit: &'a mut dyn FnMut(&Entry<'_>) -> ControlFlow<StopReason>,
    /// The current path; reused instead of rebuilt for each entry.
    path: String,
    tally: SkipCounts,
}

impl Walk<'_, '_> {
    /// Visits the entries of the directory at `self.path`.
    fn entries(
        &mut self,
        dir: &Directory,
        mut listing: Listing,
        depth: usize,
    ) -> ControlFlow<StopReason> {
        self.tally.unreadable += listing.unreadable;
        listing
            .entries
            .sort_unstable_by(|left, right| left.0.cmp(&right.0));
        let mut files = RuleFiles::default();
        for (name, _) in &listing.entries {
            files.record(name);
        }
        let has_rules = self.rules.enter(&self.path, &files);
        let length = self.path.len();
        let flow = listing.entries.iter().try_for_each(|(name, kind)| {
            self.path.push('/');
            self.path.push_str(name);
            let flow = self.entry(dir, name, *kind, depth);
            self.path.truncate(length);
            flow
        });
        if has_rules {
            self.rules.leave();
        }
        flow
    }

    fn entry(
        &mut self,
        dir: &Directory,
        name: &str,
        kind: Kind,
        depth: usize,
    ) -> ControlFlow<StopReason> {
        if let Some(stop) = self.clock.tick() {
            return ControlFlow::Break(stop);
        }
        if !self.options.dot && name.starts_with('.') {
            return ControlFlow::Continue(());
        }
        let below = &self.path[self.start.path().len() + 1..];
        let entry = Entry {
            path: &self.path,
            name,
            below,
            shown: self.start.show(&self.path),
            kind,
            dir,
        };
        if (self.options.excluded)(&entry) {
            return ControlFlow::Continue(());
        }
        match self.rules.check(&self.path, name, kind == Kind::Directory) {
            IgnoreState::Keep => {}
            IgnoreState::History => return ControlFlow::Continue(()),
            IgnoreState::Git => {
                self.tally.git += 1;
                return ControlFlow::Continue(());
            }
            IgnoreState::Tool => {
                self.tally.tool += 1;
                return ControlFlow::Continue(());
            }
        }
        (self.visit)(&entry)?;
        if kind == Kind::Directory && depth < self.options.depth {
            if depth >= DEEPEST {
                self.tally.unreadable += 1;
                return ControlFlow::Continue(());
            }
            let opened = dir.directory(name);
            if let Ok((dir, listing)) =
                opened.and_then(|dir| dir.list().map(|listing| (dir, listing)))
            {
                self.entries(&dir, listing, depth + 1)
            } else {
                self.tally.unreadable += 1;
                ControlFlow::Continue(())
            }
        } else {
            ControlFlow::Continue(())
        }
    }
}
