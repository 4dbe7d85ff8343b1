//! Bad input for a stage: similar names, unbounded nesting, removed roots. The stage keeps names apart, and accepts
//! nothing that could not be committed.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
};

use toolhost_vfs::{PathError, Stage, StageError, StageLimits};

use crate::support::{FileView, Held, World};

fn check(make: fn(&World), act: fn(Held<'_>), expected: &[&str]) {
    let world = World::new();
    make(&world);
    let stage = world.stage(world.scope());
    act(Held::root(FileView::Staged(&stage)));
    let changes = stage.changes().expect("changes");
    let paths: Vec<&str> = changes.iter().map(|s| s.change.at.path.as_str()).collect();
    assert_eq!(paths, expected);
}

#[test]
fn names_that_differ_in_case_or_in_unicode_form_are_different_names() {
    check(
        |world| {
            world.file("w/caf\u{e9}", "composed");
            world.file("w/README", "upper");
        },
        |w| {
            assert_eq!(w.read("cafe\u{301}"), Err(PathError::NotFound));
            assert_eq!(w.read("readme"), Err(PathError::NotFound));
            w.open("cafe\u{301}", "wc", "decomposed").expect("create");
            w.open("readme", "wc", "lower").expect("create");
            w.rename("d", w, "D").expect("rename");
            assert_eq!(w.read("caf\u{e9}"), Ok("composed".to_owned()));
            assert_eq!(w.read("README"), Ok("upper".to_owned()));
            assert_eq!(w.read("D/a"), Ok("alpha in d".to_owned()));
            assert_eq!(w.read("d/a"), Err(PathError::NotFound));
        },
        &["D", "cafe\u{301}", "readme"],
    );
}

#[test]
fn a_directory_with_a_non_utf8_name_is_not_empty() {
    check(
        |world| {
            let name = OsStr::from_bytes(b"\xff\xfe");
            fs::write(world.path("w/empty").join(name), "mine").expect("write");
        },
        |w| {
            assert_eq!(w.list("empty"), Ok(String::new()));
            assert_eq!(w.rmdir("empty"), Err(PathError::NotEmpty));
            w.open("empty/beside", "wc", "text").expect("create");
            w.unlink("empty/beside").expect("unlink");
            assert_eq!(w.rmdir("empty"), Err(PathError::NotEmpty));
            w.mkdir("n").expect("mkdir");
            assert_eq!(w.rename("n", w, "empty"), Err(PathError::NotEmpty));
        },
        &["n"],
    );
}

#[test]
fn a_loop_of_links_ends() {
    check(
        |world| {
            symlink("two", world.path("w/one")).expect("link");
            symlink("one", world.path("w/two")).expect("link");
        },
        |w| {
            w.mkdir("n").expect("mkdir");
            w.symlink("m", "n/l").expect("link");
            w.symlink("l", "n/m").expect("link");
            for path in ["one", "n/l"] {
                assert_eq!(w.read(path), Err(PathError::Loop), "{path}");
                assert_eq!(w.open(path, "wc", "x"), Err(PathError::Loop), "{path}");
                assert_eq!(
                    w.mkdir(&format!("{path}/d")),
                    Err(PathError::Loop),
                    "{path}"
                );
            }
            w.unlink("one").expect("a link can be removed all the same");
        },
        &["n", "n/l", "n/m", "one"],
    );
}

/// Paths are limited in length, but nesting through handles would not be.
#[test]
fn nesting_through_handles_is_limited() {
    for name in ["m", &"n".repeat(200)] {
        let world = World::new();
        let stage = world.stage(world.scope());
        let root = Held::root(FileView::Staged(&stage));
        let mut made = 0;
        let mut held = root.hold(".").expect("the root");
        let refusal = loop {
            if let Err(refusal) = root.with(&held).mkdir(name) {
                break refusal;
            }
            made += 1;
            held = root.with(&held).hold(name).expect("what was made");
            assert!(made < 1000, "the nesting is unbounded");
        };
        assert_eq!(refusal, PathError::NameTooLong);
        assert_eq!(root.with(&held).open(name, "wc", "text"), Err(refusal));
        let changes = stage.changes().expect("changes");
        assert_eq!(changes.len(), made);
        let longest = changes.iter().map(|s| s.change.at.path.len()).max();
        assert!(longest < Some(4096), "{longest:?}");
    }
}

#[test]
fn the_number_of_files_is_limited() {
    const FILES: usize = 10_000;
    let world = World::new();
    let limits = StageLimits {
        bytes: 1 << 20,
        files: FILES,
    };
    let stage = Stage::new(world.scope(), world.path("pool"), limits);
    let w = Held::root(FileView::Staged(&stage));
    for number in 0..FILES {
        w.open(&format!("empty/{number}"), "wc", "").expect("room");
    }
    assert_eq!(w.open("empty/more", "wc", ""), Err(PathError::NoSpace));
    assert_eq!(stage.changes().expect("changes").len(), FILES);
    drop(stage);
    assert_eq!(fs::read_dir(world.path("pool")).expect("list").count(), 0);
    assert_eq!(
        fs::read_dir(world.path("w/empty")).expect("list").count(),
        0
    );
}

#[test]
fn a_removed_root_discards_its_staged_changes() {
    type Disturb = fn(&World);
    let cases: [(&str, Disturb); 3] = [
        ("removed", |world| {
            fs::remove_dir_all(world.path("w")).expect("remove");
        }),
        ("emptied", |world| {
            for name in ["a", "b"] {
                fs::remove_file(world.path("w").join(name)).expect("remove");
            }
        }),
        ("replaced", |world| {
            fs::remove_dir_all(world.path("w")).expect("remove");
            world.file("w/a", "alpha");
        }),
    ];
    for (case, disturb) in cases {
        let world = World::new();
        let stage = world.stage(world.scope());
        let w = Held::root(FileView::Staged(&stage));
        w.open("a", "w", "changed").expect("write");
        disturb(&world);
        let error = stage.changes().expect_err(case);
        assert!(matches!(error, StageError::Changed(_)), "{case}: {error}");
        assert_eq!(w.read("b"), Err(PathError::NotFound), "{case}");
    }
}
