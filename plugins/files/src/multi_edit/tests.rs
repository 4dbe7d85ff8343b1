//! Tests of `multi_edit`.

use std::fs;

use expect_test::{Expect, expect};
use toolhost_sdk::testing;

use super::*;
use crate::testing::Workspace;

/// Also shows the error of an outcome.
fn check(workspace: &Workspace, input: Value, expected: Expect) {
    let error = match testing::call::<multi_edit>(&workspace.cx(), with_dry_run(&input)) {
        Ok(outcome) => outcome.error,
        Err(error) => Some(error),
    };
    let code = error
        .and_then(|error| error.code)
        .map_or(String::new(), |code| format!("{code}: "));
    expected.assert_eq(&format!("{code}{}", workspace.call::<multi_edit>(input)));
}

/// The same call, to check its error first.
fn with_dry_run(input: &Value) -> Value {
    let mut input = input.clone();
    input["dry_run"] = true.into();
    input
}

fn check_files(workspace: &Workspace, files: &[(&str, &str)]) {
    for (path, content) in files {
        assert_eq!(
            &fs::read_to_string(workspace.path(path)).unwrap(),
            content,
            "{path}"
        );
    }
}

// R-345
#[test]
fn r_345_several_files_change_together() {
    let workspace = Workspace::new(&[("a.txt", "one\ntwo\n"), ("b.txt", "one\n")]);
    check(
        &workspace,
        json!({"path": "a.txt", "edits": [
            {"old_string": "one", "new_string": "1"},
            {"path": "./b.txt", "old_string": "one", "new_string": "1"},
            {"old_string": "1\ntwo", "new_string": "2"},
            {"file_path": "c/new.txt", "old": "", "new": "new\n"},
        ]}),
        expect![[r#"
            Made 4 edits in 3 files
            1. a.txt: 1 replacement at line 1
            2. ./b.txt: 1 replacement at line 1
            3. a.txt: 1 replacement at line 1
            4. c/new.txt: 1 replacement at line 1
            a.txt:
                 1→2
            ./b.txt:
                 1→1
            c/new.txt:
                 1→new
            summary: Made 4 edits in 3 files
            {"edits":[{"path":"a.txt","status":"ok","replacements":1,"strategy":"exact"},{"path":"./b.txt","status":"ok","replacements":1,"strategy":"exact"},{"path":"a.txt","status":"ok","replacements":1,"strategy":"exact"},{"path":"c/new.txt","status":"ok","replacements":1,"strategy":"create"}],"files":[{"path":"<root>/a.txt","created":false,"diff_stat":{"added":1,"removed":2},"sha256":"<hash>"},{"path":"<root>/b.txt","created":false,"diff_stat":{"added":1,"removed":1},"sha256":"<hash>"},{"path":"<root>/c/new.txt","created":true,"diff_stat":{"added":1,"removed":0},"sha256":"<hash>"}],"dry_run":false}"#]],
    );
    check_files(
        &workspace,
        &[("a.txt", "2\n"), ("b.txt", "1\n"), ("c/new.txt", "new\n")],
    );
}

// R-345
#[test]
fn r_345_one_failure_leaves_everything_as_it_was() {
    let workspace = Workspace::new(&[("a.txt", "one\ntwo\n"), ("b.txt", "one\n")]);
    check(
        &workspace,
        json!({"edits": [
            {"path": "a.txt", "old_string": "one", "new_string": "1"},
            {"path": "b.txt", "old_string": "ane", "new_string": "1"},
            {"old_string": "one", "new_string": "1"},
            {"path": "a.txt", "old_string": "", "new_string": "1"},
            {"path": "/etc/motd", "old_string": "a", "new_string": "1"},
        ]}),
        expect![[r#"
            edit_no_occurrence_found: 4 of 5 edits failed, so nothing was written
            1. a.txt: 1 replacement at line 1 (valid, not applied)
            2. b.txt: error: 0 matches for old_string in b.txt, and no similar lines
            3. : error: no file; set `path` of the edit or of the call
            4. a.txt: error: a.txt exists and is not empty; an empty `old_string` creates a new file
            5. /etc/motd: error: Permission denied: Access denied: /etc/motd is outside the allowed paths (<root>)
            error: Failed edit_no_occurrence_found: 4 of 5 edits failed, so nothing was written
            summary: 4 of 5 edits failed, so nothing was written
            {"edits":[{"path":"a.txt","status":"skipped","replacements":0,"strategy":"exact"},{"path":"b.txt","status":"error","replacements":0,"error":"0 matches for old_string in b.txt, and no similar lines"},{"path":"","status":"error","replacements":0,"error":"no file; set `path` of the edit or of the call"},{"path":"a.txt","status":"error","replacements":0,"error":"a.txt exists and is not empty; an empty `old_string` creates a new file"},{"path":"/etc/motd","status":"error","replacements":0,"error":"Permission denied: Access denied: /etc/motd is outside the allowed paths (<root>)"}],"files":[],"dry_run":false}"#]],
    );
    check_files(&workspace, &[("a.txt", "one\ntwo\n"), ("b.txt", "one\n")]);
}

// R-345
#[test]
fn r_345_without_atomic_valid_edits_are_applied() {
    let workspace = Workspace::new(&[("a.txt", "one\ntwo\n")]);
    check(
        &workspace,
        json!({"path": "a.txt", "atomic": false, "edits": [
            {"old_string": "three", "new_string": "3"},
            {"old_string": "two", "new_string": "2"},
        ]}),
        expect![[r#"
            Made 1 of 2 edits in 1 file
            1. a.txt: error: 0 matches for old_string in a.txt, and no similar lines
            2. a.txt: 1 replacement at line 2
            a.txt:
                 1→one
                 2→2
            summary: Made 1 of 2 edits in 1 file
            display:
            --- a/a.txt
            +++ b/a.txt
            @@ -1,2 +1,2 @@
             one
            -two
            +2

            {"edits":[{"path":"a.txt","status":"error","replacements":0,"error":"0 matches for old_string in a.txt, and no similar lines"},{"path":"a.txt","status":"ok","replacements":1,"strategy":"exact"}],"files":[{"path":"<root>/a.txt","created":false,"diff_stat":{"added":1,"removed":1},"sha256":"<hash>"}],"dry_run":false}"#]],
    );
    check_files(&workspace, &[("a.txt", "one\n2\n")]);
    check(
        &workspace,
        json!({"path": "a.txt", "atomic": false, "edits": [{"old_string": "three", "new_string": "3"}]}),
        expect![[r#"
            edit_no_occurrence_found: 1 of 1 edit failed, so nothing was written
            1. a.txt: error: 0 matches for old_string in a.txt, and no similar lines
            error: Failed edit_no_occurrence_found: 1 of 1 edit failed, so nothing was written
            summary: 1 of 1 edit failed, so nothing was written
            {"edits":[{"path":"a.txt","status":"error","replacements":0,"error":"0 matches for old_string in a.txt, and no similar lines"}],"files":[],"dry_run":false}"#]],
    );
}

#[test]
fn edits_that_come_to_nothing_are_an_error() {
    let workspace = Workspace::new(&[("a.txt", "one\n")]);
    check(
        &workspace,
        json!({"path": "a.txt", "edits": [
            {"old_string": "one", "new_string": "two"},
            {"old_string": "two", "new_string": "one"},
        ]}),
        expect![
            "edit_no_change: InvalidInput edit_no_change: the edits cancel each other out, so no file would change"
        ],
    );
    check(
        &workspace,
        json!({"path": "a.txt", "edits": []}),
        expect![
            "invalid_input: InvalidInput invalid_input: `edits`: a length of 0 is less than the minimum of 1"
        ],
    );
}

#[cfg(unix)]
#[test]
fn two_names_of_one_file_do_not_undo_each_other() {
    let workspace = Workspace::new(&[("a.txt", "one\ntwo\n")]);
    std::os::unix::fs::symlink("a.txt", workspace.path("b.txt")).unwrap();
    check(
        &workspace,
        json!({"edits": [
            {"path": "a.txt", "old_string": "one", "new_string": "1"},
            {"path": "b.txt", "old_string": "two", "new_string": "2"},
        ]}),
        expect![
            "Failed edit_stale: b.txt changed during this call; another path of the call may refer to the same file"
        ],
    );
    check_files(&workspace, &[("a.txt", "one\ntwo\n")]);
}

#[test]
fn examples_are_inputs_and_work() {
    testing::check_examples::<multi_edit>().unwrap();
    for example in multi_edit::descriptor().examples {
        let workspace = Workspace::new(&[
            (
                "src/main.rs",
                "let retries = 3;\nwait(1);\nold_name();\nold_name();\n",
            ),
            ("src/lib.rs", "old_name();\n"),
        ]);
        let input = toolhost_sdk::serde_json::from_str(&example.input).unwrap();
        let outcome = testing::call::<multi_edit>(&workspace.cx(), input).unwrap();
        assert_eq!(outcome.error, None, "{}", example.input);
    }
}
