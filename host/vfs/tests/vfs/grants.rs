//! Which grants are accepted (FS-12), and which directory a scope refers to (FS-08, FS-20, FS-21).

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::PathBuf,
};

use toolhost_vfs::{Access, PathError, PathGrant, Scope, ScopeError};

use crate::support::{CANARY, World, handle};

fn open(host: impl Into<PathBuf>, dangerous: bool) -> Result<Scope, ScopeError> {
    let grant = PathGrant {
        host: host.into(),
        guest: "/w".to_owned(),
        access: Access::ReadOnly,
        dangerous,
        exclude: Vec::new(),
    };
    Scope::open(&[grant], &[])
}

#[test]
fn special_directories_need_a_dangerous_grant_or_are_refused() {
    let home = std::env::home_dir().expect("home directory");
    let home = home.to_str().expect("home directory");
    for (path, even_if_dangerous) in [
        ("/", true),
        ("/run", true),
        ("/boot", true),
        (home, true),
        ("/../", true),
        ("/proc", false),
        ("/proc/self", false),
        ("/proc/self/root/proc", false),
        ("/sys", false),
        ("/sys/kernel", false),
        ("/dev", false),
        ("/dev/../dev", false),
    ] {
        if fs::metadata(path).is_err() {
            eprintln!("skipped: this machine has no {path}");
            continue;
        }
        let error = open(path, false).expect_err(path).to_string();
        assert!(error.contains(path) && error.contains("grant"), "{error}");
        assert_eq!(open(path, true).is_ok(), even_if_dangerous, "{path}");
    }
}

#[test]
fn a_link_to_a_refused_directory_is_refused_too() {
    let world = World::new();
    for (name, target) in [("r", "/"), ("p", "/proc"), ("e", "/proc/self/root")] {
        symlink(target, world.path(name)).expect("link");
        assert!(open(world.path(name), false).is_err(), "{target}");
    }
}

#[test]
fn a_dangerous_grant_of_everything_still_has_no_proc() {
    let scope = open("/", true).expect("scope");
    let root = handle(&scope, "/w");
    assert_eq!(root.read("proc/self/environ"), Err(PathError::NotPermitted));
    assert_eq!(root.list("proc"), Err(PathError::NotPermitted));
    assert_eq!(root.stat("proc/1"), Err(PathError::NotPermitted));
}

#[test]
fn invalid_grants_are_explained() {
    let world = World::new();
    for (path, expected) in [
        (world.path("w/not-there"), "does not exist; create it"),
        (PathBuf::from("relative/dir"), "is not absolute"),
    ] {
        let error = open(&path, false).expect_err("mistake").to_string();
        assert!(
            error.contains(expected) && error.contains(path.to_str().expect("text")),
            "{error}"
        );
    }
    for (one, other) in [("/w", "/w"), ("/w", "/w/")] {
        let grants = [
            world.grant("w", one, Access::ReadOnly),
            world.grant("w/sub", other, Access::ReadOnly),
        ];
        let error = Scope::open(&grants, &[]).expect_err("twice").to_string();
        assert!(error.contains("two grants"), "{error}");
    }
    let nameless = Scope::open(&[world.grant("w", "", Access::ReadOnly)], &[]);
    assert!(
        matches!(nameless, Err(ScopeError::BadGuestName(_))),
        "{nameless:?}"
    );
}

#[test]
fn a_grant_stays_on_its_inode_when_its_path_becomes_a_link() {
    let world = World::new();
    world.file("other/f.txt", CANARY);
    let scope = world.scope(Access::ReadWrite);
    fs::rename(world.path("w"), world.path("old")).expect("rename");
    symlink(world.path("other"), world.path("w")).expect("link");
    let root = handle(&scope, "/w");
    assert_eq!(root.read("f.txt").as_deref(), Ok("inside"));
    assert_eq!(root.write("new"), Ok(String::new()));
    assert!(world.path("old/new").exists() && !world.path("other/new").exists());
}

