//! Tests of the patch parser and its errors.

use std::fmt::Write as _;

use expect_test::{Expect, expect};

use super::*;
use crate::patch::section::Sign;

fn check(patch: &str, expected: Expect) {
    let shown = match parse(patch) {
        Ok(sections) => sections.iter().map(show).collect(),
        Err(error) => format!("{}: {error}", error.code.as_deref().unwrap_or("-")),
    };
    expected.assert_eq(&shown);
}

fn show(section: &Section) -> String {
    let mut text = format!("{}: ", section.line);
    let hunks: &[Hunk] = match &section.action {
        Action::Add { content } => {
            let _ = writeln!(text, "add {} {content:?}", section.path);
            &[]
        }
        Action::Delete { hunks } => {
            let _ = writeln!(text, "delete {}", section.path);
            hunks
        }
        Action::Update { to, hunks } => {
            let to = to.as_ref().map_or(String::new(), |to| format!(" to {to}"));
            let _ = writeln!(text, "update {}{to}", section.path);
            hunks
        }
    };
    if let Some(mode) = section.mode {
        let _ = writeln!(text, "  mode {mode:?}");
    }
    for hunk in hunks {
        let _ = write!(text, "  {}:", hunk.line);
        if let Some(hint) = hunk.hint {
            let _ = write!(text, " behind {}", hint.before);
        }
        for context in &hunk.contexts {
            let _ = write!(text, " in {context:?}");
        }
        for (sign, line) in &hunk.lines {
            let sign = match sign {
                Sign::Keep => '=',
                Sign::Remove => '-',
                Sign::Add => '+',
            };
            let _ = write!(text, " {sign}{line:?}");
        }
        for (is, label) in [
            (hunk.at_end, " end"),
            (hunk.is_old_unbroken, " old unbroken"),
            (hunk.is_new_unbroken, " new unbroken"),
        ] {
            text.push_str(if is { label } else { "" });
        }
        text.push('\n');
    }
    text
}

