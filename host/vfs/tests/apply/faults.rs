//! Full disks, read-only directories and permission bits: all changes are applied, or none.

use std::{
    env, fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;
use toolhost_vfs::{
    ApplyError, BaseStat, BlobStore, ContentSource, FileOp, Roots, apply, recover,
    save_before_images, undo,
};

use crate::support::{World, file_image, image, memory_dir, silent, tree};

/// Environment variables for a child: its role and directory.
const ROLE: &str = "TOOLHOST_APPLY_ROLE";
const DIR: &str = "TOOLHOST_APPLY_DIR";

/// Size of a file that does not fit, in bytes.
const BIG: usize = 700_000;

/// This test program, running one of its tests as the child.
fn child(test: &str, role: &str, dir: &Path) -> Command {
    let mut command = Command::new(env::current_exe().expect("own path"));
    command.args([test, "--exact", "--nocapture"]);
    command.env(ROLE, role).env(DIR, dir);
    command
}

fn role() -> Option<(String, PathBuf)> {
    Some((env::var(ROLE).ok()?, env::var_os(DIR)?.into()))
}

fn passed(output: &Output) -> bool {
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed")
}

fn shown(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A disk of one megabyte in the child's mount namespace, or a limit on file sizes if mounting is not permitted.
#[test]
fn a_full_disk_leaves_the_tree_as_it_was() {
    let test = "faults::a_full_disk_leaves_the_tree_as_it_was";
    if let Some((role, dir)) = role() {
        return fill_up(&role, &dir);
    }
    let tmp = tempfile::tempdir().expect("temporary directory");
    let dir = tmp.path().join("dir");
    fs::create_dir(&dir).expect("directory");
    fs::write(tmp.path().join("big"), "x".repeat(BIG)).expect("big");
    let limited = r#"trap "" XFSZ; ulimit -f 512; exec "$@""#;
    let mut limit = Command::new("sh");
    limit.args(["-c", limited, "sh"]);
    let output = hand_over(&mut limit, child(test, "limit", &dir));
    assert!(passed(&output), "{}", shown(&output));

    let mount = r#"mount -t tmpfs -o size=1m none "$TOOLHOST_APPLY_DIR" || exit 77; exec "$@""#;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", mount, "sh"]);
    let output = hand_over(&mut unshare, child(test, "disk", &dir));
    if is_root() && output.status.code() != Some(77) {
        assert!(passed(&output), "{}", shown(&output));
    } else {
        println!(
            "skipped: a small disk requires permission to mount; the file size limit was tested"
        );
    }
}

/// Runs `inner`'s program and arguments after those of `outer`.
fn hand_over(outer: &mut Command, inner: Command) -> Output {
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.envs(
        inner
            .get_envs()
            .filter_map(|(key, value)| Some((key, value?))),
    );
    outer.output().expect("run")
}

fn fill_up(role: &str, dir: &Path) {
    let before = tree("a = 1\n b = 2\n gone/c = 3\n m = 4");
    let after = tree("a = changed\n b = (big)\n n = 4\n new/d = 5");
    let world = World::inside(dir, &before);
    let mut changes = world.changes(&before, &[("m", "n")], &after);
    let big = "x".repeat(BIG);
    for change in changes.iter_mut().filter(|change| change.at.path == "b") {
        change.after = file_image(&big, 0o644);
    }
    let mut ops = world.ops(&changes, &after);
    for op in ops.iter_mut().filter(|op| op.change.at.path == "b") {
        op.source = Some(ContentSource::Copy(dir.with_file_name("big")));
    }
    if role == "disk" {
        fs::write(dir.join("filler"), "y".repeat(600_000)).expect("filler");
    }
    let error = world.commit(ops, &mut silent).expect_err("too big");
    assert!(
        error.to_string().starts_with("cannot write `b`: "),
        "{error}"
    );
    assert_eq!(world.tree(), before);
}

#[test]
fn a_file_in_a_directory_that_may_not_be_written_is_written_in_place() {
    let test = "faults::a_file_in_a_directory_that_may_not_be_written_is_written_in_place";
    if let Some((_, dir)) = role() {
        return in_place(&dir);
    }
    as_other_user(test, "in place");
}

#[test]
fn a_file_of_another_user_in_a_shared_directory_is_written_in_place() {
    let test = "faults::a_file_of_another_user_in_a_shared_directory_is_written_in_place";
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    if let Some((_, dir)) = role() {
        let (before, after) = (tree("w 777\n w/f 666 = old"), tree("w 777\n w/f 666 = new"));
        let blobs = BlobStore::open(&dir.join("blobs")).expect("blobs");
        fs::create_dir(dir.join("pool")).expect("pool");
        let roots = Roots::open([dir.clone()]).expect("root");
        let world = World::inside(&dir, &tree(""));
        let mut changes = world.changes(&before, &[], &after);
        changes[0].at.root.clone_from(&dir);
        let ops = world.ops(&changes, &after);
        save_before_images(&roots, &ops, &blobs).expect("keep");
        apply(&roots, ops, "c1", &blobs, &mut silent).expect("apply");
        assert_eq!(fs::read_to_string(dir.join("w/f")).expect("read"), "new");
        undo(&roots, &changes, "u1", &blobs, &mut silent).expect("undo");
        assert_eq!(fs::read_to_string(dir.join("w/f")).expect("read"), "old");
        assert_eq!(fs::read_dir(dir.join("w")).expect("list").count(), 1);
        return;
    }
    if !is_root() {
        println!("skipped: only root can create a file of another user");
        return;
    }
    let tmp = tempfile::tempdir().expect("temporary directory");
    fs::create_dir(tmp.path().join("w")).expect("make");
    fs::write(tmp.path().join("w/f"), "old").expect("write");
    mode(&tmp.path().join("w"), 0o1777).expect("mode");
    mode(&tmp.path().join("w/f"), 0o666).expect("mode");
    start_as_other_user(test, "shared", &tmp);
}

#[test]
fn a_forbidden_change_leaves_the_tree_unchanged() {
    let test = "faults::a_forbidden_change_leaves_the_tree_unchanged";
    if let Some((_, dir)) = role() {
        return forbidden(&dir);
    }
    as_other_user(test, "forbidden");
}

/// Permissions do not apply to root, so the test continues as another user.
fn as_other_user(test: &str, role: &str) {
    let tmp = tempfile::tempdir().expect("temporary directory");
    start_as_other_user(test, role, &tmp);
}

fn start_as_other_user(test: &str, role: &str, tmp: &TempDir) {
    fs::set_permissions(tmp.path(), fs::Permissions::from_mode(0o777)).expect("mode");
    let mut command = child(test, role, tmp.path());
    if is_root() {
        command.uid(65534).gid(65534);
        command.current_dir("/");
    }
    match command.output() {
        Ok(output) => assert!(passed(&output), "{}", shown(&output)),
        Err(error) => {
            println!("skipped: the test program cannot be started by another user: {error}");
        }
    }
}

fn in_place(dir: &Path) {
    struct Stop;
    let before = tree("d 555\n d/f = old content\n e = 1");
    let after = tree("d 555\n d/f = new\n e = 2");
    let world = World::inside(dir, &tree("d/f = old content\n e = 1"));
    let lock = |mode| fs::set_permissions(world.path("d"), fs::Permissions::from_mode(mode));
    lock(0o555).expect("mode");
    let changes = world.changes(&before, &[], &after);
    world
        .commit(world.ops(&changes, &after), &mut silent)
        .expect("commit");
    assert_eq!(world.tree(), after);
    let roots = world.roots();
    undo(&roots, &changes, "u1", &world.blobs, &mut silent).expect("undo");
    assert_eq!(world.tree(), before);
    // A partial write matches neither the state before nor after.
    for number in 1.. {
        let ops = world.ops(&changes, &after);
        let mut steps = 0;
        let path = world.path("d/f");
        let mut stop = |operation: &str| {
            steps += 1;
            if steps == number {
                if operation == "write in place" {
                    fs::write(&path, "ne").expect("half");
                }
                std::panic::resume_unwind(Box::new(Stop));
            }
        };
        let commit = || world.commit(ops, &mut stop);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(commit));
        if let Ok(done) = done {
            done.expect("commit");
            break;
        }
        let left = recover(&roots, &changes, "c1", &world.blobs, &mut silent);
        assert_eq!(left.expect("recover"), [], "step {number}");
        assert_eq!(world.tree(), before, "step {number}");
    }
    undo(&roots, &changes, "u2", &world.blobs, &mut silent).expect("undo");
    // A change by another program after the crash is reported and left.
    let ops = world.ops(&changes, &after);
    let mut stop = |operation: &str| {
        if operation == "write in place" {
            std::panic::resume_unwind(Box::new(Stop));
        }
    };
    let commit = || world.commit(ops, &mut stop);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(commit)).is_err());
    fs::write(world.path("d/f"), "by hand").expect("edit");
    let left = recover(&roots, &changes, "c1", &world.blobs, &mut silent).expect("recover");
    let paths: Vec<_> = left.iter().map(|one| one.at.path.as_str()).collect();
    assert_eq!(paths, ["d/f"]);
    let text = fs::read_to_string(world.path("d/f")).expect("read");
    assert_eq!(text, "by hand");
    let _ = lock(0o755);
}

