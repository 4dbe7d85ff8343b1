//! Undo and redo of several calls whose changes build on each other.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;
use toolhost_vfs::{Change, ContentHash, FileState, Location, PathState};

use super::*;

pub const DIR: PathState = PathState::Dir { mode: 0o755 };
pub const ABSENT: PathState = PathState::Absent;

pub fn file(text: &str) -> PathState {
    PathState::File(FileState {
        hash: ContentHash::of(text.as_bytes()),
        size: text.len() as u64,
        mode: 0o644,
    })
}

/// A change of `at` from one state to another; `from` is the source of a move, or empty.
pub type TestChange<'a> = (&'a str, PathState, PathState, &'a str);

pub fn changes_in(root: &Path, changes: &[TestChange<'_>]) -> Vec<Change> {
    let location = |path: &str| Location {
        root: root.to_owned(),
        path: path.to_owned(),
    };
    let change = |(at, before, after, from): &TestChange| Change {
        at: location(at),
        before: before.clone(),
        after: after.clone(),
        moved_from: (!from.is_empty()).then(|| location(from)),
    };
    changes.iter().map(change).collect()
}

/// Writes a file whose mode, and that of its directory, do not depend on the umask.
pub fn write_file(path: &Path, text: &str) {
    let parent = path.parent().unwrap();
    fs::create_dir_all(parent).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(parent, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}

/// A store, and a directory whose changes it records.
struct World {
    dir: TempDir,
    store: Store,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("state")).unwrap();
        fs::create_dir(dir.path().join("ws")).unwrap();
        Self { dir, store }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("ws").canonicalize().unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        write_file(&self.root().join(path), text);
    }

    /// Saves content as if a call had replaced it.
    fn save(&self, text: &str) -> PathBuf {
        let path = self.dir.path().join("content");
        fs::write(&path, text).unwrap();
        let staging = staging::open_in_store(&self.store).unwrap();
        let (hash, _) = staging.blobs.put(&fs::File::open(path).unwrap()).unwrap();
        staging.blobs.path(hash)
    }

    /// Records changes that are already made.
    async fn record(&self, call: &str, changes: &[TestChange<'_>]) {
        let changes = changes_in(&self.root(), changes);
        let row = CommitRow {
            id: format!("w-{call}"),
            call: call.to_owned(),
            session: "s".to_owned(),
            batch: Some("b".to_owned()),
            tool: "write".to_owned(),
            at_ms: 1,
            state: CommitState::Begun,
            of: None,
            body: serde_json::to_value(changes).unwrap(),
        };
        let id = row.id.clone();
        self.store.begin_commit(row).await.unwrap();
        let done = self.store.end_commit(&id, CommitState::Done, 1);
        done.await.unwrap();
    }

    /// The error, or an empty text.
    async fn revert(
        &self,
        selection: Selection<'_>,
        direction: Direction,
        confirmation: Confirmation,
    ) -> String {
        let reverted = revert(&self.store, selection, direction, confirmation, COMMANDS).await;
        match reverted {
            Ok(_) => String::new(),
            Err(CliError { exit, error }) => {
                assert_eq!(exit, Exit::ToolFailed);
                error.to_string()
            }
        }
    }

    fn tree(&self) -> String {
        let mut found = Vec::new();
        let mut left = vec![self.root()];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let shown = path.strip_prefix(self.root()).unwrap().display();
                if path.is_dir() {
                    found.push(shown.to_string());
                    left.push(path);
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    found.push(format!("{shown}={text}"));
                }
            }
        }
        found.sort();
        found.join(" ")
    }
}

