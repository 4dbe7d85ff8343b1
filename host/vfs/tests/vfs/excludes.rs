//! Excluded paths cannot be reached by any operation, and a file can be granted without its directory.

use std::{fs, os::unix::fs::symlink};

use toolhost_vfs::{Access, DEFAULT_EXCLUDES, PathError, PathGrant, Protection, Scope, ScopeError};

use crate::support::{Act, CHANGING, LOOKING, World, handle};

fn world() -> World {
    let world = World::new();
    for path in [
        ".env",
        ".env.local",
        ".env.example",
        ".ssh/config",
        "app/.env",
        "app/server.pem",
        "app/keys/id_ed25519",
        "build/out.txt",
        "sub/build/out.txt",
        "notes.txt",
        ".config/gcloud/token",
        "app/.config/gcloud/token",
    ] {
        world.file(&format!("w/{path}"), "text");
    }
    symlink("../.env", world.path("w/sub/settings")).expect("link");
    symlink(".ssh", world.path("w/keys")).expect("link");
    world
}

fn grant(world: &World, exclude: &[&str]) -> PathGrant {
    PathGrant {
        exclude: exclude.iter().copied().map(str::to_owned).collect(),
        ..world.grant("w", "/w", Access::ReadWrite)
    }
}

/// Patterns, the paths that they exclude, and paths that stay visible.
type Case = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

const CASES: &[Case] = &[
    (
        DEFAULT_EXCLUDES,
        &[
            ".env",
            "./.env",
            ".ENV",
            "sub/../.env",
            "app//.env",
            ".env.production",
            ".ssh",
            ".ssh/",
            ".ssh/config",
            ".ssh/new",
            ".Ssh/config",
            "app/server.pem",
            "app/keys/id_ed25519",
            "new.key",
            ".config/gcloud",
            ".config/gcloud/token",
            // Through links.
            "sub/settings",
            "keys/config",
        ],
        &[
            ".env.example",
            "notes.txt",
            "app/keys",
            "app/.config/gcloud/token",
            "sub/g.txt",
        ],
    ),
    (
        &["/build/", "*.txt", "!notes.txt"],
        &["build", "build/out.txt", "build/x/y", "f.txt", "sub/g.txt"],
        &["notes.txt", "sub/build", ".env"],
    ),
    (
        &["sub/*", "!sub/g.txt"],
        &["sub/build", "sub/settings"],
        &["sub", "sub/g.txt"],
    ),
];

#[test]
fn excluded_paths_cannot_be_reached_by_any_operation() {
    for (patterns, hidden, visible) in CASES {
        let world = world();
        let before = world.snapshot("");
        // Also where every path is walked.
        let keep = world.keep("w/kept/nothing-here", Protection::Hidden);
        for keep in [vec![], vec![keep]] {
            let scope = Scope::open(&[grant(&world, patterns)], &keep).expect("scope");
            let w = handle(&scope, "/w");
            for path in *hidden {
                for (name, operation) in LOOKING.iter().chain(CHANGING) {
                    // The link itself and its target path are visible.
                    if matches!(*path, "sub/settings")
                        && !matches!(*name, "open read" | "stat" | "open write")
                    {
                        continue;
                    }
                    assert_eq!(
                        operation(w, path),
                        Err(PathError::NotPermitted),
                        "{name} {path}"
                    );
                }
            }
            for path in *visible {
                assert!(w.stat(path).is_ok(), "{path}: {:?}", w.stat(path));
            }
            assert_eq!(before, world.snapshot(""), "{patterns:?}");
        }
    }
}

#[test]
fn a_listing_omits_excluded_names() {
    let world = world();
    let scope = Scope::open(&[grant(&world, DEFAULT_EXCLUDES)], &[]).expect("scope");
    let w = handle(&scope, "/w");
    let expected = [
        (
            ".",
            ".config .env.example app build f.txt keys notes.txt sub",
        ),
        ("app", ".config keys"),
        ("app/keys", ""),
        (".config", ""),
    ];
    for (path, names) in expected {
        assert_eq!(w.list(path).as_deref(), Ok(names), "{path}");
    }
}

