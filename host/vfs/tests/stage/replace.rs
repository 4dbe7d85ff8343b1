//! Replacing staged content by the user's.

use std::{fs, os::unix::fs::PermissionsExt as _};

use toolhost_vfs::{Location, PathError, PathState, Stage, StageError};

use crate::support::{FileView, Held, World, file_image};

fn at(world: &World, path: &str) -> Location {
    Location {
        root: world.path("w"),
        path: path.to_owned(),
    }
}

/// Each change as `path mode content`, read from the file that a commit would use.
fn contents(stage: &Stage) -> Vec<String> {
    let changes = stage.changes().expect("changes");
    let shown = changes.iter().map(|staged| {
        let path = &staged.change.at.path;
        match (&staged.change.after, &staged.content) {
            (PathState::File(image), Some(content)) => {
                let bytes = fs::read(content).expect("content");
                assert_eq!(*image, file_image(&bytes, image.mode), "{path}");
                let text = String::from_utf8_lossy(&bytes).into_owned();
                format!("{path} {:o} {text}", image.mode)
            }
            (PathState::File(_), None) => format!("{path} as it was"),
            (PathState::Absent, _) => format!("{path} gone"),
            (PathState::Dir { .. }, _) => format!("{path}/"),
            (PathState::Link { target }, _) => format!("{path} > {target}"),
        }
    });
    shown.collect()
}

type Act = fn(Held<'_>, &World);

fn check(act: Act, path: &str, text: &str, expected: Result<&[&str], PathError>) {
    let world = World::new();
    let mode = fs::Permissions::from_mode(0o751);
    fs::set_permissions(world.path("w/a"), mode).expect("mode");
    let stage = world.stage(world.scope());
    let before = world.traces();
    act(Held::root(FileView::Staged(&stage)), &world);
    let proposed = contents(&stage);
    let replaced = stage.replace(&at(&world, path), text.as_bytes());
    match (replaced, expected) {
        (Ok(()), Ok(expected)) => assert_eq!(contents(&stage), expected, "{path}"),
        (Err(StageError::Failed { source, .. }), Err(expected)) => {
            assert_eq!(source, expected, "{path}");
            assert_eq!(contents(&stage), proposed, "{path}");
        }
        (replaced, _) => panic!("{path}: {replaced:?}"),
    }
    assert_eq!(world.traces(), before, "{path}: something became real");
}

fn done<T: std::fmt::Debug>(result: Result<T, PathError>) {
    result.expect("done");
}

#[test]
fn r_047_staged_content_is_replaced() {
    let writes: Act = |w, _| {
        done(w.open("a", "wt", "proposed"));
        done(w.mkdir("n"));
        done(w.open("n/f", "wc", "proposed too"));
    };
    let both = ["a 751 saved", "n/", "n/f 644 proposed too"];
    check(writes, "a", "saved", Ok(&both));
    check(writes, "n/f", "", Ok(&["a 751 proposed", "n/", "n/f 644 "]));
    // Restored to the original content: no change remains.
    check(writes, "a", "alpha", Ok(&["n/", "n/f 644 proposed too"]));
}

#[test]
fn entries_without_staged_content_are_refused() {
    let acts: Act = |w, _| {
        done(w.mkdir("n"));
        done(w.symlink("a", "s"));
        done(w.unlink("b"));
        done(w.rename("a", w, "moved"));
    };
    for path in ["n", "s", "b", "moved", "d/a", "nowhere"] {
        check(acts, path, "saved", Err(PathError::NotFound));
    }
    check(|_, _| {}, "a", "saved", Err(PathError::NotFound));
}

#[test]
fn a_second_name_for_a_file_keeps_its_content() {
    check(
        |w, _| {
            done(w.open("f", "wc", "proposed"));
            done(w.link("f", w, "g"));
        },
        "f",
        "saved",
        Ok(&["f 644 saved", "g 644 proposed"]),
    );
}

#[test]
fn an_open_handle_writes_to_the_old_content() {
    use std::io::Write as _;
    let world = World::new();
    let stage = world.stage(world.scope());
    let w = Held::root(FileView::Staged(&stage));
    let opened = stage.open_at(w.fd, w.access, "f", &crate::support::how("wc"));
    let mut file = fs::File::from(opened.expect("open").fd);
    stage.replace(&at(&world, "f"), b"saved").expect("replaced");
    file.write_all(b"in between").expect("write");
    assert_eq!(contents(&stage), ["f 644 saved"]);
    assert_eq!(w.read("f"), Ok("saved".to_owned()));
}

#[test]
fn a_moved_file_reported_as_new_can_be_replaced() {
    check(
        |w, _| {
            // A new file at the source of the move: reported as a removal and an addition.
            done(w.rename("a", w, "moved"));
            done(w.open("a", "wc", "new"));
        },
        "moved",
        "saved",
        Ok(&["a 644 new", "moved 751 saved"]),
    );
    check(
        |w, _| {
            done(w.rename("d", w, "t"));
            done(w.open("t/e/a", "wt", "proposed"));
        },
        "t/e/a",
        "saved",
        Ok(&["t/", "t/e/a 644 saved"]),
    );
}

/// The copy of a moved file is what the user was shown.
#[test]
fn a_moved_file_that_changes_after_it_was_shown_is_a_conflict() {
    let world = World::new();
    let stage = world.stage(world.scope());
    let w = Held::root(FileView::Staged(&stage));
    // A new directory at the source of the move: reported as removals and additions.
    done(w.rename("d", w, "t"));
    done(w.mkdir("d"));
    assert!(
        contents(&stage)
            .iter()
            .any(|shown| shown.starts_with("t/e/a "))
    );
    fs::write(world.path("w/d/e/a"), "saved by the user").expect("write");
    let changes = stage.changes().map(drop).expect_err("changed");
    assert!(matches!(changes, StageError::Changed(_)), "{changes}");
}
