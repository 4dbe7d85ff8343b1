//! FS-25: the host's files stay inaccessible inside a grant, existing or not, under all names.

use std::{fs, os::unix::fs::symlink};

use toolhost_vfs::{Access, PathError, Protection, Scope, ScopeError};

use crate::support::{Act, CHANGING, LOOKING, World, handle};

/// A protected path and its protection.
type ProtectedEntry = (&'static str, Protection);

/// A tree in which `w/data` belongs to the host and contains a policy.
fn world() -> World {
    let world = World::new();
    world.file("w/data/policy.toml", "deny all");
    world.file("w/data/plugins/a.wasm", "plugin");
    world
}

fn scope(world: &World, protected: &[ProtectedEntry]) -> Scope {
    let protected: Vec<_> = protected
        .iter()
        .map(|(path, shield)| world.keep(path, *shield))
        .collect();
    Scope::open(&[world.grant("w", "/w", Access::ReadWrite)], &protected).expect("scope")
}

#[test]
fn hidden_paths_cannot_be_reached_by_any_operation() {
    let cases: &[(&[ProtectedEntry], &[&str])] = &[
        (
            &[("w/data", Protection::Hidden)],
            &[
                "data",
                "data/",
                "data/policy.toml",
                "data/new",
                "sub/../data/policy.toml",
            ],
        ),
        (
            &[("w/data/policy.toml", Protection::Hidden)],
            &[
                "data/policy.toml",
                "data/POLICY.toml",
                "./data/./policy.toml",
            ],
        ),
        // Does not exist yet: the name is protected in its directory.
        (
            &[("w/data/settings.json", Protection::Hidden)],
            &["data/settings.json", "data/Settings.json"],
        ),
        (
            &[("w/later/deep/policy.toml", Protection::Hidden)],
            &["later", "later/deep", "later/deep/policy.toml"],
        ),
    ];
    for (protected, paths) in cases {
        // Everything is refused, so one tree serves all cases.
        let world = world();
        let before = world.snapshot("");
        let scope = scope(&world, protected);
        for path in *paths {
            for (name, operation) in LOOKING.iter().chain(CHANGING) {
                let answer = operation(handle(&scope, "/w"), path);
                assert_eq!(
                    answer,
                    Err(PathError::NotPermitted),
                    "{name} {path} with {protected:?}"
                );
                assert_eq!(
                    before,
                    world.snapshot(""),
                    "{name} {path} with {protected:?}"
                );
            }
        }
    }
}

#[test]
fn read_only_protected_paths_can_be_read() {
    for protected in [
        &[("w/data", Protection::ReadOnly)][..],
        &[("w/data/policy.toml", Protection::ReadOnly)],
    ] {
        let world = world();
        let before = world.snapshot("");
        let scope = scope(&world, protected);
        let root = handle(&scope, "/w");
        for (name, operation) in CHANGING {
            assert_eq!(
                operation(root, "data/policy.toml"),
                Err(PathError::NotPermitted),
                "{name} with {protected:?}"
            );
            assert_eq!(before, world.snapshot(""), "{name} with {protected:?}");
            assert_eq!(root.read("data/policy.toml").as_deref(), Ok("deny all"));
        }
    }
}

#[test]
fn hidden_names_are_not_listed() {
    let world = world();
    fs::hard_link(
        world.path("w/data/policy.toml"),
        world.path("w/second-name"),
    )
    .expect("hard link");
    let scope = scope(
        &world,
        &[
            ("w/data/policy.toml", Protection::Hidden),
            ("w/sub", Protection::Hidden),
        ],
    );
    let root = handle(&scope, "/w");
    assert_eq!(root.list(".").as_deref(), Ok("data f.txt"));
    assert_eq!(root.list("data").as_deref(), Ok("plugins"));
}

#[test]
fn parents_of_a_protected_path_cannot_move() {
    let table: &[Act] = &[
        |h| h.rename("data", h, "elsewhere"),
        |h| h.rename("data/plugins", h, "elsewhere"),
        |h| h.rename("sub", h, "data"),
        |h| h.rmdir("data/plugins"),
        |h| h.symlink("sub", "data/plugins/later"),
        |h| h.mkdir("data/plugins/later"),
        |h| h.write("data/plugins/later"),
        |h| h.rename("f.txt", h, "data/plugins/later"),
        |h| h.link("f.txt", h, "data/plugins/later"),
    ];
    for (number, operation) in table.iter().enumerate() {
        let world = world();
        let before = world.snapshot("");
        let scope = scope(&world, &[("w/data/plugins/later", Protection::ReadOnly)]);
        assert_eq!(
            operation(handle(&scope, "/w")),
            Err(PathError::NotPermitted),
            "row {number}"
        );
        assert_eq!(before, world.snapshot(""), "row {number}");
    }
}

#[test]
fn a_file_the_host_replaced_is_still_protected() {
    let world = world();
    let scope = scope(&world, &[("w/data/policy.toml", Protection::ReadOnly)]);
    world.file("w/data/next", "deny everything");
    fs::rename(world.path("w/data/next"), world.path("w/data/policy.toml")).expect("replace");
    let root = handle(&scope, "/w");
    assert_eq!(root.write("data/policy.toml"), Err(PathError::NotPermitted));
    assert_eq!(
        root.unlink("data/policy.toml"),
        Err(PathError::NotPermitted)
    );
    assert_eq!(world.read("w/data/policy.toml"), "deny everything");
}

#[test]
fn other_names_of_a_protected_file_are_protected() {
    for original in ["w/data/policy.toml", "outside/policy.toml"] {
        let world = world();
        world.file(original, "deny all");
        fs::hard_link(world.path(original), world.path("w/hard")).expect("hard link");
        symlink("hard", world.path("w/soft")).expect("link");
        let scope = scope(&world, &[(original, Protection::Hidden)]);
        let root = handle(&scope, "/w");
        for path in ["hard", "soft"] {
            for (name, answer) in [
                ("read", root.read(path)),
                ("write", root.write(path)),
                ("truncate", root.open(path, crate::support::TRUNCATE)),
                ("stat", root.stat(path)),
                ("times", root.set_times(path, true)),
            ] {
                assert_eq!(
                    answer,
                    Err(PathError::NotPermitted),
                    "{name} {path} of {original}"
                );
            }
        }
        assert_eq!(world.read(original), "deny all");
    }
}

#[test]
fn a_link_that_the_hosts_path_goes_through_cannot_be_turned() {
    let world = world();
    symlink("data", world.path("w/config")).expect("link");
    let scope = scope(&world, &[("w/config/policy.toml", Protection::ReadOnly)]);
    let root = handle(&scope, "/w");
    assert_eq!(root.unlink("config"), Err(PathError::NotPermitted));
    assert_eq!(
        root.rename("config", root, "x"),
        Err(PathError::NotPermitted)
    );
    assert_eq!(
        root.rename("f.txt", root, "config"),
        Err(PathError::NotPermitted)
    );
    assert_eq!(
        root.write("config/policy.toml"),
        Err(PathError::NotPermitted)
    );
    assert_eq!(root.write("config/other"), Ok(String::new()));
}

#[test]
fn a_grant_inside_a_protected_path_is_refused_or_narrowed() {
    let world = world();
    let grant = [world.grant("w/data/plugins", "/p", Access::ReadWrite)];
    let hidden = Scope::open(&grant, &[world.keep("w/data", Protection::Hidden)]);
    assert!(
        matches!(hidden, Err(ScopeError::Reserved { .. })),
        "{hidden:?}"
    );
    let narrowed =
        Scope::open(&grant, &[world.keep("w/data", Protection::ReadOnly)]).expect("scope");
    assert_eq!(narrowed.roots()[0].access(), Access::ReadOnly);
    assert_eq!(
        handle(&narrowed, "/p").write("a.wasm"),
        Err(PathError::NotPermitted)
    );
}

#[test]
fn siblings_of_protected_paths_are_accessible() {
    let world = world();
    let scope = scope(&world, &[("w/data/policy.toml", Protection::Hidden)]);
    let root = handle(&scope, "/w");
    assert_eq!(root.write("data/notes"), Ok(String::new()));
    assert_eq!(
        root.rename("data/notes", root, "notes").as_deref(),
        Ok("done")
    );
    assert_eq!(root.rename("sub", root, "moved").as_deref(), Ok("done"));
    assert_eq!(root.unlink("notes").as_deref(), Ok("done"));
}
