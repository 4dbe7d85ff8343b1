//! Tests of `edit_file`.

use std::fs;

use expect_test::{Expect, expect};
use toolhost_sdk::testing;

use super::*;
use crate::testing::Workspace;

fn check(workspace: &Workspace, input: Value, expected: Expect) {
    expected.assert_eq(&workspace.call::<edit_file>(input));
}

fn check_bytes(workspace: &Workspace, path: &str, expected: &[u8]) {
    assert_eq!(
        fs::read(workspace.path(path))
            .unwrap()
            .escape_ascii()
            .to_string(),
        expected.escape_ascii().to_string()
    );
}

// R-305, R-320
#[test]
fn r_320_one_place_is_changed() {
    let workspace = Workspace::new(&[(
        "src/a.rs",
        "fn a() {\n    1\n}\n// two\nfn b() {\n    2\n}\n",
    )]);
    check(
        &workspace,
        json!({"path": "src/a.rs", "old_string": "    2", "new_string": "    3"}),
        expect![[r#"
            Edited src/a.rs: 1 replacement, +1 -1 lines
                 2→    1
                 3→}
                 4→// two
                 5→fn b() {
                 6→    3
                 7→}
            summary: Edited src/a.rs: 1 replacement, +1 -1 lines
            display:
            --- a/src/a.rs
            +++ b/src/a.rs
            @@ -3,5 +3,5 @@
             }
             // two
             fn b() {
            -    2
            +    3
             }

            {"path":"<root>/src/a.rs","replacements":1,"strategy":"exact","created":false,"dry_run":false,"diff_stat":{"added":1,"removed":1},"ranges":[[6,6]],"encoding":"utf-8","line_ending":"lf","size":41,"sha256":"<hash>"}"#]],
    );
    check_bytes(
        &workspace,
        "src/a.rs",
        b"fn a() {\n    1\n}\n// two\nfn b() {\n    3\n}\n",
    );
}

