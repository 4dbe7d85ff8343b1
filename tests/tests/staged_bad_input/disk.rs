//! Full disks and missing permissions: either all changes of a call are applied or none.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::{Expect, expect};
use serde_json::json;

use super::scene::{Scene, check_in, difference, made};

/// Bytes of a new file.
const BIG: &str = "700000";
/// Bytes that are on the small disk beforehand.
const FILLER: usize = 600_000;

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Appends the command line and the environment of `inner` to `outer`.
fn append_command(outer: &mut Command, inner: &Command) {
    outer.arg(inner.get_program()).args(inner.get_args());
    if let Some(dir) = inner.get_current_dir() {
        outer.current_dir(dir);
    }
    let set = |(name, value): (_, Option<_>)| Some((name, value?));
    outer.envs(inner.get_envs().filter_map::<(&OsStr, &OsStr), _>(set));
}

/// Runs a call with the directory on a small, almost full file system, in a separate mount namespace.
fn check_small_disk(
    size: &str,
    directory_of: fn(&Scene) -> PathBuf,
    end: &[&str],
    expected: &Expect,
) {
    const MOUNT: &str = r#"
        mount -t tmpfs -o size=$SIZE,mode=700 none "$PLACE" || exit 77
        cp -a "$SEED/." "$PLACE" || exit 78
        "$@"; code=$?
        cp -a "$PLACE/." "$LEFT" || exit 79
        exit $code"#;
    let scene = Scene::new(&[
        ("a.txt", "old"),
        ("c.txt", "old c"),
        ("d/gone.txt", "old d"),
    ]);
    scene.put(&[("big.txt", &"y".repeat(500_000))]);
    let steps = [
        vec!["write", "a.txt", "new"],
        vec!["write_big", "b.txt", BIG],
        vec!["write", "big.txt", "small now"],
        vec!["remove", "d/gone.txt"],
        vec!["rename", "c.txt", "d/moved.txt"],
        end.to_vec(),
    ];
    let before = scene.tree();
    let directory = directory_of(&scene);
    let (seed, left) = (
        directory.with_extension("seed"),
        directory.with_extension("left"),
    );
    fs::rename(&directory, &seed).unwrap();
    for dir in [&directory, &left] {
        fs::create_dir(dir).unwrap();
    }
    let filler = seed.join("filler");
    fs::write(&filler, "z".repeat(FILLER)).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", MOUNT, "sh"]);
    let call = scene.calling(
        "file_script",
        &json!({"steps": steps}),
        &["--allow-tool", "*"],
    );
    append_command(&mut command, &call);
    command
        .env("SIZE", size)
        .env("PLACE", &directory)
        .env("SEED", &seed)
        .env("LEFT", &left);
    let (report, ended) = made(command);
    // The small file system no longer exists; its content was copied to `left`.
    fs::remove_dir(&directory).unwrap();
    fs::remove_dir_all(&seed).unwrap();
    fs::rename(&left, &directory).unwrap();
    if ended.code == Some(77) || ended.stderr.contains("unshare: ") {
        println!(
            "not run: a small disk, which needs the right to mount: {}",
            ended.stderr
        );
        return;
    }
    fs::remove_file(directory.join("filler")).unwrap();
    let text = scene.report_text(&report, &ended);
    let differs = difference(&before, &scene.tree());
    expected.assert_eq(&format!("{text}{differs}journal: {}\n", scene.journal()));
    scene.finish();
}

