//! Concurrent changes by other processes are detected, reported, and never lost.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::Command,
};

use toolhost_vfs::{
    ApplyError, FileOp, PathState, Roots, apply, check, check_undo, recover, save_before_images,
    undo,
};

use crate::support::{
    Random, World, file_image, memory_dir, moved, random_changes, random_tree, silent, tree,
};

const BEFORE: &str = "a = 1\n d/b = 2\n d/c = 3\n gone/x = 4\n l -> a\n m = 5";
const AFTER: &str = "a = changed\n d/b = changed\n d/c = 3\n l -> b\n n = 5\n new/y = 6";
const MOVES: [(&str, &str); 1] = [("m", "n")];

/// Runs `disturb` before the commit, and expects conflicts at these paths and no changes.
fn check_conflicts(disturb: impl Fn(&Path), expected: &[&str]) {
    let (before, after) = (tree(BEFORE), tree(AFTER));
    let world = World::new(&before);
    let changes = world.changes(&before, &MOVES, &after);
    let ops = world.ops(&changes, &after);
    assert_eq!(check(&world.roots(), &ops).expect("check"), []);
    disturb(&world.root());
    let disturbed = world.tree();
    let conflicts = check(&world.roots(), &ops).expect("check");
    let paths: Vec<&str> = conflicts.iter().map(|c| c.at.path.as_str()).collect();
    assert_eq!(paths, expected);
    for conflict in &conflicts {
        let text = conflict.to_string();
        assert!(text.contains("was changed by another process"), "{text}");
    }
    assert_eq!(world.tree(), disturbed);
}

