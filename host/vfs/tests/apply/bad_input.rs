//! Content that cannot be saved is not replaced, and unneeded saved content is removed.

use std::{fs, path::Path};

use toolhost_vfs::{ApplyError, ContentHash, save_before_images};

use crate::support::{World, tree};

/// `spoil` interferes after the check: `b` cannot be saved, although `a` was already written.
fn check(spoil: fn(&World), why: &str) {
    let (before, after) = (tree("a = 1\n b = 2"), tree("a = x\n b = y"));
    let world = World::new(&before);
    let changes = world.changes(&before, &[], &after);
    let ops = world.ops(&changes, &after);
    spoil(&world);
    let spoilt = world.tree();
    let error = save_before_images(&world.roots(), &ops, &world.blobs).expect_err(why);
    assert!(
        matches!(&error, ApplyError::SaveContent { at, .. } if at.path == "b"),
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
fn unpublished_blobs_are_removed_after_a_read_error() {
    check(
        |world| {
            fs::remove_file(world.path("b")).expect("remove");
            fs::create_dir(world.path("b")).expect("make");
        },
        "Is a directory",
    );
}

#[test]
fn unpublished_blobs_are_removed_after_a_rename_error() {
    check(
        |world| {
            let blob = world.blobs.path(ContentHash::of(b"2"));
            fs::write(blob.parent().expect("parent"), "in the way").expect("write");
        },
        "File exists",
    );
}