fn forbidden(dir: &Path) {
    let world = World::inside(dir, &tree("a = 1\n d/f = 2\n z = 3\n d/e/"));
    let lock = |mode| fs::set_permissions(world.path("d"), fs::Permissions::from_mode(mode));
    lock(0o555).expect("mode");
    let before = world.tree();
    for change in ["d/new = 4", "d/new/", "d/new -> x"] {
        let mut after = before.clone();
        after.extend(tree(&format!("a = changed\n z = changed\n {change}")));
        after.insert("d".to_owned(), before["d"].clone());
        let changes = world.changes(&before, &[], &after);
        let ops = world.ops(&changes, &after);
        let error = world.commit(ops, &mut silent).expect_err(change);
        assert!(error.to_string().contains("`d/new`"), "{error}");
        assert_eq!(world.tree(), before, "{change}");
    }
    for gone in ["d/f", "d/e"] {
        let mut after = before.clone();
        after.extend(tree("a = changed\n z = changed"));
        after.remove(gone);
        let changes = world.changes(&before, &[], &after);
        let ops = world.ops(&changes, &after);
        world.commit(ops, &mut silent).expect_err(gone);
        assert_eq!(world.tree(), before, "{gone}");
    }
    lock(0o755).expect("mode");
}

#[test]
fn set_user_id_does_not_survive_new_content_and_shared_groups_are_inherited() {
    let before = tree("tool 755 = old\n shared/");
    let after = tree("tool 755 = new\n shared/f = 1\n shared/sub/g = 2");
    let world = World::new(&before);
    let set =
        |path: &str, mode| fs::set_permissions(world.path(path), fs::Permissions::from_mode(mode));
    set("tool", 0o4755).expect("mode");
    set("shared", 0o2755).expect("mode");
    let changes = world.changes(&before, &[], &after);
    world
        .commit(world.ops(&changes, &after), &mut silent)
        .expect("commit");
    let mode = |path: &str| fs::metadata(world.path(path)).expect("there").mode() & 0o7777;
    assert_eq!(mode("tool"), 0o755);
    assert_eq!(mode("shared/sub"), 0o2755);
    assert_eq!(mode("shared"), 0o2755);
}

