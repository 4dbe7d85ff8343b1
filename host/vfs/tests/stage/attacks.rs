//! Attacks through a stage: unreachable paths stay unreachable, whatever is staged first.

use std::{
    fs,
    os::{fd::AsFd, unix::fs::symlink},
};

use toolhost_vfs::{
    Access, EntryKind, NewTime, PathError, PathGrant, ProtectedPath, Protection, Scope, Stage,
};

use crate::support::{FileView, Held, World, how};

const NO: Result<(), PathError> = Err(PathError::NotPermitted);

/// All operations that change a name.
type Way = (&'static str, fn(Held<'_>, &str) -> Result<(), PathError>);

const WAYS: &[Way] = &[
    ("create", |w, p| w.open(p, "wc", "x")),
    ("create new", |w, p| w.open(p, "wcx", "x")),
    ("write", |w, p| w.open(p, "w", "x")),
    ("append", |w, p| w.open(p, "a", "x")),
    ("truncate", |w, p| w.open(p, "rt", "x")),
    ("mkdir", |w, p| w.mkdir(p)),
    ("rmdir", |w, p| w.rmdir(p)),
    ("unlink", |w, p| w.unlink(p)),
    ("rename from", |w, p| w.rename(p, w, "taken")),
    ("rename to", |w, p| w.rename("a", w, p)),
    ("rename directory to", |w, p| w.rename("empty", w, p)),
    ("link from", |w, p| w.link(p, w, "taken")),
    ("link to", |w, p| w.link("a", w, p)),
    ("symlink", |w, p| w.symlink("a", p)),
];

fn scope(world: &World, grants: &[PathGrant], keep: &[ProtectedPath]) -> Stage {
    world.stage(Scope::open(grants, keep).expect("scope"))
}

/// Checks that every operation is refused and leaves no staged change.
fn refused_each_way(stage: &Stage, path: &str) {
    for (way, act) in WAYS {
        let w = Held::root(FileView::Staged(stage));
        let before = stage.changes().expect("changes");
        let result = act(w, path);
        assert!(result.is_err(), "{way} {path}: {result:?}");
        assert_eq!(stage.changes().expect("changes"), before, "{way} {path}");
    }
}

#[test]
fn paths_that_lead_out_are_refused_each_way() {
    let world = World::new();
    symlink(world.path("secret"), world.path("w/abs")).expect("link");
    let traces = world.traces();
    for touched in [false, true] {
        let stage = world.stage(world.scope());
        let w = Held::root(FileView::Staged(&stage));
        if touched {
            w.mkdir("n").expect("mkdir");
            w.rename("d", w, "t").expect("rename");
        }
        for path in [
            "../secret",
            "..",
            "../new",
            "/etc/passwd",
            "/",
            "n/../../secret",
            "t/../../secret",
            "d/../../secret",
            "dots/secret",
            "dots/new",
            "",
            "a\0b",
            "\0",
        ] {
            refused_each_way(&stage, path);
            assert!(w.read(path).is_err(), "{path}");
        }
        for link in ["out", "abs"] {
            assert_eq!(w.read(link), Err(PathError::NotPermitted));
            assert_eq!(w.open(link, "wc", "x"), NO);
            assert_eq!(w.open(&format!("{link}/"), "rd", ""), NO);
        }
    }
    assert_eq!(world.traces(), traces);
    assert_eq!(world.read("secret"), "canary");
}

#[test]
fn a_staged_link_cannot_lead_out() {
    let world = World::new();
    let stage = world.stage(world.scope());
    let w = Held::root(FileView::Staged(&stage));
    w.mkdir("n").expect("mkdir");
    w.mkdir("n/m").expect("mkdir");
    for (target, path) in [
        ("../secret", "s"),
        ("/etc", "s"),
        ("../../secret", "n/s"),
        ("d/../../secret", "s"),
        ("m/../../../secret", "n/s"),
    ] {
        assert_eq!(w.symlink(target, path), NO, "{target}");
    }
    // Inside at its path, outside at the target of the move: by itself, in a staged and in a real directory.
    w.symlink("../../b", "n/m/s").expect("link");
    w.symlink("../../b", "d/e/s").expect("link");
    assert_eq!(w.rename("n/m/s", w, "s"), NO);
    assert_eq!(w.rename("n/m", w, "m"), NO);
    assert_eq!(w.rename("d/e", w, "e"), NO);
    assert_eq!(w.link("n/m/s", w, "s"), NO);
    assert_eq!(w.read("n/m/s"), Ok("beta".to_owned()));
    assert_eq!(w.read("d/e/s"), Ok("beta".to_owned()));
}

