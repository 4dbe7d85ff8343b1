//! The list of changes, as a commit reads it.

use std::{fmt::Write as _, fs};

use toolhost_vfs::{PathState, Stage, StageError, StagedChange};

use crate::support::{FileView, Held, World};

fn show(changes: &[StagedChange]) -> String {
    let image = |image: &PathState| match image {
        PathState::Absent => "-".to_owned(),
        PathState::File(file) => format!("file {} {:o}", file.size, file.mode),
        PathState::Dir { mode } => format!("dir {mode:o}"),
        PathState::Link { target } => format!("link {target}"),
    };
    let mut text = String::new();
    for StagedChange { change, .. } in changes {
        let (before, after) = (image(&change.before), image(&change.after));
        write!(text, "{}: {before} > {after}", change.at.path).expect("text");
        if let Some(from) = &change.moved_from {
            write!(text, " (was {})", from.path).expect("text");
        }
        text.push('\n');
    }
    text
}

type Act = fn(Held<'_>);
type Meant = fn(&StageError) -> bool;
type Meanwhile = fn(&World);

fn check(act: Act, expected: &[&str]) {
    let world = World::new();
    let stage = world.stage(world.scope());
    act(Held::root(FileView::Staged(&stage)));
    let changes = stage.changes().expect("changes");
    let shown = show(&changes);
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    for staged in changes {
        assert_eq!(staged.change.at.root, world.path("w"));
    }
}

fn done<T: std::fmt::Debug>(result: Result<T, toolhost_vfs::PathError>) {
    result.expect("done");
}

#[test]
fn each_kind_of_change_is_reported_once() {
    check(
        |w| {
            done(w.open("a", "w", "ALPHABET"));
            done(w.open("f", "wc", "text"));
            done(w.mkdir("n"));
            done(w.open("n/f", "wc", "text"));
            done(w.unlink("b"));
            done(w.rmdir("empty"));
            done(w.symlink("a", "s"));
            done(w.unlink("k"));
            done(w.mkdir("k"));
        },
        &[
            "a: file 5 644 > file 8 644",
            "b: file 4 644 > -",
            "empty: dir 755 > -",
            "f: - > file 4 644",
            "k: link a > dir 755",
            "n: - > dir 755",
            "n/f: - > file 4 644",
            "s: - > link a",
        ],
    );
}

#[test]
fn unchanged_results_are_not_reported() {
    check(
        |w| {
            done(w.open("a", "w", "alpha"));
            done(w.open("b", "a", ""));
            done(w.open("d/a", "wct", "alpha in d"));
            done(w.open("new", "wc", "text"));
            done(w.unlink("new"));
            done(w.unlink("k"));
            done(w.symlink("a", "k"));
            done(w.rmdir("empty"));
            done(w.mkdir("empty"));
            done(w.rename("d", w, "t"));
            done(w.rename("t", w, "d"));
        },
        &[],
    );
}

#[test]
fn changes_in_a_moved_directory_use_its_new_path() {
    check(
        |w| {
            done(w.mkdir("n"));
            done(w.rename("d", w, "n/t"));
            done(w.open("n/t/e/a", "w", "other"));
            done(w.unlink("n/t/a"));
            done(w.rename("a", w, "n/t/e/c"));
        },
        &[
            "n: - > dir 755",
            "n/t: - > dir 755 (was d)",
            "n/t/a: file 10 644 > -",
            "n/t/e/a: file 10 644 > file 10 644",
            "n/t/e/c: - > file 5 644 (was a)",
        ],
    );
}

#[test]
fn a_move_over_an_entry_is_reported_per_file() {
    check(
        |w| {
            done(w.rename("a", w, "b"));
            done(w.rename("d/e", w, "empty"));
        },
        &[
            "a: file 5 644 > -",
            "b: file 4 644 > file 5 644",
            "d/e: dir 755 > -",
            "d/e/a: file 10 644 > -",
            "d/e/b: file 9 644 > -",
            "empty/a: - > file 10 644",
            "empty/b: - > file 9 644",
        ],
    );
}

#[test]
fn modes_are_kept_as_a_real_write_keeps_them() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    fs::set_permissions(world.path("w/a"), fs::Permissions::from_mode(0o750)).expect("mode");
    let stage = world.stage(world.scope());
    let w = Held::root(FileView::Staged(&stage));
    done(w.open("a", "wt", "script"));
    let changes = stage.changes().expect("changes");
    assert_eq!(show(&changes), "a: file 5 750 > file 6 750\n");
    let content = changes[0].content.as_ref().expect("content");
    assert_eq!(
        fs::metadata(content)
            .expect("metadata")
            .permissions()
            .mode()
            & 0o7777,
        0o750
    );
    assert!(content.starts_with(world.path("pool")));
    // Only this user can access the pool's files, whatever their modes.
    let pool = content.parent().expect("pool");
    assert_eq!(
        fs::metadata(pool).expect("metadata").permissions().mode() & 0o7777,
        0o700
    );
}

