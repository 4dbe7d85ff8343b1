//! Tests of `write_file`.

use expect_test::{Expect, expect};

use super::*;
use crate::testing::Workspace;

fn check(workspace: &Workspace, input: Value, expected: Expect) {
    expected.assert_eq(&workspace.call::<write_file>(input));
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

mod refusals;

// R-304, R-322, R-341, R-365
#[test]
fn a_new_file_with_its_directories() {
    let workspace = Workspace::new(&[]);
    check(
        &workspace,
        json!({"path": "a/b/c.txt", "content": "one\ntwo\n"}),
        expect![[r#"
            Created a/b/c.txt (8 B)
            summary: Created a/b/c.txt (8 B)
            display:
            --- /dev/null
            +++ b/a/b/c.txt
            @@ -0,0 +1,2 @@
            +one
            +two

            {"path":"<root>/a/b/c.txt","size":8,"bytesWritten":8,"created":true,"changed":true,"encoding":"utf-8","line_ending":"lf","diff_stat":{"added":2,"removed":0},"sha256":"<hash>"}"#]],
    );
    check_bytes(&workspace, "a/b/c.txt", b"one\ntwo\n");
    check(
        &workspace,
        json!({"path": "x/y.txt", "content": "a", "create_dirs": false}),
        expect![
            "NotFound directory_not_found: the directory of x/y.txt does not exist; set `create_dirs` to create it"
        ],
    );
    check(
        &workspace,
        json!({"path": "a/b/c.txt/d", "content": "a"}),
        expect![
            "InvalidInput path_is_not_a_directory: cannot create a/b/c.txt/d: a part of its path is a file"
        ],
    );
}

#[test]
fn an_existing_file() {
    let workspace = Workspace::new(&[("a.txt", "one\ntwo\nthree\n")]);
    check(
        &workspace,
        json!({"path": "a.txt", "content": "one\n2\nthree\n"}),
        expect![[r#"
            Overwrote a.txt (14 B → 12 B, +1 -1 lines)
                 1→one
                 2→2
                 3→three
            summary: Overwrote a.txt (14 B → 12 B, +1 -1 lines)
            display:
            --- a/a.txt
            +++ b/a.txt
            @@ -1,3 +1,3 @@
             one
            -two
            +2
             three

            {"path":"<root>/a.txt","size":12,"bytesWritten":12,"created":false,"changed":true,"encoding":"utf-8","line_ending":"lf","diff_stat":{"added":1,"removed":1},"sha256":"<hash>"}"#]],
    );
    check(
        &workspace,
        json!({"path": "a.txt", "content": "one\n2\nthree\n"}),
        expect![[r#"
            No change: a.txt already has this content. Continue with the next step.
            summary: No change: a.txt already has this content. Continue with the next step.
            {"path":"<root>/a.txt","size":12,"bytesWritten":0,"created":false,"changed":false,"encoding":"utf-8","line_ending":"lf","diff_stat":{"added":0,"removed":0},"sha256":"<hash>"}"#]],
    );
    check(
        &workspace,
        json!({"path": "a.txt", "content": "x", "mode": "create"}),
        expect![[
            r#"InvalidInput attempt_to_create_existing_file: a.txt exists; set mode "overwrite" to replace it"#
        ]],
    );
    check(
        &workspace,
        json!({"path": "a.txt", "content": "1\n"}),
        expect![[r#"
            Overwrote a.txt (12 B → 2 B, +1 -3 lines)
                 1→1
            summary: Overwrote a.txt (12 B → 2 B, +1 -3 lines)
            display:
            --- a/a.txt
            +++ b/a.txt
            @@ -1,3 +1 @@
            -one
            -2
            -three
            +1

            {"path":"<root>/a.txt","size":2,"bytesWritten":2,"created":false,"changed":true,"encoding":"utf-8","line_ending":"lf","diff_stat":{"added":1,"removed":3},"sha256":"<hash>"}"#]],
    );
    check_bytes(&workspace, "a.txt", b"1\n");
}

#[test]
fn appending() {
    let workspace = Workspace::new(&[("a.txt", "one\n")]);
    check(
        &workspace,
        json!({"path": "a.txt", "content": "two\n", "mode": "append"}),
        expect![[r#"
            Appended 4 B to a.txt (now 8 B)
                 1→one
                 2→two
            summary: Appended 4 B to a.txt (now 8 B)
            display:
            --- a/a.txt
            +++ b/a.txt
            @@ -1 +1,2 @@
             one
            +two

            {"path":"<root>/a.txt","size":8,"bytesWritten":4,"created":false,"changed":true,"encoding":"utf-8","line_ending":"lf","diff_stat":{"added":1,"removed":0},"sha256":"<hash>"}"#]],
    );
    check(
        &workspace,
        json!({"path": "b.txt", "content": "one\n", "mode": "append"}),
        expect![[r#"
            Created b.txt (4 B)
            summary: Created b.txt (4 B)
            display:
            --- /dev/null
            +++ b/b.txt
            @@ -0,0 +1 @@
            +one

            {"path":"<root>/b.txt","size":4,"bytesWritten":4,"created":true,"changed":true,"encoding":"utf-8","line_ending":"lf","diff_stat":{"added":1,"removed":0},"sha256":"<hash>"}"#]],
    );
    check_bytes(&workspace, "a.txt", b"one\ntwo\n");
}

#[test]
fn text_is_appended_only_in_the_encoding_of_the_file() {
    let workspace = Workspace::new(&[]);
    for (old, encoding, found) in [
        ("é\n".as_bytes(), "latin1", "utf-8"),
        (b"\xff\xfea\0", "utf-16be", "utf-16le"),
        (b"abcd", "utf-16le", "utf-8"),
    ] {
        workspace.write("a.txt", old);
        let input =
            json!({"path": "a.txt", "content": "é\n", "mode": "append", "encoding": encoding});
        let answer = workspace.call::<write_file>(input);
        let expected = format!(
            "InvalidInput encoding_mismatch: a.txt is {found}, not {encoding}; omit `encoding`"
        );
        assert_eq!(answer, expected);
        check_bytes(&workspace, "a.txt", old);
    }
    // Overwriting converts the file.
    workspace.call::<write_file>(json!({"path": "a.txt", "content": "é", "encoding": "utf-16be"}));
    check_bytes(&workspace, "a.txt", b"\xfe\xff\0\xe9");
}

#[test]
fn text_is_appended_to_large_files_without_decoding_them() {
    let workspace = Workspace::new(&[]);
    let input = json!({"path": "a.txt", "content": "é\n", "mode": "append"});
    let old = "\u{feff}ü\r\n".repeat(3_000_000);
    workspace.write("a.txt", old.as_bytes());
    check(
        &workspace,
        input.clone(),
        expect![[r#"
            Appended 4 B to a.txt (now 21.0 MB)
            summary: Appended 4 B to a.txt (now 21.0 MB)
            {"path":"<root>/a.txt","size":21000004,"bytesWritten":4,"created":false,"changed":true,"encoding":"utf-8","line_ending":"crlf","sha256":"<hash>"}"#]],
    );
    assert_eq!(
        fs::read(workspace.path("a.txt")).unwrap(),
        format!("{old}é\r\n").as_bytes()
    );
    workspace.write("a.txt", &b"\xe9\n".repeat(11_000_000));
    check(
        &workspace,
        input.clone(),
        expect![
            "Failed file_too_large: a.txt has 22.0 MB and is not UTF-8; the limit of appending text to such a file is 20.0 MB"
        ],
    );
    let file = fs::File::create(workspace.path("a.txt")).unwrap();
    file.set_len(100_000_001).unwrap();
    check(
        &workspace,
        input,
        expect![[
            r#"Failed file_too_large: a.txt has 100.0 MB; the limit of write_file with mode "append" is 100.0 MB"#
        ]],
    );
}

#[test]
fn mark_encoding_and_line_endings_stay() {
    let workspace = Workspace::new(&[]);
    let table: [(&str, &[u8], &[u8]); 5] = [
        ("crlf.txt", b"a\r\nb\r\n", b"x\r\ny\r\n"),
        ("mixed.txt", b"a\r\nb\n", b"x\ny\n"),
        ("mark.txt", b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfx\ny\n"),
        (
            "u16.txt",
            b"\xff\xfea\0\r\0\n\0",
            b"\xff\xfex\0\r\0\n\0y\0\r\0\n\0",
        ),
        ("empty.txt", b"", b"x\ny\n"),
    ];
    for (path, old, new) in table {
        workspace.write(path, old);
        workspace.call::<write_file>(json!({"path": path, "content": "x\ny\n"}));
        check_bytes(&workspace, path, new);
    }
}

#[test]
fn a_file_in_an_unknown_encoding_is_not_guessed_at() {
    let workspace = Workspace::new(&[]);
    workspace.write("a.txt", b"caf\xe9");
    check(
        &workspace,
        json!({"path": "a.txt", "content": "th\u{e9}"}),
        expect![[
            r#"InvalidInput encoding_unknown: a.txt is not UTF-8; set `encoding`, for example to "latin1""#
        ]],
    );
    check(
        &workspace,
        json!({"path": "a.txt", "content": "th\u{e9}", "encoding": "latin1"}),
        expect![[r#"
            Overwrote a.txt (4 B → 3 B, +1 -1 lines)
                 1→thé
            summary: Overwrote a.txt (4 B → 3 B, +1 -1 lines)
            display:
            --- a/a.txt
            +++ b/a.txt
            @@ -1 +1 @@
            -café
            \ No newline at end of file
            +thé
            \ No newline at end of file

            {"path":"<root>/a.txt","size":3,"bytesWritten":3,"created":false,"changed":true,"encoding":"latin1","line_ending":"none","diff_stat":{"added":1,"removed":1},"sha256":"<hash>"}"#]],
    );
    check_bytes(&workspace, "a.txt", b"th\xe9");
    check(
        &workspace,
        json!({"path": "a.txt", "content": "5 €", "encoding": "latin1"}),
        expect![[
            r#"InvalidInput encoding_mismatch: latin1 has no character '€'; remove it or set `encoding` to "utf-8""#
        ]],
    );
    check(
        &workspace,
        json!({"path": "a.txt", "content": "th\u{e9}", "encoding": "utf-8", "mode": "append"}),
        expect![[
            r#"InvalidInput encoding_mismatch: a.txt is not valid utf-8; set another `encoding`, for example "latin1""#
        ]],
    );
    workspace
        .call::<write_file>(json!({"path": "a.txt", "content": "th\u{e9}", "encoding": "utf-8"}));
    check_bytes(&workspace, "a.txt", "th\u{e9}".as_bytes());
    workspace.call::<write_file>(json!({"path": "b.txt", "content": "h", "encoding": "utf-16le"}));
    check_bytes(&workspace, "b.txt", b"\xff\xfeh\0");
}

#[test]
fn bytes() {
    let workspace = Workspace::new(&[]);
    check(
        &workspace,
        json!({"path": "a.bin", "content": "AAEC", "encoding": "base64"}),
        expect![[r#"
            Created a.bin (3 B)
            summary: Created a.bin (3 B)
            {"path":"<root>/a.bin","size":3,"bytesWritten":3,"created":true,"changed":true,"encoding":"base64","line_ending":"none","sha256":"<hash>"}"#]],
    );
    check(
        &workspace,
        json!({"path": "a.bin", "content": "/w==", "encoding": "base64", "mode": "append"}),
        expect![[r#"
            Appended 1 B to a.bin (now 4 B)
            summary: Appended 1 B to a.bin (now 4 B)
            {"path":"<root>/a.bin","size":4,"bytesWritten":1,"created":false,"changed":true,"encoding":"base64","line_ending":"none","sha256":"<hash>"}"#]],
    );
    check_bytes(&workspace, "a.bin", b"\0\x01\x02\xff");
    check(
        &workspace,
        json!({"path": "a.bin", "content": "x", "mode": "append"}),
        expect![[
            r#"InvalidInput binary_file: a.bin is not text; append bytes with encoding "base64""#
        ]],
    );
    check(
        &workspace,
        json!({"path": "a.bin", "content": "x"}),
        expect![[r#"
            Overwrote a.bin (4 B → 1 B)
            summary: Overwrote a.bin (4 B → 1 B)
            {"path":"<root>/a.bin","size":1,"bytesWritten":1,"created":false,"changed":true,"encoding":"utf-8","line_ending":"none","sha256":"<hash>"}"#]],
    );
    check(
        &workspace,
        json!({"path": "a.bin", "content": "no!", "encoding": "base64"}),
        expect![
            "InvalidInput invalid_base64: `content` is not base64: Invalid symbol 33, offset 2"
        ],
    );
}

#[test]
fn r_322_lines_around_a_change_are_returned() {
    let lines: Vec<String> = (1..=40).map(|line| format!("line {line}\n")).collect();
    let old = lines.concat();
    let new = old.replace("line 3\n", "three\n").replace("line 30\n", "");
    let workspace = Workspace::new(&[("a.txt", &old)]);
    let answer = workspace.call::<write_file>(json!({"path": "a.txt", "content": new}));
    let end = answer.find("\nsummary").unwrap();
    expect![[r#"
        Overwrote a.txt (311 B → 302 B, +1 -2 lines)
             1→line 1
             2→line 2
             3→three
             4→line 4
             5→line 5
             6→line 6
             7→line 7
             8→line 8
           ...
            25→line 25
            26→line 26
            27→line 27
            28→line 28
            29→line 29
            30→line 31
            31→line 32
            32→line 33
            33→line 34
            34→line 35"#]]
    .assert_eq(&answer[..end]);
}

#[test]
fn unreadable_content_is_not_shown() {
    let workspace = Workspace::new(&[(".toolignore", "secret\n"), ("secret", "key\n")]);
    let input = json!({"path": "secret", "content": "x\n", "mode": "append"});
    let answer = workspace.call::<write_file>(input);
    let (text, _) = answer.split_once("\nsummary").unwrap();
    assert_eq!(text, "Appended 2 B to secret (now 6 B)");
}

#[test]
fn a_new_file_has_the_line_breaks_of_gitattributes() {
    let workspace = Workspace::new(&[(".gitattributes", "*.bat eol=crlf\n"), ("old.bat", "a\n")]);
    for path in ["new.bat", "new.txt", "old.bat"] {
        workspace.call::<write_file>(json!({"path": path, "content": "x\ny\n"}));
    }
    check_bytes(&workspace, "new.bat", b"x\r\ny\r\n");
    check_bytes(&workspace, "new.txt", b"x\ny\n");
    check_bytes(&workspace, "old.bat", b"x\ny\n");
}

#[cfg(unix)]
#[test]
fn mode_and_links_stay() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let workspace = Workspace::new(&[("run.sh", "#!/bin/sh\n")]);
    fs::set_permissions(workspace.path("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("run.sh", workspace.path("link")).unwrap();
    symlink("nowhere", workspace.path("dangling")).unwrap();
    workspace.call::<write_file>(json!({"path": "link", "content": "#!/bin/bash\n"}));
    check_bytes(&workspace, "run.sh", b"#!/bin/bash\n");
    assert_eq!(
        fs::metadata(workspace.path("run.sh"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o750
    );
    assert!(
        fs::symlink_metadata(workspace.path("link"))
            .unwrap()
            .is_symlink()
    );
    check(
        &workspace,
        json!({"path": "dangling", "content": "x"}),
        expect![
            "InvalidInput dangling_link: dangling is a dangling symbolic link; remove it or write its target"
        ],
    );
}

#[test]
fn a_large_file_is_written_without_a_diff() {
    let workspace = Workspace::new(&[("a.txt", &"old\n".repeat(200_000))]);
    check(
        &workspace,
        json!({"path": "a.txt", "content": "new\n".repeat(200_000)}),
        expect![[r#"
            Overwrote a.txt (800.0 KB → 800.0 KB)
            summary: Overwrote a.txt (800.0 KB → 800.0 KB)
            {"path":"<root>/a.txt","size":800000,"bytesWritten":800000,"created":false,"changed":true,"encoding":"utf-8","line_ending":"lf","sha256":"<hash>"}"#]],
    );
}

#[test]
fn examples_are_inputs_and_run() {
    toolhost_sdk::testing::check_examples::<write_file>().unwrap();
    Workspace::new(&[]).run_examples::<write_file>();
}
