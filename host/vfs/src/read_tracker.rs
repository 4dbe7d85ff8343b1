//! Read set of a call: names looked up, directories listed and files opened. While all of it is unchanged, the call
//! would produce the same result.

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
    ContentHash, DirEntry, EntryKind, FileId, Scope, Stat,
    sys::{BENEATH, NAME_ONLY, open_beneath},
};

/// Maximum number of recorded names. Above it the read set is incomplete, and counts as changed.
const MAX_NAMES: usize = 20_000;
/// Maximum size of all recorded paths, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// Maximum size of the file contents of one call that are hashed, in bytes, to compare them when only timestamps
/// changed.
const MAX_HASHED: u64 = 64 << 20;
/// The coarsest timestamp resolution of a file system: a second write within it can leave the timestamp unchanged.
const TIMESTAMP_RESOLUTION: Duration = Duration::from_secs(2);

/// The read set of one call, without what the call itself wrote.
#[derive(Debug, Default)]
pub struct ReadTracker(Mutex<ReadLog>);

#[derive(Debug, Default)]
struct ReadLog {
    names: BTreeMap<PathBuf, NameRecord>,
    listings: BTreeMap<PathBuf, ContentHash>,
    /// Directories that the call moved: all of their content counts as read.
    trees: BTreeSet<PathBuf>,
    /// Size of all paths.
    bytes: usize,
    /// The read set is incomplete: a limit was exceeded, or one name had two states.
    is_incomplete: bool,
}

impl ReadLog {
    /// Whether the directory's metadata was queried, and not only traversed.
    fn has_metadata(&self, dir: &Path) -> bool {
        let fingerprint = self.names.get(dir).and_then(|name| name.fingerprint);
        fingerprint.is_some_and(|fingerprint| fingerprint.metadata.is_some())
    }

    /// Reserves space for one more path. Above the limit nothing is recorded, because a partial read set proves
    /// nothing.
    fn reserve(&mut self, path: &Path) -> bool {
        self.bytes += path.as_os_str().len() + size_of::<(PathBuf, NameRecord)>();
        let paths = self.names.len() + self.listings.len() + self.trees.len();
        if self.is_incomplete || paths >= MAX_NAMES || self.bytes > MAX_BYTES {
            *self = Self {
                is_incomplete: true,
                ..Self::default()
            };
        }
        !self.is_incomplete
    }
}

#[derive(Debug)]
struct NameRecord {
    fingerprint: Option<Fingerprint>,
    content: Option<Content>,
    /// When it was last read, by the clock of this machine.
    at: SystemTime,
}

#[derive(Debug, PartialEq)]
enum Content {
    Opened,
    Hashed(ContentHash),
}

/// Metadata that identifies a state of an entry. For a traversed directory only its identity.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fingerprint {
    id: FileId,
    kind: EntryKind,
    metadata: Option<MetadataFingerprint>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct MetadataFingerprint {
    size: u64,
    links: u64,
    modified: Option<SystemTime>,
    changed: Option<SystemTime>,
}

impl Fingerprint {
    fn of(stat: &Stat, on_the_way: bool) -> Self {
        let rest = MetadataFingerprint {
            size: stat.size,
            links: stat.links,
            modified: stat.modified,
            changed: stat.changed,
        };
        Self {
            id: stat.id,
            kind: stat.kind,
            metadata: (!on_the_way || stat.kind != EntryKind::Directory).then_some(rest),
        }
    }

    fn matches(&self, other: &Fingerprint) -> bool {
        let rests = self.metadata.zip(other.metadata);
        (self.id, self.kind) == (other.id, other.kind)
            && rests.is_none_or(|(one, other)| one == other)
    }
}

impl ReadTracker {
    pub(crate) fn record_name(&self, path: PathBuf, stat: Option<&Stat>, on_the_way: bool) {
        let now = SystemTime::now();
        let mut log = self.log();
        if log.is_incomplete {
            return;
        }
        let fingerprint = stat.map(|stat| Fingerprint::of(stat, on_the_way));
        if let Some(name) = log.names.get_mut(&path) {
            let same = match (&name.fingerprint, &fingerprint) {
                (None, None) => true,
                (Some(one), Some(other)) => one.matches(other),
                _ => false,
            };
            name.at = now;
            if let (
                Some(known),
                Some(Fingerprint {
                    metadata: Some(rest),
                    ..
                }),
            ) = (&mut name.fingerprint, fingerprint)
            {
                known.metadata = Some(rest);
            }
            log.is_incomplete |= !same;
            return;
        }
        if log.reserve(&path) {
            let content = None;
            let at = now;
            log.names.insert(
                path,
                NameRecord {
                    fingerprint,
                    content,
                    at,
                },
            );
        }
    }

    /// Records that the file was opened for its content.
    pub(crate) fn record_content(&self, path: PathBuf, stat: &Stat) {
        self.record_name(path.clone(), Some(stat), false);
        if let Some(name) = self.log().names.get_mut(&path) {
            name.content.get_or_insert(Content::Opened);
        }
    }

    pub(crate) fn record_listing(&self, path: PathBuf, entries: &[DirEntry]) {
        let hash = hash_of(entries);
        let mut log = self.log();
        match log.listings.get(&path).copied() {
            Some(known) => {
                let same = known == hash;
                log.is_incomplete |= !same;
            }
            None if log.reserve(&path) => {
                log.listings.insert(path, hash);
            }
            None => {}
        }
    }

    pub(crate) fn record_tree(&self, path: PathBuf) {
        let mut log = self.log();
        if !log.trees.contains(&path) && log.reserve(&path) {
            log.trees.insert(path);
        }
    }

