//! Content that cannot be saved is not replaced, and unneeded saved content is removed.

use std::{fs, path::Path};

use toolhost_vfs::{ApplyError, ContentHash, keep_before};

use crate::support::{World, tree};

/// `spoil` interferes after the check: `b` cannot be saved, although `a` was already written.
fn check(spoil: fn(&World), why: &str) {
    let (before, after) = (tree("a = 1\n b = 2"), tree("a = x\n b = y"));
    let world = World::new(&before);
    let changes = world.changes(&before, &[], &after);
    let ops = world.ops(&changes, &after);
    spoil(&world);
    let spoilt = world.tree();
    let error = keep_before(&world.roots(), &ops, &world.blobs).expect_err(why);
    assert!(
        matches!(&error, ApplyError::Keep { at, .. } if at.path == "b"),
        "{error}"
    );
    assert!(error.to_string().contains(why), "{error}");
    assert_eq!(names(&world.tmp.path().join("blobs"), "temp-"), 0, "{why}");
    assert_eq!(world.tree(), spoilt);
}

fn names(dir: &Path, start: &str) -> usize {
    let entries = fs::read_dir(dir).expect("list");
    let names = entries.map(|entry| entry.expect("entry").file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with(start))
        .count()
}

#[test]
fn what_was_written_beside_something_that_cannot_be_read_goes() {
    check(
        |world| {
            fs::remove_file(world.path("b")).expect("remove");
            fs::create_dir(world.path("b")).expect("make");
        },
        "Is a directory",
    );
}

#[test]
fn what_cannot_get_its_name_goes() {
    check(
        |world| {
            let kept = world.blobs.path(ContentHash::of(b"2"));
            fs::write(kept.parent().expect("parent"), "in the way").expect("write");
        },
        "File exists",
    );
}