#[test]
fn a_grant_through_a_link_stays_on_the_target() {
    let world = World::new();
    world.file("other/f.txt", CANARY);
    symlink("w", world.path("link")).expect("link");
    let scope = open(world.path("link"), false).expect("scope");
    fs::remove_file(world.path("link")).expect("remove");
    symlink("other", world.path("link")).expect("link");
    assert_eq!(handle(&scope, "/w").read("f.txt").as_deref(), Ok("inside"));
    assert_eq!(
        scope.roots()[0].host(),
        fs::canonicalize(world.path("w")).expect("path")
    );
}

/// The host creates such a directory and then opens it; a program could exchange it in between.
#[test]
fn fs_02_a_directory_of_the_host_is_not_opened_behind_a_link() {
    let world = World::new();
    fs::create_dir_all(world.path("memory/user")).expect("directories");
    fs::create_dir_all(world.path("other/user")).expect("directories");
    let scope = world.scope(Access::ReadWrite);
    let own = |path: &str| [world.grant(path, "/memory", Access::ReadWrite)];
    assert!(scope.with_host_dirs(&own("memory/user")).is_ok());
    symlink("other", world.path("link")).expect("link");
    symlink("../other", world.path("memory/link")).expect("link");
    for path in ["link", "link/user", "memory/link", "memory/link/user"] {
        let error = scope.with_host_dirs(&own(path)).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{path}: {error}");
    }
}

/// A program started by a tool could have created the link.
#[test]
fn fs_01_a_grant_through_a_link_that_a_tool_could_have_made_is_refused() {
    let world = World::new();
    world.file("other/f.txt", CANARY);
    fs::create_dir(world.path("w/deep")).expect("directory");
    symlink("../other", world.path("w/out")).expect("link");
    symlink("../../other", world.path("w/deep/out")).expect("link");
    symlink("w/out", world.path("around")).expect("link");
    for path in ["w/out", "w/deep/out", "around", "w/out/f.txt"] {
        for (access, allowed) in [(Access::ReadWrite, false), (Access::ReadOnly, true)] {
            let grants = [
                world.grant("w", "/w", access),
                world.grant(path, "/out", Access::ReadOnly),
            ];
            let scope = Scope::open(&grants, &[]);
            assert_eq!(scope.is_ok(), allowed, "{path} {access:?}");
            if let Err(error) = scope {
                let message = error.to_string();
                assert!(message.contains("which tools can change"), "{message}");
            }
        }
        // Alone it is the directory that the operator names.
        assert!(Scope::open(&[world.grant(path, "/out", Access::ReadWrite)], &[]).is_ok());
    }
}

#[test]
fn a_common_beginning_of_names_grants_nothing() {
    let world = World::new();
    world.file("data/proj/a", "inside");
    world.file("data/proj-secret/a", CANARY);
    let scope =
        Scope::open(&[world.grant("data/proj", "/p", Access::ReadWrite)], &[]).expect("scope");
    let root = handle(&scope, "/p");
    for path in [
        "../proj-secret/a",
        "-secret/a",
        "../proj/../proj-secret/a",
        "..%2fproj-secret/a",
    ] {
        let answer = root.read(path);
        assert!(
            matches!(answer, Err(PathError::NotPermitted | PathError::NotFound)),
            "{path}: {answer:?}"
        );
    }
}

#[test]
fn a_new_file_is_never_executable() {
    let world = World::new();
    let scope = world.scope(Access::ReadWrite);
    handle(&scope, "/w").write("new").expect("write");
    let mode = fs::metadata(world.path("w/new")).expect("metadata").mode();
    assert_eq!(mode & 0o7111, 0, "{mode:o}");
}

#[test]
fn an_empty_scope_has_nothing_and_is_local() {
    assert!(Scope::empty().roots().is_empty() && Scope::empty().all_local());
    let world = World::new();
    let scope = world.scope(Access::ReadWrite);
    assert_eq!(
        scope.roots()[0].id().ino(),
        fs::metadata(world.path("w")).expect("metadata").ino()
    );
    assert_eq!(scope.all_local(), scope.roots()[0].is_local());
}