/// Otherwise a pattern with a path would no longer match.
#[test]
fn a_directory_with_excluded_content_cannot_move() {
    let world = world();
    let scope = Scope::open(&[grant(&world, &["app/keys/*", "sub/build/"])], &[]).expect("scope");
    let w = handle(&scope, "/w");
    let cases: &[(&str, Act, bool)] = &[
        ("with it inside", |w| w.rename("app", w, "other"), false),
        ("nearer", |w| w.rename("app/keys", w, "other"), false),
        ("a directory inside", |w| w.rename("sub", w, "other"), false),
        ("nothing inside", |w| w.rename("build", w, "other"), true),
        (
            "into a name that is left out",
            |w| w.rename("other", w, "sub/build"),
            false,
        ),
    ];
    for (name, act, moves) in cases {
        assert_eq!(act(w).is_ok(), *moves, "{name}: {:?}", act(w));
    }
    assert!(world.path("w/app/keys/id_ed25519").exists());
}

#[test]
fn the_inner_grants_excludes_apply() {
    let world = world();
    let inner = PathGrant {
        exclude: vec!["token".to_owned()],
        ..world.grant("w/.config", "/config", Access::ReadOnly)
    };
    let keys = world.grant("w/.ssh", "/keys", Access::ReadOnly);
    let scope = Scope::open(&[grant(&world, DEFAULT_EXCLUDES), inner, keys], &[]).expect("scope");
    let (w, config, keys) = (
        handle(&scope, "/w"),
        handle(&scope, "/config"),
        handle(&scope, "/keys"),
    );
    assert_eq!(config.read("gcloud/token"), Err(PathError::NotPermitted));
    assert_eq!(w.read(".config/gcloud/token"), Err(PathError::NotPermitted));
    assert_eq!(config.stat("gcloud").as_deref(), Ok("Directory"));
    assert_eq!(
        keys.read("config").as_deref(),
        Ok("text"),
        "granted by its own name"
    );
    assert_eq!(keys.write("config"), Err(PathError::NotPermitted));
    assert_eq!(w.read(".env"), Err(PathError::NotPermitted));
}

#[test]
fn a_directory_granted_twice_has_both_excludes() {
    let world = world();
    let again = PathGrant {
        guest: "/again".to_owned(),
        ..grant(&world, &["*.pem"])
    };
    let scope = Scope::open(&[grant(&world, &[".env"]), again], &[]).expect("scope");
    for name in ["/w", "/again"] {
        let w = handle(&scope, name);
        assert_eq!(w.read(".env"), Err(PathError::NotPermitted));
        assert_eq!(w.read("app/server.pem"), Err(PathError::NotPermitted));
        assert_eq!(w.read("notes.txt").as_deref(), Ok("text"));
    }
}

#[test]
fn a_pattern_that_excludes_nothing_is_an_error() {
    let world = world();
    let host = world.path("w/secrets").display().to_string();
    for pattern in [
        "",
        "  ",
        "!",
        "/",
        "# secrets",
        "a{b",
        "[z-a]",
        "./secrets/",
        "a/../secrets",
        "secrets//",
        "secrets/.",
        "~/secrets",
        " secrets",
        "\u{feff}secrets",
        "one\ntwo",
        &host,
    ] {
        let error = Scope::open(&[grant(&world, &[pattern])], &[]).expect_err(pattern);
        assert!(
            matches!(error, ScopeError::BadExclude { .. }),
            "{pattern}: {error}"
        );
    }
}

#[test]
fn a_file_is_granted_without_its_directory() {
    let world = world();
    let file = world.grant("w/notes.txt", "/notes", Access::ReadWrite);
    let scope = Scope::open(&[file], &[]).expect("scope");
    let notes = handle(&scope, "/notes");
    assert_eq!(notes.read("notes.txt").as_deref(), Ok("text"));
    assert_eq!(notes.list(".").as_deref(), Ok("notes.txt"));
    let before = world.snapshot("w/nothing");
    for path in [
        "f.txt",
        "sub",
        "sub/g.txt",
        ".env",
        "new",
        "../secret",
        "sub/../f.txt",
    ] {
        for (name, operation) in LOOKING.iter().chain(CHANGING) {
            let answer = operation(notes, path);
            assert_eq!(answer, Err(PathError::NotPermitted), "{name} {path}");
        }
    }
    assert_eq!(before, world.snapshot("w/nothing"));
    assert_eq!(notes.write("notes.txt").as_deref(), Ok(""));
    // Saving a file can replace it by a new one.
    fs::rename(world.path("w/f.txt"), world.path("w/notes.txt")).expect("replace");
    assert_eq!(notes.read("notes.txt").as_deref(), Ok("inside"));
    notes.unlink("notes.txt").expect("its own");
    notes.write("notes.txt").expect("created again");
    assert_eq!(world.read("w/notes.txt"), "written");
}

