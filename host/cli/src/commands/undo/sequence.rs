//! Checks whether several commits can be undone one after another, before the first of them is undone.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem::discriminant;
use std::path::{Path, PathBuf};

use toolhost_store::CommitRow;
use toolhost_vfs::{
    ApplyError, BlobStore, Change, Conflict, Location, PathState, Roots, check_undo, inverted,
};

use super::selection::{changes_of, id};
use crate::exit::{CliError, Exit};

/// The first commit that cannot be undone after those before it, and its conflicts.
pub fn first_conflict(rows: &[CommitRow]) -> Result<Option<(&CommitRow, Vec<Conflict>)>, CliError> {
    let mut files = UndoneFiles::default();
    for row in rows {
        let changes = changes_of(row)?;
        let conflicts = files.conflicts(&changes).map_err(|error| {
            let call = format!("{} of call {}", id(&row.tool), id(&row.call));
            CliError::new(Exit::ToolFailed, format!("{call}: {error}"))
        })?;
        if !conflicts.is_empty() {
            return Ok(Some((row, conflicts)));
        }
        files.undo(&changes);
    }
    Ok(None)
}

/// The first commit whose undo needs content that is not saved, and the path. Content that an undo before it would save
/// counts as saved.
pub fn first_unsaved<'a>(
    rows: &'a [CommitRow],
    blobs: &BlobStore,
) -> Result<Option<(&'a CommitRow, Location)>, CliError> {
    let mut saved = HashSet::new();
    for row in rows {
        let inverse = inverted(&changes_of(row)?);
        let written = inverse.iter().filter(|change| change.moved_from.is_none());
        let hash = |state: &PathState| match state {
            PathState::File(file) => Some(file.hash),
            PathState::Absent | PathState::Dir { .. } | PathState::Link { .. } => None,
        };
        saved.extend(written.clone().filter_map(|change| hash(&change.before)));
        for change in written {
            if let Some(needed) = hash(&change.after)
                && !saved.contains(&needed)
            {
                if blobs.open_verified(needed).is_none() {
                    return Ok(Some((row, change.at.clone())));
                }
                saved.insert(needed);
            }
        }
    }
    Ok(None)
}

/// The paths that some undos would change. All others are as in the file system.
#[derive(Default)]
struct UndoneFiles(BTreeMap<PathBuf, Entry>);

/// What would be at a path.
#[derive(Debug, Clone)]
enum Entry {
    State(PathState),
    /// What is now at another path, or at the same one.
    Existing(Location),
}

impl UndoneFiles {
    fn entry(&self, at: &Location) -> Entry {
        let path = host_path(at);
        if let Some(entry) = self.0.get(&path) {
            return entry.clone();
        }
        for directory in path.ancestors().skip(1) {
            match self.0.get(directory) {
                Some(Entry::Existing(moved)) => {
                    return Entry::Existing(rebased(&path, directory, moved));
                }
                // Its entries are those of the file system, or are known too.
                Some(Entry::State(PathState::Dir { .. })) | None => {}
                Some(Entry::State(_)) => return Entry::State(PathState::Absent),
            }
        }
        Entry::Existing(at.clone())
    }

    /// The paths that would not be as the changes left them.
    fn conflicts(&self, changes: &[Change]) -> Result<Vec<Conflict>, ApplyError> {
        let sources = changes
            .iter()
            .filter_map(|change| change.moved_from.as_ref());
        let roots = changes
            .iter()
            .map(|change| &change.at)
            .chain(sources.clone());
        let roots = Roots::open(roots.map(|at| at.root.clone()))?;
        let now = check_undo(&roots, changes)?;
        let mut left: BTreeMap<&Location, &PathState> =
            sources.map(|from| (from, &PathState::Absent)).collect();
        left.extend(changes.iter().map(|change| (&change.at, &change.after)));
        // Directories above the changes and below removed ones.
        let others = now
            .iter()
            .filter(|conflict| !left.contains_key(&conflict.at));
        let others = others.filter(|conflict| match self.entry(&conflict.at) {
            Entry::State(state) => discriminant(&state) != discriminant(&conflict.expected),
            Entry::Existing(at) => at == conflict.at,
        });
        let mut conflicts: Vec<Conflict> = others.cloned().collect();
        for (at, expected) in &left {
            match self.entry(at) {
                Entry::State(state) if state.is_same(expected) => {}
                Entry::State(state) => conflicts.push(Conflict {
                    at: (*at).clone(),
                    expected: (*expected).clone(),
                    found: Some(state),
                }),
                Entry::Existing(there) if there == **at => {
                    conflicts.extend(now.iter().find(|conflict| conflict.at == **at).cloned());
                }
                Entry::Existing(there) => conflicts.extend(conflict_at(&there, expected)?),
            }
        }
        let listed: BTreeSet<PathBuf> = left.into_keys().map(host_path).collect();
        for removed in removed_directories(changes) {
            conflicts.extend(self.unlisted_entries(removed, &listed)?);
        }
        Ok(conflicts)
    }

