//! BLK-08: the cost of a listing is bounded by its limit, whatever the size of the directory.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

use toolhost_vfs::{Access, EntryKind, PathError, Scope};

use crate::support::{World, handle};

fn names(scope: &Scope, limit: usize) -> Result<usize, PathError> {
    scope
        .read_dir(handle(scope, "/w").fd, limit)
        .map(|listed| listed.entries.len())
}

#[test]
fn a_directory_over_the_limit_is_refused_and_one_at_the_limit_is_listed() {
    let world = World::new();
    // `f.txt` and `sub` already exist.
    for number in 2..20_000 {
        fs::write(world.path("w").join(number.to_string()), "").expect("write");
    }
    for scope in [
        world.scope(Access::ReadOnly),
        world.walking_scope(Access::ReadOnly),
    ] {
        assert_eq!(names(&scope, 10_000), Err(PathError::TooManyEntries));
        assert_eq!(names(&scope, 19_999), Err(PathError::TooManyEntries));
        assert_eq!(names(&scope, 20_000), Ok(20_000));
    }
}

#[test]
fn every_listing_starts_at_the_beginning_and_has_types() {
    let world = World::new();
    std::os::unix::fs::symlink("f.txt", world.path("w/link")).expect("link");
    let scope = world.scope(Access::ReadOnly);
    for _ in 0..3 {
        let listed = scope.read_dir(handle(&scope, "/w").fd, 10).expect("list");
        let mut entries = listed.entries;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let entries: Vec<_> = entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.kind))
            .collect();
        assert_eq!(
            entries,
            [
                ("f.txt", EntryKind::File),
                ("link", EntryKind::Symlink),
                ("sub", EntryKind::Directory)
            ]
        );
    }
}

#[test]
fn non_utf8_names_are_omitted_and_counted() {
    let world = World::new();
    fs::write(world.path("w").join(OsStr::from_bytes(b"\xff\xfe")), "").expect("write");
    let scope = world.scope(Access::ReadOnly);
    assert_eq!(names(&scope, 3), Ok(2));
    assert_eq!(names(&scope, 2), Err(PathError::TooManyEntries));
    let listed = scope.read_dir(handle(&scope, "/w").fd, 3).expect("list");
    assert_eq!(listed.non_utf8, 1);
}
