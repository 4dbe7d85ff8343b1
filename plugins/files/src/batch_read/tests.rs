//! Tests of `read_many_files`.

use expect_test::{Expect, expect};

use super::*;
use crate::testing::Workspace;

fn check(workspace: &Workspace, input: Value, expected: Expect) {
    expected.assert_eq(&workspace.call::<read_many_files>(input));
}

fn sample() -> Workspace {
    let workspace = Workspace::new(&[
        (".gitignore", "*.log\n"),
        (".toolignore", "secret.txt\n"),
        ("README.md", "# Read me\n"),
        ("build.log", "log\n"),
        ("secret.txt", "s\n"),
        ("src/main.rs", "fn main() {}\n"),
        ("src/deep/a.rs", "a\nb\nc"),
        ("src/deep/tests/t.rs", "t\n"),
        ("node_modules/x.rs", "x\n"),
    ]);
    workspace.write("logo.png", b"\x89PNG\r\n\x1a\n1234");
    workspace.write("a.zip", b"PK\x03\x04");
    workspace
}

/// The names of the files read, in order.
fn names(input: Value) -> Vec<String> {
    let workspace = sample();
    let outcome = toolhost_sdk::testing::call::<read_many_files>(&workspace.cx(), input).unwrap();
    let root = format!(
        "{}/",
        workspace
            .path("")
            .display()
            .to_string()
            .trim_end_matches('/')
    );
    outcome.structured.unwrap()["files"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|file| file["error"].is_null())
        .map(|file| file["path"].as_str().unwrap().replace(&root, ""))
        .collect()
}

