//! Tests of `directory_tree`.

use std::fs;

use expect_test::{Expect, expect};

use super::*;
use crate::testing::Workspace;

/// The text for the model, or the error.
fn check(workspace: &Workspace, input: Value, expected: Expect) {
    let answer = workspace.call::<directory_tree>(input);
    let (text, _) = answer.split_once("\nsummary: ").unwrap_or((&answer, ""));
    expected.assert_eq(text);
}

fn sample() -> Workspace {
    Workspace::new(&[
        ("ws/.gitignore", "*.log\n"),
        ("ws/README.md", ""),
        ("ws/build.log", ""),
        ("ws/src/main.rs", ""),
        ("ws/src/deep/a.rs", ""),
        ("ws/src/deep/deeper/b.rs", ""),
        ("ws/node_modules/x/index.js", ""),
    ])
}

#[test]
fn a_tree_has_directories_first_and_ends_at_its_depth() {
    let workspace = sample();
    check(
        &workspace,
        json!({"path": "ws"}),
        expect![[r#"
        {"name":"ws","type":"directory","children":[{"name":"node_modules","type":"directory"},{"name":"src","type":"directory","children":[{"name":"deep","type":"directory","children":[{"name":"deeper","type":"directory"},{"name":"a.rs","type":"file"}]},{"name":"main.rs","type":"file"}]},{"name":".gitignore","type":"file"},{"name":"README.md","type":"file"}]}
        (1 ignored: git 1, tool 0)"#]],
    );
    check(
        &workspace,
        json!({"dir_path": "ws", "depth": 1}),
        expect![[r#"
            {"name":"ws","type":"directory","children":[{"name":"node_modules","type":"directory"},{"name":"src","type":"directory"},{"name":".gitignore","type":"file"},{"name":"README.md","type":"file"}]}
            (1 ignored: git 1, tool 0)"#]],
    );
    check(
        &workspace,
        json!({"path": "ws/src", "exclude_patterns": ["deeper", "*.rs"]}),
        expect![[
            r#"{"name":"src","type":"directory","children":[{"name":"deep","type":"directory","children":[]}]}"#
        ]],
    );
    check(
        &workspace,
        json!({"path": "ws", "depth": 1, "respect_git_ignore": false}),
        expect![[
            r#"{"name":"ws","type":"directory","children":[{"name":"node_modules","type":"directory"},{"name":"src","type":"directory"},{"name":".gitignore","type":"file"},{"name":"README.md","type":"file"},{"name":"build.log","type":"file"}]}"#
        ]],
    );
}

#[test]
fn a_limit_leaves_out_the_lowest_and_counts_them_where_they_are() {
    check(
        &sample(),
        json!({"path": "ws", "limit": 5}),
        expect![[r#"
        {"name":"ws","type":"directory","children":[{"name":"node_modules","type":"directory"},{"name":"src","type":"directory","children":[{"name":"deep","type":"directory","children":[],"omitted":2}],"omitted":1},{"name":".gitignore","type":"file"},{"name":"README.md","type":"file"}]}
        (showing 5 of 8 entries, the upper levels first; for more: a larger `limit`, or directory_tree of a directory in it)
        (1 ignored: git 1, tool 0)"#]],
    );
}

#[test]
fn the_data_is_the_tree_and_its_numbers() {
    let workspace = Workspace::new(&[("ws/a.txt", "")]);
    expect![[r#"
        {"name":"ws","type":"directory","children":[{"name":"a.txt","type":"file"}]}
        summary: 1 of 1 entry below ws
        {"path":"<root>/ws","tree":{"name":"ws","type":"directory","children":[{"name":"a.txt","type":"file"}]},"count":1,"truncated":false,"ignored":{"git":0,"tool":0}}"#]].assert_eq(&workspace.call::<directory_tree>(json!({"path": "ws"})));
}

#[test]
fn an_empty_directory_has_children_and_no_child() {
    let workspace = Workspace::new(&[]);
    fs::create_dir(workspace.path("empty")).unwrap();
    check(
        &workspace,
        json!({"path": "empty"}),
        expect![[r#"{"name":"empty","type":"directory","children":[]}"#]],
    );
}

#[test]
fn invalid_calls() {
    let workspace = sample();
    check(
        &workspace,
        json!({"path": "ws/README.md"}),
        expect!["InvalidInput path_is_not_a_directory: ws/README.md is a file, not a directory"],
    );
    check(
        &workspace,
        json!({"path": "wz"}),
        expect!["NotFound file_not_found: File not found: wz. Did you mean: ws?"],
    );
    check(
        &workspace,
        json!({"path": "/"}),
        expect![
            "Denied path_not_in_workspace: Permission denied: Access denied: / is outside the allowed paths (<root>)"
        ],
    );
    check(
        &workspace,
        json!({"exclude_patterns": ["[a"]}),
        expect![
            "InvalidInput invalid_glob: `[a` is not a valid glob: unclosed character class; missing ']'"
        ],
    );
    check(
        &workspace,
        json!({"depth": 0}),
        expect!["InvalidInput invalid_input: `depth`: 0 is less than the minimum of 1"],
    );
    check(
        &workspace,
        json!({"limit": 100_000}),
        expect!["InvalidInput invalid_input: `limit`: 100000 is more than the maximum of 5000"],
    );
}

#[cfg(unix)]
#[test]
fn a_link_is_shown_and_not_followed() {
    let workspace = Workspace::new(&[("ws/a.txt", "")]);
    std::os::unix::fs::symlink("..", workspace.path("ws/up")).unwrap();
    check(
        &workspace,
        json!({"path": "ws"}),
        expect![[
            r#"{"name":"ws","type":"directory","children":[{"name":"a.txt","type":"file"},{"name":"up","type":"symlink"}]}"#
        ]],
    );
}

#[test]
fn examples_are_inputs_and_run() {
    toolhost_sdk::testing::check_examples::<directory_tree>().unwrap();
    Workspace::new(&[("src/tests/a.rs", "")]).run_examples::<directory_tree>();
}
