//! Tests of `apply_patch`.

use std::fs;

use expect_test::{Expect, expect};
use toolhost_sdk::testing;

use super::*;
use crate::testing::Workspace;

fn check(workspace: &Workspace, patch: &str, expected: Expect) {
    expected.assert_eq(&workspace.call::<apply_patch>(json!({"patch": patch})));
}

fn check_files(workspace: &Workspace, files: &[(&str, Option<&str>)]) {
    for (path, content) in files {
        let is = fs::read_to_string(workspace.path(path)).ok();
        assert_eq!(is.as_deref(), *content, "{path}");
    }
}

fn sample() -> Workspace {
    Workspace::new(&[
        ("src/a.rs", "fn a() {\n    1\n}\n\nfn b() {\n    1\n}\n"),
        ("src/b.rs", "one\r\ntwo\r\n"),
        ("old.txt", "gone\n"),
    ])
}

#[test]
fn files_are_added_changed_moved_and_deleted_in_one_go() {
    let workspace = sample();
    check(
        &workspace,
        "*** Begin Patch
*** Add File: docs/new.md
+# New
+
+text
*** Update File: src/a.rs
@@ fn b() {
-    1
+    2
 }
*** Update File: src/b.rs
*** Move to: src/c/c.rs
 one
-two
+2
+3
*** Delete File: old.txt
*** End Patch
",
        expect![[r#"
            Patched 4 files, +6 -3 lines
            A docs/new.md +3 -0
            M src/a.rs +1 -1
            R src/b.rs → src/c/c.rs +2 -1
            D old.txt +0 -1
            docs/new.md:
                 1→# New
                 2→
                 3→text
            src/a.rs:
                 2→    1
                 3→}
                 4→
                 5→fn b() {
                 6→    2
                 7→}
            src/c/c.rs:
                 1→one
                 2→2
                 3→3
            summary: Patched 4 files, +6 -3 lines
            {"files":[{"path":"<root>/docs/new.md","change":"added","diff_stat":{"added":3,"removed":0},"sha256":"<hash>"},{"path":"<root>/src/a.rs","change":"updated","diff_stat":{"added":1,"removed":1},"sha256":"<hash>"},{"path":"<root>/src/c/c.rs","change":"moved","moved_from":"<root>/src/b.rs","diff_stat":{"added":2,"removed":1},"sha256":"<hash>"},{"path":"<root>/old.txt","change":"deleted","diff_stat":{"added":0,"removed":1}}],"dry_run":false}"#]],
    );
    check_files(
        &workspace,
        &[
            ("docs/new.md", Some("# New\n\ntext\n")),
            (
                "src/a.rs",
                Some("fn a() {\n    1\n}\n\nfn b() {\n    2\n}\n"),
            ),
            ("src/b.rs", None),
            ("src/c/c.rs", Some("one\r\n2\r\n3\r\n")),
            ("old.txt", None),
        ],
    );
}

#[test]
fn a_unified_difference_does_as_well() {
    let workspace = sample();
    check(
        &workspace,
        "diff --git a/src/a.rs b/src/a.rs
--- a/src/a.rs
+++ b/src/a.rs
@@ -4,4 +4,4 @@

 fn b() {
-    1
+    2
 }
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
",
        expect![[r#"
            Patched 2 files, +1 -2 lines
            M src/a.rs +1 -1
            D old.txt +0 -1
            src/a.rs:
                 2→    1
                 3→}
                 4→
                 5→fn b() {
                 6→    2
                 7→}
            summary: Patched 2 files, +1 -2 lines
            {"files":[{"path":"<root>/src/a.rs","change":"updated","diff_stat":{"added":1,"removed":1},"sha256":"<hash>"},{"path":"<root>/old.txt","change":"deleted","diff_stat":{"added":0,"removed":1}}],"dry_run":false}"#]],
    );
    check_files(&workspace, &[("old.txt", None)]);
}

#[test]
fn a_patch_that_does_not_fit_changes_nothing() {
    let add = "*** Add File: new.txt\n+new\n";
    let table = [
        (
            "*** Update File: src/a.rs\n-    3\n+    4\n",
            expect![
                "Failed edit_no_occurrence_found: 0 matches for the old lines of hunk 1 (line 5 of the patch) in src/a.rs, and no similar lines"
            ],
        ),
        (
            "*** Update File: src/a.rs\n-fn b() {\n+fn c() {\n@@\n-fn a() {\n+fn d() {\n",
            expect![
                "InvalidInput edit_preparation_failure: hunk 2 (line 7 of the patch) matches line 1 of src/a.rs, before the previous hunk; put the hunks in the order of the file"
            ],
        ),
        (
            "*** Update File: src/a.rs\n-    1\n+    2\n",
            expect![
                "Failed edit_expected_occurrence_mismatch: hunk 1 (line 5 of the patch) has 2 matches in src/a.rs, at lines 2, 6"
            ],
        ),
        (
            "*** Update File: src/a.rs\n@@ fn c() {\n-    1\n+    2\n",
            expect![
                "Failed edit_no_occurrence_found: 0 matches for the `@@` line of hunk 1 (line 5 of the patch) in src/a.rs, and no similar lines"
            ],
        ),
        (
            "*** Update File: src/d.rs\n-    3\n+    4\n",
            expect![
                "NotFound file_not_found: File not found: src/d.rs. Did you mean: src/a.rs, src/b.rs?"
            ],
        ),
        (
            "*** Update File: src\n-    3\n+    4\n",
            expect!["InvalidInput target_is_directory: src is a directory, not a file"],
        ),
        (
            "*** Update File: src/a.rs\n*** Move to: old.txt\n-fn a() {\n+fn d() {\n",
            expect![
                "InvalidInput attempt_to_create_existing_file: old.txt exists already; change it with `*** Update File:`, or delete it first with a separate patch"
            ],
        ),
        (
            "*** Update File: src/a.rs\n*** Move to: ../../a.rs\n-fn a() {\n+fn d() {\n",
            expect![
                "Denied path_not_in_workspace: Permission denied: Access denied: ../../a.rs is outside the allowed paths (<root>)"
            ],
        ),
        (
            "*** Update File: src/d.rs\n*** Move to: e.rs\n",
            expect![
                "NotFound file_not_found: File not found: src/d.rs. Did you mean: src/a.rs, src/b.rs?"
            ],
        ),
        (
            "*** Add File: old.txt\n+x\n",
            expect![
                "InvalidInput attempt_to_create_existing_file: old.txt exists already; change it with `*** Update File:`, or delete it first with a separate patch"
            ],
        ),
        (
            "*** Add File: new.txt\n+x\n",
            expect![
                "InvalidInput edit_preparation_failure: line 4 of the patch changes new.txt again; merge it with the earlier part"
            ],
        ),
        (
            "*** Delete File: none.txt\n",
            expect!["NotFound file_not_found: File not found: none.txt"],
        ),
        (
            "*** Delete File: src\n",
            expect!["InvalidInput target_is_directory: src is a directory, not a file"],
        ),
        (
            "*** Update File: src/a.rs\n@@ fn b() {\n-    1\n+    // ... rest of code ...\n",
            expect![[
                r#"InvalidInput content_has_artefacts: line 1 of the added lines is a placeholder for omitted text: "// ... rest of code ..."; write the whole content"#
            ]],
        ),
        (
            "*** Update File: nb.ipynb\n-    1\n+    2\n",
            expect!["NotFound file_not_found: File not found: nb.ipynb"],
        ),
        (
            "*** Delete File: old.txt\n*** Update File: old.txt\n-gone\n+here\n",
            expect![
                "InvalidInput edit_preparation_failure: line 5 of the patch changes old.txt again; merge it with the earlier part"
            ],
        ),
    ];
    for (part, expected) in table {
        let workspace = sample();
        check(
            &workspace,
            &format!("*** Begin Patch\n{add}{part}*** End Patch"),
            expected,
        );
        check_files(
            &workspace,
            &[("new.txt", None), ("old.txt", Some("gone\n"))],
        );
        check_files(
            &workspace,
            &[(
                "src/a.rs",
                Some("fn a() {\n    1\n}\n\nfn b() {\n    1\n}\n"),
            )],
        );
    }
    let workspace = sample();
    check(
        &workspace,
        "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-other\n",
        expect!["Failed edit_stale: old.txt differs from what the patch deletes"],
    );
    check(
        &workspace,
        "*** Begin Patch\n*** Update File: old.txt\n gone\n*** End Patch",
        expect![
            "InvalidInput edit_no_change: the patch changes nothing: the files already have this content"
        ],
    );
    check_files(&workspace, &[("old.txt", Some("gone\n"))]);
}

#[test]
fn a_notebook_is_patched_as_long_as_it_stays_one() {
    let notebook = "{\"cells\": [],\n \"nbformat\": 4,\n \"metadata\": {}}\n";
    let workspace = Workspace::new(&[("nb.ipynb", notebook)]);
    let patch = |line: &str| {
        format!(
            "*** Begin Patch\n*** Update File: nb.ipynb\n- \"nbformat\": 4,\n+{line}\n*** End Patch"
        )
    };
    check(
        &workspace,
        &patch(" \"nbformat\": 4"),
        expect![
            "InvalidInput edit_preparation_failure: nb.ipynb is a notebook, which text edits could break; use notebook_edit"
        ],
    );
    check_files(&workspace, &[("nb.ipynb", Some(notebook))]);
    workspace
        .call::<apply_patch>(json!({"patch": patch(" \"nbformat\": 4, \"nbformat_minor\": 4,")}));
    let patched = notebook.replace("4,", "4, \"nbformat_minor\": 4,");
    check_files(&workspace, &[("nb.ipynb", Some(&patched))]);
}

#[test]
fn several_parts_about_one_file_follow_one_another() {
    let workspace = sample();
    let patch = "*** Begin Patch\n*** Update File: old.txt\n-gone\n+a\n*** Update File: ./old.txt\n-a\n+b\n*** End Patch";
    workspace.call::<apply_patch>(json!({"input": patch}));
    check_files(&workspace, &[("old.txt", Some("b\n"))]);
}

#[test]
fn dry_run_writes_nothing() {
    let workspace = sample();
    let patch = "*** Begin Patch\n*** Delete File: old.txt\n*** Update File: src/b.rs\n*** Move to: c.rs\n*** End Patch";
    let shown = workspace.call::<apply_patch>(json!({"patch": patch, "dry_run": true}));
    expect![[r#"
        Would patch 2 files, +0 -1 lines; nothing was written
        D old.txt +0 -1
        R src/b.rs → c.rs +0 -0
        summary: Would patch 2 files, +0 -1 lines; nothing was written
        {"files":[{"path":"<root>/old.txt","change":"deleted","diff_stat":{"added":0,"removed":1}},{"path":"<root>/c.rs","change":"moved","moved_from":"<root>/src/b.rs","diff_stat":{"added":0,"removed":0},"sha256":"<hash>"}],"dry_run":true}"#]].assert_eq(&shown);
    check_files(&workspace, &[("old.txt", Some("gone\n")), ("c.rs", None)]);
}

#[cfg(unix)]
#[test]
fn when_one_file_cannot_be_written_the_others_are_put_back() {
    let workspace = sample();
    // A file in place of a parent directory, which is detected only while writing.
    let patch = "*** Begin Patch\n*** Update File: src/a.rs\n@@ fn b() {\n-    1\n+    2\n*** Add File: new.txt\n+x\n*** Update File: src/b.rs\n*** Move to: m.rs\n*** Add File: old.txt/x\n+x\n*** End Patch";
    check(
        &workspace,
        patch,
        expect![
            "InvalidInput path_is_not_a_directory: cannot create old.txt/x: a part of its path is a file"
        ],
    );
    check_files(
        &workspace,
        &[
            (
                "src/a.rs",
                Some("fn a() {\n    1\n}\n\nfn b() {\n    1\n}\n"),
            ),
            ("src/b.rs", Some("one\r\ntwo\r\n")),
            ("new.txt", None),
            ("m.rs", None),
        ],
    );
}

#[cfg(unix)]
#[test]
fn a_moved_file_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;

    let workspace = sample();
    fs::set_permissions(
        workspace.path("src/b.rs"),
        fs::Permissions::from_mode(0o750),
    )
    .unwrap();
    let patch =
        "*** Begin Patch\n*** Update File: src/b.rs\n*** Move to: c.rs\n-two\n+2\n*** End Patch";
    workspace.call::<apply_patch>(json!({"patch": patch}));
    let mode = fs::metadata(workspace.path("c.rs"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o750);
}

#[test]
fn examples_are_inputs_and_work() {
    testing::check_examples::<apply_patch>().unwrap();
    for example in apply_patch::descriptor().examples {
        let workspace = Workspace::new(&[("src/main.rs", "fn main() {\n    wait(1);\n}\n")]);
        let input = toolhost_sdk::serde_json::from_str(&example.input).unwrap();
        testing::call::<apply_patch>(&workspace.cx(), input).unwrap();
    }
}

#[test]
fn a_model_is_told_how_to_write_a_patch() {
    let description = apply_patch::descriptor().description;
    for line in [
        "*** Begin Patch\n",
        "\n+each",
        "\n context line",
        "\n-removed line",
        "\n*** End Patch\n",
    ] {
        assert!(description.contains(line), "{description}");
    }
}