// R-320
#[test]
fn r_320_an_empty_old_text_creates_a_file() {
    let workspace = Workspace::new(&[("empty.txt", ""), ("full.txt", "x")]);
    for path in ["a/new.txt", "empty.txt", "full.txt"] {
        let input = json!({"path": path, "old_string": "", "new_string": "one\ntwo\n"});
        let expected = match path {
            "a/new.txt" => expect![[r#"
                Created a/new.txt (2 lines)
                     1→one
                     2→two
                summary: Created a/new.txt (2 lines)
                display:
                --- /dev/null
                +++ b/a/new.txt
                @@ -0,0 +1,2 @@
                +one
                +two

                {"path":"<root>/a/new.txt","replacements":1,"strategy":"create","created":true,"dry_run":false,"diff_stat":{"added":2,"removed":0},"ranges":[[1,2]],"encoding":"utf-8","line_ending":"lf","size":8,"sha256":"<hash>"}"#]],
            "empty.txt" => expect![[r#"
                Edited empty.txt: 1 replacement, +2 -0 lines
                     1→one
                     2→two
                summary: Edited empty.txt: 1 replacement, +2 -0 lines
                display:
                --- a/empty.txt
                +++ b/empty.txt
                @@ -0,0 +1,2 @@
                +one
                +two

                {"path":"<root>/empty.txt","replacements":1,"strategy":"create","created":false,"dry_run":false,"diff_stat":{"added":2,"removed":0},"ranges":[[1,2]],"encoding":"utf-8","line_ending":"lf","size":8,"sha256":"<hash>"}"#]],
            _ => expect![
                "InvalidInput attempt_to_create_existing_file: full.txt exists and is not empty; an empty `old_string` creates a new file"
            ],
        };
        check(&workspace, input, expected);
    }
}

// R-320, R-342, C-10
#[test]
fn r_342_several_edits_see_one_another() {
    let workspace = Workspace::new(&[("a.txt", "one\ntwo\nthree\n")]);
    check(
        &workspace,
        json!({"file_path": "a.txt", "edits": [
            {"oldText": "one", "newText": "two"},
            {"find": "two", "replace": "2", "allow_multiple": true},
        ]}),
        expect![[r#"
            Edited a.txt: 3 replacements, +2 -2 lines
                 1→2
                 2→2
                 3→three
            summary: Edited a.txt: 3 replacements, +2 -2 lines
            display:
            --- a/a.txt
            +++ b/a.txt
            @@ -1,3 +1,3 @@
            -one
            -two
            +2
            +2
             three

            {"path":"<root>/a.txt","replacements":3,"strategy":"exact","created":false,"dry_run":false,"diff_stat":{"added":2,"removed":2},"ranges":[[1,2]],"encoding":"utf-8","line_ending":"lf","size":10,"sha256":"<hash>"}"#]],
    );
    check_bytes(&workspace, "a.txt", b"2\n2\nthree\n");
    check(
        &workspace,
        json!({"path": "a.txt", "edits": [
            {"old_string": "three", "new_string": "3"},
            {"old_string": "four", "new_string": "4"},
        ]}),
        expect![
            "Failed edit_no_occurrence_found: edit 2 of 2 failed, and none was applied: 0 matches for old_string in a.txt, and no similar lines"
        ],
    );
    check_bytes(&workspace, "a.txt", b"2\n2\nthree\n");
}

#[test]
fn dry_run_writes_nothing() {
    let workspace = Workspace::new(&[("a.txt", "one\n")]);
    check(
        &workspace,
        json!({"path": "a.txt", "old_string": "one", "new_string": "two", "dry_run": true}),
        expect![[r#"
            Would edit a.txt: 1 replacement, +1 -1 lines; nothing was written
                 1→two
            summary: Would edit a.txt: 1 replacement, +1 -1 lines; nothing was written
            display:
            --- a/a.txt
            +++ b/a.txt
            @@ -1 +1 @@
            -one
            +two

            {"path":"<root>/a.txt","replacements":1,"strategy":"exact","created":false,"dry_run":true,"diff_stat":{"added":1,"removed":1},"ranges":[[1,1]],"encoding":"utf-8","line_ending":"lf","size":4,"sha256":"<hash>"}"#]],
    );
    check(
        &workspace,
        json!({"path": "b.txt", "old_string": "", "new_string": "two", "dryRun": true}),
        expect![[r#"
            Would create b.txt (1 line); nothing was written
                 1→two
            summary: Would create b.txt (1 line); nothing was written
            display:
            --- /dev/null
            +++ b/b.txt
            @@ -0,0 +1 @@
            +two
            \ No newline at end of file

            {"path":"<root>/b.txt","replacements":1,"strategy":"create","created":true,"dry_run":true,"diff_stat":{"added":1,"removed":0},"ranges":[[1,1]],"encoding":"utf-8","line_ending":"none","size":3,"sha256":"<hash>"}"#]],
    );
    check_bytes(&workspace, "a.txt", b"one\n");
    assert!(!workspace.path("b.txt").exists());
}

// R-320
#[test]
fn r_320_a_lenient_reading_is_named_and_shown() {
    let workspace = Workspace::new(&[("a.rs", "fn a() {\n        f(1);\n        g(2);\n}\n")]);
    check(
        &workspace,
        json!({"path": "a.rs", "old_string": "f(1);\ng(2);", "new_string": "f(1);\nif x {\n    g(3);\n}"}),
        expect![[r#"
            Edited a.rs: 1 replacement, +3 -1 lines
            (old_string does not occur exactly; matched by `indentation` against:)
                 2→        f(1);
                 3→        g(2);
            (new text:)
                 1→fn a() {
                 2→        f(1);
                 3→        if x {
                 4→            g(3);
                 5→        }
                 6→}
            summary: Edited a.rs: 1 replacement, +3 -1 lines
            display:
            --- a/a.rs
            +++ b/a.rs
            @@ -1,4 +1,6 @@
             fn a() {
                     f(1);
            -        g(2);
            +        if x {
            +            g(3);
            +        }
             }

            {"path":"<root>/a.rs","replacements":1,"strategy":"indentation","created":false,"dry_run":false,"diff_stat":{"added":3,"removed":1},"ranges":[[3,5]],"encoding":"utf-8","line_ending":"lf","size":68,"sha256":"<hash>"}"#]],
    );
    check(
        &workspace,
        json!({"path": "a.rs", "edits": [
            {"old_string": "fn a()\n{", "new_string": "fn b()\n{"},
            {"old_string": "     5→        }", "new_string": "     5→        } // end"},
        ]}),
        expect![[r#"
            Edited a.rs: 2 replacements, +3 -2 lines
            (old_string does not occur exactly; matched by `whitespace` against:)
                 1→fn a() {
            (old_string does not occur exactly; matched by `line_numbers` against:)
                 6→        }
            (new text:)
                 1→fn b()
                 2→{
                 3→        f(1);
                 4→        if x {
                 5→            g(3);
                 6→        } // end
                 7→}
            summary: Edited a.rs: 2 replacements, +3 -2 lines
            display:
            --- a/a.rs
            +++ b/a.rs
            @@ -1,6 +1,7 @@
            -fn a() {
            +fn b()
            +{
                     f(1);
                     if x {
                         g(3);
            -        }
            +        } // end
             }

            {"path":"<root>/a.rs","replacements":2,"strategy":"whitespace","created":false,"dry_run":false,"diff_stat":{"added":3,"removed":2},"ranges":[[1,2],[6,6]],"encoding":"utf-8","line_ending":"lf","size":75,"sha256":"<hash>"}"#]],
    );
}

#[test]
fn examples_are_inputs_and_work() {
    testing::check_examples::<edit_file>().unwrap();
    for example in edit_file::descriptor().examples {
        let workspace = Workspace::new(&[(
            "src/main.rs",
            "let retries = 3;\nwait(1);\nold_name();\nold_name();\n",
        )]);
        let input = toolhost_sdk::serde_json::from_str(&example.input).unwrap();
        testing::call::<edit_file>(&workspace.cx(), input).unwrap();
    }
}
