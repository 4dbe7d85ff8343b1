//! Limits of a stage, and its cleanup.

use std::fs;

use toolhost_vfs::{PathError, Stage, StageError, StageLimits};

use crate::support::{FileView, Held, World};

fn limited(world: &World, bytes: u64, files: usize) -> Stage {
    Stage::new(
        world.scope(),
        world.path("pool"),
        StageLimits { bytes, files },
    )
}

#[test]
fn a_copy_over_the_limit_is_refused_and_emptying_needs_no_copy() {
    let world = World::new();
    world.file("w/big", &"x".repeat(1000));
    let stage = limited(&world, 500, 10);
    let w = Held::root(FileView::Staged(&stage));
    assert_eq!(w.open("big", "w", "y"), Err(PathError::NoSpace));
    assert_eq!(w.open("big", "wt", "y"), Ok(()));
    assert_eq!(w.read("big"), Ok("y".to_owned()));
    assert_eq!(w.unlink("big"), Ok(()));
    assert_eq!(world.read("w/big").len(), 1000);
}

#[test]
fn copies_together_are_counted() {
    let world = World::new();
    for number in 0..5 {
        world.file(&format!("w/f{number}"), &"x".repeat(200));
    }
    let stage = limited(&world, 500, 10);
    let w = Held::root(FileView::Staged(&stage));
    let opened: Vec<bool> = (0..5)
        .map(|number| w.open(&format!("f{number}"), "a", "").is_ok())
        .collect();
    assert_eq!(opened, [true, true, false, false, false]);
    assert_eq!(stage.bytes().expect("bytes"), 400);
}

#[test]
fn written_bytes_are_counted_with_the_changes() {
    let world = World::new();
    let stage = limited(&world, 500, 10);
    let w = Held::root(FileView::Staged(&stage));
    w.open("new", "wc", &"x".repeat(501)).expect("write");
    assert_eq!(stage.bytes().expect("bytes"), 501);
    let error = stage.changes().expect_err("too many");
    assert_eq!(
        error.to_string(),
        "the call wrote 501 bytes, and the limit is 500; write less or raise the limit"
    );
}

#[test]
fn removed_names_are_not_counted() {
    let world = World::new();
    let stage = limited(&world, 500, 3);
    let w = Held::root(FileView::Staged(&stage));
    for _ in 0..10 {
        w.open("new", "wc", "text").expect("write");
        w.unlink("new").expect("unlink");
    }
    w.mkdir("one").expect("first");
    w.unlink("a").expect("second");
    w.open("one/two", "wc", "text").expect("third");
    assert_eq!(w.mkdir("four"), Err(PathError::NoSpace));
    assert_eq!(w.unlink("b"), Err(PathError::NoSpace));
    assert_eq!(w.rename("b", w, "c"), Err(PathError::NoSpace));
    // Names that were changed before can be changed again; otherwise the call could not even clean up.
    w.open("a", "wc", "text").expect("touched");
    w.unlink("one/two").expect("touched");
    w.rename("a", w, "one/two").expect("one gone, one new");
}

#[test]
fn a_moved_tree_that_must_be_copied_is_bounded() {
    let world = World::new();
    for number in 0..20 {
        world.file(&format!("w/many/f{number}"), "x");
    }
    let stage = limited(&world, 500, 10);
    let w = Held::root(FileView::Staged(&stage));
    w.rename("many", w, "empty").expect("rename");
    let error = stage.changes().expect_err("too many");
    assert!(matches!(error, StageError::TooManyFiles(10)), "{error}");
    let stage = limited(&world, 10, 100);
    let w = Held::root(FileView::Staged(&stage));
    w.rename("many", w, "empty").expect("rename");
    let error = stage.changes().expect_err("too much");
    assert!(
        matches!(error, StageError::TooManyBytes { limit: 10, .. }),
        "{error}"
    );
}

#[test]
fn a_pool_is_created_lazily_and_removed_with_the_last_clone() {
    let world = World::new();
    let stage = limited(&world, 500, 10);
    let other = stage.clone();
    let w = Held::root(FileView::Staged(&stage));
    w.read("a").expect("read");
    w.list("d").expect("list");
    assert!(stage.is_empty());
    assert!(!world.path("pool").exists());
    w.mkdir("n").expect("mkdir");
    assert!(!other.is_empty());
    assert_eq!(
        Held::root(FileView::Staged(&other)).stat("n", true),
        Ok("Directory None".to_owned())
    );
    let count = || fs::read_dir(world.path("pool")).expect("list").count();
    assert_eq!(count(), 1);
    drop(stage);
    assert_eq!(count(), 1);
    drop(other);
    assert_eq!(count(), 0);
}

#[test]
fn threads_share_a_stage() {
    let world = World::new();
    let stage = limited(&world, 10_000, 1000);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let stage = stage.clone();
            scope.spawn(move || {
                let w = Held::root(FileView::Staged(&stage));
                w.mkdir(&format!("n{thread}")).expect("mkdir");
                for number in 0..50 {
                    let path = format!("n{thread}/f{number}");
                    w.open(&path, "wc", "text").expect("create");
                    assert_eq!(w.read(&path), Ok("text".to_owned()));
                }
            });
        }
    });
    assert_eq!(stage.changes().expect("changes").len(), 4 + 4 * 50);
}

#[test]
fn a_removed_tree_of_many_directories_holds_no_descriptors() {
    let world = World::new();
    let path = |number: usize| format!("many/{number}");
    for number in 0..300 {
        world.file(&format!("w/{}/f", path(number)), "x");
    }
    let descriptors = || fs::read_dir("/proc/self/fd").expect("list").count();
    let before = descriptors();
    let stage = limited(&world, 500, 1000);
    let w = Held::root(FileView::Staged(&stage));
    for number in 0..300 {
        w.unlink(&format!("{}/f", path(number))).expect("unlink");
        w.rmdir(&path(number)).expect("rmdir");
    }
    w.rmdir("many").expect("rmdir");
    // Other tests run concurrently and hold descriptors too.
    assert!(descriptors() < before + 200, "{before} {}", descriptors());
    assert_eq!(stage.changes().expect("changes").len(), 601);
}

/// Each move is short, but together they could nest too deeply to be reached.
#[test]
fn repeated_moves_do_not_nest_without_bound() {
    let world = World::new();
    let stage = world.stage(world.scope());
    let w = Held::root(FileView::Staged(&stage));
    let chain = |name: &str| {
        let mut path = name.to_owned();
        w.mkdir(&path).expect("mkdir");
        for _ in 0..100 {
            path += "/d";
            w.mkdir(&path).expect("mkdir");
        }
        path
    };
    chain("one");
    let second = chain("two");
    w.rename("one", w, &format!("{second}/one"))
        .expect("two hundred deep");
    let third = chain("three");
    let knot = w.rename("two", w, &format!("{third}/two"));
    assert_eq!(knot, Err(PathError::NameTooLong));
    let real = w.rename("d", w, &format!("{third}/d"));
    assert_eq!(real, Ok(()), "what is shallow may move");
    w.rename("two", w, "one").expect("not deeper than before");
}
