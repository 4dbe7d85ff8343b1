//! RO-01 to RO-07: a read-only grant can be read, and nothing in it or through it changes.

use toolhost_vfs::{Access, PathError, Scope};

use crate::support::{CHANGING, Handle, OpenScope, World, handle};

type Between = fn(Handle<'_>, Handle<'_>) -> Result<String, PathError>;

#[test]
fn every_changing_operation_on_a_read_only_grant_is_not_permitted() {
    let scopes: &[(&str, OpenScope)] = &[
        ("kernel", |world| world.scope(Access::ReadOnly)),
        ("walk", |world| world.walking_scope(Access::ReadOnly)),
        ("narrowed", |world| {
            world.scope(Access::ReadWrite).read_only()
        }),
        ("narrowed walk", |world| {
            world.walking_scope(Access::ReadWrite).read_only()
        }),
    ];
    for (kind, open) in scopes {
        let world = World::new();
        let before = world.snapshot("");
        let scope = open(&world);
        for path in ["f.txt", "sub", "sub/g.txt", "new", "sub/new"] {
            for (name, operation) in CHANGING {
                let answer = operation(handle(&scope, "/w"), path);
                let case = format!("{name} {path} in a {kind} scope");
                // Opening a missing path for writing may report that, because reading reveals the same.
                let missing = path.ends_with("new") && answer == Err(PathError::NotFound);
                assert!(
                    missing || answer == Err(PathError::NotPermitted),
                    "{case}: {answer:?}"
                );
                assert_eq!(before, world.snapshot(""), "{case}");
            }
        }
    }
}

#[test]
fn a_handle_claiming_more_than_the_narrowed_scope_gets_no_more() {
    let world = World::new();
    let scope = world.scope(Access::ReadWrite).read_only();
    let liar = Handle {
        access: Access::ReadWrite,
        ..handle(&scope, "/w")
    };
    assert_eq!(liar.write("f.txt"), Err(PathError::NotPermitted));
    assert_eq!(liar.mkdir("d"), Err(PathError::NotPermitted));
    assert_eq!(liar.read("f.txt").as_deref(), Ok("inside"));
}

#[test]
fn links_and_renames_between_grants_need_write_access_on_both_sides() {
    for (one, other, expected) in [
        (
            Access::ReadOnly,
            Access::ReadOnly,
            Err(PathError::NotPermitted),
        ),
        (
            Access::ReadOnly,
            Access::ReadWrite,
            Err(PathError::NotPermitted),
        ),
        (
            Access::ReadWrite,
            Access::ReadOnly,
            Err(PathError::NotPermitted),
        ),
        (Access::ReadWrite, Access::ReadWrite, Ok("done".to_owned())),
    ] {
        let operations: [Between; 2] = [
            |from, to| from.link("f.txt", to, "x"),
            |from, to| from.rename("f.txt", to, "x"),
        ];
        for operation in operations {
            let world = World::new();
            world.dir("v");
            let grants = [world.grant("w", "/w", one), world.grant("v", "/v", other)];
            let scope = Scope::open(&grants, &[]).expect("scope");
            assert_eq!(
                operation(handle(&scope, "/w"), handle(&scope, "/v")),
                expected,
                "{one:?} to {other:?}"
            );
            assert_eq!(
                world.read("v/x") == "inside",
                expected.is_ok(),
                "{one:?} to {other:?}"
            );
        }
    }
}