#[tokio::test]
async fn changes_that_build_on_each_other_are_undone_and_redone_repeatedly() {
    let world = World::new();
    world.write("a", "2");
    world.write("e/a", "x");
    world.write("d/n", "y");
    world.save("1");
    let calls: [&[TestChange]; 5] = [
        &[("a", ABSENT, file("1"), "")],
        &[("a", file("1"), file("2"), "")],
        &[("d", ABSENT, DIR, ""), ("d/a", ABSENT, file("x"), "")],
        &[("e", ABSENT, DIR, "d")],
        &[("d", ABSENT, DIR, ""), ("d/n", ABSENT, file("y"), "")],
    ];
    for (number, changes) in calls.iter().enumerate() {
        world.record(&format!("c{number}"), changes).await;
    }
    let after = world.tree();
    assert_eq!(after, "a=2 d d/n=y e e/a=x");
    for _ in 0..2 {
        for (selection, direction, expected) in [
            (Selection::Batch("b"), Direction::Undo, ""),
            (Selection::Session("s"), Direction::Redo, after.as_str()),
        ] {
            let error = world.revert(selection, direction, Confirmation::Skip).await;
            assert_eq!(error, "");
            assert_eq!(world.tree(), expected);
        }
    }
}

#[tokio::test]
async fn nothing_is_undone_if_content_is_no_longer_saved() {
    let world = World::new();
    world.write("a", "3");
    world.save("2");
    let first = world.save("1");
    world.record("c1", &[("a", file("1"), file("2"), "")]).await;
    world.record("c2", &[("a", file("2"), file("3"), "")]).await;
    fs::set_permissions(&first, fs::Permissions::from_mode(0o600)).unwrap();
    for is_removed in [false, true] {
        if is_removed {
            fs::remove_file(&first).unwrap();
        } else {
            fs::write(&first, "x").unwrap();
        }
        for confirmation in [Confirmation::DryRun, Confirmation::Skip] {
            let batch = Selection::Batch("b");
            let error = world.revert(batch, Direction::Undo, confirmation).await;
            let expected = "nothing was undone: write of call c1: cannot restore `a`: ";
            assert!(error.starts_with(expected), "{error}");
            assert!(
                error.ends_with("undo the other calls by their ids"),
                "{error}"
            );
            assert_eq!(world.tree(), "a=3");
        }
    }
    let skip = Confirmation::Skip;
    let newest = Selection::Named("c2", Path::new("c2"));
    assert_eq!(world.revert(newest, Direction::Undo, skip).await, "");
    let first = Selection::Named("c1", Path::new("c1"));
    let error = world.revert(first, Direction::Undo, Confirmation::DryRun);
    assert!(error.await.starts_with("nothing was undone: "));
    assert_eq!(world.tree(), "a=2");
}

#[tokio::test]
async fn content_that_an_earlier_undo_saves_can_be_restored() {
    let world = World::new();
    world.write("b", "1");
    world.record("c1", &[("a", file("1"), ABSENT, "")]).await;
    world.record("c2", &[("b", ABSENT, file("1"), "")]).await;
    let error = world.revert(Selection::Batch("b"), Direction::Undo, Confirmation::Skip);
    assert_eq!(error.await, "");
    assert_eq!(world.tree(), "a=1");
}

#[tokio::test]
async fn a_path_that_is_now_a_link_has_the_changes_of_both_names() {
    let world = World::new();
    world.write("target", "");
    world.record("c1", &[("f", ABSENT, file(""), "")]).await;
    let link = world.root().join("f");
    symlink("target", &link).unwrap();
    let named = Selection::Named("f", &link);
    let newest = || {
        select(&world.store, named, Direction::Undo).unwrap()[0]
            .call
            .clone()
    };
    assert_eq!(newest(), "c1");
    world
        .record("c2", &[("target", ABSENT, file(""), "")])
        .await;
    assert_eq!(newest(), "c2");
}

#[test]
fn an_undo_that_another_process_made_is_not_an_error_of_the_store() {
    let world = World::new();
    let row = CommitRow {
        id: "w-c1".to_owned(),
        call: "c1".to_owned(),
        session: "s".to_owned(),
        batch: None,
        tool: "write".to_owned(),
        at_ms: 1,
        state: CommitState::Done,
        of: None,
        body: serde_json::Value::Null,
    };
    let (id, by) = (row.id.clone(), "u1".to_owned());
    let state = CommitState::Undone;
    for error in [
        CommitError::Busy { id: id.clone(), by },
        CommitError::NotDone { id, state },
    ] {
        let error = UndoError::Journal(error);
        let failed = undo_error(&world.store, &[], &row, Direction::Undo, error);
        assert_eq!(failed.exit, Exit::ToolFailed);
    }
}
