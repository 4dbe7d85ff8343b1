//! Every kind of change, its undo, and the undo of the undo.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
};

use toolhost_vfs::{Change, PathState, check_undo, inverted, recover, undo};

use crate::support::{Random, Tree, World, memory_dir, random_changes, random_tree, silent, tree};

fn check(before: &str, moves: &[(&str, &str)], after: &str) {
    check_trees(&std::env::temp_dir(), &tree(before), moves, &tree(after));
}

fn check_trees(dir: &Path, before: &Tree, moves: &[(&str, &str)], after: &Tree) {
    let world = World::inside(dir, before);
    let changes = world.changes(before, moves, after);
    let ops = world.ops(&changes, after);
    world.commit(ops, &mut silent).expect("commit");
    assert_eq!(world.tree(), *after, "after the commit");
    let roots = world.roots();
    assert_eq!(check_undo(&roots, &changes).expect("check"), []);
    undo(&roots, &changes, "u1", &world.blobs, &mut silent).expect("undo");
    assert_eq!(world.tree(), *before, "after the undo");
    let undone = inverted(&changes);
    undo(&roots, &undone, "r1", &world.blobs, &mut silent).expect("redo");
    assert_eq!(world.tree(), *after, "after the redo");
    undo(&roots, &inverted(&undone), "u2", &world.blobs, &mut silent).expect("undo again");
    assert_eq!(world.tree(), *before, "after the second undo");
}

#[test]
fn files_are_created_changed_and_removed() {
    check("", &[], "a = new");
    check("a = old", &[], "a = new");
    check("a = old", &[], "");
    check("a = same", &[], "a 755 = same");
    check("a 755 = old", &[], "a 755 = new");
    check("a = ", &[], "a = no longer empty");
    check("d/e/f = deep", &[], "d/e/f = changed");
}

#[test]
fn directories_are_created_and_removed_with_their_content() {
    check("", &[], "d/");
    check("d/", &[], "");
    check("", &[], "d/e/f = deep");
    check("d/e/f = deep\n d/g = more", &[], "");
    check("d/", &[], "d 700");
    check("", &[], "d 500\n e 777");
}

#[test]
fn links_are_created_changed_and_removed_but_not_followed() {
    check("f = kept", &[], "f = kept\n l -> f");
    check("f = kept\n l -> f", &[], "f = kept\n l -> g");
    check("f = kept\n l -> f", &[], "f = kept");
    check("f = kept\n l -> f", &[], "f = kept\n l = a file now");
    check("f = kept\n l = a file", &[], "f = kept\n l -> f");
}

#[test]
fn a_14_a_link_with_a_non_utf8_target_is_restored() {
    let target = OsStr::from_bytes(b"caf\xe9/\xff");
    for after in [PathState::Absent, PathState::Link { target: "f".into() }] {
        let world = World::new(&tree("f = kept"));
        symlink(target, world.path("l")).expect("link");
        let changes = vec![Change {
            at: world.at("l"),
            before: PathState::Link {
                target: target.into(),
            },
            after,
            moved_from: None,
        }];
        // As stored in the journal.
        let text = serde_json::to_string(&changes).expect("JSON");
        let changes: Vec<Change> = serde_json::from_str(&text).expect("JSON");
        let ops = world.ops(&changes, &tree("f = kept"));
        world.commit(ops, &mut silent).expect("commit");
        assert_ne!(
            fs::read_link(world.path("l")).ok().as_deref(),
            Some(Path::new(target))
        );
        undo(&world.roots(), &changes, "u1", &world.blobs, &mut silent).expect("undo");
        assert_eq!(
            fs::read_link(world.path("l")).expect("link"),
            Path::new(target)
        );
    }
}

#[test]
fn an_entry_is_replaced_by_another_type() {
    check("x = file", &[], "x/y = in a directory");
    check("x/y/z = deep\n x/w = more", &[], "x = file");
    check("x -> nowhere", &[], "x/");
    check("x/y = file", &[], "x -> nowhere");
}

#[test]
fn moves_keep_the_content() {
    check("a = file", &[("a", "b")], "b = file");
    check("a 700 = file", &[("a", "d/b")], "d/b 700 = file");
    check("d/a = 1\n d/e/b = 2", &[("d", "n")], "n/a = 1\n n/e/b = 2");
    check("l -> x", &[("l", "m")], "m -> x");
    check("d/e/f = 1", &[("d/e", "e"), ("d", "e/d")], "e/f = 1\n e/d/");
    check("d/e/f = 1", &[("d/e", "n")], "n/f = 1");
    check(
        "d/e/f = 1\n x/",
        &[("d", "m"), ("x", "m/x")],
        "m/e/f = 1\n m/x/",
    );
}

#[test]
fn the_content_of_a_moved_directory_can_change() {
    check(
        "d/a = 1\n d/b = 2\n d/c/x = 3\n d/keep = 4",
        &[("d", "n")],
        "n/a = changed\n n/c = a file now\n n/new/y = 5\n n/keep = 4",
    );
    check("d/a = 1", &[("d", "new/deep/n")], "new/deep/n/a = 1");
}

#[test]
fn the_source_of_a_move_can_be_reused() {
    check("a = old", &[("a", "b")], "a = new\n b = old");
    check("d/a = 1", &[("d", "n")], "d = a file now\n n/a = 1");
    check(
        "d/a = 1",
        &[("d", "n")],
        "d/a = other\n d/z = 2\n n/a = changed\n n/b = 3",
    );
    check("d/a = 1\n d/b = 2", &[("d", "n")], "d/\n n/a = 1\n n/b = 2");
    check("d/a = 1", &[("d/a", "f")], "d = file\n f = 1");
    check("d/a = 1\n f = 2", &[("d/a", "f/a")], "d = file\n f/a = 1");
}

