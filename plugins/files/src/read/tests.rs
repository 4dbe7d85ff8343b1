//! Tests of `read_file`.

use std::fs;

use expect_test::{Expect, expect};

use super::*;
use crate::testing::Workspace;

/// The text for the model, the summary, and the structured output without values that vary.
fn check(workspace: &Workspace, input: Value, expected: Expect) {
    expected.assert_eq(&workspace.call::<read_file>(input));
}

// R-303, R-321, R-340, R-364
#[test]
fn a_text_file() {
    let workspace = Workspace::new(&[("src/a.rs", "fn a() {}\n\nfn b() {}\n")]);
    check(
        &workspace,
        json!({"path": "src/a.rs"}),
        expect![[r#"
             1→fn a() {}
             2→
             3→fn b() {}
        summary: 3 lines of src/a.rs
        {"path":"<root>/src/a.rs","content":"fn a() {}\n\nfn b() {}\n","size":21,"encoding":"utf-8","line_ending":"lf","start_line":1,"end_line":3,"total_lines":3,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/x-rust"}"#]],
    );
    check(
        &workspace,
        json!({"file_path": "src/a.rs", "start_line": 2, "end_line": 2, "line_numbers": false}),
        expect![[r#"


        (showing lines 2-2 of 3; 1 line left; to go on: read_file with path "src/a.rs" and offset 3)
        summary: lines 2-2 of 3 of src/a.rs
        {"path":"<root>/src/a.rs","content":"\n","size":21,"encoding":"utf-8","line_ending":"lf","start_line":2,"end_line":2,"total_lines":3,"truncated":true,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/x-rust"}"#]],
    );
}

#[test]
fn an_empty_file() {
    let workspace = Workspace::new(&[("a.txt", "")]);
    check(
        &workspace,
        json!({"path": "a.txt"}),
        expect![[r#"
        (file is empty)
        summary: 0 lines of a.txt
        {"path":"<root>/a.txt","content":"","size":0,"encoding":"utf-8","line_ending":"none","start_line":0,"end_line":0,"total_lines":0,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/plain"}"#]],
    );
}

#[test]
fn encodings() {
    let workspace = Workspace::new(&[]);
    workspace.write("u16.txt", b"\xff\xfeh\0i\0");
    workspace.write("latin.txt", b"caf\xe9\r\n");
    check(
        &workspace,
        json!({"path": "u16.txt"}),
        expect![[r#"
             1→hi
        summary: 1 line of u16.txt
        {"path":"<root>/u16.txt","content":"hi","size":6,"encoding":"utf-16le","line_ending":"none","start_line":1,"end_line":1,"total_lines":1,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/plain"}"#]],
    );
    check(
        &workspace,
        json!({"path": "latin.txt"}),
        expect![[r#"
             1→café

        (the file is not UTF-8 and shown as latin1, which is a guess: set `encoding` if it is wrong)
        summary: 1 line of latin.txt
        {"path":"<root>/latin.txt","content":"café\r\n","size":6,"encoding":"latin1","line_ending":"crlf","start_line":1,"end_line":1,"total_lines":1,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/plain"}"#]],
    );
    check(
        &workspace,
        json!({"path": "latin.txt", "encoding": "utf-8"}),
        expect![[r#"
                 1→caf�

            (bytes that are not UTF-8 are shown as U+FFFD, first in line 1)
            summary: 1 line of latin.txt
            {"path":"<root>/latin.txt","content":"caf�\r\n","size":6,"encoding":"utf-8","line_ending":"crlf","start_line":1,"end_line":1,"total_lines":1,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/plain"}"#]],
    );
    check(
        &workspace,
        json!({"path": "latin.txt", "encoding": "base64"}),
        expect![[r#"
        Y2Fm6Q0K
        summary: 6 B in base64 of latin.txt
        {"path":"<root>/latin.txt","content":"Y2Fm6Q0K","size":6,"encoding":"base64","line_ending":"none","start_line":0,"end_line":0,"total_lines":0,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/plain"}"#]],
    );
}

#[test]
fn utf8_with_an_invalid_byte_is_shown_as_utf8() {
    let workspace = Workspace::new(&[]);
    workspace.write("a.txt", b"caf\xc3\xa9\nb\xffd\n\xe2\x82\xac\n");
    check(
        &workspace,
        json!({"path": "a.txt"}),
        expect![[r#"
             1→café
             2→b�d
             3→€

        (bytes that are not UTF-8 are shown as U+FFFD, first in line 2)
        summary: 3 lines of a.txt
        {"path":"<root>/a.txt","content":"café\nb�d\n€\n","size":14,"encoding":"utf-8","line_ending":"lf","start_line":1,"end_line":3,"total_lines":3,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"text/plain"}"#]],
    );
}

#[test]
fn cut_lines_are_reported() {
    let workspace = Workspace::new(&[("a.txt", &format!("{}\nb\n", "x".repeat(2500)))]);
    let outcome =
        toolhost_sdk::testing::call::<read_file>(&workspace.cx(), json!({"path": "a.txt"}))
            .unwrap();
    let text = outcome.llm[0].text.as_deref().unwrap();
    let note = text.lines().last().unwrap();
    expect![[r#"(1 line is cut after 2000 characters; to see another part of it: grep with path "a.txt", output_mode "content" and a pattern for that part)"#]].assert_eq(note);
    let structured = outcome.structured.unwrap();
    assert_eq!(structured["truncated"], json!(true));
    let truncated = outcome.truncated.unwrap();
    expect!["Truncation { original_bytes: 2503, shown_bytes: 2002, saved_to: None }"]
        .assert_eq(&format!("{truncated:?}"));
}

#[test]
fn pictures_are_shown_and_other_binaries_refused() {
    let workspace = Workspace::new(&[]);
    workspace.write("a.png", b"\x89PNG\r\n\x1a\n1234");
    workspace.write("a.bin", b"\x7fELF\0\0");
    workspace.write("u16.txt", b"h\0i\0");
    check(
        &workspace,
        json!({"path": "a.png"}),
        expect![[r#"
        [image image/png a.png 12 bytes]
        summary: a.png: image/png, 12 B
        {"path":"<root>/a.png","content":"","size":12,"encoding":"binary","line_ending":"none","start_line":0,"end_line":0,"total_lines":0,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"image/png"}"#]],
    );
    check(
        &workspace,
        json!({"path": "a.bin"}),
        expect!["InvalidInput binary_file: a.bin is not text: application/x-executable, 6 B"],
    );
    check(
        &workspace,
        json!({"path": "u16.txt"}),
        expect!["InvalidInput binary_file: u16.txt is not text: application/octet-stream, 4 B"],
    );
    check(
        &workspace,
        json!({"path": "u16.txt", "encoding": "utf-16le"}),
        expect![[r#"
             1→hi
        summary: 1 line of u16.txt
        {"path":"<root>/u16.txt","content":"hi","size":4,"encoding":"utf-16le","line_ending":"none","start_line":1,"end_line":1,"total_lines":1,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"application/octet-stream"}"#]],
    );
}

#[test]
fn invalid_reads() {
    let workspace = Workspace::new(&[("src/main.rs", "")]);
    check(
        &workspace,
        json!({"path": "src"}),
        expect!["InvalidInput target_is_directory: src is a directory, not a file"],
    );
    check(
        &workspace,
        json!({"path": "src/man.rs"}),
        expect!["NotFound file_not_found: File not found: src/man.rs. Did you mean: src/main.rs?"],
    );
    check(
        &workspace,
        json!({"path": "/etc/passwd"}),
        expect![
            "Denied path_not_in_workspace: Permission denied: Access denied: /etc/passwd is outside the allowed paths (<root>)"
        ],
    );
    check(
        &workspace,
        json!({"path": "src/main.rs", "offset": 0}),
        expect!["InvalidInput invalid_input: `offset`: 0 is less than the minimum of 1"],
    );
    check(
        &workspace,
        json!({"path": "src/main.rs", "encoding": "ebcdic"}),
        expect![[
            r#"InvalidInput invalid_input: `encoding`: "ebcdic" is not one of ["auto","utf-8","utf-16le","utf-16be","latin1","base64"]"#
        ]],
    );
}

#[test]
fn a_huge_file_is_refused_and_a_large_one_comes_with_advice() {
    let workspace = Workspace::new(&[("large.txt", "")]);
    let file = fs::File::create(workspace.path("huge.txt")).unwrap();
    file.set_len(LIMIT.bytes + 1_000_000).unwrap();
    check(
        &workspace,
        json!({"path": "huge.txt"}),
        expect!["Failed file_too_large: huge.txt has 65.0 MB; the limit of read_file is 64.0 MB"],
    );
    workspace.write("large.txt", "word\n".repeat(2_200_000).as_bytes());
    let outcome =
        toolhost_sdk::testing::call::<read_file>(&workspace.cx(), json!({"path": "large.txt"}))
            .unwrap();
    let text = outcome.llm[0].text.as_deref().unwrap();
    let end = text.find("\n\n").unwrap();
    expect![[r#"


        (showing lines 1-2000 of 2200000; 2198000 lines left; to go on: read_file with path "large.txt" and offset 2001)

        (the file has 11.0 MB: search it with `grep`, or ask for a range)"#]].assert_eq(&text[end..]);
}

#[test]
fn a_cancelled_call_stops() {
    let workspace = Workspace::new(&[("a.txt", "a")]);
    let cx = workspace.cx().cancelled_after(0);
    let error =
        toolhost_sdk::testing::call::<read_file>(&cx, json!({"path": "a.txt"})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}

#[test]
fn examples_are_inputs() {
    toolhost_sdk::testing::check_examples::<read_file>().unwrap();
}

#[test]
fn pages_are_for_pdf_and_not_to_be_had() {
    let workspace = Workspace::new(&[("a.txt", "words")]);
    workspace.write("a.pdf", b"%PDF-1.7 ...");
    check(
        &workspace,
        json!({"path": "a.pdf", "pages": "1-5"}),
        expect![[
            r#"Unavailable pages_not_supported: pages "1-5" of a.pdf cannot be read: single PDF pages are not supported"#
        ]],
    );
    check(
        &workspace,
        json!({"path": "a.txt", "pages": "1-5"}),
        expect![
            "InvalidInput invalid_range: `pages` is for PDF files, but a.txt is text/plain; omit it"
        ],
    );
    check(
        &workspace,
        json!({"path": "a.pdf"}),
        expect!["InvalidInput binary_file: a.pdf is not text: application/pdf, 12 B"],
    );
}

#[test]
fn what_git_ignores_may_be_read_and_what_a_tool_ignore_file_names_not() {
    let workspace = Workspace::new(&[
        (".gitignore", "*.log\n"),
        (".geminiignore", "secrets/\n"),
        ("a.log", "x\n"),
        ("secrets/key", "x\n"),
    ]);
    let answer = workspace.call::<read_file>(json!({"path": "a.log"}));
    assert!(answer.starts_with("     1→x"), "{answer}");
    check(
        &workspace,
        json!({"path": "secrets/key"}),
        expect![
            "Denied permission_denied: Permission denied: Access denied: secrets/key is excluded by a `.toolignore`, `.geminiignore` or `.aiexclude` file"
        ],
    );
}

#[test]
fn r_340_r_364_names_and_spellings_of_other_systems_are_taken() {
    let workspace = Workspace::new(&[("a.txt", "one\ntwo\nthree\n")]);
    for input in [
        json!({"file_path": "a.txt", "offset": 2, "limit": 1}),
        json!({"absolute_path": "a.txt", "start_line": 2, "end_line": 2}),
        json!({"path": "a.txt", "encoding": "utf-8", "offset": 2, "limit": 1}),
    ] {
        let answer = workspace.call::<read_file>(input);
        assert!(answer.starts_with("     2→two\n"), "{answer}");
    }
}

const NOTEBOOK: &str = r##"{
 "cells": [
  {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Title\n", "words"]},
  {"cell_type": "code", "execution_count": 3, "id": "b2", "metadata": {}, "source": "print(1)\n1/0", "outputs": [
   {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
   {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo=\n", "text/plain": ["<Figure>"]}, "metadata": {}},
   {"output_type": "execute_result", "data": {"text/html": "<b>1</b>", "text/plain": ["1"]}, "metadata": {}},
   {"output_type": "execute_result", "data": {"application/x": {}}, "metadata": {}},
   {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["\u001b[0;31mZero\u001b[0m"]}
  ]},
  {"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [], "source": []}
 ],
 "metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4, "nbformat_minor": 5
}
"##;

#[test]
fn a_notebook_comes_cell_by_cell_with_ids_outputs_and_pictures() {
    let workspace = Workspace::new(&[("a.ipynb", NOTEBOOK)]);
    check(
        &workspace,
        json!({"notebook_path": "a.ipynb"}),
        expect![[r#"
            (notebook of 3 cells, python)
            --- cell 0: markdown, cell_id "intro" ---
            # Title
            words
            --- cell 1: code, run 3, cell_id "b2" ---
            print(1)
            1/0
            --- output of cell 1 (stdout) ---
            1
            --- output of cell 1 ---
            [image 1: image/png, 8 B]
            --- output of cell 1 ---
            1
            --- output of cell 1 ---
            [application/x]
            --- output of cell 1 (error) ---
            Zero
            --- cell 2: code, cell_id "cell-2" ---
            [image image/png cell-1-picture-1.png 8 bytes]
            summary: 18 lines of a.ipynb
            {"path":"<root>/a.ipynb","content":"(notebook of 3 cells, python)\n--- cell 0: markdown, cell_id \"intro\" ---\n# Title\nwords\n--- cell 1: code, run 3, cell_id \"b2\" ---\nprint(1)\n1/0\n--- output of cell 1 (stdout) ---\n1\n--- output of cell 1 ---\n[image 1: image/png, 8 B]\n--- output of cell 1 ---\n1\n--- output of cell 1 ---\n[application/x]\n--- output of cell 1 (error) ---\nZero\n--- cell 2: code, cell_id \"cell-2\" ---\n","size":929,"encoding":"utf-8","line_ending":"lf","start_line":1,"end_line":18,"total_lines":18,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"application/x-ipynb+json"}"#]],
    );
    // A page contains only the images of its lines.
    check(
        &workspace,
        json!({"path": "a.ipynb", "limit": 2}),
        expect![[r#"
            (notebook of 3 cells, python)
            --- cell 0: markdown, cell_id "intro" ---

            (showing lines 1-2 of 18; 16 lines left; to go on: read_file with path "a.ipynb" and offset 3)
            summary: lines 1-2 of 18 of a.ipynb
            {"path":"<root>/a.ipynb","content":"(notebook of 3 cells, python)\n--- cell 0: markdown, cell_id \"intro\" ---\n","size":929,"encoding":"utf-8","line_ending":"lf","start_line":1,"end_line":2,"total_lines":18,"truncated":true,"sha256":"<hash>","mtime_ms":"<time>","media_type":"application/x-ipynb+json"}"#]],
    );
    let raw = workspace.call::<read_file>(json!({"path": "a.ipynb", "encoding": "utf-8"}));
    assert!(raw.starts_with("     1→{\n     2→ \"cells\": [\n"), "{raw}");
}

#[test]
fn a_broken_notebook_is_shown_as_text() {
    let workspace = Workspace::new(&[("a.ipynb", "{\n \"cells\": [\n"), ("b.ipynb", "{}")]);
    check(
        &workspace,
        json!({"path": "a.ipynb"}),
        expect![[r#"
             1→{
             2→ "cells": [

        (a.ipynb is not a notebook: it is not valid JSON: EOF while parsing a list at line 3 column 0; it is shown as text)
        summary: 2 lines of a.ipynb
        {"path":"<root>/a.ipynb","content":"{\n \"cells\": [\n","size":14,"encoding":"utf-8","line_ending":"lf","start_line":1,"end_line":2,"total_lines":2,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"application/x-ipynb+json"}"#]],
    );
    check(
        &workspace,
        json!({"path": "b.ipynb"}),
        expect![[r#"
             1→{}

        (b.ipynb is not a notebook: it has no list `cells`; it is shown as text)
        summary: 1 line of b.ipynb
        {"path":"<root>/b.ipynb","content":"{}","size":2,"encoding":"utf-8","line_ending":"none","start_line":1,"end_line":1,"total_lines":1,"truncated":false,"sha256":"<hash>","mtime_ms":"<time>","media_type":"application/x-ipynb+json"}"#]],
    );
}

#[test]
fn examples_run() {
    let log = "line\n".repeat(300);
    let files = [("src/main.rs", log.as_str()), ("build.log", &log)];
    Workspace::new(&files).run_examples::<read_file>();
}
