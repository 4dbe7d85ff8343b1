//! Checks whether several commits can be undone one after another, before the first of them is undone.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::path::PathBuf;

use toolhost_store::CommitRow;
use toolhost_vfs::{
    ApplyError, Change, Conflict, Location, PathState, Roots, check_undo, inverted,
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
                    let below = path.strip_prefix(directory).unwrap_or(&path);
                    return Entry::Existing(Location {
                        root: moved.root.clone(),
                        path: format!("{}/{}", moved.path, below.display()),
                    });
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
        for (at, expected) in left {
            match self.entry(at) {
                Entry::State(state) if is_same(&state, expected) => {}
                Entry::State(state) => conflicts.push(Conflict {
                    at: at.clone(),
                    expected: expected.clone(),
                    found: Some(state),
                }),
                Entry::Existing(there) if there == *at => {
                    conflicts.extend(now.iter().find(|conflict| conflict.at == *at).cloned());
                }
                Entry::Existing(there) => conflicts.extend(conflict_at(&there, expected)?),
            }
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

/// As for a commit: without set-user-id, set-group-id and sticky bits.
fn is_same(one: &PathState, other: &PathState) -> bool {
    let permissions = |mode: u32| mode & 0o777;
    match (one, other) {
        (PathState::File(one), PathState::File(other)) => {
            (one.hash, one.size, permissions(one.mode))
                == (other.hash, other.size, permissions(other.mode))
        }
        (PathState::Dir { mode: one }, PathState::Dir { mode: other }) => {
            permissions(*one) == permissions(*other)
        }
        _ => one == other,
    }
}

/// Whether the entry that is now at this path has another state.
fn conflict_at(at: &Location, expected: &PathState) -> Result<Option<Conflict>, ApplyError> {
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
    let conflicts = check_undo(&Roots::open([at.root.clone()])?, &[change])?;
    Ok(conflicts.into_iter().find(|conflict| conflict.at == *at))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use toolhost_vfs::{ContentHash, FileState};

    use super::*;

    fn file(text: &str) -> PathState {
        PathState::File(FileState {
            hash: ContentHash::of(text.as_bytes()),
            size: text.len() as u64,
            mode: 0o644,
        })
    }

    const DIR: PathState = PathState::Dir { mode: 0o755 };
    const ABSENT: PathState = PathState::Absent;

    /// Writes files, and returns the paths at which undoing these changes, newest first, finds the first conflict.
    fn check(now: &[(&str, &str)], commits: &[&[(&str, PathState, PathState, &str)]]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for (path, text) in now {
            let path = root.join(path);
            let parent = path.parent().unwrap();
            fs::create_dir_all(parent).unwrap();
            let set_mode =
                |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
            set_mode(parent, 0o755).unwrap();
            fs::write(&path, text).unwrap();
            set_mode(&path, 0o644).unwrap();
        }
        let location = |path: &str| Location {
            root: root.clone(),
            path: path.to_owned(),
        };
        let mut files = UndoneFiles::default();
        for commit in commits {
            let change = |(at, before, after, from): &(&str, PathState, PathState, &str)| Change {
                at: location(at),
                before: before.clone(),
                after: after.clone(),
                moved_from: (!from.is_empty()).then(|| location(from)),
            };
            let changes: Vec<Change> = commit.iter().map(change).collect();
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
}