    /// The entries of a removed directory that the changes do not list. Those that are in it now are conflicts of
    /// [`check_undo`] and left out here.
    fn unlisted_entries(
        &self,
        removed: &Change,
        listed: &BTreeSet<PathBuf>,
    ) -> Result<Vec<Conflict>, ApplyError> {
        let directory = host_path(&removed.at);
        let mut conflicts = Vec::new();
        let known = self.0.range(directory.clone()..);
        let known = known.take_while(|(path, _)| path.starts_with(&directory));
        let children = known.filter(|(path, _)| path.parent() == Some(&directory));
        for (path, entry) in children.filter(|(path, _)| !listed.contains(*path)) {
            match entry {
                Entry::State(PathState::Absent) => {}
                Entry::State(state) => conflicts.push(Conflict {
                    at: rebased(path, &directory, &removed.at),
                    expected: PathState::Absent,
                    found: Some(state.clone()),
                }),
                Entry::Existing(there) if host_path(there) == *path => {}
                Entry::Existing(there) => {
                    conflicts.extend(conflict_at(there, &PathState::Absent)?);
                }
            }
        }
        if let Entry::Existing(there) = self.entry(&removed.at)
            && there != removed.at
        {
            let moved = host_path(&there);
            let found = conflicts_at(&there, &removed.after)?.into_iter();
            conflicts.extend(found.filter(|conflict| {
                let entry = host_path(&conflict.at);
                entry.strip_prefix(&moved).is_ok_and(|below| {
                    let path = directory.join(below);
                    !listed.contains(&path) && !self.0.contains_key(&path)
                })
            }));
        }
        Ok(conflicts)
    }

    fn undo(&mut self, changes: &[Change]) {
        let inverse = inverted(changes);
        let entries: Vec<_> = inverse
            .iter()
            .flat_map(|change| self.after(change))
            .collect();
        for from in inverse
            .iter()
            .filter_map(|change| change.moved_from.as_ref())
        {
            let from = host_path(from);
            self.0.retain(|path, _| !path.starts_with(&from));
            self.0.insert(from, Entry::State(PathState::Absent));
        }
        self.0.extend(entries);
    }

    /// What a change puts at its path, and below it if it moves a directory.
    fn after(&self, change: &Change) -> Vec<(PathBuf, Entry)> {
        let to = host_path(&change.at);
        let Some(from) = &change.moved_from else {
            return vec![(to, Entry::State(change.after.clone()))];
        };
        let source = host_path(from);
        let known = self.0.range(source.clone()..);
        let known = known.take_while(|(path, _)| path.starts_with(&source));
        let below = known.filter_map(|(path, entry)| {
            let rest = path.strip_prefix(&source).ok()?;
            Some((to.join(rest), entry.clone()))
        });
        let mut entries: Vec<_> = below.collect();
        entries.push((to, self.entry(from)));
        entries
    }
}

fn host_path(at: &Location) -> PathBuf {
    at.root.join(&at.path)
}

/// `path`, which is in `directory`, after `directory` is moved to `new`.
fn rebased(path: &Path, directory: &Path, new: &Location) -> Location {
    let below = path.strip_prefix(directory).unwrap_or(path);
    Location {
        root: new.root.clone(),
        path: format!("{}/{}", new.path, below.display()),
    }
}

/// The changes whose undo removes a directory.
fn removed_directories(changes: &[Change]) -> impl Iterator<Item = &Change> {
    let inverse = inverted(changes);
    let is_dir = |state: &PathState| matches!(state, PathState::Dir { .. });
    changes.iter().filter(move |change| {
        // If the earlier directory was moved away, it replaces the one that is removed.
        let is_removed = |undo: &Change| undo.at == change.at && undo.after == PathState::Absent;
        change.moved_from.is_none()
            && is_dir(&change.after)
            && (!is_dir(&change.before) || inverse.iter().any(is_removed))
    })
}

/// Whether the entry that is now at this path has another state.
fn conflict_at(at: &Location, expected: &PathState) -> Result<Option<Conflict>, ApplyError> {
    let conflicts = conflicts_at(at, expected)?;
    Ok(conflicts.into_iter().find(|conflict| conflict.at == *at))
}