#[test]
fn a_granted_file_keeps_its_access_in_every_directory() {
    let world = world();
    let grants = [
        PathGrant {
            access: Access::ReadOnly,
            ..grant(&world, DEFAULT_EXCLUDES)
        },
        world.grant("w/notes.txt", "/notes", Access::ReadWrite),
        world.grant("w/.env", "/settings", Access::ReadOnly),
    ];
    let scope = Scope::open(&grants, &[]).expect("scope");
    for name in ["/w", "/notes", "/settings"] {
        let w = handle(&scope, name);
        assert_eq!(w.read(".env").as_deref(), Ok("text"), "{name}");
        assert_eq!(
            w.open(".env", crate::support::WRITE),
            Err(PathError::NotPermitted)
        );
        assert_eq!(w.write("f.txt"), Err(PathError::NotPermitted), "{name}");
        assert_eq!(
            w.read(".ssh/config"),
            Err(PathError::NotPermitted),
            "{name}"
        );
        assert_eq!(w.write("notes.txt").as_deref(), Ok(""), "{name}");
        // The directory is read-only.
        assert_eq!(
            w.unlink("notes.txt"),
            Err(PathError::NotPermitted),
            "{name}"
        );
    }
    let read_only = scope.read_only();
    let w = handle(&read_only, "/notes");
    assert_eq!(w.write("notes.txt"), Err(PathError::NotPermitted));
}

#[test]
fn protected_files_cannot_be_granted() {
    let world = world();
    let keep = [
        world.keep("w/notes.txt", Protection::Hidden),
        world.keep("w/.env", Protection::ReadOnly),
    ];
    let notes = world.grant("w/notes.txt", "/notes", Access::ReadWrite);
    let error = Scope::open(&[notes], &keep).expect_err("the host's own");
    assert!(matches!(error, ScopeError::Reserved { .. }), "{error}");
    let settings = world.grant("w/.env", "/settings", Access::ReadWrite);
    let scope = Scope::open(&[settings], &keep).expect("scope");
    let w = handle(&scope, "/settings");
    assert_eq!(w.read(".env").as_deref(), Ok("text"));
    assert_eq!(w.write(".env"), Err(PathError::NotPermitted));
}

#[test]
fn only_regular_files_are_granted_individually() {
    let world = world();
    let fifo = world.path("w/fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("fifo");
    let error =
        Scope::open(&[world.grant("w/fifo", "/f", Access::ReadOnly)], &[]).expect_err("fifo");
    assert!(
        matches!(error, ScopeError::NeitherFileNorDirectory(_)),
        "{error}"
    );
    let error =
        Scope::open(&[world.grant("w/none", "/f", Access::ReadOnly)], &[]).expect_err("missing");
    assert!(matches!(error, ScopeError::Missing(_)), "{error}");
}

/// The file is visible, and its siblings are not, whatever the outer grant allows.
#[test]
fn a_file_granted_from_an_excluded_directory_is_visible_alone() {
    let world = world();
    world.file("w/.aws/config", "region");
    world.file("w/.aws/credentials", "secret");
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let around = PathGrant {
            access,
            ..grant(&world, DEFAULT_EXCLUDES)
        };
        let file = world.grant("w/.aws/config", "/config", Access::ReadOnly);
        let scope = Scope::open(&[around, file], &[]).expect("scope");
        let config = handle(&scope, "/config");
        assert_eq!(config.read("config").as_deref(), Ok("region"));
        assert_eq!(config.list(".").as_deref(), Ok("config"));
        for (name, operation) in LOOKING.iter().chain(CHANGING) {
            for path in ["credentials", "sub/x"] {
                let answer = operation(config, path);
                assert_eq!(answer, Err(PathError::NotPermitted), "{name} {path}");
            }
        }
        let around = handle(&scope, "/w");
        assert_eq!(
            around.read(".aws/credentials"),
            Err(PathError::NotPermitted)
        );
    }
}

