//! FS-01 to FS-07, FS-13, FS-14, FS-20, FS-23: paths that lead outside, with all operations and both resolvers.

use toolhost_vfs::{Access, PathError};

use crate::support::{Act, CANARY, CHANGING, LOOKING, OpenScope, World, handle};

const SCOPES: &[(&str, OpenScope)] = &[
    ("kernel", |world| world.scope(Access::ReadWrite)),
    ("walk", |world| world.walking_scope(Access::ReadWrite)),
];

/// Whatever each operation returns, nothing outside `w` changes and no secret is returned.
fn check(paths: &[&str], expect: fn(&str, &Result<String, PathError>) -> bool) {
    for (resolver, open) in SCOPES {
        let new_world = || {
            let world = World::new().with_links();
            (open(&world), world.snapshot("w"), world)
        };
        let (mut scope, mut before, mut world) = new_world();
        for path in paths {
            for (name, operation) in LOOKING.iter().chain(CHANGING) {
                let answer = operation(handle(&scope, "/w"), path);
                let case = format!("{name} {path:?} by {resolver}: {answer:?}");
                assert!(expect(name, &answer), "{case}");
                assert_eq!(
                    before,
                    world.snapshot("w"),
                    "{case} changed something outside"
                );
                // Some operations only make the secret reachable for a later read.
                let reread = handle(&scope, "/w").read("new-name");
                for result in [&answer, &reread].into_iter().flatten() {
                    assert!(!result.contains(CANARY), "{case} returned the secret");
                }
                if answer.is_ok() {
                    (scope, before, world) = new_world();
                }
            }
        }
    }
}

#[test]
fn paths_outside_are_refused_by_every_operation() {
    check(
        &[
            "../secret",
            "sub/../../secret",
            "./../secret",
            "sub/./.././../secret",
            "..",
            "../",
            "../.",
            "sub/../..",
            "../w/f.txt",
            "../w-secret/f.txt",
            "/etc/passwd",
            "//etc/passwd",
            "/",
            "//",
            "/proc/self/environ",
            "nul\0x",
            "../nul\0x",
            "",
            "dirlink/secret",
            "dirlink/w/f.txt",
            "dirlink/../secret",
            "dirlink/new",
            "sub/up/secret",
            "sub/up/new",
            "absdir/passwd",
            "absdir/new",
            "procroot/etc/passwd",
            "procfd/0",
            "procfd/3",
            "magic/Cargo.toml",
            "loop1/x",
            "prefix/f.txt",
            "prefix/new",
            "dangling/x",
        ],
        |_, answer| {
            matches!(
                answer,
                Err(PathError::NotPermitted
                    | PathError::Loop
                    | PathError::Invalid
                    | PathError::NotFound
                    | PathError::NotDirectory)
            )
        },
    );
}

#[test]
fn links_to_outside_are_never_followed() {
    check(
        &[
            "abs",
            "rel",
            "dirlink",
            "chain",
            "chain2",
            "absdir",
            "loop1",
            "procroot",
            "procfd",
            "magic",
            "dangling",
            "in-then-out",
            "sub/up",
            "spaced",
            "slashed",
            "prefix",
        ],
        // The link itself may be inspected and removed; its target may not be touched.
        |name, answer| match name {
            "lstat" | "unlink" | "rename from" | "rename to" | "link from"
            | "set-times nofollow" | "read-link" => true,
            _ => answer.is_err(),
        },
    );
}

#[test]
fn a_slash_or_dots_after_an_escaping_link_are_refused() {
    let links = [
        "abs", "rel", "dirlink", "chain", "absdir", "loop1", "procroot", "magic", "dangling",
        "sub/up", "slashed",
    ];
    let paths: Vec<_> = links
        .iter()
        .flat_map(|link| ["/", "//", "/.", "/..", "/./"].map(|end| format!("{link}{end}")))
        .collect();
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    check(&paths, |_, answer| answer.is_err());
}