    /// Whether a change at this host path can affect what the call read.
    ///
    /// `in_place` means that a file was there before and after the change, so that listings are unaffected.
    pub fn is_affected_by(&self, path: &Path, in_place: bool) -> bool {
        let log = self.log();
        log.is_incomplete
            || at_or_below(&log.names, path)
            || at_or_below(&log.listings, path)
            // The directory's timestamps.
            || path.parent().is_some_and(|dir| log.has_metadata(dir))
            || !in_place
                && path
                    .parent()
                    .is_some_and(|dir| log.listings.contains_key(dir))
            || log
                .trees
                .iter()
                .any(|tree| path.starts_with(tree) || tree.starts_with(path))
    }

    /// Hashes the opened files after the call has ended, so that later a changed timestamp alone does not count as
    /// a change.
    pub fn hash_contents(&self, scope: &Scope) {
        let mut log = self.log();
        let mut left = MAX_HASHED;
        let mut lost = false;
        for (path, name) in &mut log.names {
            let (Some(Content::Opened), Some(fingerprint)) = (&name.content, name.fingerprint)
            else {
                continue;
            };
            let size = fingerprint.metadata.map_or(0, |rest| rest.size);
            let Some(rest) = left.checked_sub(size) else {
                continue;
            };
            left = rest;
            match hash_file(scope, path) {
                Some((hash, now)) if now == fingerprint => {
                    name.content = Some(Content::Hashed(hash));
                }
                _ => lost = true,
            }
        }
        log.is_incomplete |= lost;
    }

    /// Whether everything is as the call read it. Blocks while it checks each entry; `scope` is the scope of the
    /// call.
    pub fn is_unchanged(&self, scope: &Scope) -> bool {
        let log = self.log();
        !log.is_incomplete
            && log.trees.is_empty()
            && log
                .names
                .iter()
                .all(|(path, name)| name.is_unchanged(scope, path))
            && log.listings.iter().all(|(path, hash)| {
                list(scope, path).is_some_and(|entries| hash_of(&entries) == *hash)
            })
    }

    /// Approximate memory use in bytes.
    pub fn memory_size(&self) -> usize {
        size_of::<ReadLog>() + self.log().bytes
    }

    fn log(&self) -> MutexGuard<'_, ReadLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameRecord {
    fn is_unchanged(&self, scope: &Scope, path: &Path) -> bool {
        let now = read_state(scope, path);
        let (fingerprint, now) = match (self.fingerprint, now) {
            (None, CurrentState::Absent) => return true,
            (Some(fingerprint), CurrentState::Found(now)) => (fingerprint, now),
            _ => return false,
        };
        // A write within the timestamp resolution would not be visible.
        let settled = fingerprint
            .metadata
            .and_then(|rest| rest.changed)
            .is_none_or(|changed| {
                self.at
                    .duration_since(changed)
                    .is_ok_and(|since| since > TIMESTAMP_RESOLUTION)
            });
        let same = fingerprint.matches(&now);
        match &self.content {
            Some(Content::Hashed(hash)) if !(same && settled) => {
                let now = hash_file(scope, path);
                fingerprint.kind
                    == now
                        .as_ref()
                        .map_or(EntryKind::Unknown, |(_, print)| print.kind)
                    && now.is_some_and(|(now, _)| now == *hash)
            }
            Some(Content::Opened) => same && settled,
            // A listed directory's entries are compared one by one.
            _ => same,
        }
    }
}

enum CurrentState {
    Absent,
    Found(Fingerprint),
    Unknown,
}

fn read_state(scope: &Scope, path: &Path) -> CurrentState {
    let fd = open(scope, path, NAME_ONLY);
    match fd.map(|fd| Stat::of(&fd)) {
        Ok(Ok(stat)) => CurrentState::Found(Fingerprint::of(&stat, false)),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => CurrentState::Absent,
        _ => CurrentState::Unknown,
    }
}

fn open(scope: &Scope, path: &Path, flags: OFlags) -> rustix::io::Result<rustix::fd::OwnedFd> {
    let site = scope.location_of(path).ok_or(rustix::io::Errno::ACCESS)?;
    let root = &scope.roots()[site.root];
    let below = match site.below.as_os_str() {
        below if below.is_empty() => Path::new("."),
        _ => &site.below,
    };
    let resolve = BENEATH | ResolveFlags::NO_SYMLINKS;
    open_beneath(root.as_fd(), below, flags, Mode::empty(), resolve)
}

fn hash_file(scope: &Scope, path: &Path) -> Option<(ContentHash, Fingerprint)> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(scope, path, flags).ok()?);
    let before = Stat::of(&file).ok()?;
    if before.kind != EntryKind::File {
        return None;
    }
    let hash = ContentHash::of_reader(&file).ok()?;
    let after = Stat::of(&file).ok()?;
    let print = Fingerprint::of(&after, false);
    (print == Fingerprint::of(&before, false)).then_some((hash, print))
}

fn list(scope: &Scope, path: &Path) -> Option<Vec<DirEntry>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = open(scope, path, flags).ok()?;
    let listed = scope.read_dir(dir.as_fd(), MAX_NAMES * 10).ok()?;
    Some(listed.entries)
}

/// Independent of the order, which depends on the file system.
fn hash_of(entries: &[DirEntry]) -> ContentHash {
    let mut lines: Vec<String> = entries
        .iter()
        .map(|entry| format!("{}\0{:?}\0", entry.name, entry.kind))
        .collect();
    lines.sort_unstable();
    ContentHash::of(lines.concat().as_bytes())
}

/// Paths sort by components, so descendants directly follow their ancestor.
fn at_or_below<T>(map: &BTreeMap<PathBuf, T>, path: &Path) -> bool {
    map.range::<Path, _>((Bound::Included(path), Bound::Unbounded))
        .next()
        .is_some_and(|(found, _)| found.starts_with(path))
}