#[test]
fn protected_paths_cannot_be_staged_over() {
    let world = World::new();
    world.file("w/kept/policy", "theirs");
    let keep = [
        world.keep("w/kept/policy", Protection::ReadOnly),
        world.keep("w/later/key", Protection::Hidden),
        world.keep("w/d/hidden", Protection::Hidden),
    ];
    let stage = scope(&world, &[world.grant("w", Access::ReadWrite)], &keep);
    for path in [
        "kept/policy",
        "kept/POLICY",
        "kept",
        "later",
        "LATER",
        "later/key",
        "d/hidden",
        "d/HIDDEN",
        "d",
        "e/../kept/policy",
        "d/../later",
    ] {
        // `d` itself can be reported as writable, but only its own name is tested here.
        refused_each_way(&stage, path);
    }
    let w = Held::root(FileView::Staged(&stage));
    w.mkdir("n").expect("mkdir");
    w.open("n/hidden", "wc", "free here").expect("create");
    assert_eq!(w.rename("n", w, "later"), NO);
    assert_eq!(w.rename("n/hidden", w, "d/hidden"), NO);
    assert_eq!(w.rename("kept", w, "n/kept"), NO);
    assert_eq!(w.read("kept/policy"), Ok("theirs".to_owned()));
    assert_eq!(w.stat("later", false), Err(PathError::NotPermitted));
    // Its siblings are accessible, also in a listing.
    w.open("d/beside", "wc", "text").expect("create");
    fs::write(world.path("w/d/hidden"), "host's own").expect("write");
    assert_eq!(
        w.list("d"),
        Ok("a File, beside File, e Directory, up Symlink".to_owned())
    );
}

#[test]
fn other_names_of_a_protected_file_are_protected() {
    let world = World::new();
    world.file("host/policy", "theirs");
    fs::hard_link(world.path("host/policy"), world.path("w/other")).expect("link");
    let keep = [world.keep("host/policy", Protection::ReadOnly)];
    let stage = scope(&world, &[world.grant("w", Access::ReadWrite)], &keep);
    refused_each_way(&stage, "other");
    Held::root(FileView::Staged(&stage))
        .mkdir("n")
        .expect("mkdir");
    refused_each_way(&stage, "other");
    assert_eq!(world.read("host/policy"), "theirs");
}

#[test]
fn a_pinned_directory_stays_and_keeps_its_access() {
    let world = World::new();
    let grants = [
        world.grant("w", Access::ReadWrite),
        world.grant("w/d/e", Access::ReadOnly),
    ];
    let stage = scope(&world, &grants, &[]);
    let w = Held::root(FileView::Staged(&stage));
    for (from, to) in [
        ("d", "t"),
        ("d/e", "t"),
        ("empty", "d"),
        ("a", "d/e/a"),
        ("d/e/a", "t"),
    ] {
        assert_eq!(w.rename(from, w, to), NO, "{from} {to}");
    }
    refused_each_way(&stage, "d/e/a");
    w.open("d/new", "wc", "text").expect("create");
    refused_each_way(&stage, "d/e/new");
    assert_eq!(w.read("d/e/a"), Ok("alpha in e".to_owned()));
}

#[test]
fn a_staged_entry_has_the_access_of_its_path() {
    let world = World::new();
    fs::create_dir(world.path("r")).expect("directory");
    let grants = [
        world.grant("w", Access::ReadWrite),
        world.grant("r", Access::ReadOnly),
    ];
    let stage = scope(&world, &grants, &[]);
    let (w, r) = (
        Held::root_at(FileView::Staged(&stage), 0),
        Held::root_at(FileView::Staged(&stage), 1),
    );
    w.open("n", "wc", "text").expect("create");
    assert_eq!(w.rename("n", r, "n"), NO);
    assert_eq!(w.link("n", r, "n"), NO);
    assert_eq!(r.mkdir("n"), NO);
    assert_eq!(r.rename("n", w, "m"), NO);
    // A handle with more access than the scope gets no more than the scope.
    let narrow = world.stage(Scope::open(&grants, &[]).expect("scope").read_only());
    let claims = Held {
        access: Access::ReadWrite,
        ..Held::root(FileView::Staged(&narrow))
    };
    for (way, act) in WAYS {
        assert_eq!(act(claims, "a"), NO, "{way}");
    }
    assert!(narrow.is_empty());
}

