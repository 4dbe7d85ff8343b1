//! Replacing staged content by the user's.

use std::{fs, os::unix::fs::PermissionsExt as _};

use toolhost_vfs::{Image, Location, Refusal, Stage, StageError};

use crate::support::{Door, Held, World, file_image};

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
            (Image::File(image), Some(content)) => {
                let bytes = fs::read(content).expect("content");
                assert_eq!(*image, file_image(&bytes, image.mode), "{path}");
                let text = String::from_utf8_lossy(&bytes).into_owned();
                format!("{path} {:o} {text}", image.mode)
            }
            (Image::File(_), None) => format!("{path} as it was"),
            (Image::Absent, _) => format!("{path} gone"),
            (Image::Dir { .. }, _) => format!("{path}/"),
            (Image::Link { target }, _) => format!("{path} > {target}"),
        }
    });
    shown.collect()
}

type Act = fn(Held<'_>, &World);

fn check(act: Act, path: &str, text: &str, expected: Result<&[&str], Refusal>) {
    let world = World::new();
    let mode = fs::Permissions::from_mode(0o751);
    fs::set_permissions(world.path("w/a"), mode).expect("mode");
    let stage = world.stage(world.scope());
    let before = world.traces();
    act(Held::root(Door::Staged(&stage)), &world);
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

fn done<T: std::fmt::Debug>(result: Result<T, Refusal>) {
    result.expect("done");
}

#[test]
fn r_047_a_content_takes_the_place_of_the_one_that_a_call_wrote() {
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
fn what_has_no_content_of_its_own_is_refused() {
    let acts: Act = |w, _| {
        done(w.mkdir("n"));
        done(w.symlink("a", "s"));
        done(w.unlink("b"));
        done(w.rename("a", w, "moved"));
    };
    for path in ["n", "s", "b", "moved", "d/a", "nowhere"] {
        check(acts, path, "saved", Err(Refusal::NotFound));
    }
    check(|_, _| {}, "a", "saved", Err(Refusal::NotFound));
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
fn whoever_still_holds_the_file_open_writes_into_the_old_one() {
    use std::io::Write as _;
    let world = World::new();
    let stage = world.stage(world.scope());
    let w = Held::root(Door::Staged(&stage));
    let opened = stage.open_at(w.fd, w.access, "f", &crate::support::how("wc"));
    let mut file = fs::File::from(opened.expect("open").fd);
    stage.replace(&at(&world, "f"), b"saved").expect("replaced");
    file.write_all(b"in between").expect("write");
    assert_eq!(contents(&stage), ["f 644 saved"]);
    assert_eq!(w.read("f"), Ok("saved".to_owned()));
}

#[test]
fn a_file_that_moved_and_is_told_as_new_can_be_replaced_too() {
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