/// Compares the entry that is now at this path. The entries of a directory are conflicts too.
fn conflicts_at(at: &Location, expected: &PathState) -> Result<Vec<Conflict>, ApplyError> {
    // Only the later state is compared; the earlier one has to differ from it.
    let before = match expected {
        PathState::Absent => PathState::Dir { mode: 0o755 },
        PathState::File(_) | PathState::Dir { .. } | PathState::Link { .. } => PathState::Absent,
    };
    let change = Change {
        at: at.clone(),
        before,
        after: expected.clone(),
        moved_from: None,
    };
    check_undo(&Roots::open([at.root.clone()])?, &[change])
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ABSENT, DIR, TestChange, changes_in, file, write_file};
    use super::*;

    /// Writes files, and returns the paths at which undoing these changes, newest first, finds the first conflict.
    fn check(now: &[(&str, &str)], commits: &[&[TestChange<'_>]]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for (path, text) in now {
            write_file(&root.join(path), text);
        }
        let mut files = UndoneFiles::default();
        for commit in commits {
            let changes = changes_in(&root, commit);
            let conflicts = files.conflicts(&changes).unwrap();
            if !conflicts.is_empty() {
                let paths = conflicts.iter().map(|conflict| conflict.at.path.clone());
                return paths.collect::<Vec<_>>().join(" ");
            }
            files.undo(&changes);
        }
        String::new()
    }

    #[test]
    fn changes_that_build_on_each_other_have_no_conflict() {
        let commits: &[&[_]] = &[
            &[("a", file("2"), file("3"), "")],
            &[("a", file("1"), file("2"), "")],
            &[("d", ABSENT, DIR, ""), ("d/b", ABSENT, file("b"), "")],
            &[("a", ABSENT, file("1"), "")],
        ];
        assert_eq!(check(&[("a", "3"), ("d/b", "b")], commits), "");
        // The files of one, of the newest and of a removed directory.
        assert_eq!(check(&[("a", "3"), ("d/b", "x")], commits), "d/b");
        assert_eq!(check(&[("a", "x"), ("d/b", "b")], commits), "a");
        let more = [("a", "3"), ("d/b", "b"), ("d/more", "")];
        assert_eq!(check(&more, commits), "d/more");
        // Another program wrote between two calls.
        let between: &[&[_]] = &[
            &[("a", file("x"), file("3"), "")],
            &[("a", file("1"), file("2"), "")],
        ];
        assert_eq!(check(&[("a", "3")], between), "a");
    }

    #[test]
    fn moved_entries_are_found() {
        let created: &[_] = &[
            ("d", ABSENT, DIR, ""),
            ("d/a", ABSENT, file("a"), ""),
            ("d/b", ABSENT, file("b"), ""),
        ];
        let commits: &[&[_]] = &[
            &[("e/a", file("a"), file("2"), "")],
            &[("e", ABSENT, DIR, "d")],
            created,
        ];
        assert_eq!(check(&[("e/a", "2"), ("e/b", "b")], commits), "");
        assert_eq!(check(&[("e/a", "2"), ("e/b", "x")], commits), "e/b");
        let renamed: &[&[_]] = &[
            &[("b", ABSENT, file("a"), "a")],
            &[("a", ABSENT, file("a"), "")],
        ];
        assert_eq!(check(&[("b", "a")], renamed), "");
        assert_eq!(check(&[("a", ""), ("b", "a")], renamed), "a");
    }

    #[test]
    fn entries_of_other_programs_in_a_removed_directory_are_conflicts() {
        let created: &[_] = &[("d", ABSENT, DIR, ""), ("d/a", ABSENT, file("a"), "")];
        let removed: &[_] = &[
            ("d", DIR, ABSENT, ""),
            ("d/a", file("a"), ABSENT, ""),
            ("d/b", file("b"), ABSENT, ""),
        ];
        assert_eq!(check(&[], &[&removed[..2], created]), "");
        assert_eq!(check(&[], &[removed, created]), "d/b");
        // The entry was moved out of the directory.
        let emptied: &[_] = &[
            ("b", ABSENT, file("b"), "d/b"),
            ("d", DIR, ABSENT, ""),
            ("d/a", file("a"), ABSENT, ""),
        ];
        assert_eq!(check(&[("b", "b")], &[emptied, created]), "b");
        // The directory was moved.
        let moved: &[_] = &[("e", ABSENT, DIR, "d")];
        assert_eq!(check(&[("e/a", "a")], &[moved, created]), "");
        let more = [("e/a", "a"), ("e/x", "")];
        assert_eq!(check(&more, &[moved, created]), "e/x");
        // A later call created the entry, or moved the directory once more.
        let added: &[_] = &[("e/x", ABSENT, file(""), "")];
        assert_eq!(check(&more, &[added, moved, created]), "");
        let again: &[_] = &[("e", ABSENT, DIR, "c")];
        let first: &[_] = &[("c", ABSENT, DIR, "d")];
        assert_eq!(check(&more, &[again, first, created]), "e/x");
        // A directory that stays can have other entries.
        assert_eq!(check(&more, &[moved]), "");
    }

    #[test]
    fn a_directory_that_replaced_a_moved_one_is_removed() {
        let commits: &[&[_]] = &[
            &[("d", DIR, DIR, ""), ("e", ABSENT, DIR, "d")],
            &[("d", ABSENT, DIR, ""), ("d/a", ABSENT, file("a"), "")],
        ];
        let after = |newest: &[_], now: &[_]| check(now, &[newest, commits[0], commits[1]]);
        let now = [("d/x", ""), ("e/a", "a")];
        assert_eq!(check(&now, commits), "d/x");
        assert_eq!(after(&[("d/x", ABSENT, file(""), "")], &now), "");
        assert_eq!(after(&[("d/x", ABSENT, file(""), "d/w")], &now), "d/x");
    }
}