#[test]
fn a_disk_that_is_full_in_the_middle_of_a_commit() {
    check_small_disk(
        "1500k",
        Scene::workspace,
        &["count", "."],
        &expect![[r#"
        exit 1: failed [commit_failed] cannot apply the changes: cannot write `b.txt`: No space left on device (os error 28)
        the tree is as it was
        journal: 1 done, 1 reverted
    "#]],
    );
}

#[test]
fn a_disk_that_is_full_when_what_is_replaced_is_kept() {
    check_small_disk(
        "1m",
        |scene| scene.state().join("store/blobs"),
        &["count", "."],
        &expect![[r#"
        exit 1: failed [commit_failed] cannot apply the changes: cannot save the earlier content of `big.txt`: No space left on device (os error 28)
        the tree is as it was
        journal: 1 done
    "#]],
    );
}

#[test]
fn a_disk_that_is_full_while_the_call_writes() {
    check_small_disk(
        "1m",
        |scene| scene.state().join("store/stage"),
        &["fail"],
        &expect![[r#"
        exit 1: failed [failed] write a.txt: ok; write_big b.txt: I/O error (os error 29); write big.txt: I/O error (os error 29); remove d/gone.txt: ok; rename c.txt: ok; fail: in the end
        the tree is as it was
        journal: 1 done
    "#]],
    );
}

/// Uses a file size limit instead of a full disk, which works without the right to mount.
#[test]
fn what_cannot_be_kept_is_not_replaced() {
    const LIMIT: &str = r#"trap "" XFSZ; ulimit -f 1000; exec "$@""#;
    let scene = Scene::new(&[("a.txt", "old")]);
    scene.put(&[("big.txt", &"y".repeat(700_000))]);
    let before = scene.tree();
    let steps = [["write", "a.txt", "new"], ["write", "big.txt", "small"]];
    let mut command = Command::new("sh");
    command.args(["-c", LIMIT, "sh"]);
    let call = scene.calling(
        "file_script",
        &json!({"steps": steps}),
        &["--allow-tool", "*"],
    );
    append_command(&mut command, &call);
    let (report, ended) = made(command);
    let text = scene.report_text(&report, &ended);
    let differs = difference(&before, &scene.tree());
    expect![[r#"
        exit 1: failed [commit_failed] cannot apply the changes: cannot save the earlier content of `big.txt`: File too large (os error 27)
        the tree is as it was
        journal: 1 done
    "#]].assert_eq(&format!("{text}{differs}journal: {}\n", scene.journal()));
    scene.finish();
}

/// Runs as an unprivileged owner of all files, some of which have restricted permissions.
fn check_bits(make: fn(&Path), unmake: fn(&Path), steps: &[&[&str]], expected: &Expect) {
    let Some(scene) = Scene::new(&[]).without_privileges() else {
        return;
    };
    let made = |workspace: &Path| {
        make(workspace);
        scene.give();
        // Owners change first: it takes bits away.
        unmake(workspace);
    };
    check_in(&scene, made, steps, expected);
}

#[test]
fn a_folder_that_may_not_be_written_keeps_its_names() {
    check_bits(
        |workspace| {
            fs::create_dir_all(workspace.join("locked/d")).unwrap();
            fs::write(workspace.join("locked/f.txt"), "old").unwrap();
            fs::write(workspace.join("free.txt"), "old").unwrap();
        },
        |workspace| set(&workspace.join("locked"), 0o555),
        &[
            &["write", "locked/new.txt", "new"],
            &["remove", "locked/f.txt"],
            &["rename", "locked/f.txt", "f.txt"],
            &["rename", "free.txt", "locked/free.txt"],
            &["mkdir", "locked/e"],
            &["rmdir", "locked/d"],
            &["write", "locked/f.txt", "in its place"],
            &["write", "locked/d/new.txt", "new"],
            &["write", "free.txt", "new"],
        ],
        &expect![[r#"
            exit 0: ok
              write locked/new.txt: Operation not permitted (os error 63)
              remove locked/f.txt: Operation not permitted (os error 63)
              rename locked/f.txt: Operation not permitted (os error 63)
              rename free.txt: Operation not permitted (os error 63)
              mkdir locked/e: Operation not permitted (os error 63)
              rmdir locked/d: Operation not permitted (os error 63)
              write locked/f.txt: ok
              write locked/d/new.txt: ok
              write free.txt: ok
            the tree:
              changed workspace/free.txt: file 644 "new", was file 644 "old"
              new workspace/locked/d/new.txt: file 644 "new"
              changed workspace/locked/f.txt: file 644 "in its place", was file 644 "old"
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_file_that_may_not_be_written_or_read_stays_as_it_is() {
    check_bits(
        |workspace| {
            for name in ["fixed.txt", "secret.txt", "sent.txt", "free.txt"] {
                fs::write(workspace.join(name), "old").unwrap();
            }
        },
        |workspace| {
            set(&workspace.join("fixed.txt"), 0o444);
            set(&workspace.join("secret.txt"), 0o000);
            set(&workspace.join("sent.txt"), 0o222);
        },
        &[
            &["read", "fixed.txt"],
            &["write", "fixed.txt", "new"],
            &["append", "fixed.txt", "new"],
            &["read", "secret.txt"],
            &["write", "secret.txt", "new"],
            &["read", "sent.txt"],
            &["append", "sent.txt", "new"],
            &["write", "free.txt", "new"],
        ],
        &expect![[r#"
            exit 0: ok
              read fixed.txt: old
              write fixed.txt: Operation not permitted (os error 63)
              append fixed.txt: Operation not permitted (os error 63)
              read secret.txt: Operation not permitted (os error 63)
              write secret.txt: Operation not permitted (os error 63)
              read sent.txt: Operation not permitted (os error 63)
              append sent.txt: Operation not permitted (os error 63)
              write free.txt: ok
            the tree:
              changed workspace/free.txt: file 644 "new", was file 644 "old"
            journal: 2 done
        "#]],
    );
}

#[test]
fn a_file_that_cannot_be_read_cannot_be_lost_by_a_move_or_removal() {
    for (step, expected) in [
        (
            vec!["rename", "secret.txt", "moved.txt"],
            expect![[r#"
            exit 1: failed [stage_failed] cannot determine the changes of `[AROUND]/workspace/moved.txt`: not permitted: outside the granted directories, or without write access
            the tree is as it was
            journal: 1 done
        "#]],
        ),
        (
            vec!["remove", "secret.txt"],
            expect![[r#"
            exit 1: failed [stage_failed] cannot determine the changes of `[AROUND]/workspace/secret.txt`: not permitted: outside the granted directories, or without write access
            the tree is as it was
            journal: 1 done
        "#]],
        ),
        (
            vec!["remove_all", "d"],
            expect![[r#"
            exit 1: failed [stage_failed] cannot determine the changes of `[AROUND]/workspace/d/secret.txt`: not permitted: outside the granted directories, or without write access
            the tree is as it was
            journal: 1 done
        "#]],
        ),
        (
            vec!["rename", "d", "e"],
            expect![[r#"
            exit 0: ok
              rename d: ok
              write new.txt: ok
            the tree:
              gone workspace/d: folder 755
              gone workspace/d/secret.txt: file 0 "old"
              new workspace/e: folder 755
              new workspace/e/secret.txt: file 0 "old"
              new workspace/new.txt: file 644 "new"
            journal: 2 done
        "#]],
        ),
    ] {
        check_bits(
            |workspace| {
                fs::create_dir(workspace.join("d")).unwrap();
                fs::write(workspace.join("d/secret.txt"), "old").unwrap();
                fs::write(workspace.join("secret.txt"), "old").unwrap();
            },
            |workspace| {
                set(&workspace.join("d/secret.txt"), 0o000);
                set(&workspace.join("secret.txt"), 0o000);
            },
            &[&step, &["write", "new.txt", "new"]],
            &expected,
        );
    }
}

#[test]
fn a_right_that_is_taken_away_while_a_call_waits() {
    let Some(scene) = Scene::new(&[
        ("a.txt", "old"),
        ("d/b.txt", "old b"),
        ("d/gone.txt", "old"),
    ])
    .without_privileges() else {
        return;
    };
    let steps: &[&[&str]] = &[
        &["write", "a.txt", "new"],
        &["write", "d/new.txt", "new"],
        &["remove", "d/gone.txt"],
    ];
    let waiting = scene.hold("file_script", steps);
    set(&scene.path("d"), 0o555);
    let before = scene.tree();
    let (prompts, report, ended) = scene.approve(waiting);
    let text = scene.report_text(&report, &ended);
    let differs = difference(&before, &scene.tree());
    expect![[r#"
        asked: 1
        exit 1: failed [commit_failed] cannot apply the changes: cannot write `d/new.txt`: Permission denied (os error 13)
        the tree is as it was
        journal: 1 done, 1 reverted
    "#]].assert_eq(&format!("asked: {prompts}\n{text}{differs}journal: {}\n", scene.journal()));
    set(&scene.path("d"), 0o755);
    scene.finish();
}
