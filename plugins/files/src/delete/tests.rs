//! Tests of `delete_file`.

use expect_test::{Expect, expect};

use super::*;
use crate::testing::Workspace;

fn check(workspace: &Workspace, input: Value, expected: Expect) {
    expected.assert_eq(&workspace.call::<delete_file>(input));
}

// R-367
#[test]
fn r_367_a_file_is_deleted() {
    let workspace = Workspace::new(&[("a.txt", "one\n"), ("b.txt", "")]);
    check(
        &workspace,
        json!({"file_path": "a.txt"}),
        expect![[r#"
        Deleted a.txt (4 B)
        summary: Deleted a.txt (4 B)
        {"path":"<root>/a.txt","deleted":true,"entries":1,"bytes":4}"#]],
    );
    assert!(!workspace.path("a.txt").exists());
    assert!(workspace.path("b.txt").exists());
}

#[test]
fn directories_need_recursive_unless_empty() {
    let workspace = Workspace::new(&[("full/a.txt", "12"), ("full/deep/b.txt", "345")]);
    fs::create_dir(workspace.path("empty")).unwrap();
    check(
        &workspace,
        json!({"path": "empty"}),
        expect![[r#"
            Deleted the empty directory empty
            summary: Deleted the empty directory empty
            {"path":"<root>/empty","deleted":true,"entries":1,"bytes":0}"#]],
    );
    check(
        &workspace,
        json!({"path": "full"}),
        expect![
            "InvalidInput directory_not_empty: full is a directory with 2 entries in it; set `recursive` to delete them too"
        ],
    );
    assert!(workspace.path("full/deep/b.txt").exists());
    check(
        &workspace,
        json!({"path": "full", "recursive": true}),
        expect![[r#"
            Deleted the directory full with 3 entries in it (5 B)
            summary: Deleted the directory full with 3 entries in it (5 B)
            {"path":"<root>/full","deleted":true,"entries":4,"bytes":5}"#]],
    );
    assert!(!workspace.path("full").exists());
}

#[test]
fn missing_paths_are_errors_unless_missing_ok() {
    let workspace = Workspace::new(&[("a.txt", "")]);
    check(
        &workspace,
        json!({"path": "b.txt"}),
        expect![[r#"
        error: NotFound file_not_found: File not found: b.txt. Did you mean: a.txt?
        summary: b.txt does not exist
        {"path":"<root>/b.txt","deleted":false,"entries":0,"bytes":0}"#]],
    );
    check(
        &workspace,
        json!({"path": "a.txt/b"}),
        expect![[r#"
        error: NotFound file_not_found: File not found: a.txt/b
        summary: a.txt/b does not exist
        {"path":"<root>/a.txt/b","deleted":false,"entries":0,"bytes":0}"#]],
    );
    check(
        &workspace,
        json!({"path": "b.txt", "missing_ok": true}),
        expect![[r#"
            No change: b.txt does not exist. Go on to the next step.
            summary: b.txt does not exist
            {"path":"<root>/b.txt","deleted":false,"entries":0,"bytes":0}"#]],
    );
}

#[test]
fn roots_and_git_are_never_deleted() {
    let workspace = Workspace::new(&[(".git/HEAD", ""), ("sub/.git", "gitdir: x")]);
    for path in [".", "sub/..", ".git", "sub/.git"] {
        let answer = workspace.call::<delete_file>(json!({"path": path, "recursive": true}));
        assert!(answer.starts_with("Denied path_is_protected"), "{answer}");
    }
    check(
        &workspace,
        json!({"path": ".git"}),
        expect![
            "Denied path_is_protected: Permission denied: .git cannot be deleted: it is the history of a repository"
        ],
    );
    check(
        &workspace,
        json!({"path": ".", "recursive": true}),
        expect![
            "Denied path_is_protected: Permission denied: . cannot be deleted: it is or contains an allowed directory"
        ],
    );
    assert!(workspace.path(".git/HEAD").exists());
    // Its entries may be deleted, for example a lock left behind by a crashed git.
    let answer = workspace.call::<delete_file>(json!({"path": ".git/HEAD"}));
    assert!(answer.starts_with("Deleted"), "{answer}");
}

#[test]
fn a_directory_that_holds_an_allowed_one_is_never_deleted() {
    let workspace = Workspace::new(&[("outer/inner/a.txt", "")]);
    let root = |path: &str| workspace.path(path).to_str().unwrap().to_owned();
    let cx = workspace.cx().with_root(root("outer/inner"), "rw");
    let input = json!({"path": "outer", "recursive": true});
    let error = toolhost_sdk::testing::call::<delete_file>(&cx, input).unwrap_err();
    assert_eq!(error.code.as_deref(), Some("path_is_protected"));
    assert!(workspace.path("outer/inner/a.txt").exists());
}

#[test]
fn protected_paths_are_not_deleted() {
    let workspace = Workspace::new(&[("a.txt", "")]);
    check(
        &workspace,
        json!({"path": "/etc/passwd"}),
        expect![
            "Denied path_not_in_workspace: Permission denied: Access denied: /etc/passwd is outside the allowed paths (<root>)"
        ],
    );
    check(
        &workspace,
        json!({"path": ""}),
        expect![
            "InvalidInput invalid_path: the path is empty; pass a file or directory, for example `src/main.rs`"
        ],
    );
    expect!["Denied permission_denied: Permission denied: Access denied: a.txt is in <root>, which is read-only"].assert_eq(&workspace.read_only::<delete_file>(json!({"path": "a.txt"})));
    assert!(workspace.path("a.txt").exists());
}

#[cfg(unix)]
#[test]
fn links_are_deleted_and_never_followed() {
    use std::os::unix::fs::symlink;

    let workspace = Workspace::new(&[("kept/a.txt", "x"), ("dir/b.txt", "")]);
    symlink("kept", workspace.path("link")).unwrap();
    symlink("../kept", workspace.path("dir/link")).unwrap();
    symlink("nowhere", workspace.path("dangling")).unwrap();
    check(
        &workspace,
        json!({"path": "link"}),
        expect![[r#"
            Deleted the link link; its target was not touched
            summary: Deleted the link link; its target was not touched
            {"path":"<root>/link","deleted":true,"entries":1,"bytes":0}"#]],
    );
    check(
        &workspace,
        json!({"path": "dangling"}),
        expect![[r#"
            Deleted the link dangling; its target was not touched
            summary: Deleted the link dangling; its target was not touched
            {"path":"<root>/dangling","deleted":true,"entries":1,"bytes":0}"#]],
    );
    check(
        &workspace,
        json!({"path": "dir", "recursive": true}),
        expect![[r#"
            Deleted the directory dir with 2 entries in it (0 B)
            summary: Deleted the directory dir with 2 entries in it (0 B)
            {"path":"<root>/dir","deleted":true,"entries":3,"bytes":0}"#]],
    );
    assert!(workspace.path("kept/a.txt").exists());
}

#[test]
fn a_cancelled_call_stops() {
    let workspace = Workspace::new(&[("dir/a.txt", "")]);
    let cx = workspace.cx().cancelled_after(0);
    let input = json!({"path": "dir", "recursive": true});
    let error = toolhost_sdk::testing::call::<delete_file>(&cx, input).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(workspace.path("dir/a.txt").exists());
}

#[test]
fn examples_are_inputs_and_run() {
    toolhost_sdk::testing::check_examples::<delete_file>().unwrap();
    let workspace = Workspace::new(&[("notes/old.md", ""), ("build/a/b.o", "")]);
    workspace.run_examples::<delete_file>();
    assert!(!workspace.path("build").exists());
}
