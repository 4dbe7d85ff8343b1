//! Errors of `write_file`, which prevent data loss.

use super::*;

#[test]
fn arguments_that_were_cut_off_are_no_empty_write() {
    let workspace = Workspace::new(&[("a.txt", "one\n")]);
    check(
        &workspace,
        json!({"path": "a.txt"}),
        expect!["InvalidInput invalid_input: `content` is missing"],
    );
    check(
        &workspace,
        json!({"path": "a.txt", "content": null}),
        expect!["InvalidInput invalid_input: `content`: null is not of type string"],
    );
    check(
        &workspace,
        json!({"path": "a.txt", "mode": "append"}),
        expect!["InvalidInput invalid_input: `content` is missing"],
    );
    check_bytes(&workspace, "a.txt", b"one\n");
}

#[test]
fn emptying_a_file_has_to_be_meant() {
    let workspace = Workspace::new(&[("a.txt", "one\n"), ("empty.txt", "")]);
    check(
        &workspace,
        json!({"path": "a.txt", "content": " \n"}),
        expect![
            "InvalidInput would_empty_file: this would empty a.txt; set `allow_empty` if intended"
        ],
    );
    check_bytes(&workspace, "a.txt", b"one\n");
    check(
        &workspace,
        json!({"path": "a.txt", "content": "", "allow_empty": true}),
        expect![[r#"
            Overwrote a.txt (4 B → 0 B, +0 -1 lines)
            summary: Overwrote a.txt (4 B → 0 B, +0 -1 lines)
            display:
            --- a/a.txt
            +++ b/a.txt
            @@ -1 +0,0 @@
            -one

            {"path":"<root>/a.txt","size":0,"bytesWritten":0,"created":false,"changed":true,"encoding":"utf-8","line_ending":"none","diff_stat":{"added":0,"removed":1},"sha256":"<hash>"}"#]],
    );
    check_bytes(&workspace, "a.txt", b"");
    check(
        &workspace,
        json!({"path": "new.txt", "content": ""}),
        expect![[r#"
            Created new.txt (0 B)
            summary: Created new.txt (0 B)
            {"path":"<root>/new.txt","size":0,"bytesWritten":0,"created":true,"changed":true,"encoding":"utf-8","line_ending":"none","diff_stat":{"added":0,"removed":0},"sha256":"<hash>"}"#]],
    );
}

#[test]
fn a_stale_hash_is_refused() {
    let workspace = Workspace::new(&[("a.txt", "one\n")]);
    let stale = "0".repeat(64);
    check(
        &workspace,
        json!({"path": "a.txt", "content": "x", "expected_sha256": stale}),
        expect![
            "Failed edit_stale: a.txt changed since it was read: its sha256 is not 0000000000000000000000000000000000000000000000000000000000000000"
        ],
    );
    check(
        &workspace,
        json!({"path": "b.txt", "content": "x", "expected_sha256": stale}),
        expect!["NotFound file_not_found: File not found: b.txt. Did you mean: a.txt?"],
    );
    check(
        &workspace,
        json!({"path": "a.txt", "content": "x", "expected_sha256": "abc"}),
        expect![
            "InvalidInput invalid_input: `expected_sha256`: a length of 3 is less than the minimum of 64"
        ],
    );
    let hash = sha256(b"one\n").to_uppercase();
    check(
        &workspace,
        json!({"path": "a.txt", "content": "x", "expected_sha256": hash}),
        expect![[r#"
            Overwrote a.txt (4 B → 1 B, +1 -1 lines)
                 1→x
            summary: Overwrote a.txt (4 B → 1 B, +1 -1 lines)
            display:
            --- a/a.txt
            +++ b/a.txt
            @@ -1 +1 @@
            -one
            +x
            \ No newline at end of file

            {"path":"<root>/a.txt","size":1,"bytesWritten":1,"created":false,"changed":true,"encoding":"utf-8","line_ending":"none","diff_stat":{"added":1,"removed":1},"sha256":"<hash>"}"#]],
    );
}

#[test]
fn mistakes_of_models_are_refused() {
    let workspace = Workspace::new(&[("a.rs", "fn a() {}\n")]);
    check(
        &workspace,
        json!({"path": "a.rs", "content": "// ... existing code ...\n"}),
        expect![[
            r#"InvalidInput content_has_artefacts: line 1 of `content` is a placeholder for omitted text: "// ... existing code ..."; write the whole content"#
        ]],
    );
    check_bytes(&workspace, "a.rs", b"fn a() {}\n");
}

#[test]
fn invalid_writes() {
    let workspace = Workspace::new(&[("src/a.rs", "")]);
    check(
        &workspace,
        json!({"path": "src", "content": "x"}),
        expect!["InvalidInput target_is_directory: src is a directory, not a file"],
    );
    check(
        &workspace,
        json!({"path": "/etc/motd", "content": "x"}),
        expect![
            "Denied path_not_in_workspace: Permission denied: Access denied: /etc/motd is outside the allowed paths (<root>)"
        ],
    );
    let cx = Context::test().with_root(workspace.path("").to_str().unwrap(), "ro");
    let error =
        toolhost_sdk::testing::call::<write_file>(&cx, json!({"path": "a", "content": "x"}))
            .unwrap_err();
    expect!["Permission denied: Access denied: a is in <root>/, which is read-only"]
        .assert_eq(&workspace.normalize(&error.to_string()));
}
