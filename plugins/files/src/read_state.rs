//! What the agent knows about a file: recorded when a tool shows or writes it, checked before a tool overwrites it.

use toolhost_sdk::prelude::*;

use crate::path::Target;

/// Records that the agent knows the current file: these lines, or all.
pub fn record_seen(cx: &Context, target: &Target, sha256: &str, lines: Option<(usize, usize)>) {
    let number = |line: usize| u32::try_from(line).unwrap_or(u32::MAX);
    let lines = lines.map(|(first, last)| (number(first), number(last)));
    // A host without session state must not prevent reading.
    if let Err(error) = cx.record_observation(&target.path.display().to_string(), sha256, lines) {
        cx.debug(&format!("not noted as seen: {error}"));
    }
}

/// Whether the file, whose SHA-256 is `now`, differs from what the agent has seen. Compares content, not times: a file
/// rewritten with the same content has not changed.
pub fn is_stale(cx: &Context, target: &Target, now: &str) -> bool {
    let observation = cx.last_observation(&target.path.display().to_string());
    observation
        .ok()
        .flatten()
        .is_some_and(|observation| !observation.sha256.eq_ignore_ascii_case(now))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::{Expect, expect};
    use toolhost_sdk::testing;

    use crate::batch_read::read_many_files;
    use crate::edit::edit_file;
    use crate::notebook_cell::notebook_edit;
    use crate::read::read_file;
    use crate::testing::Workspace;
    use crate::write::write_file;
    use toolhost_sdk::prelude::*;

    const NOTEBOOK: &str = r#"{"cells": [{"cell_type": "raw", "id": "a", "metadata": {}, "source": ["x"]}], "nbformat": 4, "nbformat_minor": 5}"#;

    /// Reads with `T`, changes the file, then writes with `U`.
    fn check<T: Tool, U: Tool>(first: Value, then: Option<&str>, second: Value, expected: Expect) {
        let workspace = Workspace::new(&[("a.txt", "one\n"), ("a.ipynb", NOTEBOOK)]);
        let cx = workspace.cx();
        testing::call::<T>(&cx, first).unwrap();
        if let Some(content) = then {
            let path = second["path"].as_str().unwrap();
            fs::write(workspace.path(path), content).unwrap();
        }
        let answer = match testing::call::<U>(&cx, second) {
            Ok(outcome) => outcome.summary.unwrap(),
            Err(error) => format!("{} {error}", error.code.as_deref().unwrap()),
        };
        expected.assert_eq(&answer);
    }

    #[test]
    fn changed_files_are_not_overwritten() {
        let read = || json!({"path": "a.txt"});
        let write = || json!({"path": "a.txt", "content": "two\n"});
        check::<read_file, write_file>(
            read(),
            None,
            write(),
            expect!["Overwrote a.txt (4 B → 4 B, +1 -1 lines)"],
        );
        check::<read_file, write_file>(
            read(),
            Some("1\n"),
            write(),
            expect!["edit_stale a.txt changed since you read it"],
        );
        check::<read_file, write_file>(
            read(),
            Some("one\n"),
            write(),
            expect!["Overwrote a.txt (4 B → 4 B, +1 -1 lines)"],
        );
        check::<write_file, write_file>(
            write(),
            Some("1\n"),
            write(),
            expect!["edit_stale a.txt changed since you read it"],
        );
        let many = json!({"include": ["a.txt"]});
        check::<read_many_files, write_file>(
            many,
            Some("1\n"),
            write(),
            expect!["edit_stale a.txt changed since you read it"],
        );
    }

    #[test]
    fn r_305_an_edit_that_no_longer_matches_reports_that_the_file_changed() {
        let read = || json!({"path": "a.txt"});
        let edit = || json!({"path": "a.txt", "old_string": "one", "new_string": "two"});
        check::<read_file, edit_file>(
            read(),
            Some("1\n"),
            edit(),
            expect![
                "edit_stale a.txt changed since it was read: 0 matches for old_string in a.txt, and no similar lines"
            ],
        );
        check::<read_file, edit_file>(
            read(),
            Some("one more\n"),
            edit(),
            expect!["Edited a.txt: 1 replacement, +1 -1 lines"],
        );
        let other = json!({"path": "a.txt", "old_string": "three", "new_string": "two"});
        check::<read_file, edit_file>(
            read(),
            None,
            other,
            expect![
                "edit_no_occurrence_found 0 matches for old_string in a.txt, and no similar lines"
            ],
        );
    }

    #[test]
    fn a_hash_or_append_needs_no_read() {
        let read = || json!({"path": "a.txt"});
        let hash = crate::read::sha256(b"1\n");
        let write = json!({"path": "a.txt", "content": "two\n", "expected_sha256": hash});
        check::<read_file, write_file>(
            read(),
            Some("1\n"),
            write,
            expect!["Overwrote a.txt (2 B → 4 B, +1 -1 lines)"],
        );
        let append = json!({"path": "a.txt", "content": "two\n", "mode": "append"});
        check::<read_file, write_file>(
            read(),
            Some("1\n"),
            append,
            expect!["Appended 4 B to a.txt (now 6 B)"],
        );
    }

    #[test]
    fn in_a_notebook_that_changed_a_cell_is_found_by_its_own_id_alone() {
        let read = || json!({"path": "a.ipynb"});
        let changed = NOTEBOOK.replace("\"x\"", "\"y\"");
        let edit =
            |name: &str, cell: Value| json!({"path": "a.ipynb", name: cell, "new_source": "z"});
        check::<read_file, notebook_edit>(
            read(),
            Some(&changed),
            edit("cell_id", json!("a")),
            expect![[r#"Replaced cell 0 (raw, cell_id "a") of a.ipynb"#]],
        );
        check::<read_file, notebook_edit>(
            read(),
            Some(&changed),
            edit("cell_number", json!(0)),
            expect!["edit_stale a.ipynb changed since you read it, and its cells may have moved"],
        );
        check::<read_file, notebook_edit>(
            read(),
            Some(&changed),
            edit("cell_id", json!("cell-0")),
            expect!["edit_stale a.ipynb changed since you read it, and its cells may have moved"],
        );
    }
}
