//! FS-04: a guest cannot create a link that leads other programs out of its directory.

use toolhost_vfs::{Access, PathError};

use crate::support::{World, handle};

#[test]
fn links_are_made_only_where_they_point_inside() {
    for (target, path, expected) in [
        ("f.txt", "x", Ok("done")),
        ("sub/", "x", Ok("done")),
        ("not-there", "x", Ok("done")),
        ("../f.txt", "sub/x", Ok("done")),
        (".././f.txt", "sub/x", Ok("done")),
        ("..", "sub/x", Ok("done")),
        ("../secret", "x", Err(PathError::NotPermitted)),
        ("..", "x", Err(PathError::NotPermitted)),
        ("../", "x", Err(PathError::NotPermitted)),
        ("./../secret", "x", Err(PathError::NotPermitted)),
        ("../../secret", "sub/x", Err(PathError::NotPermitted)),
        ("sub/../../secret", "x", Err(PathError::NotPermitted)),
        // Stays inside as text, but not if `sub` is replaced by a link to `.`.
        ("sub/../f.txt", "x", Err(PathError::NotPermitted)),
        ("/etc/passwd", "x", Err(PathError::NotPermitted)),
        ("//etc/passwd", "x", Err(PathError::NotPermitted)),
        ("/", "x", Err(PathError::NotPermitted)),
        ("", "x", Err(PathError::NotFound)),
        ("a\0b", "x", Err(PathError::Invalid)),
        ("f.txt", "sub", Err(PathError::Exists)),
        ("f.txt", "x/", Err(PathError::NotFound)),
        ("f.txt", "../x", Err(PathError::NotPermitted)),
    ] {
        for scope in [World::scope, World::walking_scope] {
            let world = World::new();
            let scope = scope(&world, Access::ReadWrite);
            let answer = handle(&scope, "/w").symlink(target, path);
            assert_eq!(
                answer.as_deref().map_err(|refusal| *refusal),
                expected,
                "{path} -> {target}"
            );
        }
    }
}

#[test]
fn the_depth_of_a_link_is_where_it_really_stands() {
    let world = World::new();
    world.dir("w/sub/deep");
    std::os::unix::fs::symlink("sub/deep", world.path("w/short")).expect("link");
    std::os::unix::fs::symlink(".", world.path("w/sub/same")).expect("link");
    let scope = world.scope(Access::ReadWrite);
    let root = handle(&scope, "/w");
    assert_eq!(
        root.symlink("../../f.txt", "short/x").as_deref(),
        Ok("done")
    );
    assert_eq!(
        root.symlink("../../f.txt", "sub/same/same/x"),
        Err(PathError::NotPermitted)
    );
}

#[test]
fn a_link_cannot_be_moved_to_point_outside() {
    let world = World::new();
    world.dir("w/sub/deep");
    world.dir("v");
    let grants = [
        world.grant("w", "/w", Access::ReadWrite),
        world.grant("v", "/v", Access::ReadWrite),
    ];
    let scope = toolhost_vfs::Scope::open(&grants, &[]).expect("scope");
    let (root, other) = (handle(&scope, "/w"), handle(&scope, "/v"));
    root.symlink("../../secret", "sub/deep/x")
        .expect("inside so far");
    for (name, answer) in [
        ("rename", root.rename("sub/deep/x", root, "x")),
        ("link", root.link("sub/deep/x", root, "x")),
        ("rename half way", root.rename("sub/deep/x", root, "sub/x")),
        ("its directory", root.rename("sub/deep", root, "deep")),
        (
            "its directory, elsewhere",
            root.rename("sub/deep", other, "deep"),
        ),
    ] {
        assert_eq!(answer, Err(PathError::NotPermitted), "{name}");
    }
    assert_eq!(
        root.rename("sub", root, "moved").as_deref(),
        Ok("done"),
        "the depth stays"
    );
    assert_eq!(
        root.rename("moved", other, "moved").as_deref(),
        Ok("done"),
        "the depth stays in another grant"
    );
}

#[test]
fn absolute_targets_are_not_read_back() {
    let world = World::new().with_links();
    let scope = world.scope(Access::ReadWrite);
    let root = handle(&scope, "/w");
    assert_eq!(root.read_link("absdir"), Err(PathError::NotPermitted));
    assert_eq!(root.read_link("chain").as_deref(), Ok("chain2"));
    assert_eq!(root.read_link("f.txt"), Err(PathError::Invalid));
}
