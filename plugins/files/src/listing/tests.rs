//! Tests of `list_directory`.

use std::fs;

use expect_test::{Expect, expect};

use super::*;
use crate::testing::Workspace;

/// The text for the model, or the error.
fn check(workspace: &Workspace, input: Value, expected: Expect) {
    let answer = workspace.call::<list_directory>(input);
    let (text, _) = answer.split_once("\nsummary: ").unwrap_or((&answer, ""));
    expected.assert_eq(text);
}

fn sample() -> Workspace {
    let workspace = Workspace::new(&[
        (".gitignore", "*.log\n"),
        (".hidden", ""),
        ("README.md", "12345"),
        ("build.log", ""),
        ("src/main.rs", "fn main() {}"),
        ("src/deep/a.rs", ""),
        ("src/deep/b.log", ""),
        ("node_modules/x/index.js", ""),
    ]);
    for (path, seconds) in [(".gitignore", 1), (".hidden", 4), ("README.md", 3)] {
        workspace.touch(path, seconds);
    }
    workspace
}

// R-325, R-366
#[test]
fn one_level() {
    let workspace = sample();
    check(
        &workspace,
        json!({}),
        expect![[r#"
        [DIR] node_modules/
        [DIR] src/
        .gitignore (6 B)
        .hidden (0 B)
        README.md (5 B)
        (1 ignored: git 1, tool 0)"#]],
    );
    check(
        &workspace,
        json!({"path": "src"}),
        expect![[r#"
        [DIR] deep/
        main.rs (12 B)"#]],
    );
    check(
        &workspace,
        json!({"show_hidden": false, "respect_git_ignore": false}),
        expect![[r#"
        [DIR] node_modules/
        [DIR] src/
        README.md (5 B)
        build.log (0 B)"#]],
    );
}

#[test]
fn all_levels() {
    let workspace = sample();
    check(
        &workspace,
        json!({"recursive": true}),
        expect![[r#"
        [DIR] node_modules/
        [DIR] src/
        [DIR] src/deep/
        .gitignore (6 B)
        .hidden (0 B)
        README.md (5 B)
        src/deep/a.rs (0 B)
        src/main.rs (12 B)
        (2 ignored: git 2, tool 0)"#]],
    );
    check(
        &workspace,
        json!({"depth": 2, "path": "src"}),
        expect![[r#"
        [DIR] deep/
        deep/a.rs (0 B)
        main.rs (12 B)
        (1 ignored: git 1, tool 0)"#]],
    );
    check(
        &workspace,
        json!({"recursive": true, "depth": 1, "path": "src"}),
        expect![[r#"
        [DIR] deep/
        main.rs (12 B)"#]],
    );
}

#[test]
fn patterns() {
    let workspace = sample();
    check(
        &workspace,
        json!({"recursive": true, "pattern": "*.rs"}),
        expect![[r#"
        src/deep/a.rs (0 B)
        src/main.rs (12 B)
        (2 ignored: git 2, tool 0)"#]],
    );
    check(
        &workspace,
        json!({"recursive": true, "pattern": "src/*.{rs,md}"}),
        expect![[r#"
        src/main.rs (12 B)
        (2 ignored: git 2, tool 0)"#]],
    );
    check(
        &workspace,
        json!({"recursive": true, "ignore": ["deep", ".*"]}),
        expect![[r#"
        [DIR] node_modules/
        [DIR] src/
        README.md (5 B)
        src/main.rs (12 B)
        (1 ignored: git 1, tool 0)"#]],
    );
    check(
        &workspace,
        json!({"pattern": "*.java"}),
        expect![[r#"
            (nothing in . matches *.java)
            (1 ignored: git 1, tool 0)"#]],
    );
    check(
        &workspace,
        json!({"pattern": "[a"}),
        expect![
            "InvalidInput invalid_glob: `[a` is not a valid glob: unclosed character class; missing ']'"
        ],
    );
}

#[test]
fn orders() {
    let workspace = sample();
    check(
        &workspace,
        json!({"sort": "name", "limit": 3}),
        expect![[r#"
        .gitignore (6 B)
        .hidden (0 B)
        README.md (5 B)
        (1 ignored: git 1, tool 0)
        (showing entries 1-3 of 5; to go on: the same call with `offset` 3)"#]],
    );
    check(
        &workspace,
        json!({"sort": "mtime", "ignore": ["src", "node_modules"]}),
        expect![[r#"
        .hidden (0 B)
        README.md (5 B)
        .gitignore (6 B)
        (1 ignored: git 1, tool 0)"#]],
    );
    check(
        &workspace,
        json!({"sort": "size", "ignore": ["src", "node_modules"]}),
        expect![[r#"
        .gitignore (6 B)
        README.md (5 B)
        .hidden (0 B)
        (1 ignored: git 1, tool 0)"#]],
    );
}

#[test]
fn pages() {
    let workspace = sample();
    check(
        &workspace,
        json!({"limit": 2}),
        expect![[r#"
        [DIR] node_modules/
        [DIR] src/
        (1 ignored: git 1, tool 0)
        (showing entries 1-2 of 5; to go on: the same call with `offset` 2)"#]],
    );
    check(
        &workspace,
        json!({"limit": 2, "offset": 4}),
        expect![[r#"
        README.md (5 B)
        (1 ignored: git 1, tool 0)"#]],
    );
    check(
        &workspace,
        json!({"offset": 99}),
        expect!["InvalidInput offset_past_end: offset 99 is past the end: . has 5 entries"],
    );
}

#[test]
fn invalid_calls() {
    let workspace = sample();
    fs::create_dir(workspace.path("empty")).unwrap();
    workspace.write("all-ignored/a.log", b"");
    check(
        &workspace,
        json!({"path": "empty"}),
        expect!["(empty is empty)"],
    );
    check(
        &workspace,
        json!({"path": "all-ignored"}),
        expect![[r#"
        (nothing to show in all-ignored)
        (1 ignored: git 1, tool 0)"#]],
    );
    check(
        &workspace,
        json!({"path": "README.md"}),
        expect!["InvalidInput path_is_not_a_directory: README.md is a file, not a directory"],
    );
    check(
        &workspace,
        json!({"path": "scr"}),
        expect!["NotFound file_not_found: File not found: scr. Did you mean: src?"],
    );
    check(
        &workspace,
        json!({"path": "/"}),
        expect![
            "Denied path_not_in_workspace: Permission denied: Access denied: / is outside the allowed paths (<root>)"
        ],
    );
}

#[cfg(unix)]
#[test]
fn links_are_shown_and_not_followed() {
    let workspace = Workspace::new(&[]);
    std::os::unix::fs::symlink("..", workspace.path("up")).unwrap();
    let answer = workspace.call::<list_directory>(json!({"recursive": true}));
    expect![[r#"
        up -> ..
        summary: 1 of 1 entries in .
        {"path":"<root>","files":[{"name":"up","path":"<root>/up","isDir":false,"size":2,"modified":"<time>","isSymlink":true,"target":".."}],"count":1,"total":1,"truncated":false,"ignored":{"git":0,"tool":0}}"#]].assert_eq(&answer);
}

#[test]
fn a_cancelled_call_stops() {
    let workspace = sample();
    let cx = workspace.cx().cancelled_after(0);
    let error = toolhost_sdk::testing::call::<list_directory>(&cx, json!({})).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Interrupted);
}

#[test]
fn examples_are_inputs_and_run() {
    toolhost_sdk::testing::check_examples::<list_directory>().unwrap();
    sample().run_examples::<list_directory>();
}

#[test]
fn a_name_cannot_look_like_another_entry() {
    let workspace = Workspace::new(&[("a (1 B)\n[DIR] b", ""), ("c\u{1b}/d", "")]);
    check(
        &workspace,
        json!({}),
        expect![[r#"
        [DIR] "c\033"/
        "a (1 B)\n[DIR] b" (0 B)"#]],
    );
}
