//! FS-18: where grants overlap the most specific one applies, for all handles.

use toolhost_vfs::{Access, PathError, Scope};

use crate::support::{Act, DIRECTORY, Handle, World, handle};

const RO: Access = Access::ReadOnly;
const RW: Access = Access::ReadWrite;

/// Opens the grants and checks, for each (handle, path), whether a write is allowed.
fn check(grants: &[(&str, &str, Access)], writes: &[(&str, &str, bool)]) {
    for (guest, path, allowed) in writes {
        let world = World::new();
        world.dir("w/sub/deep");
        let grants: Vec<_> = grants
            .iter()
            .map(|(path, guest, access)| world.grant(path, guest, *access))
            .collect();
        let scope = Scope::open(&grants, &[]).expect("scope");
        let handle = handle(&scope, guest);
        let expected = if *allowed {
            Ok(String::new())
        } else {
            Err(PathError::NotPermitted)
        };
        assert_eq!(
            handle.write(path),
            expected,
            "write {guest} {path} under {grants:?}"
        );
        let expected = if *allowed {
            Ok("done".to_owned())
        } else {
            Err(PathError::NotPermitted)
        };
        assert_eq!(
            handle.mkdir(&format!("{path}-d")),
            expected,
            "mkdir {guest} {path}-d under {grants:?}"
        );
        // In a scope narrowed for a read-only tool, a nested writable grant does not add access.
        let narrowed = scope.read_only();
        assert_eq!(
            crate::support::handle(&narrowed, guest).write(path),
            Err(PathError::NotPermitted),
            "{guest} {path}"
        );
    }
}

#[test]
fn a_read_only_child_is_read_only_through_its_writable_parent() {
    check(
        &[("w", "/w", RW), ("w/sub", "/s", RO)],
        &[
            ("/w", "new", true),
            ("/w", "sub/new", false),
            ("/w", "sub/deep/new", false),
            ("/w", "sub/deep/../../new", true),
            ("/s", "new", false),
            ("/s", "deep/new", false),
        ],
    );
}

#[test]
fn a_writable_child_is_writable_through_its_read_only_parent() {
    check(
        &[("w", "/w", RO), ("w/sub", "/s", RW)],
        &[
            ("/w", "new", false),
            ("/w", "sub/new", true),
            ("/w", "sub/deep/../../new", false),
            ("/s", "new", true),
        ],
    );
}

#[test]
fn three_levels_alternate() {
    check(
        &[
            ("w", "/w", RW),
            ("w/sub", "/s", RO),
            ("w/sub/deep", "/d", RW),
        ],
        &[
            ("/w", "new", true),
            ("/w", "sub/new", false),
            ("/w", "sub/deep/new", true),
            ("/s", "new", false),
            ("/s", "deep/new", true),
            ("/d", "new", true),
        ],
    );
}

#[test]
fn the_same_directory_granted_twice_keeps_the_narrower_access_under_both_names() {
    for (one, other) in [(RO, RW), (RW, RO)] {
        check(
            &[("w", "/one", one), ("w", "/other", other)],
            &[("/one", "new", false), ("/other", "new", false)],
        );
    }
    check(
        &[("w", "/one", RW), ("w", "/other", RW)],
        &[("/one", "new", true), ("/other", "new", true)],
    );
}

#[test]
fn a_handle_has_the_access_of_its_path() {
    let world = World::new();
    world.dir("w/sub/deep");
    let grants = [
        world.grant("w", "/w", RW),
        world.grant("w/sub/deep", "/d", RO),
    ];
    let scope = Scope::open(&grants, &[]).expect("scope");
    let root = handle(&scope, "/w");
    for (path, access, below, allowed) in [
        ("sub", RW, "new", true),
        ("sub", RW, "deep/new", false),
        ("sub/deep", RO, "new", false),
        ("sub/deep/..", RW, "newer", true),
    ] {
        let opened = scope
            .open_at(root.fd, root.access, path, &DIRECTORY)
            .expect("open");
        assert_eq!(opened.access, access, "{path}");
        let handle = Handle {
            scope: &scope,
            fd: std::os::fd::AsFd::as_fd(&opened.fd),
            access: opened.access,
        };
        assert_eq!(handle.write(below).is_ok(), allowed, "{path} then {below}");
    }
}

#[test]
fn a_granted_directory_and_those_above_it_stay_where_they_are() {
    let table: &[Act] = &[
        |h| h.rename("sub", h, "elsewhere"),
        |h| h.rename("sub/deep", h, "elsewhere"),
        |h| h.rmdir("sub/deep"),
        |h| h.rename("empty", h, "sub/deep"),
    ];
    for (number, operation) in table.iter().enumerate() {
        for access in [RO, RW] {
            let world = World::new();
            world.dir("w/sub/deep");
            world.dir("w/empty");
            let grants = [
                world.grant("w", "/w", RW),
                world.grant("w/sub/deep", "/d", access),
            ];
            let scope = Scope::open(&grants, &[]).expect("scope");
            assert_eq!(
                operation(handle(&scope, "/w")),
                Err(PathError::NotPermitted),
                "row {number}, {access:?}"
            );
        }
    }
}

#[test]
fn a_link_into_a_read_only_child_is_as_read_only_as_the_child() {
    let world = World::new();
    std::os::unix::fs::symlink("sub/g.txt", world.path("w/shortcut")).expect("link");
    let grants = [world.grant("w", "/w", RW), world.grant("w/sub", "/s", RO)];
    let scope = Scope::open(&grants, &[]).expect("scope");
    let root = handle(&scope, "/w");
    assert_eq!(root.write("shortcut"), Err(PathError::NotPermitted));
    assert_eq!(
        root.link("sub/g.txt", root, "mine"),
        Err(PathError::NotPermitted)
    );
    assert_eq!(
        root.rename("sub/g.txt", root, "mine"),
        Err(PathError::NotPermitted)
    );
    assert_eq!(
        root.rename("f.txt", root, "sub/f.txt"),
        Err(PathError::NotPermitted)
    );
    assert_eq!(root.read("shortcut").as_deref(), Ok("inside"));
}