#[test]
fn special_names_of_other_systems_are_plain_names() {
    check(
        &[
            "~",
            "$HOME",
            "%2e%2e",
            "..%2fsecret",
            "..\\secret",
            "f.txt:stream",
            "f.txt::$DATA",
            "CON",
            "aux.txt",
            "a\nb",
            "\u{1b}[2J",
            "\u{202e}txt.exe",
            "...",
            ".. ",
            "-rf",
            "*",
        ],
        // They do not exist, so operations that need them fail, and operations that create them do so here.
        |name, answer| match name {
            "open create"
            | "open create new"
            | "mkdir"
            | "rename to"
            | "rename directory to"
            | "link to"
            | "symlink at" => answer.is_ok(),
            _ => *answer == Err(PathError::NotFound),
        },
    );
}

#[test]
fn ordinary_paths_work() {
    let table: &[(&str, Act, Result<&str, PathError>)] = &[
        ("read", |h| h.read("f.txt"), Ok("inside")),
        ("read below", |h| h.read("sub/../sub/./g.txt"), Ok("inside")),
        ("write", |h| h.write("sub/new"), Ok("")),
        ("mkdir", |h| h.mkdir("d/"), Ok("done")),
        ("mkdir again", |h| h.mkdir("sub"), Err(PathError::Exists)),
        ("mkdir here", |h| h.mkdir("."), Err(PathError::Exists)),
        ("list", |h| h.list("sub"), Ok("g.txt")),
        ("rmdir full", |h| h.rmdir("sub"), Err(PathError::NotEmpty)),
        (
            "rmdir file",
            |h| h.rmdir("f.txt"),
            Err(PathError::NotDirectory),
        ),
        ("rmdir here", |h| h.rmdir("."), Err(PathError::Invalid)),
        ("rmdir dot", |h| h.rmdir("sub/."), Err(PathError::Invalid)),
        ("unlink", |h| h.unlink("f.txt"), Ok("done")),
        (
            "unlink directory",
            |h| h.unlink("sub"),
            Err(PathError::IsDirectory),
        ),
        (
            "unlink slash",
            |h| h.unlink("f.txt/"),
            Err(PathError::NotDirectory),
        ),
        (
            "file as directory",
            |h| h.read("f.txt/x"),
            Err(PathError::NotDirectory),
        ),
        (
            "file with slash",
            |h| h.stat("f.txt/"),
            Err(PathError::NotDirectory),
        ),
        ("rename", |h| h.rename("f.txt", h, "sub/f.txt"), Ok("done")),
        (
            "rename directory",
            |h| h.rename("sub/", h, "moved/"),
            Ok("done"),
        ),
        (
            "rename file to slash",
            |h| h.rename("f.txt", h, "x/"),
            Err(PathError::NotFound),
        ),
        (
            "rename into itself",
            |h| h.rename("sub", h, "sub/x"),
            Err(PathError::Invalid),
        ),
        (
            "link",
            |h| {
                h.link("f.txt", h, "sub/second")
                    .and_then(|_| h.read("sub/second"))
            },
            Ok("inside"),
        ),
        (
            "symlink",
            |h| h.symlink("../f.txt", "sub/s").and_then(|_| h.read("sub/s")),
            Ok("inside"),
        ),
        (
            "symlink nofollow",
            |h| h.symlink("f.txt", "s").and_then(|_| h.lstat("s")),
            Ok("Symlink"),
        ),
        ("set times", |h| h.set_times("sub", true), Ok("done")),
        (
            "write a directory",
            |h| h.write("sub"),
            Err(PathError::IsDirectory),
        ),
        (
            "long name",
            |h| h.read(&"x".repeat(300)),
            Err(PathError::NameTooLong),
        ),
        (
            "long path",
            |h| h.read(&"x/".repeat(3000)),
            Err(PathError::NameTooLong),
        ),
    ];
    for (name, operation, expected) in table {
        for (resolver, scope) in SCOPES {
            let world = World::new();
            let scope = scope(&world);
            let answer = operation(handle(&scope, "/w"));
            assert_eq!(
                answer.as_deref().map_err(|refusal| *refusal),
                *expected,
                "{name} by {resolver}"
            );
        }
    }
}