#[test]
fn names_that_differ_only_in_case_or_in_unicode_form_stay_apart() {
    check(
        "README = 1\n readme = 2",
        &[],
        "README = 2\n readme = 1\n ReadMe = 3",
    );
    check(
        "caf\u{e9} = composed",
        &[],
        "caf\u{e9} = changed\n cafe\u{301} = decomposed",
    );
    check("a = 1", &[("a", "A")], "A = 1");
    check("-rf = 1\n *\u{202e} = 2", &[], "-rf = 2\n \u{7}bell = 3");
}

#[test]
fn five_thousand_small_files_are_created_changed_and_removed() {
    let many = |content: &str| -> Tree {
        let line = |n| format!("d{}/f{n} = {content} {n}\n", n % 50);
        tree(&(0..5000).map(line).collect::<String>())
    };
    let (none, first, second) = (Tree::new(), many("first"), many("second"));
    let world = World::inside(memory_dir(), &none);
    let made = world.changes(&none, &[], &first);
    let commit = world.commit(world.ops(&made, &first), &mut silent);
    commit.expect("make");
    let changed = world.changes(&first, &[], &second);
    let commit = world.commit(world.ops(&changed, &second), &mut silent);
    commit.expect("change");
    assert_eq!(world.tree(), second);
    let roots = world.roots();
    undo(&roots, &changed, "u1", &world.blobs, &mut silent).expect("undo");
    assert_eq!(world.tree(), first);
    undo(&roots, &made, "u2", &world.blobs, &mut silent).expect("undo");
    assert_eq!(world.tree(), none);
}

#[test]
fn random_trees_are_converted_and_restored() {
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let before = random_tree(&mut random);
        let (moves, after) = random_changes(&before, &mut random);
        let moves: Vec<_> = moves
            .iter()
            .map(|(f, t)| (f.as_str(), t.as_str()))
            .collect();
        let done = catch_unwind(|| check_trees(memory_dir(), &before, &moves, &after));
        if let Err(panic) = done {
            eprintln!("seed {seed}: {before:#?}\n moves {moves:?}\n {after:#?}");
            resume_unwind(panic);
        }
    }
}

/// Interrupts at any step, within one process, so that every step of many trees can be tested.
struct Stop;

fn stop_at(number: usize) -> impl FnMut(&str) {
    let mut steps = 0;
    move |_| {
        steps += 1;
        if steps == number {
            resume_unwind(Box::new(Stop));
        }
    }
}

#[test]
fn a_stop_at_any_step_is_recovered_from() {
    let mut tried = 0;
    for seed in 1000..1120 {
        let mut random = Random::new(seed);
        let before = random_tree(&mut random);
        let (moves, after) = random_changes(&before, &mut random);
        let moves: Vec<_> = moves
            .iter()
            .map(|(f, t)| (f.as_str(), t.as_str()))
            .collect();
        for number in 1.. {
            let world = World::inside(memory_dir(), &before);
            let changes = world.changes(&before, &moves, &after);
            let ops = world.ops(&changes, &after);
            let commit = || world.commit(ops, &mut stop_at(number));
            if let Ok(done) = catch_unwind(AssertUnwindSafe(commit)) {
                done.expect("commit");
                break;
            }
            let roots = world.roots();
            let again = random.below(12);
            let recovery = || recover(&roots, &changes, "c1", &world.blobs, &mut stop_at(again));
            let _ = catch_unwind(AssertUnwindSafe(recovery));
            let left = recover(&roots, &changes, "c1", &world.blobs, &mut silent);
            let case = format!(
                "seed {seed}, step {number}, then {again}: {before:#?} {moves:?} {after:#?}"
            );
            assert_eq!(left.expect("recover"), [], "{case}");
            assert_eq!(world.tree(), before, "{case}");
            tried += 1;
        }
    }
    assert!(tried > 500, "only {tried} stops were tried");
}

#[test]
fn a_stop_at_any_step_of_an_undo_is_recovered_from() {
    for seed in 2000..2040 {
        let mut random = Random::new(seed);
        let before = random_tree(&mut random);
        let (moves, after) = random_changes(&before, &mut random);
        let moves: Vec<_> = moves
            .iter()
            .map(|(f, t)| (f.as_str(), t.as_str()))
            .collect();
        let world = World::inside(memory_dir(), &before);
        let changes = world.changes(&before, &moves, &after);
        let ops = world.ops(&changes, &after);
        world.commit(ops, &mut silent).expect("commit");
        let roots = world.roots();
        for number in 1.. {
            let undoing = || undo(&roots, &changes, "u1", &world.blobs, &mut stop_at(number));
            if let Ok(done) = catch_unwind(AssertUnwindSafe(undoing)) {
                done.expect("undo");
                break;
            }
            let left = recover(&roots, &inverted(&changes), "u1", &world.blobs, &mut silent);
            let case = format!("seed {seed}, step {number}: {before:#?} {moves:?} {after:#?}");
            assert_eq!(left.expect("recover"), [], "{case}");
            assert_eq!(world.tree(), after, "{case}");
        }
        assert_eq!(world.tree(), before);
    }
}