#[test]
fn every_kind_of_concurrent_change_is_detected() {
    type Disturb = fn(&Path);
    let table: &[(Disturb, &[&str])] = &[
        (|_| {}, &[]),
        (|w| fs::write(w.join("a"), "other").expect("write"), &["a"]),
        (
            |w| fs::write(w.join("d/c"), "not ours").expect("write"),
            &[],
        ),
        (|w| fs::remove_file(w.join("a")).expect("remove"), &["a"]),
        (|w| set_mode(&w.join("a"), 0o600), &["a"]),
        (|w| replace_by_dir(&w.join("a")), &["a"]),
        (
            |w| fs::write(w.join("new"), "made meanwhile").expect("write"),
            &["new"],
        ),
        (|w| fs::create_dir(w.join("new")).expect("make"), &["new"]),
        (
            |w| fs::write(w.join("n"), "made meanwhile").expect("write"),
            &["n"],
        ),
        (
            |w| fs::write(w.join("m"), "changed").expect("write"),
            &["m"],
        ),
        (|w| fs::remove_file(w.join("m")).expect("remove"), &["m"]),
        (
            |w| fs::write(w.join("gone/more"), "unseen").expect("write"),
            &["gone/more"],
        ),
        (
            |w| fs::remove_dir_all(w.join("gone")).expect("remove"),
            &["gone", "gone/x"],
        ),
        (
            |w| fs::remove_dir_all(w.join("d")).expect("remove"),
            &["d/b"],
        ),
        (|w| link_instead(&w.join("d"), "gone"), &["d/b"]),
        (|w| link_instead(&w.join("a"), "l"), &["a"]),
        (|w| link_instead(&w.join("l"), "elsewhere"), &["l"]),
        (|w| pipe_instead(&w.join("a")), &["a"]),
    ];
    for (disturb, expected) in table {
        check_conflicts(disturb, expected);
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
}

fn replace_by_dir(path: &Path) {
    fs::remove_file(path).expect("remove");
    fs::create_dir(path).expect("make");
}

fn link_instead(path: &Path, target: &str) {
    fs::rename(path, path.with_extension("old")).expect("rename");
    symlink(target, path).expect("link");
}

fn pipe_instead(path: &Path) {
    fs::remove_file(path).expect("remove");
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo");
    assert!(made.success());
}

#[test]
fn a_new_file_requires_its_parent_directory() {
    let (before, after) = (tree("d/e/f = 1"), tree("d/e/f = 1\n d/e/g = 2"));
    for (disturb, expected) in [("gone", "d/e"), ("link", "d"), ("file", "d/e")] {
        let world = World::new(&before);
        let changes = world.changes(&before, &[], &after);
        let ops = world.ops(&changes, &after);
        match disturb {
            "gone" => fs::remove_dir_all(world.path("d/e")).expect("remove"),
            "link" => link_instead(&world.path("d"), "d.old"),
            _ => {
                fs::remove_dir_all(world.path("d/e")).expect("remove");
                fs::write(world.path("d/e"), "a file").expect("write");
            }
        }
        let disturbed = world.tree();
        let conflicts = check(&world.roots(), &ops).expect("check");
        assert_eq!(conflicts.len(), 1, "{disturb}: {conflicts:?}");
        assert_eq!(conflicts[0].at.path, expected);
        // Applying without the check does not apply anything either.
        let applied = apply(&world.roots(), ops, "c1", &world.blobs, &mut silent);
        assert!(applied.is_err(), "{disturb}");
        assert_eq!(world.tree(), disturbed);
    }
}

#[test]
fn links_out_of_the_root_are_not_written_through() {
    let (before, after) = (tree("d/f = 1"), tree("d/f = 2"));
    let world = World::new(&before);
    let outside = world.tmp.path().join("outside");
    fs::create_dir(&outside).expect("make");
    fs::write(outside.join("f"), "1").expect("write");
    let changes = world.changes(&before, &[], &after);
    let ops = world.ops(&changes, &after);
    fs::remove_dir_all(world.path("d")).expect("remove");
    symlink("../outside", world.path("d")).expect("link");
    apply(&world.roots(), ops, "c1", &world.blobs, &mut silent).expect_err("refused");
    assert_eq!(fs::read_to_string(outside.join("f")).expect("read"), "1");
    assert_eq!(fs::read_dir(&outside).expect("list").count(), 1);
}

#[test]
fn a_missing_or_unknown_root_is_named_in_the_error() {
    let (before, after) = (tree(""), tree("f = 1"));
    let world = World::new(&before);
    let changes = world.changes(&before, &[], &after);
    let ops = world.ops(&changes, &after);
    let nowhere = Roots::open([]).expect("none");
    let error = check(&nowhere, &ops).expect_err("unknown");
    assert!(matches!(error, ApplyError::UnknownRoot(_)), "{error}");
    let held = world.roots();
    fs::remove_dir(world.root()).expect("remove");
    let error = Roots::open([world.root()]).expect_err("gone");
    assert!(error.to_string().contains("/w`"), "{error}");
    apply(&held, ops, "c1", &world.blobs, &mut silent).expect_err("gone");
    let relative = Roots::open(["w".into()]).expect_err("relative");
    assert!(matches!(relative, ApplyError::Root { .. }));
}

#[test]
fn paths_outside_are_refused_and_control_characters_escaped() {
    let world = World::new(&tree("f = 1"));
    for path in [
        "",
        "..",
        "../x",
        "a/../../x",
        "/etc/passwd",
        "./f",
        "f/",
        "a\0b",
        "a//b",
    ] {
        let op = FileOp {
            change: toolhost_vfs::Change {
                at: world.at(path),
                before: PathState::Absent,
                after: PathState::Dir { mode: 0o755 },
                moved_from: None,
            },
            source: None,
            base: None,
        };
        let roots = world.roots();
        check(&roots, std::slice::from_ref(&op)).expect_err(path);
        apply(&roots, vec![op.clone()], "c1", &world.blobs, &mut silent).expect_err(path);
        recover(&roots, &[op.change], "c1", &world.blobs, &mut silent).expect_err(path);
    }
    let conflict = toolhost_vfs::Conflict {
        at: world.at("a\u{1b}[2J\u{202e}b"),
        expected: PathState::Absent,
        found: None,
    };
    let text = conflict.to_string();
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
}

#[test]
fn an_undo_with_conflicts_changes_nothing() {
    let (before, after) = (tree(BEFORE), tree(AFTER));
    for (path, is_conflict) in [
        ("a", true),
        ("d/b", true),
        ("new/y", true),
        ("new/z", true),
        ("d/c", false),
        ("m", true),
    ] {
        let world = World::new(&before);
        let changes = world.changes(&before, &MOVES, &after);
        world
            .commit(world.ops(&changes, &after), &mut silent)
            .expect("commit");
        fs::write(world.path(path), "by another process").expect("write");
        let disturbed = world.tree();
        let roots = world.roots();
        let found = check_undo(&roots, &changes).expect("check");
        let undone = undo(&roots, &changes, "u1", &world.blobs, &mut silent);
        if is_conflict {
            assert_eq!(found.len(), 1, "{path}: {found:?}");
            assert_eq!(found[0].at.path, path);
            assert!(matches!(undone, Err(ApplyError::Conflicts(_))));
            assert_eq!(world.tree(), disturbed);
        } else {
            assert_eq!(found, []);
            undone.expect("undo");
        }
    }
}

#[test]
fn recovery_reports_and_keeps_concurrent_changes() {
    let (before, after) = (tree(BEFORE), tree(AFTER));
    let world = World::new(&before);
    let changes = world.changes(&before, &MOVES, &after);
    world
        .commit(world.ops(&changes, &after), &mut silent)
        .expect("commit");
    fs::write(world.path("a"), "by another process").expect("write");
    fs::write(world.path("new/z"), "by another process").expect("write");
    let recovery = || recover(&world.roots(), &changes, "c1", &world.blobs, &mut silent);
    let left = recovery().expect("recover");
    let paths: Vec<&str> = left.iter().map(|c| c.at.path.as_str()).collect();
    assert_eq!(paths, ["a", "new/z"]);
    let mut expected = before.clone();
    expected.extend(tree("a = by another process\n new/z = by another process"));
    assert_eq!(world.tree(), expected);
    recovery().expect("recover");
    assert_eq!(world.tree(), expected, "the second time");
}

/// Another program recreates the source of a move, or reverts the move, before the recovery.
#[test]
fn changes_after_a_move_that_was_disturbed_are_rolled_back() {
    type Disturb = fn(&World);
    let table: [(Disturb, &[&str], &str); 4] = [
        (|_| {}, &[], "m = 5"),
        (
            |world| fs::write(world.path("m"), "by another process").expect("write"),
            &["m"],
            "m = by another process\n n = 5",
        ),
        (
            |world| fs::rename(world.path("n"), world.path("m")).expect("rename"),
            &[],
            "m = 5",
        ),
        (
            |world| {
                fs::rename(world.path("n"), world.path("m")).expect("rename");
                fs::write(world.path("a"), "by another process").expect("write");
            },
            &["a"],
            "a = by another process\n m = 5",
        ),
    ];
    for (disturb, conflicts, rest) in table {
        let before = tree("a = 1\n gone = 2\n m = 5");
        let after = tree("a = changed\n n = 5");
        let world = World::new(&before);
        let changes = world.changes(&before, &MOVES, &after);
        let ops = world.ops(&changes, &after);
        let roots = world.roots();
        save_before_images(&roots, &ops, &world.blobs).expect("keep");
        // The host is killed.
        let mut die = |step: &str| assert_ne!(step, "mark as applied");
        let killed = AssertUnwindSafe(|| apply(&roots, ops, "c1", &world.blobs, &mut die));
        catch_unwind(killed).expect_err("killed");
        disturb(&world);
        let left = recover(&roots, &changes, "c1", &world.blobs, &mut silent).expect("recover");
        let paths: Vec<&str> = left.iter().map(|c| c.at.path.as_str()).collect();
        assert_eq!(paths, conflicts);
        let mut expected = tree("a = 1\n gone = 2");
        expected.extend(tree(rest));
        assert_eq!(world.tree(), expected);
    }
}

/// Another program creates the target of a move that did not run.
#[test]
fn a_target_that_another_program_creates_before_the_move_is_kept() {
    for (before, after, moves, target) in [
        ("m = 5", "n = 5", ("m", "n"), "n = mine"),
        ("d/f = 5\n d/old/", "e/f = 5", ("d", "e"), "e/mine = 1"),
    ] {
        let world = World::new(&tree(before));
        let changes = world.changes(&tree(before), &[moves], &tree(after));
        let ops = world.ops(&changes, &tree(after));
        let roots = world.roots();
        save_before_images(&roots, &ops, &world.blobs).expect("keep");
        let mut die = |step: &str| assert_ne!(step, "move");
        let killed = AssertUnwindSafe(|| apply(&roots, ops, "c1", &world.blobs, &mut die));
        catch_unwind(killed).expect_err("killed");
        let (path, text) = target.split_once(" = ").expect("a file");
        let path = world.path(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("make");
        fs::write(path, text).expect("write");
        let left = recover(&roots, &changes, "c1", &world.blobs, &mut silent).expect("recover");
        assert_eq!(left, []);
        let mut expected = tree(before);
        expected.extend(tree(target));
        assert_eq!(world.tree(), expected);
    }
}

/// Saves a file at any point of a commit: the commit fails or was finished, and the saved text remains.
#[test]
fn a_file_saved_during_a_commit_is_not_lost() {
    let (before, after) = (
        tree("a = 1\n b = 2\n d/c = 3"),
        tree("a = x\n b = y\n n = z"),
    );
    for victim in ["a", "b", "d/c"] {
        for number in 1.. {
            let world = World::inside(memory_dir(), &before);
            let changes = world.changes(&before, &[], &after);
            let ops = world.ops(&changes, &after);
            let roots = world.roots();
            save_before_images(&roots, &ops, &world.blobs).expect("keep");
            let (mut steps, mut saved) = (0, false);
            let path = world.path(victim);
            let mut save = |_: &str| {
                steps += 1;
                if steps == number {
                    // Like editors: a new file is renamed over the old one.
                    let temp = path.with_extension("save");
                    saved = fs::write(&temp, "saved by the user").is_ok()
                        && fs::rename(&temp, &path).is_ok();
                }
            };
            let applied = apply(&roots, ops, "c1", &world.blobs, &mut save);
            if steps < number {
                break;
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                !saved || text == "saved by the user",
                "{victim} at {number}: {applied:?}"
            );
            if applied.is_err() {
                let mut expected = before.clone();
                expected.extend(tree(&format!("{victim} = saved by the user")));
                assert_eq!(world.tree(), expected, "{victim} at {number}: {applied:?}");
            }
        }
    }
}

#[test]
fn invalid_lists_are_refused_before_any_change() {
    let before = tree("d/f = 1\n e/g = 2");
    let world = World::new(&before);
    let change = |path: &str, before: PathState, after: PathState, from: Option<&str>| {
        toolhost_vfs::Change {
            at: world.at(path),
            before,
            after,
            moved_from: from.map(|from| world.at(from)),
        }
    };
    let dir = || PathState::Dir { mode: 0o755 };
    let lists = [
        vec![
            change("n", PathState::Absent, dir(), None),
            change("n", PathState::Absent, dir(), None),
        ],
        vec![
            change("d", dir(), dir(), Some("e")),
            change("e", dir(), dir(), Some("d")),
        ],
        vec![
            change("d/x", PathState::Absent, dir(), None),
            change("m", PathState::Absent, dir(), Some("d")),
        ],
        vec![change("n", PathState::Absent, PathState::Absent, Some("d"))],
        vec![
            change("m", PathState::Absent, dir(), Some("d")),
            change("n", PathState::Absent, dir(), Some("d")),
        ],
        // A file whose content is not available.
        vec![change(
            "n",
            PathState::Absent,
            file_image("nowhere", 0o644),
            None,
        )],
    ];
    for list in lists {
        let ops: Vec<FileOp> = list
            .into_iter()
            .map(|change| FileOp {
                change,
                source: None,
                base: None,
            })
            .collect();
        let error = apply(&world.roots(), ops, "c1", &world.blobs, &mut silent).expect_err("list");
        assert!(
            matches!(
                error,
                ApplyError::InvalidChanges { .. } | ApplyError::ContentNotSaved(_)
            ),
            "{error}"
        );
        assert_eq!(world.tree(), before);
    }
}

#[test]
fn content_that_differs_from_the_approved_is_refused() {
    let (before, after) = (tree("a = 1"), tree("a = 2\n b = 3"));
    let world = World::new(&before);
    let changes = world.changes(&before, &[], &after);
    let ops = world.ops(&changes, &after);
    fs::write(world.tmp.path().join("pool/1"), "swapped").expect("swap");
    let error = world.commit(ops, &mut silent).expect_err("swapped");
    assert!(
        matches!(&error, ApplyError::ContentMismatch(at) if at.path == "b"),
        "{error}"
    );
    assert_eq!(world.tree(), before);
}

#[test]
fn a_file_that_changes_while_it_is_saved_is_a_conflict() {
    let (before, after) = (tree("a = 1\n b = 2"), tree(""));
    let world = World::new(&before);
    let changes = world.changes(&before, &[], &after);
    let ops = world.ops(&changes, &after);
    fs::write(world.path("b"), "other").expect("write");
    let error = save_before_images(&world.roots(), &ops, &world.blobs).expect_err("changed");
    let ApplyError::Conflicts(conflicts) = &error else {
        panic!("{error}");
    };
    assert_eq!(conflicts[0].at.path, "b");
    let left = fs::read_dir(world.tmp.path().join("blobs")).expect("list");
    assert_eq!(left.count(), 0);
}

/// If any operation fails midway, the tree is unchanged.
#[test]
fn a_failure_midway_leaves_the_tree_unchanged() {
    for seed in 3000..3060 {
        let mut random = Random::new(seed);
        let before = random_tree(&mut random);
        let (moves, after) = random_changes(&before, &mut random);
        let moves: Vec<_> = moves
            .iter()
            .map(|(f, t)| (f.as_str(), t.as_str()))
            .collect();
        let world = World::inside(memory_dir(), &before);
        let mut changes = world.changes(&before, &moves, &after);
        let mut ops = world.ops(&changes, &after);
        // One extra change, whose directory does not exist.
        let missing = toolhost_vfs::Change {
            at: world.at("zzz/missing"),
            before: PathState::Absent,
            after: PathState::Dir { mode: 0o755 },
            moved_from: None,
        };
        changes.push(missing.clone());
        ops.push(FileOp {
            change: missing,
            source: None,
            base: None,
        });
        let roots = world.roots();
        save_before_images(&roots, &ops, &world.blobs).expect("keep");
        apply(&roots, ops, "c1", &world.blobs, &mut silent).expect_err("missing");
        assert_eq!(
            world.tree(),
            before,
            "seed {seed} {:?}",
            moved(&before, &moves)
        );
    }
}
