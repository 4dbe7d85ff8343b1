//! Visits the files below a place, in the order of their names, without the ignored ones.

use std::io;
use std::ops::ControlFlow;

use crate::clock::{Clock, Stop};
use crate::disk::{Directory, Kind, Listing};
use crate::place::Place;
use crate::rules::{Honour, RuleFiles, Rules, Verdict};

/// Levels that a walk goes down. Each takes some of the stack, and a guest that runs out of it has found nothing.
const DEEPEST: usize = 256;

/// An entry on the walk.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub path: &'a str,
    pub name: &'a str,
    /// Path relative to the start of the walk.
    pub below: &'a str,
    /// Path relative to the first root.
    pub shown: &'a str,
    pub kind: Kind,
    /// The directory that it is in.
    pub dir: &'a Directory,
}

/// What the walk is to leave out.
pub struct Options<'a> {
    pub honour: Honour,
    /// Visit entries whose name starts with a dot.
    pub dot: bool,
    /// How many levels to go down; 1 is the start's own entries.
    pub depth: usize,
    /// Leave out an entry, and if it is a directory all below it.
    pub excluded: &'a dyn Fn(&Entry<'_>) -> bool,
}

/// What the walk left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Entries ignored by git's rules; a directory counts once.
    pub git: u64,
    /// Entries ignored by the rules for tools; a directory counts once.
    pub tool: u64,
    /// Directories that could not be listed or lie too deep, and names that are not Unicode.
    pub unreadable: u64,
}

/// Calls `visit` with every entry below `start`, and breaks when it does. Fails only where `start` cannot be listed.
pub fn walk(
    start: &Place,
    options: &Options<'_>,
    clock: &Clock<'_>,
    visit: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<Stop>,
) -> io::Result<(Tally, ControlFlow<Stop>)> {
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
        tally: Tally::default(),
    };
    let dir = Directory::open(start.path())?;
    let listing = dir.list()?;
    let flow = walk.entries(&dir, listing, 1);
    Ok((walk.tally, flow))
}

struct Walk<'a, 'c> {
    start: &'a Place,
    options: &'a Options<'a>,
    rules: Rules,
    clock: &'a Clock<'c>,
    visit: &'a mut dyn FnMut(&Entry<'_>) -> ControlFlow<Stop>,
    /// Where we are; grows and shrinks instead of being built anew for each entry.
    path: String,
    tally: Tally,
}

impl Walk<'_, '_> {
    /// Visits the entries of the directory at `self.path`.
    fn entries(
        &mut self,
        dir: &Directory,
        mut listing: Listing,
        depth: usize,
    ) -> ControlFlow<Stop> {
        self.tally.unreadable += listing.unreadable;
        listing
            .entries
            .sort_unstable_by(|left, right| left.0.cmp(&right.0));
        let mut files = RuleFiles::default();
        for (name, _) in &listing.entries {
            files.notice(name);
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
    ) -> ControlFlow<Stop> {
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
        match self.rules.judge(&self.path, name, kind == Kind::Directory) {
            Verdict::Keep => {}
            Verdict::History => return ControlFlow::Continue(()),
            Verdict::Git => {
                self.tally.git += 1;
                return ControlFlow::Continue(());
            }
            Verdict::Tool => {
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
