//! What a call looked at: which names it asked for, which directories it listed and which files it opened. While all
//! of it is as it was, the call would do the same again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    ops::Bound,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::{
    ContentHash, Entry, FileId, Kind, Scope, Stat,
    sys::{BENEATH, NAME_ONLY, open_beneath},
};

/// More names than this are not kept, and then nobody can say that all of them are as they were.
const MAX_NAMES: usize = 20_000;
/// Nor more than this many bytes of names.
const MAX_BYTES: usize = 4 << 20;
/// Contents of one call that are read once more, to be compared when only times have changed.
const MAX_HASHED: u64 = 64 << 20;
/// A clock of a file system ticks this slowly at worst: what was written within a tick looks the same afterwards.
const TICK: Duration = Duration::from_secs(2);

/// The read set of one call. What the call itself put there is not part of it.
#[derive(Debug, Default)]
pub struct Reads(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    names: BTreeMap<PathBuf, Name>,
    listings: BTreeMap<PathBuf, ContentHash>,
    /// Directories that the call moved: whatever is in them counts as seen.
    trees: BTreeSet<PathBuf>,
    /// Of all paths.
    bytes: usize,
    /// Something was seen that cannot be kept, or two things at one name.
    lost: bool,
}

impl Log {
    /// Was a directory asked about itself, and not only passed on the way?
    fn shows_times(&self, dir: &Path) -> bool {
        let seen = self.names.get(dir).and_then(|name| name.seen);
        seen.is_some_and(|seen| seen.rest.is_some())
    }

    /// Room for one more path. Without it nothing is kept any more: half of it would say nothing.
    fn fits(&mut self, path: &Path) -> bool {
        self.bytes += path.as_os_str().len() + size_of::<(PathBuf, Name)>();
        let paths = self.names.len() + self.listings.len() + self.trees.len();
        if self.lost || paths >= MAX_NAMES || self.bytes > MAX_BYTES {
            *self = Self {
                lost: true,
                ..Self::default()
            };
        }
        !self.lost
    }
}

#[derive(Debug)]
struct Name {
    seen: Option<Print>,
    content: Option<Content>,
    /// When it was last looked at, by the clock of this machine.
    at: SystemTime,
}

#[derive(Debug, PartialEq)]
enum Content {
    Opened,
    Hashed(ContentHash),
}

/// What tells one state of a thing from the next. Of a directory on the way only that it is the same one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Print {
    id: FileId,
    kind: Kind,
    rest: Option<Rest>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Rest {
    size: u64,
    links: u64,
    modified: Option<SystemTime>,
    changed: Option<SystemTime>,
}

impl Print {
    fn of(stat: &Stat, on_the_way: bool) -> Self {
        let rest = Rest {
            size: stat.size,
            links: stat.links,
            modified: stat.modified,
            changed: stat.changed,
        };
        Self {
            id: stat.id,
            kind: stat.kind,
            rest: (!on_the_way || stat.kind != Kind::Directory).then_some(rest),
        }
    }

    fn agrees(&self, other: &Print) -> bool {
        let rests = self.rest.zip(other.rest);
        (self.id, self.kind) == (other.id, other.kind)
            && rests.is_none_or(|(one, other)| one == other)
    }
}

impl Reads {
    pub(crate) fn name(&self, path: PathBuf, stat: Option<&Stat>, on_the_way: bool) {
        let now = SystemTime::now();
        let mut log = self.log();
        if log.lost {
            return;
        }
        let seen = stat.map(|stat| Print::of(stat, on_the_way));
        if let Some(name) = log.names.get_mut(&path) {
            let same = match (&name.seen, &seen) {
                (None, None) => true,
                (Some(one), Some(other)) => one.agrees(other),
                _ => false,
            };
            name.at = now;
            if let (
                Some(known),
                Some(Print {
                    rest: Some(rest), ..
                }),
            ) = (&mut name.seen, seen)
            {
                known.rest = Some(rest);
            }
            log.lost |= !same;
            return;
        }
        if log.fits(&path) {
            let content = None;
            let at = now;
            log.names.insert(path, Name { seen, content, at });
        }
    }

    /// The file was opened for its content.
    pub(crate) fn content(&self, path: PathBuf, stat: &Stat) {
        self.name(path.clone(), Some(stat), false);
        if let Some(name) = self.log().names.get_mut(&path) {
            name.content.get_or_insert(Content::Opened);
        }
    }

    pub(crate) fn listing(&self, path: PathBuf, entries: &[Entry]) {
        let hash = hash_of(entries);
        let mut log = self.log();
        match log.listings.get(&path).copied() {
            Some(known) => {
                let same = known == hash;
                log.lost |= !same;
            }
            None if log.fits(&path) => {
                log.listings.insert(path, hash);
            }
            None => {}
        }
    }

    pub(crate) fn tree(&self, path: PathBuf) {
        let mut log = self.log();
        if !log.trees.contains(&path) && log.fits(&path) {
            log.trees.insert(path);
        }
    }