#[test]
fn files_come_one_after_the_other_and_an_end() {
    check(
        &sample(),
        json!({"paths": ["README.md", "src/deep/a.rs", "README.md"]}),
        expect![[r#"
            --- README.md ---
            # Read me

            --- src/deep/a.rs ---
            a
            b
            c

            --- end of content ---
            summary: 2 files, 0 skipped
            {"files":[{"path":"<root>/README.md","bytes":9,"truncated":false},{"path":"<root>/src/deep/a.rs","bytes":5,"truncated":false}],"read":2,"skipped":0,"ignored":{"git":0,"tool":0}}"#]],
    );
}

#[test]
fn unreadable_files_are_skipped_and_reported() {
    check(
        &sample(),
        json!({"include": ["README.me", "/etc/passwd", "a.zip", "secret.txt", "*.java", "README.md"]}),
        expect![[r#"
            --- README.md ---
            # Read me

            --- end of content ---
            Skipped 5 files:
            - README.me: File not found: README.me. Did you mean: README.md?
            - /etc/passwd: Permission denied: Access denied: /etc/passwd is outside the allowed paths (<root>)
            - *.java: not found: no file matches
            - a.zip: it is not text: application/zip, 4 B
            - secret.txt: Permission denied: Access denied: secret.txt is excluded by a `.toolignore`, `.geminiignore` or `.aiexclude` file
            (2 ignored: git 1, tool 1)
            summary: 1 file, 5 skipped
            {"files":[{"path":"<root>/README.md","bytes":9,"truncated":false},{"path":"README.me","bytes":0,"truncated":false,"error":"File not found: README.me. Did you mean: README.md?"},{"path":"/etc/passwd","bytes":0,"truncated":false,"error":"Permission denied: Access denied: /etc/passwd is outside the allowed paths (<root>)"},{"path":"*.java","bytes":0,"truncated":false,"error":"not found: no file matches"},{"path":"a.zip","bytes":0,"truncated":false,"error":"it is not text: application/zip, 4 B"},{"path":"secret.txt","bytes":0,"truncated":false,"error":"Permission denied: Access denied: secret.txt is excluded by a `.toolignore`, `.geminiignore` or `.aiexclude` file"}],"read":1,"skipped":5,"ignored":{"git":1,"tool":1}}"#]],
    );
    check(
        &sample(),
        json!({"include": ["nothing"]}),
        expect![[r#"
        Skipped 1 file:
        - nothing: File not found: nothing
        error: NotFound file_not_found: no file was read: none was found or all were skipped
        summary: 0 files, 1 skipped
        {"files":[{"path":"nothing","bytes":0,"truncated":false,"error":"File not found: nothing"}],"read":0,"skipped":1,"ignored":{"git":0,"tool":0}}"#]],
    );
}

#[test]
fn names_directories_and_globs() {
    for (input, expected) in [
        (
            json!({"include": ["*.rs"]}),
            vec!["src/deep/a.rs", "src/deep/tests/t.rs", "src/main.rs"],
        ),
        (
            json!({"include": ["src"]}),
            vec!["src/deep/a.rs", "src/deep/tests/t.rs", "src/main.rs"],
        ),
        (
            json!({"include": ["src"], "recursive": false}),
            vec!["src/main.rs"],
        ),
        (json!({"include": ["src/*.rs"]}), vec!["src/main.rs"]),
        (
            json!({"include": ["./src/**/*.rs"]}),
            vec!["src/deep/a.rs", "src/deep/tests/t.rs", "src/main.rs"],
        ),
        (
            json!({"include": ["src/**/*.rs"], "exclude": ["**/tests/**"]}),
            vec!["src/deep/a.rs", "src/main.rs"],
        ),
        (
            json!({"include": ["src"], "exclude": ["deep"]}),
            vec!["src/main.rs"],
        ),
        (
            json!({"include": ["src/main.rs", "README.md"], "exclude": ["src/*"]}),
            vec!["README.md"],
        ),
        (
            json!({"include": ["src/{main,lib}.rs", "README.md"]}),
            vec!["src/main.rs", "README.md"],
        ),
        (
            json!({"include": ["node_modules/x.rs"]}),
            vec!["node_modules/x.rs"],
        ),
        (
            json!({"include": ["x.r?"], "use_default_excludes": false}),
            vec!["node_modules/x.rs"],
        ),
        (json!({"include": ["*.log"]}), vec![]),
        (
            json!({"include": ["*.log"], "respect_git_ignore": false}),
            vec!["build.log"],
        ),
        (json!({"include": ["build.log"]}), vec!["build.log"]),
        (
            json!({"include": ["*.txt"], "respect_tool_ignore": false}),
            vec![],
        ),
        (json!({"include": ["*.png"]}), vec!["logo.png"]),
        (json!({"include": ["\"./logo.png\""]}), vec!["logo.png"]),
        (json!({"include": ["logo*"]}), vec![]),
    ] {
        assert_eq!(names(input.clone()), expected, "{input}");
    }
}

#[test]
fn media_come_as_parts_when_they_are_meant() {
    let workspace = sample();
    check(
        &workspace,
        json!({"include": ["logo.png", "README.md"]}),
        expect![[r#"
            --- logo.png ---
            (image/png, 12 B, below)

            --- README.md ---
            # Read me

            --- end of content ---
            [image image/png logo.png 12 bytes]
            summary: 2 files, 0 skipped
            {"files":[{"path":"<root>/logo.png","bytes":12,"truncated":false},{"path":"<root>/README.md","bytes":9,"truncated":false}],"read":2,"skipped":0,"ignored":{"git":0,"tool":0}}"#]],
    );
    check(
        &workspace,
        json!({"include": ["*o.*"], "exclude": ["node_modules", "src"]}),
        expect![[r#"
            Skipped 1 file:
            - logo.png: it is not text: image/png, 12 B; name it explicitly to read it
            (2 ignored: git 1, tool 1)
            error: NotFound file_not_found: no file was read: none was found or all were skipped
            summary: 0 files, 1 skipped
            {"files":[{"path":"logo.png","bytes":0,"truncated":false,"error":"it is not text: image/png, 12 B; name it explicitly to read it"}],"read":0,"skipped":1,"ignored":{"git":1,"tool":1}}"#]],
    );
}

#[test]
fn a_limit_cuts_at_a_line_with_a_continuation() {
    let workspace = Workspace::new(&[("a.txt", "one\ntwo\nthree\n"), ("b.txt", "b\n")]);
    check(
        &workspace,
        json!({"include": ["a.txt", "b.txt"], "max_bytes": 9}),
        expect![[r#"
            --- a.txt ---
            one
            two
            (showing lines 1-2 of 3, because `max_bytes` is 9; to go on: read_file with path "a.txt" and offset 3)

            --- end of content ---
            Skipped 1 file:
            - b.txt: no room was left: `max_bytes` is 9
            summary: 1 file, 1 skipped
            {"files":[{"path":"<root>/a.txt","bytes":7,"truncated":true},{"path":"b.txt","bytes":0,"truncated":false,"error":"no room was left: `max_bytes` is 9"}],"read":1,"skipped":1,"ignored":{"git":0,"tool":0}}"#]],
    );
    let long = "x".repeat(1_500);
    let workspace = Workspace::new(&[("a.txt", &long)]);
    let answer = workspace.call::<read_many_files>(json!({"include": ["a.txt"], "max_bytes": 3}));
    assert!(
        answer.starts_with("--- a.txt ---\nxxx\n(showing"),
        "{answer}"
    );
}

#[test]
fn a_long_file_is_cut_and_a_notebook_shown_by_cells() {
    let workspace = Workspace::new(&[
        ("a.txt", &"line\n".repeat(2_500)),
        (
            "b.ipynb",
            r#"{"cells": [{"cell_type": "raw", "source": "hello"}]}"#,
        ),
    ]);
    let answer = workspace.call::<read_many_files>(json!({"include": ["a.txt", "b.ipynb"]}));
    let end = answer.find("line\n(").unwrap();
    expect![[r#"
        line
        (showing lines 1-2000 of 2500; 500 lines left; to go on: read_file with path "a.txt" and offset 2001)

        --- b.ipynb ---
        (notebook of 1 cell, unknown language)
        --- cell 0: raw, cell_id "cell-0" ---
        hello

        --- end of content ---
        summary: 2 files, 0 skipped
        {"files":[{"path":"<root>/a.txt","bytes":9999,"truncated":true},{"path":"<root>/b.ipynb","bytes":82,"truncated":false}],"read":2,"skipped":0,"ignored":{"git":0,"tool":0}}"#]].assert_eq(&answer[end..]);
}

#[test]
fn a_higher_limit_shows_more_of_each_file() {
    let text = format!("{}\n", "x".repeat(99)).repeat(1_000);
    let workspace = Workspace::new(&[("a.txt", &text), ("b.txt", &text)]);
    let input = json!({"include": ["a.txt", "b.txt"], "max_bytes": 1_000_000});
    let outcome = toolhost_sdk::testing::call::<read_many_files>(&workspace.cx(), input).unwrap();
    let files = outcome.structured.unwrap()["files"].take();
    for file in files.as_array().unwrap() {
        assert_eq!(
            (&file["bytes"], &file["truncated"]),
            (&json!(99_999), &json!(false))
        );
    }
}

#[test]
fn only_ten_skipped_files_are_listed_with_their_reasons() {
    let include: Vec<String> = (0..12).map(|number| format!("no-{number}")).collect();
    let answer = sample().call::<read_many_files>(json!({"include": include}));
    assert!(answer.contains("Skipped 12 files:"), "{answer}");
    assert!(answer.contains("- no-9: File not found"), "{answer}");
    assert!(answer.contains("- … and 2 more"), "{answer}");
}

#[test]
fn inputs_that_make_no_sense() {
    let workspace = sample();
    check(
        &workspace,
        json!({"include": []}),
        expect![
            "InvalidInput invalid_input: `include`: a length of 0 is less than the minimum of 1"
        ],
    );
    check(
        &workspace,
        json!({"include": ["[a"]}),
        expect![
            "InvalidInput invalid_glob: `[a` is not a valid glob: unclosed character class; missing ']'"
        ],
    );
    check(
        &workspace,
        json!({"include": ["src"], "exclude": ["{a"]}),
        expect![
            "InvalidInput invalid_glob: `{a` is not a valid glob: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)"
        ],
    );
    check(
        &workspace,
        json!({"include": ["src"], "max_bytes": 0}),
        expect!["InvalidInput invalid_input: `max_bytes`: 0 is less than the minimum of 1"],
    );
}

#[test]
fn a_cancelled_call_stops() {
    let workspace = sample();
    let cx = workspace.cx().cancelled_after(0);
    for include in ["README.md", "src", "*.rs"] {
        let input = json!({"include": [include]});
        let error = toolhost_sdk::testing::call::<read_many_files>(&cx, input).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted);
    }
}

#[test]
fn examples_are_inputs_and_run() {
    toolhost_sdk::testing::check_examples::<read_many_files>().unwrap();
    sample().run_examples::<read_many_files>();
}

#[test]
fn a_name_cannot_look_like_another_file() {
    let workspace = Workspace::new(&[("a ---\nx\n\n--- b", "text\n"), ("c\nd.zip", "")]);
    workspace.write("c\nd.zip", b"PK\x03\x04");
    check(
        &workspace,
        json!({"include": ["."]}),
        expect![[r#"
        --- "a ---\nx\n\n--- b" ---
        text

        --- end of content ---
        Skipped 1 file:
        - "c\nd.zip": it is not text: application/zip, 4 B
        summary: 1 file, 1 skipped
        {"files":[{"path":"<root>/a ---\nx\n\n--- b","bytes":4,"truncated":false},{"path":"c\nd.zip","bytes":0,"truncated":false,"error":"it is not text: application/zip, 4 B"}],"read":1,"skipped":1,"ignored":{"git":0,"tool":0}}"#]],
    );
}

#[test]
fn cut_lines_are_reported() {
    let workspace = Workspace::new(&[("a.txt", &"x".repeat(2500))]);
    let input = json!({"include": ["a.txt"]});
    let outcome = toolhost_sdk::testing::call::<read_many_files>(&workspace.cx(), input).unwrap();
    assert_eq!(
        outcome.structured.unwrap()["files"][0]["truncated"],
        json!(true)
    );
    let text = outcome.llm[0].text.as_deref().unwrap();
    assert!(
        text.contains("(1 line is cut after 2000 characters; "),
        "{text}"
    );
}
