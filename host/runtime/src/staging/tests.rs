//! Edits of staged changes by the user, from the stage to the commit and its undo.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use expect_test::{Expect, expect};
use tempfile::TempDir;
use toolhost_contract::{ChangeSet, ChangeSide, CommitRecovery as _, UndiffedContent};
use toolhost_vfs::{Access, OpenHow, PathGrant, Scope, StageLimits};

use super::*;

/// A granted directory `w`, and a call that has written in it.
struct World {
    dir: TempDir,
    staging: Staging,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let staging = Staging {
            stages: dir.path().join("stages"),
            blobs: Arc::new(BlobStore::open(&dir.path().join("blobs")).unwrap()),
        };
        let world = Self { dir, staging };
        fs::create_dir(world.path("")).unwrap();
        for (path, text) in [("a.txt", "old\n"), ("gone", "old\n"), ("run.sh", "old\n")] {
            fs::write(world.path(path), text).unwrap();
        }
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(world.path("run.sh"), mode).unwrap();
        world
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join("w").join(path)
    }

    fn stage(&self) -> Stage {
        let grant = PathGrant {
            host: self.path(""),
            guest: "/w".to_owned(),
            access: Access::ReadWrite,
            dangerous: false,
            exclude: Vec::new(),
        };
        let scope = Scope::open(&[grant], &[]).unwrap();
        let limits = StageLimits {
            bytes: 1 << 20,
            files: 100,
        };
        Stage::new(scope, self.staging.stages.clone(), limits)
    }

    /// A stage in which one file was written.
    fn write(&self, path: &str, bytes: &[u8]) -> StagedEffects {
        let stage = self.stage();
        let root = Arc::clone(stage.scope().roots()[0].dir());
        let how = OpenHow {
            write: true,
            create: true,
            truncate: true,
            ..OpenHow::default()
        };
        let opened = stage.open_at(root.as_fd(), Access::ReadWrite, path, &how);
        let mut file = fs::File::from(opened.unwrap().fd);
        file.write_all(bytes).unwrap();
        StagedFiles::of(stage, Arc::clone(&self.staging.blobs)).unwrap()
    }

    fn held(&self) -> StagedEffects {
        let stage = self.stage();
        let root = Arc::clone(stage.scope().roots()[0].dir());
        let how = OpenHow {
            write: true,
            create: true,
            truncate: true,
            ..OpenHow::default()
        };
        for (path, bytes) in [
            ("a.txt", &b"new\n"[..]),
            ("run.sh", b"new\n"),
            ("made.txt", b"new\n"),
            ("made.bin", b"\0"),
        ] {
            let opened = stage.open_at(root.as_fd(), Access::ReadWrite, path, &how);
            let mut file = fs::File::from(opened.unwrap().fd);
            file.write_all(bytes).unwrap();
        }
        let root = root.as_fd();
        stage.unlink_at(root, Access::ReadWrite, "gone").unwrap();
        StagedFiles::of(stage, Arc::clone(&self.staging.blobs)).unwrap()
    }

    fn edits(&self, edits: &[(&str, &str)]) -> Vec<UserEdit> {
        let edit = |(path, text): &(&str, &str)| UserEdit {
            path: self.path(path).to_string_lossy().into_owned(),
            text: (*text).to_owned(),
        };
        edits.iter().map(edit).collect()
    }

    /// All files with mode and content.
    fn tree(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let shown = entries.map(|entry| {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            let text = fs::read_to_string(entry.path()).unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, format!("{mode:o} {text:?}"))
        });
        shown.collect()
    }

    fn shown(&self, set: &ChangeSet) -> String {
        let root = self.path("").to_string_lossy().into_owned();
        let lines = set.changes.iter().map(|change| {
            let path = change.path.replace(&root, "");
            let text = match (&change.diff, change.no_diff_reason) {
                (Some(diff), _) => format!("{:?} → {:?}", diff.original, diff.new),
                (None, why) => format!("{why:?}"),
            };
            format!("{} {path} {text}", change.kind.as_str())
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn held(effects: StagedEffects) -> Box<dyn toolhost_contract::StagedChanges> {
    match effects {
        StagedEffects::Staged(staged) => staged,
        StagedEffects::None => panic!("nothing was changed"),
        StagedEffects::Conflict(conflicts) => panic!("{conflicts:?}"),
    }
}

/// The changes after the edits, the diffs for the model, and the tree after commit and undo.
async fn check(edits: &[(&str, &str)], expected: Expect) {
    let world = World::new();
    let before = world.tree();
    let staged = held(world.held());
    let edits = world.edits(edits);
    let edited = staged.edit(edits.clone()).await.unwrap();
    assert_eq!(world.tree(), before, "nothing is applied yet");
    let diffs = edited.diffs.iter().zip(&edits).map(|(diff, edit)| {
        assert_eq!(diff.file_name, edit.path);
        let body: Vec<&str> = diff.body().lines().skip(1).collect();
        format!("diff: {}\n", body.join(" "))
    });
    let diffs: String = diffs.collect();
    let staged = held(edited.effects);
    let changes = world.shown(staged.changes());

    let entry = staged.prepare().await.unwrap();
    staged.commit("commit-1".to_owned()).await.unwrap();
    let after = world.tree();
    let after: Vec<String> = after
        .iter()
        .map(|(name, text)| format!("{name} {text}"))
        .collect();
    world.staging.undo("commit-2", &entry).unwrap();
    assert_eq!(world.tree(), before, "everything was undone");
    expected.assert_eq(&format!("{changes}\n{diffs}{}", after.join("\n")));
}

#[tokio::test]
async fn r_047_edits_are_committed_with_their_mode_and_undone() {
    check(
        &[
            ("a.txt", "mine\n"),
            ("made.txt", ""),
            ("run.sh", "mine too"),
        ],
        expect![[r#"
            modified a.txt Some("old\n") → "mine\n"
            deleted gone Some("old\n") → ""
            created made.bin Some("binary")
            created made.txt None → ""
            modified run.sh Some("old\n") → "mine too"
            diff: -new +mine
            diff: -new
            diff: -new +mine too \ No newline at end of file
            a.txt 644 "mine\n"
            made.bin 644 "\0"
            made.txt 644 ""
            run.sh 755 "mine too""#]],
    )
    .await;
    // Edited back to the original content: no change, so not part of the commit.
    check(
        &[("a.txt", "old\n")],
        expect![[r#"
        deleted gone Some("old\n") → ""
        created made.bin Some("binary")
        created made.txt None → "new\n"
        modified run.sh Some("old\n") → "new\n"
        diff: -new +old
        a.txt 644 "old\n"
        made.bin 644 "\0"
        made.txt 644 "new\n"
        run.sh 755 "new\n""#]],
    )
    .await;
}

#[tokio::test]
async fn r_195_only_shown_text_can_be_edited() {
    let world = World::new();
    for path in ["gone", "made.bin", "else", "../secret"] {
        let edits = world.edits(&[("a.txt", "mine\n"), (path, "mine\n")]);
        let error = held(world.held()).edit(edits).await.err().unwrap();
        assert_eq!(error.code, "stage_failed", "{path}: {error:?}");
    }
}

#[test]
fn a_file_beyond_the_limit_can_be_read_while_its_change_is_staged() {
    let world = World::new();
    let proposed = "x".repeat(MAX_EDIT_BYTES + 1);
    let staged = held(world.write("a.txt", proposed.as_bytes()));
    let change = &staged.changes().changes[0];
    assert_eq!(change.no_diff_reason, Some("too large to show"));
    let Some(UndiffedContent::Large(content)) = change.content.clone() else {
        panic!("{change:?}")
    };
    let read = |side| Some(std::io::read_to_string(content.open(side)?).unwrap());
    assert_eq!(read(ChangeSide::Before).as_deref(), Some("old\n"));
    assert_eq!(read(ChangeSide::After), Some(proposed));
    drop(staged);
    assert_eq!(read(ChangeSide::Before), None);
    assert_eq!(read(ChangeSide::After), None);
}

#[tokio::test]
async fn edits_do_not_overwrite_concurrent_changes() {
    let world = World::new();
    let staged = held(world.held());
    fs::write(world.path("a.txt"), "theirs\n").unwrap();
    let edited = staged.edit(world.edits(&[("a.txt", "mine\n")])).await;
    assert!(matches!(
        edited.unwrap().effects,
        StagedEffects::Conflict(_)
    ));

    let staged = held(world.held());
    let edited = staged.edit(world.edits(&[("a.txt", "mine\n")])).await;
    let staged = held(edited.unwrap().effects);
    fs::write(world.path("a.txt"), "theirs too\n").unwrap();
    let refused = staged.prepare().await;
    assert!(
        matches!(refused, Err(CommitError::Conflict(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn an_undo_is_previewed_with_its_differences_and_conflicts() {
    let world = World::new();
    let staged = held(world.held());
    let entry = staged.prepare().await.unwrap();
    staged.commit("commit-1".to_owned()).await.unwrap();
    let made = world.staging.describe_commit(&entry).unwrap();
    expect![[r#"
        modified a.txt Some("old\n") → "new\n"
        deleted gone Some("old\n") → ""
        created made.bin Some("binary")
        created made.txt None → "new\n"
        modified run.sh Some("old\n") → "new\n""#]]
    .assert_eq(&world.shown(&made));
    let preview = world.staging.preview_undo(&entry).unwrap();
    assert_eq!(preview.conflicts, [""; 0]);
    expect![[r#"
        modified a.txt Some("new\n") → "old\n"
        created gone None → "old\n"
        deleted made.bin Some("binary")
        deleted made.txt Some("new\n") → ""
        modified run.sh Some("new\n") → "old\n""#]]
    .assert_eq(&world.shown(&preview.changes));
    let after = world.tree();
    fs::write(world.path("a.txt"), "theirs\n").unwrap();
    fs::create_dir(world.path("gone")).unwrap();
    let conflicts = world.staging.preview_undo(&entry).unwrap().conflicts;
    assert_eq!(conflicts.len(), 2, "{conflicts:?}");
    fs::remove_dir(world.path("gone")).unwrap();
    fs::write(world.path("a.txt"), "new\n").unwrap();
    assert_eq!(world.tree(), after, "a preview changes nothing");
    // Saved content that another program changed is not shown.
    let saved = world.staging.blobs.path(ContentHash::of(b"old\n"));
    fs::set_permissions(&saved, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(saved, "bad\n").unwrap();
    let preview = world.staging.preview_undo(&entry).unwrap();
    let reverted = &preview.changes.changes[0];
    assert_eq!(reverted.no_diff_reason, Some("cannot be read"));
}

#[tokio::test]
async fn an_undo_is_previewed_with_the_permissions_that_it_restores() {
    let world = World::new();
    let mode = fs::Permissions::from_mode(0o4755);
    fs::set_permissions(world.path("run.sh"), mode).unwrap();
    let stage = world.stage();
    let root = Arc::clone(stage.scope().roots()[0].dir());
    stage
        .unlink_at(root.as_fd(), Access::ReadWrite, "run.sh")
        .unwrap();
    let staged = held(StagedFiles::of(stage, Arc::clone(&world.staging.blobs)).unwrap());
    let entry = staged.prepare().await.unwrap();
    staged.commit("commit-1".to_owned()).await.unwrap();
    let preview = world.staging.preview_undo(&entry).unwrap();
    assert_eq!(preview.changes.changes[0].modes, Some((0o644, 0o755)));
    world.staging.undo("undo-1", &entry).unwrap();
    let restored = fs::metadata(world.path("run.sh")).unwrap().permissions();
    assert_eq!(restored.mode() & 0o7777, 0o755);
}

#[tokio::test]
async fn targets_of_links_are_described_before_the_commit_and_for_its_undo() {
    let world = World::new();
    for path in ["link", "gone-link", "replaced"] {
        symlink("a.txt", world.path(path)).unwrap();
    }
    let stage = world.stage();
    let root = Arc::clone(stage.scope().roots()[0].dir());
    let (root, access) = (root.as_fd(), Access::ReadWrite);
    for path in ["link", "gone-link", "replaced"] {
        stage.unlink_at(root, access, path).unwrap();
    }
    for (target, path) in [("run.sh", "link"), ("made later", "new-link")] {
        stage.symlink_at(root, access, target, path).unwrap();
    }
    let how = OpenHow {
        write: true,
        create: true,
        ..OpenHow::default()
    };
    stage.open_at(root, access, "replaced", &how).unwrap();
    let staged = held(StagedFiles::of(stage, Arc::clone(&world.staging.blobs)).unwrap());
    let described = |set: &ChangeSet| {
        let root = world.path("").to_string_lossy().into_owned();
        let lines = set.changes.iter().map(|change| {
            let described = change.describe().replace(&root, "");
            format!("{} {described}", change.kind.as_str())
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let made = expect![[r#"
        deleted gone-link  (link, target "a.txt")
        modified link  (link, target "a.txt" → "run.sh")
        created new-link  (link, target "made later")
        modified replaced  (file, 0 B, was a link to "a.txt")"#]];
    made.assert_eq(&described(staged.changes()));
    let entry = staged.prepare().await.unwrap();
    staged.commit("commit-1".to_owned()).await.unwrap();
    made.assert_eq(&described(&world.staging.describe_commit(&entry).unwrap()));
    let preview = world.staging.preview_undo(&entry).unwrap();
    expect![[r#"
        created gone-link  (link, target "a.txt")
        modified link  (link, target "run.sh" → "a.txt")
        deleted new-link  (link, target "made later")
        modified replaced  (link, 0 B, target "a.txt")"#]]
    .assert_eq(&described(&preview.changes));
}