    /// Whether a change at this path on the host can have been seen, or could be now. `in_place`: a file was there
    /// before and is there now, so that listings stay as they are.
    pub fn touched_by(&self, path: &Path, in_place: bool) -> bool {
        let log = self.log();
        log.lost
            || at_or_below(&log.names, path)
            || at_or_below(&log.listings, path)
            // Its times.
            || path.parent().is_some_and(|dir| log.shows_times(dir))
            || !in_place
                && path
                    .parent()
                    .is_some_and(|dir| log.listings.contains_key(dir))
            || log
                .trees
                .iter()
                .any(|tree| path.starts_with(tree) || tree.starts_with(path))
    }

    /// Reads the opened files once more, so that later a changed time alone does not count as a change. For a call
    /// that has ended.
    pub fn hash_contents(&self, scope: &Scope) {
        let mut log = self.log();
        let mut left = MAX_HASHED;
        let mut lost = false;
        for (path, name) in &mut log.names {
            let (Some(Content::Opened), Some(seen)) = (&name.content, name.seen) else {
                continue;
            };
            let size = seen.rest.map_or(0, |rest| rest.size);
            let Some(rest) = left.checked_sub(size) else {
                continue;
            };
            left = rest;
            match hash_file(scope, path) {
                Some((hash, now)) if now == seen => name.content = Some(Content::Hashed(hash)),
                _ => lost = true,
            }
        }
        log.lost |= lost;
    }

    /// Whether everything is as the call saw it. Looks at all of it, so it may take its time; `scope` is what the call
    /// had.
    pub fn still_hold(&self, scope: &Scope) -> bool {
        let log = self.log();
        !log.lost
            && log.trees.is_empty()
            && log
                .names
                .iter()
                .all(|(path, name)| name.still_holds(scope, path))
            && log.listings.iter().all(|(path, hash)| {
                list(scope, path).is_some_and(|entries| hash_of(&entries) == *hash)
            })
    }

    /// About as many bytes as it takes in memory.
    pub fn weight(&self) -> usize {
        size_of::<Log>() + self.log().bytes
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Name {
    fn still_holds(&self, scope: &Scope, path: &Path) -> bool {
        let now = look(scope, path);
        let (seen, now) = match (self.seen, now) {
            (None, Looked::Absent) => return true,
            (Some(seen), Looked::Found(now)) => (seen, now),
            _ => return false,
        };
        // A write within the tick of the clock would not show.
        let settled = seen
            .rest
            .and_then(|rest| rest.changed)
            .is_none_or(|changed| {
                self.at
                    .duration_since(changed)
                    .is_ok_and(|since| since > TICK)
            });
        let same = seen.agrees(&now);
        match &self.content {
            Some(Content::Hashed(hash)) if !(same && settled) => {
                let now = hash_file(scope, path);
                seen.kind == now.as_ref().map_or(Kind::Unknown, |(_, print)| print.kind)
                    && now.is_some_and(|(now, _)| now == *hash)
            }
            Some(Content::Opened) => same && settled,
            // A directory's entries are compared one by one, where they were listed.
            _ => same,
        }
    }
}

enum Looked {
    Absent,
    Found(Print),
    Unknown,
}

fn look(scope: &Scope, path: &Path) -> Looked {
    let fd = open(scope, path, NAME_ONLY);
    match fd.map(|fd| Stat::of(&fd)) {
        Ok(Ok(stat)) => Looked::Found(Print::of(&stat, false)),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Looked::Absent,
        _ => Looked::Unknown,
    }
}

fn open(scope: &Scope, path: &Path, flags: OFlags) -> rustix::io::Result<rustix::fd::OwnedFd> {
    let site = scope.site_of(path).ok_or(rustix::io::Errno::ACCESS)?;
    let root = &scope.roots()[site.root];
    let below = match site.below.as_os_str() {
        below if below.is_empty() => Path::new("."),
        _ => &site.below,
    };
    let resolve = BENEATH | ResolveFlags::NO_SYMLINKS;
    open_beneath(root.as_fd(), below, flags, Mode::empty(), resolve)
}

fn hash_file(scope: &Scope, path: &Path) -> Option<(ContentHash, Print)> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(scope, path, flags).ok()?);
    let before = Stat::of(&file).ok()?;
    if before.kind != Kind::File {
        return None;
    }
    let hash = ContentHash::of_reader(&file).ok()?;
    let after = Stat::of(&file).ok()?;
    let print = Print::of(&after, false);
    (print == Print::of(&before, false)).then_some((hash, print))
}

fn list(scope: &Scope, path: &Path) -> Option<Vec<Entry>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = open(scope, path, flags).ok()?;
    let listed = scope.read_dir(dir.as_fd(), MAX_NAMES * 10).ok()?;
    Some(listed.entries)
}

/// In any order: that of a file system says nothing.
fn hash_of(entries: &[Entry]) -> ContentHash {
    let mut lines: Vec<String> = entries
        .iter()
        .map(|entry| format!("{}\0{:?}\0", entry.name, entry.kind))
        .collect();
    lines.sort_unstable();
    ContentHash::of(lines.concat().as_bytes())
}

/// Paths are ordered by their components, so what is below a path comes right after it.
fn at_or_below<T>(map: &BTreeMap<PathBuf, T>, path: &Path) -> bool {
    map.range::<Path, _>((Bound::Included(path), Bound::Unbounded))
        .next()
        .is_some_and(|(found, _)| found.starts_with(path))
}
