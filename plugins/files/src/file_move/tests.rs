//! Tests of `move_file`, including moves across devices.

use std::io;
use std::path::Path;

use expect_test::{Expect, expect};

use super::*;
use crate::testing::Workspace;

fn check(workspace: &Workspace, input: Value, expected: Expect) {
    expected.assert_eq(&workspace.call::<move_file>(input));
}

fn read(workspace: &Workspace, path: &str) -> Vec<u8> {
    fs::read(workspace.path(path)).unwrap()
}

// R-368
#[test]
fn r_368_a_file_has_another_place_afterwards() {
    let workspace = Workspace::new(&[("a.txt", "one\n")]);
    check(
        &workspace,
        json!({"source": "a.txt", "destination": "new/dir/b.txt"}),
        expect![[r#"
            Moved a.txt to new/dir/b.txt
            summary: Moved a.txt to new/dir/b.txt
            {"success":true,"from":"<root>/a.txt","to":"<root>/new/dir/b.txt","overwritten":false,"copied":false}"#]],
    );
    assert_eq!(read(&workspace, "new/dir/b.txt"), b"one\n");
    assert!(!workspace.path("a.txt").exists());
}

#[test]
fn a_directory_moves_with_all_in_it() {
    let workspace = Workspace::new(&[("a/b/c.txt", "c"), ("full/x", "")]);
    check(
        &workspace,
        json!({"from": "a", "to": "z"}),
        expect![[r#"
        Moved directory a to z
        summary: Moved directory a to z
        {"success":true,"from":"<root>/a","to":"<root>/z","overwritten":false,"copied":false}"#]],
    );
    assert_eq!(read(&workspace, "z/b/c.txt"), b"c");
}

#[test]
fn existing_files_are_replaced_only_with_overwrite() {
    let workspace = Workspace::new(&[("a.txt", "a"), ("b.txt", "b"), ("dir/x", ""), ("d2/y", "")]);
    check(
        &workspace,
        json!({"from": "a.txt", "to": "b.txt"}),
        expect![
            "InvalidInput attempt_to_create_existing_file: b.txt exists already; set `overwrite` to replace it"
        ],
    );
    assert_eq!(read(&workspace, "b.txt"), b"b");
    check(
        &workspace,
        json!({"from": "a.txt", "to": "b.txt", "overwrite": true}),
        expect![[r#"
            Moved a.txt to b.txt, replacing the existing file
            summary: Moved a.txt to b.txt, replacing the existing file
            {"success":true,"from":"<root>/a.txt","to":"<root>/b.txt","overwritten":true,"copied":false}"#]],
    );
    assert_eq!(read(&workspace, "b.txt"), b"a");
    check(
        &workspace,
        json!({"from": "b.txt", "to": "dir", "overwrite": true}),
        expect![
            "InvalidInput attempt_to_create_existing_file: dir is a directory and cannot be replaced"
        ],
    );
    check(
        &workspace,
        json!({"from": "d2", "to": "dir", "overwrite": true}),
        expect![
            "InvalidInput attempt_to_create_existing_file: dir is a directory and cannot be replaced"
        ],
    );
    check(
        &workspace,
        json!({"from": "dir", "to": "b.txt", "overwrite": true}),
        expect![
            "InvalidInput path_is_not_a_directory: b.txt is a file, but dir is a directory; choose another destination"
        ],
    );
}

#[test]
fn invalid_moves() {
    let workspace = Workspace::new(&[("a.txt", "a"), ("dir/x", ""), (".git/HEAD", "")]);
    check(
        &workspace,
        json!({"from": "a.txt", "to": "archive/"}),
        expect![[
            r#"InvalidInput invalid_path: `to` "archive/" is a directory; to move a.txt into it, use "archive/a.txt""#
        ]],
    );
    check(
        &workspace,
        json!({"from": "b.txt", "to": "c.txt"}),
        expect!["NotFound file_not_found: File not found: b.txt. Did you mean: a.txt?"],
    );
    check(
        &workspace,
        json!({"from": "a.txt", "to": "./a.txt"}),
        expect![
            "InvalidInput edit_no_change: `from` and `to` are both a.txt; choose another destination"
        ],
    );
    check(
        &workspace,
        json!({"from": "dir", "to": "dir/below"}),
        expect![
            "InvalidInput invalid_path: dir/below is inside dir: a directory cannot be moved into itself"
        ],
    );
    check(
        &workspace,
        json!({"from": ".", "to": "elsewhere"}),
        expect![
            "Denied path_is_protected: Permission denied: . cannot be moved: it is or contains an allowed directory"
        ],
    );
    check(
        &workspace,
        json!({"from": ".git", "to": "git"}),
        expect![
            "Denied path_is_protected: Permission denied: .git cannot be moved: it is the history of a repository"
        ],
    );
    check(
        &workspace,
        json!({"from": "a.txt", "to": "/tmp/a.txt"}),
        expect![
            "Denied path_not_in_workspace: Permission denied: Access denied: /tmp/a.txt is outside the allowed paths (<root>)"
        ],
    );
    check(
        &workspace,
        json!({"from": "/etc/motd", "to": "motd"}),
        expect![
            "Denied path_not_in_workspace: Permission denied: Access denied: /etc/motd is outside the allowed paths (<root>)"
        ],
    );
    check(
        &workspace,
        json!({"from": "a.txt", "to": "dir/x/y"}),
        expect![
            "InvalidInput path_is_not_a_directory: cannot create dir/x/y: a part of its path is a file or a link that is dangling"
        ],
    );
    expect!["Denied permission_denied: Permission denied: Access denied: a.txt is in <root>, which is read-only"].assert_eq(&workspace.read_only::<move_file>(json!({"from": "a.txt", "to": "b.txt"})));
    assert_eq!(read(&workspace, "a.txt"), b"a");
}

/// Renaming between `here` and `there` fails.
fn two_devices(from: &Path, to: &Path) -> io::Result<()> {
    let device = |path: &Path| path.components().any(|part| part.as_os_str() == "there");
    if device(from) == device(to) {
        fs::rename(from, to)
    } else {
        Err(io::ErrorKind::CrossesDevices.into())
    }
}

fn cross(workspace: &Workspace, cx: &Context, from: &str, to: &str) -> Result<MoveMethod> {
    let [from, to] = [from, to].map(|path| resolve(&workspace.cx(), path).unwrap());
    relocate(cx, &from, &to, two_devices)
}

#[test]
fn between_devices_bytes_are_copied_as_they_are() {
    let workspace = Workspace::new(&[("there/old.bin", "old"), ("dir/deep/b.txt", "b")]);
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    workspace.write("a.bin", &bytes);
    let cx = workspace.cx();
    let way = cross(&workspace, &cx, "a.bin", "there/old.bin").unwrap();
    assert_eq!(way, MoveMethod::Copied);
    assert_eq!(read(&workspace, "there/old.bin"), bytes);
    assert!(!workspace.path("a.bin").exists());

    cross(&workspace, &cx, "dir", "there/dir").unwrap();
    assert_eq!(read(&workspace, "there/dir/deep/b.txt"), b"b");
    assert!(!workspace.path("dir").exists());
    let names = fs::read_dir(workspace.path("there")).unwrap().count();
    assert_eq!(names, 2, "nothing is left aside");
}

#[test]
fn a_denied_move_names_the_source() {
    let workspace = Workspace::new(&[("sub/.env", "")]);
    let [from, to] = ["sub", "sub9"].map(|path| resolve(&workspace.cx(), path).unwrap());
    let denied = |_: &Path, _: &Path| Err(io::ErrorKind::PermissionDenied.into());
    let error = relocate(&workspace.cx(), &from, &to, denied).unwrap_err();
    expect!["Permission denied: Access denied: sub cannot be moved to sub9: it contains a protected path or a link that would leave the allowed paths, or the user of the host cannot change one of the two directories"]
        .assert_eq(&error.message);
}

#[test]
fn a_copy_that_breaks_off_leaves_both_ends_as_they_were() {
    let workspace = Workspace::new(&[("a.bin", "new"), ("there/a.bin", "old")]);
    let cx = workspace.cx().cancelled_after(1);
    let error = cross(&workspace, &cx, "a.bin", "there/a.bin").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert_eq!(read(&workspace, "a.bin"), b"new");
    assert_eq!(read(&workspace, "there/a.bin"), b"old");
    assert_eq!(fs::read_dir(workspace.path("there")).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn links_move_as_links_and_not_between_devices() {
    use std::os::unix::fs::symlink;

    let workspace = Workspace::new(&[("there/x", ""), ("kept.txt", "k")]);
    symlink("kept.txt", workspace.path("link")).unwrap();
    check(
        &workspace,
        json!({"from": "link", "to": "other"}),
        expect![[r#"
        Moved link to other
        summary: Moved link to other
        {"success":true,"from":"<root>/link","to":"<root>/other","overwritten":false,"copied":false}"#]],
    );
    assert!(
        fs::symlink_metadata(workspace.path("other"))
            .unwrap()
            .is_symlink()
    );
    let error = cross(&workspace, &workspace.cx(), "other", "there/other").unwrap_err();
    expect!["<root>/other is a link or special file and cannot be moved to another device"]
        .assert_eq(&workspace.normalize(error.message()));
    assert!(workspace.path("kept.txt").exists());
}

#[test]
fn examples_are_inputs_and_run() {
    toolhost_sdk::testing::check_examples::<move_file>().unwrap();
    Workspace::new(&[("notes/old.md", "")]).run_examples::<move_file>();
}