#[test]
fn moves_between_roots_are_reported_with_both() {
    let world = World::new();
    fs::create_dir(world.path("v")).expect("directory");
    let grants = [
        world.grant("w", Access::ReadWrite),
        world.grant("v", Access::ReadWrite),
    ];
    let stage = scope(&world, &grants, &[]);
    let (w, v) = (
        Held::root_at(FileView::Staged(&stage), 0),
        Held::root_at(FileView::Staged(&stage), 1),
    );
    w.rename("d/e", v, "e").expect("rename");
    v.open("e/a", "w", "changed").expect("write");
    assert_eq!(v.read("e/b"), Ok("beta in e".to_owned()));
    let changes = stage.changes().expect("changes");
    let described: Vec<String> = changes
        .iter()
        .map(|staged| {
            let (at, from) = (&staged.change.at, &staged.change.moved_from);
            let name = |root: &std::path::Path| {
                root.file_name()
                    .map(|name| name.to_string_lossy().into_owned())
            };
            format!(
                "{:?} {} from {:?}",
                name(&at.root),
                at.path,
                from.as_ref()
                    .map(|from| (name(&from.root), from.path.clone()))
            )
        })
        .collect();
    assert_eq!(
        described,
        [
            "Some(\"v\") e from Some((Some(\"w\"), \"d/e\"))",
            "Some(\"v\") e/a from None",
        ]
    );
}

#[test]
fn special_files_can_be_seen_and_are_left_alone() {
    let world = World::new();
    let fifo = world.path("w/fifo");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).expect("fifo");
    let stage = world.stage(world.scope());
    refused_each_way(&stage, "fifo");
    let w = Held::root(FileView::Staged(&stage));
    w.mkdir("n").expect("mkdir");
    refused_each_way(&stage, "fifo");
    assert_eq!(w.stat("fifo", false), Ok("Fifo Some(0)".to_owned()));
    assert_eq!(w.read("fifo"), Err(PathError::NotPermitted));
}

#[test]
fn a_replaced_name_is_not_written_through() {
    let world = World::new();
    let stage = world.stage(world.scope());
    let w = Held::root(FileView::Staged(&stage));
    w.open("a", "w", "staged").expect("write");
    w.rename("b", w, "c").expect("rename");
    w.rename("d", w, "t").expect("rename");
    for name in ["a", "b"] {
        fs::remove_file(world.path("w").join(name)).expect("remove");
        symlink("../secret", world.path("w").join(name)).expect("link");
    }
    fs::rename(world.path("w/d"), world.path("away")).expect("rename");
    symlink("..", world.path("w/d")).expect("link");
    // The staged content is kept; the moved entry is reported as gone and not replaced by another.
    assert!(w.read("a").is_ok_and(|text| text.starts_with("staged")));
    assert_eq!(w.read("c"), Err(PathError::NotFound));
    assert_eq!(w.open("c", "w", "x"), Err(PathError::NotFound));
    assert_eq!(w.read("t/secret"), Err(PathError::NotFound));
    assert_eq!(world.read("secret"), "canary");
    assert!(stage.changes().is_err());
}

#[test]
fn a_read_only_open_cannot_change_user_files() {
    let world = World::new();
    let traces = world.traces();
    let stage = world.stage(world.scope());
    let root = &stage.scope().roots()[0];
    for touched in [false, true] {
        if touched {
            stage
                .create_dir_at(root.as_fd(), Access::ReadWrite, "n")
                .expect("mkdir");
        }
        let opened = stage
            .open_at(root.as_fd(), Access::ReadWrite, "a", &how("r"))
            .expect("open");
        assert_eq!(
            (opened.kind, opened.access),
            (EntryKind::File, Access::ReadOnly)
        );
    }
    let epoch = NewTime::At(std::time::SystemTime::UNIX_EPOCH);
    for path in ["a", "k", "d", ".", "n"] {
        for follow in [true, false] {
            stage
                .set_times_at(root.as_fd(), Access::ReadWrite, path, follow, epoch, epoch)
                .expect("times");
        }
    }
    let stat = stage.stat_at(root.as_fd(), "a", true).expect("stat");
    assert_eq!(stat.modified, Some(std::time::SystemTime::UNIX_EPOCH));
    assert_eq!(world.traces(), traces);
    let changes = stage.changes().expect("changes");
    assert_eq!(changes.len(), 1, "only the directory: {changes:?}");
}