#[test]
fn extended_attributes_of_a_replaced_file_stay() {
    let (before, after) = (tree("f = old"), tree("f = new"));
    let world = World::new(&before);
    let file = fs::File::open(world.path("f")).expect("open");
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(error) = rustix::fs::fsetxattr(&file, "user.note", b"kept", flags) {
        println!("skipped: this file system has no extended attributes: {error}");
        return;
    }
    let changes = world.changes(&before, &[], &after);
    world
        .commit(world.ops(&changes, &after), &mut silent)
        .expect("commit");
    let file = fs::File::open(world.path("f")).expect("open");
    let mut value = [0; 16];
    let length = rustix::fs::fgetxattr(&file, "user.note", &mut value[..]).expect("attribute");
    assert_eq!(&value[..length], b"kept");
}

#[test]
fn a_rollback_restores_the_same_inodes() {
    let (before, after) = (tree("a = 1\n b = 2"), tree("a = x"));
    let world = World::new(&before);
    let identity = |path: &str| {
        let metadata = fs::metadata(world.path(path)).expect("there");
        (metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
    };
    let was = (identity("a"), identity("b"));
    let changes = world.changes(&before, &[], &after);
    let ops = world.ops(&changes, &after);
    let path = world.path("c");
    let mut changes = changes;
    changes.push(toolhost_vfs::Change {
        at: world.at("c"),
        before: image(None),
        after: image(tree("c/").get("c")),
        moved_from: None,
    });
    let mut ops: Vec<FileOp> = ops;
    ops.push(FileOp {
        change: changes[2].clone(),
        source: None,
        base: None,
    });
    // Another process creates the last path just before it is written: directories are created before files are
    // replaced.
    let mut interfere = |operation: &str| {
        if operation == "replace" {
            fs::write(world.path("a.save"), "saved").expect("write");
            fs::rename(world.path("a.save"), world.path("a")).expect("rename");
        }
    };
    let error = world.commit(ops, &mut interfere).expect_err("saved");
    assert!(matches!(error, ApplyError::Conflicts(_)), "{error}");
    assert_eq!(identity("b"), was.1);
    assert!(!path.exists());
    assert_eq!(world.tree(), tree("a = saved\n b = 2"));
}

#[test]
fn a_file_with_matching_metadata_is_not_read_again() {
    let (before, after) = (tree("f = old"), tree("f = new"));
    let world = World::new(&before);
    let changes = world.changes(&before, &[], &after);
    let mut ops = world.ops(&changes, &after);
    let scope = toolhost_vfs::Scope::open(
        &[toolhost_vfs::PathGrant {
            guest: "/w".to_owned(),
            host: world.root(),
            access: toolhost_vfs::Access::ReadWrite,
            dangerous: false,
            exclude: Vec::new(),
        }],
        &[],
    )
    .expect("scope");
    let root = &scope.roots()[0];
    let stat = scope
        .stat_at(std::os::fd::AsFd::as_fd(root), "f", false)
        .expect("stat");
    ops[0].base = Some(BaseStat::from(&stat));
    let roots = toolhost_vfs::Roots::of(&scope).expect("roots");
    // A wrong expected hash is accepted while the metadata matches, which proves that the file is not read.
    let mut wrong = ops.clone();
    wrong[0].change.before = image(tree("f = odd").get("f"));
    assert_eq!(toolhost_vfs::check(&roots, &wrong).expect("check"), []);
    fs::write(world.path("f"), "more than before").expect("write");
    assert_eq!(toolhost_vfs::check(&roots, &ops).expect("check").len(), 1);
    apply(&roots, ops, "c1", &world.blobs, &mut silent).expect_err("changed");
}

#[test]
fn new_content_may_come_from_another_file_system_but_a_move_may_not_go_there() {
    let memory = memory_dir();
    if is_same_device(memory, &env::temp_dir()) {
        println!("skipped: only one writable file system");
        return;
    }
    let (before, after) = (tree("f = old"), tree("f 640 = new\n g = new too"));
    let (world, other) = (World::new(&before), World::inside(memory, &before));
    let changes = world.changes(&before, &[], &after);
    let mut ops = world.ops(&changes, &after);
    for (n, op) in ops.iter_mut().enumerate() {
        let path = other.tmp.path().join("pool").join(n.to_string());
        fs::write(&path, if n == 0 { "new" } else { "new too" }).expect("pool");
        op.source = Some(ContentSource::Move(path));
    }
    world.commit(ops, &mut silent).expect("commit");
    assert_eq!(world.tree(), after);

    let moved = FileOp {
        change: toolhost_vfs::Change {
            at: world.at("moved"),
            before: image(None),
            after: image(before.get("f")),
            moved_from: Some(other.at("f")),
        },
        source: None,
        base: None,
    };
    let roots = Roots::open([world.root(), other.root()]).expect("roots");
    let error = apply(&roots, vec![moved], "c2", &world.blobs, &mut silent).expect_err("move");
    assert!(
        matches!(error, ApplyError::AcrossFileSystems { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("`f` to `moved`"), "{error}");
    assert_eq!((world.tree(), other.tree()), (after, before));
}

fn is_same_device(one: &Path, other: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).expect("there").dev();
    device(one) == device(other)
}

#[test]
fn a_move_between_two_roots_is_undone_too() {
    let (before, after) = (tree("d/f = 1"), tree("n/f = 1"));
    let (one, other) = (World::new(&before), World::new(&tree("")));
    let roots = Roots::open([one.root(), other.root()]).expect("roots");
    let change = toolhost_vfs::Change {
        at: other.at("n"),
        before: image(None),
        after: image(before.get("d")),
        moved_from: Some(one.at("d")),
    };
    let op = FileOp {
        change: change.clone(),
        source: None,
        base: None,
    };
    apply(&roots, vec![op], "c1", &one.blobs, &mut silent).expect("apply");
    assert_eq!((one.tree(), other.tree()), (tree(""), after));
    undo(&roots, &[change], "u1", &one.blobs, &mut silent).expect("undo");
    assert_eq!((one.tree(), other.tree()), (before, tree("")));
}

#[test]
fn an_undo_with_a_missing_blob_changes_nothing() {
    let (before, after) = (tree("a = 1\n b = 2"), tree("a = x\n c = y"));
    for spoilt in [None, Some("3")] {
        let world = World::new(&before);
        let changes = world.changes(&before, &[], &after);
        world
            .commit(world.ops(&changes, &after), &mut silent)
            .expect("commit");
        let blob = world.blobs.path(toolhost_vfs::ContentHash::of(b"2"));
        match spoilt {
            Some(content) => fs::write(&blob, content).expect("spoil"),
            None => fs::remove_file(&blob).expect("sweep"),
        }
        let roots = world.roots();
        let error = undo(&roots, &changes, "u1", &world.blobs, &mut silent).expect_err("gone");
        assert!(
            matches!(&error, ApplyError::ContentNotSaved(at) if at.path == "b"),
            "{error}"
        );
        assert_eq!(world.tree(), after);
        // Recovery restores what it can.
        let error = recover(&roots, &changes, "c1", &world.blobs, &mut silent).expect_err("gone");
        assert!(
            matches!(&error, ApplyError::ContentNotSaved(at) if at.path == "b"),
            "{error}"
        );
        assert_eq!(world.tree(), tree("a = 1"));
    }
}

#[test]
fn one_source_can_have_two_targets() {
    let (before, after) = (tree(""), tree("a = same\n b = same"));
    let world = World::new(&before);
    let changes = world.changes(&before, &[], &after);
    let mut ops = world.ops(&changes, &after);
    ops[1].source = ops[0].source.clone();
    world.commit(ops, &mut silent).expect("commit");
    assert_eq!(world.tree(), after);
}