/// The next start of a host would follow a link at the granted path.
#[test]
fn a_granted_file_is_replaced_only_by_a_file() {
    let world = world();
    let grants = [
        grant(&world, DEFAULT_EXCLUDES),
        world.grant("w/notes.txt", "/notes", Access::ReadWrite),
    ];
    for grants in [&grants[..], &grants[1..]] {
        let scope = Scope::open(grants, &[]).expect("scope");
        let notes = handle(&scope, "/notes");
        notes.unlink("notes.txt").expect("its own");
        let acts: &[(&str, Act)] = &[
            ("a link", |w| w.symlink(".env", "notes.txt")),
            ("a directory", |w| w.mkdir("notes.txt")),
            ("a moved link", |w| w.rename("sub/to-g", w, "notes.txt")),
            ("another name of a link", |w| {
                w.link("sub/to-g", w, "notes.txt")
            }),
            ("a moved directory", |w| w.rename("app", w, "notes.txt")),
        ];
        symlink("g.txt", world.path("w/sub/to-g")).expect("link");
        for (case, act) in acts {
            assert_eq!(act(notes), Err(PathError::NotPermitted), "{case}");
        }
        fs::remove_file(world.path("w/sub/to-g")).expect("remove");
        notes.write("notes.txt").expect("a file");
    }
}

#[test]
fn excluded_names_cannot_be_counted() {
    let world = world();
    let scope = Scope::open(&[grant(&world, &["secret-*"])], &[]).expect("scope");
    let w = handle(&scope, "/w");
    let before = scope.read_dir(w.fd, 11).map(|listed| listed.entries.len());
    for number in 0..20 {
        world.file(&format!("w/secret-{number}"), "");
    }
    assert_eq!(
        scope.read_dir(w.fd, 11).map(|listed| listed.entries.len()),
        before
    );
}

#[test]
fn a_07_a_denied_path_is_refused_wherever_a_link_or_a_grant_of_its_own_leads_to_it() {
    let world = World::new();
    for path in ["secrets/k.txt", "secrets/in/k.txt", "notes/a.txt"] {
        world.file(&format!("w/{path}"), "text");
    }
    symlink("secrets", world.path("w/link")).expect("link");
    symlink("../secrets/k.txt", world.path("w/notes/k")).expect("link");
    let before = world.snapshot("");
    let secrets = world.path("w/secrets");
    let denied = toolhost_vfs::DeniedPaths::new({
        let secrets = secrets.canonicalize().expect("exists");
        move |path: &std::path::Path| path.starts_with(&secrets)
    });
    // A grant of the file itself does not override a rule.
    let own = world.grant("w/secrets/k.txt", "/k", Access::ReadWrite);
    let whole = world.grant("w", "/w", Access::ReadWrite);
    let keep = world.keep("w/kept/nothing-here", Protection::Hidden);
    for (grants, keep) in [
        (vec![whole.clone()], vec![]),
        (vec![whole.clone()], vec![keep]),
        (vec![whole, own], vec![]),
    ] {
        let scope = Scope::open(&grants, &keep).expect("scope");
        let scope = scope.with_denied_paths(denied.clone());
        let w = handle(&scope, "/w");
        for path in [
            "secrets",
            "secrets/k.txt",
            "secrets/in/k.txt",
            "secrets/new",
            "./notes/../secrets/k.txt",
            "link/k.txt",
        ] {
            for (name, operation) in LOOKING.iter().chain(CHANGING) {
                assert_eq!(
                    operation(w, path),
                    Err(PathError::NotPermitted),
                    "{name} {path}"
                );
            }
        }
        for path in ["notes/k", "link"] {
            assert_eq!(w.stat(path), Err(PathError::NotPermitted), "{path}");
        }
        assert!(w.stat("notes/a.txt").is_ok());
        assert_eq!(before, world.snapshot(""));
    }
}