#[test]
fn excluded_paths_stay_hidden_whatever_is_staged() {
    let world = World::new();
    for path in [
        "w/.env",
        "w/d/.env",
        "w/d/key.pem",
        "w/d/secret-1",
        "w/locked/.env",
    ] {
        world.file(path, "secret");
    }
    let grant = PathGrant {
        exclude: [".env", "*.pem", "d/secret*", "made/hidden*"]
            .map(str::to_owned)
            .to_vec(),
        ..world.grant("w", Access::ReadWrite)
    };
    let traces = world.traces();
    for touched in [false, true] {
        let stage = scope(&world, std::slice::from_ref(&grant), &[]);
        let w = Held::root(FileView::Staged(&stage));
        if touched {
            w.mkdir("made").expect("mkdir");
            w.mkdir("made/deeper").expect("mkdir");
            w.open("made/deeper/f", "wc", "x").expect("create");
            w.symlink("../.env", "made/link").expect("link");
            w.symlink("d", "to-d").expect("link");
        }
        for path in [
            ".env",
            "d/.env",
            "d/key.pem",
            "d/new.pem",
            "made/.env",
            "made/hidden-1",
            "made/deeper/.ENV",
        ] {
            refused_each_way(&stage, path);
        }
        for path in ["made/link", "to-d/key.pem"] {
            assert!(w.read(path).is_err(), "{path}");
            assert!(w.open(path, "w", "x").is_err(), "{path}");
        }
        assert_eq!(
            w.rename("d", w, "e"),
            NO,
            "its secret would be in sight there"
        );
        assert_eq!(w.rmdir("locked"), Err(PathError::NotEmpty));
        w.rename("locked", w, "closed")
            .expect("left out there as here");
        assert_eq!(w.read("closed/.env"), Err(PathError::NotPermitted));
        w.rename("closed", w, "locked").expect("back");
        if touched {
            assert_eq!(w.list("made/deeper").as_deref(), Ok("f File"));
            w.rename("made", w, "other").expect("only its own is in it");
            w.open("other/hidden-1", "wc", "x").expect("another path");
            let hidden = w.rename("other", w, "made");
            assert_eq!(hidden, NO, "a name would be out of sight there");
        }
        for path in [".", "d", "locked"] {
            let listed = w.list(path).expect("list");
            assert!(
                !listed.contains(".env") && !listed.contains("pem"),
                "{listed}"
            );
        }
    }
    assert_eq!(world.traces(), traces);
}

#[test]
fn a_file_that_was_granted_alone_is_staged_alone() {
    let world = World::new();
    let stage = scope(&world, &[world.grant("w/a", Access::ReadWrite)], &[]);
    let w = Held::root(FileView::Staged(&stage));
    w.open("a", "wt", "new").expect("its own");
    for path in ["new", "empty", "d", "d/x"] {
        refused_each_way(&stage, path);
    }
    assert_eq!(w.list(".").as_deref(), Ok("a File"));
    let changes = stage.changes().expect("changes");
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].change.at.root, world.path("w"));
    assert_eq!(changes[0].change.at.path, "a");
}

/// A directory that the call created can contain one of the user's after a move.
#[test]
fn entries_moved_into_a_new_directory_stay_excluded() {
    let world = World::new();
    world.file("w/vault/x/k.txt", "secret");
    let grant = PathGrant {
        exclude: vec!["/vault/**/*.txt".to_owned()],
        ..world.grant("w", Access::ReadWrite)
    };
    let stage = scope(&world, &[grant], &[]);
    let w = Held::root(FileView::Staged(&stage));
    w.mkdir("vault/m").expect("mkdir");
    w.rename("vault/x", w, "vault/m/x")
        .expect("left out as before");
    assert_eq!(w.read("vault/m/x/k.txt"), NO.map(|()| String::new()));
    assert_eq!(w.rename("vault/m", w, "q"), NO);
    assert_eq!(w.rename("vault/m/x", w, "x"), NO);
}
