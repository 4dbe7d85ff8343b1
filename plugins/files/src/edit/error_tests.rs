//! Tests of the errors of `edit_file` and their recommendations.

use std::fs;

use expect_test::{Expect, expect};
use toolhost_sdk::testing;

use super::*;
use crate::testing::Workspace;

fn check(workspace: &Workspace, input: Value, expected: Expect) {
    expected.assert_eq(&workspace.call::<edit_file>(input));
}

#[test]
fn invalid_edits_fail_without_changes() {
    let workspace = Workspace::new(&[
        (
            "a.rs",
            "fn alpha() {\n    one();\n}\n\nfn beta() {\n    one();\n}\n",
        ),
        ("a.ipynb", "{}"),
        ("src/b.rs", "x\n"),
    ]);
    workspace.write("a.bin", b"\0\0");
    let table = [
        (
            json!({"path": "a.rs"}),
            expect![
                "InvalidInput edit_preparation_failure: no edit given; pass `old_string` and `new_string`, or a list of `edits`"
            ],
        ),
        (
            json!({"path": "a.rs", "old_string": "x"}),
            expect![[
                r#"InvalidInput edit_preparation_failure: `new_string` is missing; pass the replacement for "x", or an empty string to delete it"#
            ]],
        ),
        (
            json!({"path": "a.rs", "new_string": "x"}),
            expect![
                "InvalidInput edit_preparation_failure: `old_string` is missing; pass the text to replace, or an empty string to create a file"
            ],
        ),
        (
            json!({"path": "a.rs", "edits": [], "expected_replacements": 1}),
            expect![
                "InvalidInput edit_preparation_failure: no edit given; pass `old_string` and `new_string`, or a list of `edits`"
            ],
        ),
        (
            json!({"path": "a.rs", "edits": [{"old": "x", "new": "y"}], "expected_replacements": 1}),
            expect![
                "InvalidInput edit_preparation_failure: `expected_replacements` requires `old_string`; in `edits` use `replace_all`"
            ],
        ),
        (
            json!({"path": "a.rs", "old": "x", "edits": [{"old": "x", "new": "y"}]}),
            expect![
                "InvalidInput edit_preparation_failure: `edits` and `old_string` are mutually exclusive; put all edits into `edits`"
            ],
        ),
        (
            json!({"path": "a.rs", "edits": [{"old": "one", "new": "y", "replace_all": true}, {"old": "", "new": "y"}]}),
            expect![
                "InvalidInput edit_preparation_failure: `old_string` of edit 2 is empty, but only the first edit may create the file"
            ],
        ),
        (
            json!({"path": "a.rs", "old": "x", "new": "x"}),
            expect![
                "InvalidInput edit_no_change: old_string and new_string are the same, so a.rs would not change"
            ],
        ),
        (
            json!({"path": "a.rs", "old": "alpha", "new": "x", "encoding": "base64"}),
            expect![
                "InvalidInput edit_preparation_failure: base64 is binary data, and only text can be edited; use write_file"
            ],
        ),
        (
            json!({"path": "a.rs", "edits": [{"old": "alpha", "new": "gamma"}, {"old": "gamma", "new": "alpha"}]}),
            expect![
                "InvalidInput edit_no_change: the edits cancel each other out, so a.rs would not change"
            ],
        ),
        (
            json!({"path": "a.rs", "old": "one();", "new": "two();"}),
            expect![
                "Failed edit_expected_occurrence_mismatch: 2 matches for old_string in a.rs, at lines 2, 6"
            ],
        ),
        (
            json!({"path": "a.rs", "old": "one();", "new": "two();", "expected_replacements": 3}),
            expect![
                "Failed edit_expected_occurrence_mismatch: 2 matches for old_string in a.rs, at lines 2, 6; expected 3"
            ],
        ),
        (
            json!({"path": "a.rs", "old": "alpha", "new": "x", "expected_replacements": 2}),
            expect![
                "Failed edit_expected_occurrence_mismatch: 1 match for old_string in a.rs, at line 1; expected 2"
            ],
        ),
        (
            json!({"path": "a.rs", "old": "f(one)\n", "new": "x"}),
            expect![
                "Failed edit_no_occurrence_found: 0 matches for old_string in a.rs, and no similar lines"
            ],
        ),
        (
            json!({"path": "a.rs", "old": "fn beta() {\n    twice();\n}", "new": "x"}),
            expect![[r#"
                Failed edit_no_occurrence_found: 0 matches for old_string in a.rs; closest are lines 5-7, 74 % alike:
                     5→fn beta() {
                     6→    one();
                     7→}
                the first difference is at line 6: expected "    twice();""#]],
        ),
        (
            json!({"path": "a.rs", "old": "zzzzz", "new": "x"}),
            expect![
                "Failed edit_no_occurrence_found: 0 matches for old_string in a.rs, and no similar lines"
            ],
        ),
        (
            json!({"path": "a.rs", "old": "    one();\n}\n\nfn", "new": "    // ... rest of code ...\n}\n\nfn"}),
            expect![[
                r#"InvalidInput content_has_artefacts: line 1 of `new_string` is a placeholder for omitted text: "// ... rest of code ..."; write the whole content"#
            ]],
        ),
        (
            json!({"path": "a.ipynb", "old": "{", "new": "x"}),
            expect![
                "InvalidInput edit_preparation_failure: a.ipynb is a notebook, which text edits could break; use notebook_edit"
            ],
        ),
        (
            json!({"path": "a.bin", "old": "{", "new": "x"}),
            expect!["InvalidInput binary_file: a.bin is not text, and only text can be edited"],
        ),
        (
            json!({"path": "src", "old": "{", "new": "x"}),
            expect!["InvalidInput target_is_directory: src is a directory, not a file"],
        ),
        (
            json!({"path": "scr/b.rs", "old": "{", "new": "x"}),
            expect!["NotFound file_not_found: File not found: scr/b.rs. Did you mean: src/b.rs?"],
        ),
        (
            json!({"path": "/etc/motd", "old": "{", "new": "x"}),
            expect![
                "Denied path_not_in_workspace: Permission denied: Access denied: /etc/motd is outside the allowed paths (<root>)"
            ],
        ),
        (
            json!({"path": "a.rs", "old": "alpha", "new": "x", "expected_sha256": "0".repeat(64)}),
            expect!["Failed edit_stale: a.rs changed since it was read"],
        ),
        (
            json!({"path": "new.rs", "old": "", "new": "x", "expected_sha256": "0".repeat(64)}),
            expect!["NotFound file_not_found: File not found: new.rs"],
        ),
    ];
    for (input, expected) in table {
        check(&workspace, input, expected);
    }
    assert_eq!(fs::read(workspace.path("src/b.rs")).unwrap(), b"x\n");
    assert!(!workspace.path("new.rs").exists());
}

#[test]
fn read_only_files_are_not_edited() {
    let workspace = Workspace::new(&[("a", "x")]);
    let cx = Context::test().with_root(workspace.path("").to_str().unwrap(), "ro");
    let input = json!({"path": "a", "old_string": "x", "new_string": "y"});
    let error = testing::call::<edit_file>(&cx, input).unwrap_err();
    expect!["Permission denied: Access denied: a is in <root>/, which is read-only"]
        .assert_eq(&workspace.normalize(&error.to_string()));
}

/// Checks the recommendations of an error.
fn check_advice(workspace: &Workspace, input: Value, expected: Expect) {
    let error = testing::call::<edit_file>(&workspace.cx(), input).unwrap_err();
    expected.assert_eq(&error.recommendations.join("\n"));
}

#[test]
fn match_failures_have_recommendations() {
    let workspace = Workspace::new(&[("a.rs", "let one = 1;\nlet two = 2;\nlet one = 1;\n")]);
    let table = [
        (
            json!({"path": "a.rs", "old": "let tree = 2;\nlet x", "new": ""}),
            expect![[r#"
                read lines 1-2 again and copy the text exactly, without line numbers
                if this fails again, write the whole file with write_file"#]],
        ),
        (
            json!({"path": "a.rs", "old": "zzzzz", "new": ""}),
            expect![[r#"
                read the file and copy the text exactly, without line numbers
                if this fails again, write the whole file with write_file"#]],
        ),
        (
            json!({"path": "a.rs", "old": "one", "new": ""}),
            expect![[r#"
                add surrounding lines to `old_string` until it is unique
                or set `replace_all` to change every match"#]],
        ),
        (
            json!({"path": "a.rs", "old": "one", "new": "", "expected_replacements": 1}),
            expect![[r#"
                add surrounding lines to `old_string` until it is unique
                or correct `expected_replacements`"#]],
        ),
        (
            json!({"path": "a.rs", "old": "", "new": "x"}),
            expect![[r#"
                to change it, pass the text to replace as `old_string`
                to replace its content, use write_file"#]],
        ),
        (
            json!({"path": "b.rs", "old": "x", "new": "y"}),
            expect![[r#"
                list the directory to see its entries
                to create it, leave `old_string` empty"#]],
        ),
        (
            json!({"path": "a.rs", "old": "one", "new": "x", "expected_sha256": "0".repeat(64)}),
            expect!["read the file again, then edit its current text"],
        ),
    ];
    for (input, expected) in table {
        check_advice(&workspace, input, expected);
    }
}

#[test]
fn a_region_that_is_shown_has_a_limit() {
    let long: String = "some words of a line that is shown\n".repeat(40);
    let workspace = Workspace::new(&[("a.json", &long)]);
    let old = format!("{}end", long.replace("shown", "shwon"));
    let error = workspace.call::<edit_file>(json!({"path": "a.json", "old": old, "new": "x"}));
    assert!(
        error.contains("\n    15→some words of a line that is shown\n… and 25 more lines\n"),
        "{error}"
    );
}