#[test]
fn every_kind_of_section_is_read() {
    check(
        "*** Begin Patch\n*** Add File: a b.txt\n+one\n+\n+two\n*** Update File: b\n*** Move to: c/d\n@@ class A\n@@   fn f()\n x\n\n-y\n+z\n@@\n-*** q\n*** End of File\n\n*** Delete File: e\n*** End Patch\n",
        expect![[r#"
            2: add a b.txt "one\n\ntwo\n"
            6: update b to c/d
              8: in "class A" in "  fn f()" ="x" ="" -"y" +"z"
              14: -"*** q" end
            18: delete e
        "#]],
    );
    check(
        "*** Begin Patch\n*** Add File: empty\n*** Update File: b\n*** Move to: c\n*** End Patch",
        expect![[r#"
            2: add empty ""
            3: update b to c
        "#]],
    );
    check(
        "*** Begin Patch\n*** Update File: b\n@@ -3,1 +3,1 @@ fn f()\n-x\n+y\n*** End Patch",
        expect![[r#"
            2: update b
              3: behind 2 -"x" +"y"
        "#]],
    );
}

#[test]
fn what_is_wrapped_around_a_patch_does_no_harm() {
    let patch = "*** Begin Patch\n*** Delete File: e\n*** End Patch";
    for wrapped in [
        format!("\n\n{patch}\n\n"),
        format!("```diff\n{patch}\n```"),
        format!("apply_patch <<'EOF'\n{patch}\nEOF\n"),
        format!("<<EOF\n{patch}\nEOF"),
        patch.replace('\n', "\r\n"),
    ] {
        let sections = parse(&wrapped).unwrap();
        assert_eq!(sections[0].path, "e", "{wrapped:?}");
    }
}

#[test]
fn unified_differences_are_read() {
    check(
        "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\t2020-01-01\n+++ b/x\t2020-01-01\n@@ -3,2 +3,2 @@ fn f()\n a\n-b\n\\ No newline at end of file\n+c\n@@ -9 +9,0 @@\n-d\n",
        expect![[r#"
            3: update x
              5: behind 2 ="a" -"b" +"c" old unbroken
              10: behind 8 -"d"
        "#]],
    );
    check(
        "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
        expect![[r#"
            1: add new "a\nb"
            7: delete old
              9: behind 0 -"a"
        "#]],
    );
    check(
        "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/p b/q\nsimilarity index 100%\nrename from p\nrename to q\n",
        expect![[r#"
            5: update x to y
              7: behind 0 -"a" +"b"
            10: update p to q
        "#]],
    );
    check(
        "--- x\n+++ x\n@@ @@\n-a\n+b\n\n--- y\n+++ y\n@@\n a\n-b\n",
        expect![[r#"
            1: update x
              3: -"a" +"b"
            7: update y
              9: ="a" -"b"
        "#]],
    );
    check(
        "--- x\n+++ x\n@@ -1,2 +1,2 @@\n--- a\n+++ b\n c\n",
        expect![[r#"
            1: update x
              3: behind 0 -"-- a" +"++ b" ="c"
        "#]],
    );
}

#[test]
fn bad_patches_are_refused() {
    let table = [
        (
            "",
            expect![
                "edit_preparation_failure: the patch starts neither with `*** Begin Patch` nor, as a unified diff, with `--- a/…` and `+++ b/…`"
            ],
        ),
        (
            "hello",
            expect![
                "edit_preparation_failure: the patch starts neither with `*** Begin Patch` nor, as a unified diff, with `--- a/…` and `+++ b/…`"
            ],
        ),
        (
            "*** Begin Patch\n*** End Patch",
            expect![
                "edit_preparation_failure: the patch names no file; write `*** Update File: PATH`, `*** Add File: PATH` or `*** Delete File: PATH`"
            ],
        ),
        (
            "*** Begin Patch\n*** Delete File: a",
            expect![
                "edit_preparation_failure: the patch does not end with `*** End Patch` and may be truncated; resend it completely"
            ],
        ),
        (
            "*** Begin Patch\n*** Delete File: \n*** End Patch",
            expect!["edit_preparation_failure: line 2 of the patch names no file"],
        ),
        (
            "*** Begin Patch\n*** Delete File: /etc/motd\n*** End Patch",
            expect![
                "invalid_path: line 2 of the patch: /etc/motd is absolute; write it relative to the workspace"
            ],
        ),
        (
            "*** Begin Patch\n*** Update File: a\n*** Move to: ~/b\n*** End Patch",
            expect![
                "invalid_path: line 2 of the patch: ~/b is absolute; write it relative to the workspace"
            ],
        ),
        (
            "*** Begin Patch\n*** Update File: a\n*** End Patch",
            expect![
                "edit_preparation_failure: the patch has no changes for a; add hunks or omit the file"
            ],
        ),
        (
            "*** Begin Patch\n*** Update File: a\nx\n*** End Patch",
            expect![[
                r#"edit_preparation_failure: line 3 of the patch: expected a line that starts with ` `, `-`, `+` or `@@`, found "x""#
            ]],
        ),
        (
            "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
            expect![[
                r#"edit_preparation_failure: line 3 of the patch: expected a line that starts with `+`, like all lines of a new file, found "x""#
            ]],
        ),
        (
            "*** Begin Patch\n*** Remove File: a\n*** End Patch",
            expect![[
                r#"edit_preparation_failure: line 2 of the patch: expected `*** Add File: …`, `*** Update File: …`, `*** Delete File: …` or `*** End Patch`, found "*** Remove File: a""#
            ]],
        ),
        (
            "*** Begin Patch\n*** Delete File: a\n*** End Patch\nmore",
            expect![[
                r#"edit_preparation_failure: line 4 of the patch: expected nothing after `*** End Patch`, found "more""#
            ]],
        ),
        (
            "--- a/x\n+++ b/x\n",
            expect![[
                r#"edit_preparation_failure: line 3 of the patch: expected a hunk that begins with `@@`, found """#
            ]],
        ),
        (
            "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n",
            expect!["edit_preparation_failure: line 1 of the patch names no file"],
        ),
        (
            "diff --git a/x b/x\nGIT binary patch\n",
            expect![
                "edit_preparation_failure: line 2 of the patch changes a binary file; only text is supported"
            ],
        ),
        (
            "diff --git a/x b/y\ncopy from x\ncopy to y\n",
            expect![
                "edit_preparation_failure: line 2 of the patch copies a file; write the copy as a new file"
            ],
        ),
        (
            "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n",
            expect![[
                r#"edit_preparation_failure: line 2 of the patch: expected `--- a/PATH` and `+++ b/PATH` before the hunks, found "@@ -1 +1 @@""#
            ]],
        ),
        (
            "diff --git a/x b/y\nold mode 100644\nnew mode 100755\n",
            expect![
                "edit_preparation_failure: line 1 of the patch names two files; it is unclear which is meant"
            ],
        ),
        (
            "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n",
            expect![
                "edit_preparation_failure: line 2 of the patch changes a symbolic link (mode 120000); only regular files are supported"
            ],
        ),
        (
            "diff --git a/x b/x\nindex 1234567..89abcde 160000\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n",
            expect![
                "edit_preparation_failure: line 2 of the patch changes a submodule (mode 160000); only regular files are supported"
            ],
        ),
        (
            "diff --git a/x b/x\nold mode 100644\nnew mode 104755\n",
            expect![
                "edit_preparation_failure: line 3 of the patch has an invalid mode; use 100644 or 100755"
            ],
        ),
    ];
    for (patch, expected) in table {
        check(patch, expected);
    }
    let many = format!(
        "*** Begin Patch\n{}*** End Patch",
        "*** Delete File: a\n".repeat(501)
    );
    check(
        &many,
        expect!["edit_preparation_failure: the patch has 501 files; the limit is 500, split it"],
    );
}

#[test]
fn d_01_modes_and_files_without_hunks_are_read() {
    check(
        "diff --git a/run.sh b/run.sh\nnew file mode 100755\nindex 0000000..e69de29\n--- /dev/null\n+++ b/run.sh\n@@ -0,0 +1 @@\n+a\ndiff --git a/plain b/plain\nnew file mode 100644\nindex 0000000..e69de29\ndiff --git a/x y b/x y\nold mode 100755\nnew mode 100644\ndiff --git a/gone b/gone\ndeleted file mode 100644\nindex e69de29..0000000\ndiff --git a/p b/q\nold mode 100644\nnew mode 100755\nsimilarity index 100%\nrename from p\nrename to q\ndiff --git \"a/\\303\\244\" \"b/\\303\\244\"\nold mode 100644\nnew mode 100755\nindex 1..2\n--- \"a/\\303\\244\"\n+++ \"b/\\303\\244\"\n@@ -1 +1 @@\n-a\n+b\n-- \n2.47.3\n",
        expect![[r#"
            4: add run.sh "a\n"
              mode Executable
            8: add plain ""
            11: update x y
              mode Plain
            14: delete gone
            17: update p to q
              mode Executable
            27: update ä
              mode Executable
              29: behind 0 -"a" +"b"
        "#]],
    );
}