#[test]
fn concurrent_changes_are_not_reported_as_ours() {
    let rewrite: Meanwhile = |world| world.file("w/a", "another process's");
    let replace: Meanwhile = |world| {
        fs::remove_file(world.path("w/a")).expect("remove");
        fs::create_dir(world.path("w/a")).expect("directory");
    };
    let remove: Meanwhile = |world| fs::remove_file(world.path("w/a")).expect("remove");
    let fifo: Meanwhile = |world| {
        fs::remove_file(world.path("w/a")).expect("remove");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(
            rustix::fs::CWD,
            world.path("w/a"),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .expect("fifo");
    };
    let meanwhile: [(&str, Meanwhile); 4] = [
        ("rewrite", rewrite),
        ("replace", replace),
        ("remove", remove),
        ("fifo", fifo),
    ];
    let acts: [(&str, Act); 4] = [
        ("write", |w| done(w.open("a", "w", "ours"))),
        ("unlink", |w| done(w.unlink("a"))),
        ("move", |w| done(w.rename("a", w, "c"))),
        ("move over", |w| done(w.rename("a", w, "b"))),
    ];
    for (case, meanwhile) in meanwhile {
        for (how, act) in acts {
            let world = World::new();
            let stage = world.stage(world.scope());
            act(Held::root(FileView::Staged(&stage)));
            meanwhile(&world);
            let error = stage.changes().expect_err(case);
            assert!(
                matches!(error, StageError::Changed(_)),
                "{case}, {how}: {error}"
            );
        }
    }
}

#[test]
fn paths_are_reported_by_the_innermost_root() {
    use toolhost_vfs::{Access, Scope};
    let world = World::new();
    let grants = [
        world.grant("w", Access::ReadWrite),
        world.grant("w/d", Access::ReadWrite),
    ];
    let stage: Stage = world.stage(Scope::open(&grants, &[]).expect("scope"));
    let w = Held::root(FileView::Staged(&stage));
    done(w.open("d/e/a", "w", "new"));
    let inner = Held::root_at(FileView::Staged(&stage), 1);
    done(inner.open("b", "wc", "new"));
    assert_eq!(w.read("d/b"), Ok("new".to_owned()));
    let changes = stage.changes().expect("changes");
    assert_eq!(
        show(&changes),
        "b: - > file 3 644\ne/a: file 10 644 > file 10 644\n"
    );
    for staged in changes {
        assert_eq!(staged.change.at.root, world.path("w/d"));
    }
}

#[test]
fn control_characters_in_names_are_escaped() {
    let error = StageError::Changed("/w/\u{1b}[2Ja".into());
    assert_eq!(
        error.to_string(),
        "`/w/\\u{1b}[2Ja` was changed by another process while the call ran; run the call again"
    );
}

#[test]
fn a_moved_tree_can_contain_special_files() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let odd: [(Meanwhile, Meant); 2] = [
        (
            |world| {
                fs::write(world.path("w/d").join(OsStr::from_bytes(b"\xff")), "").expect("write");
            },
            |error| matches!(error, StageError::NotUtf8(_)),
        ),
        (
            |world| {
                let mode = rustix::fs::Mode::RWXU;
                let kind = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, world.path("w/d/fifo"), kind, mode, 0)
                    .expect("fifo");
            },
            |error| matches!(error, StageError::Special(_)),
        ),
    ];
    for (make, refused) in odd {
        let world = World::new();
        make(&world);
        let stage = world.stage(world.scope());
        let w = Held::root(FileView::Staged(&stage));
        done(w.rename("d", w, "t"));
        let changes = stage.changes().expect("changes");
        assert_eq!(show(&changes), "t: - > dir 755 (was d)\n");
        done(w.rename("t", w, "empty"));
        let error = stage.changes().expect_err("reported file by file");
        assert!(refused(&error), "{error}");
    }
}
