//! Visits the files below a place, in the order of their names, without the ignored ones.

use std::fs;
use std::io;
use std::ops::ControlFlow;

use crate::clock::{Clock, Stop};
use crate::place::Place;
use crate::rules::{Honour, RuleFiles, Rules, Verdict};

/// What sort of thing an entry of a directory is, as the listing says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    /// A symbolic link (which is not followed: it may lead out of the tree or back into it), a socket, a device.
    Other,
}

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
    /// Directories that could not be listed, and names that are not Unicode.
    pub unreadable: u64,
}

/// Calls `visit` with every entry below `start`, and breaks when it does.
pub fn walk(
    start: &Place,
    options: &Options<'_>,
    clock: &mut Clock<'_>,
    visit: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<Stop>,
) -> (Tally, ControlFlow<Stop>) {
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
    let flow = walk.directory(1);
    (walk.tally, flow)
}

struct Walk<'a, 'c> {
    start: &'a Place,
    options: &'a Options<'a>,
    rules: Rules,
    clock: &'a mut Clock<'c>,
    visit: &'a mut dyn FnMut(&Entry<'_>) -> ControlFlow<Stop>,
    /// Where we are; grows and shrinks instead of being built anew for each entry.
    path: String,
    tally: Tally,
}

impl Walk<'_, '_> {
    /// Visits the entries of the directory at `self.path`.
    fn directory(&mut self, depth: usize) -> ControlFlow<Stop> {
        let mut files = RuleFiles::default();
        let Ok(mut entries) = self.list(&mut files) else {
            self.tally.unreadable += 1;
            return ControlFlow::Continue(());
        };
        entries.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        let has_rules = self.rules.enter(&self.path, &files);
        let length = self.path.len();
        let flow = entries.iter().try_for_each(|(name, kind)| {
            self.path.push('/');
            self.path.push_str(name);
            let flow = self.entry(name, *kind, depth);
            self.path.truncate(length);
            flow
        });
        if has_rules {
            self.rules.leave();
        }
        flow
    }

    fn list(&mut self, files: &mut RuleFiles) -> io::Result<Vec<(String, Kind)>> {
        // The file system's own root is the empty text here.
        let directory = if self.path.is_empty() {
            "/"
        } else {
            &self.path
        };
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory)? {
            // The type comes with the listing; asking for metadata would be a visit to the host for each entry.
            let listed = entry.and_then(|entry| Ok((entry.file_type()?, entry.file_name())));
            let Some((kind, name)) = listed
                .ok()
                .and_then(|(kind, name)| Some((kind, name.into_string().ok()?)))
            else {
                self.tally.unreadable += 1;
                continue;
            };
            files.notice(&name);
            let kind = match kind {
                kind if kind.is_file() => Kind::File,
                kind if kind.is_dir() => Kind::Directory,
                _ => Kind::Other,
            };
            entries.push((name, kind));
        }
        Ok(entries)
    }

    fn entry(&mut self, name: &str, kind: Kind, depth: usize) -> ControlFlow<Stop> {
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
            self.directory(depth + 1)
        } else {
            ControlFlow::Continue(())
        }
    }
}
