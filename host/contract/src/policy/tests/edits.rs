//! Tests of answers that edit the proposed changes.

use std::sync::Arc;

use expect_test::expect;

use super::*;
use crate::{FileDiff, UserEdit};

/// `has_run`: the question has changes that create `new` and remove `gone`.
fn check(has_run: bool, edits: &[(&str, &str)], expected: Expect) {
    let change = |path: &str, kind| FileChange {
        path: path.to_owned(),
        kind,
        file_kind: FileKind::File,
        sizes: (None, None),
        link_targets: (None, None),
        modes: None,
        executable: false,
        diff: Some(FileDiff {
            file_name: path.to_owned(),
            diff: String::new(),
            original: None,
            new: "proposed".to_owned(),
        }),
        no_diff_reason: None,
        content: None,
    };
    let changes = vec![
        change("gone", ChangeKind::Deleted),
        change("new", ChangeKind::Created),
    ];
    let mut question = question("", "files/write_file writes kind=edit path=new");
    question.changes = has_run.then(|| Arc::new(ChangeSet { changes }));
    let edit = |(path, text): &(&str, &str)| UserEdit {
        path: (*path).to_owned(),
        text: (*text).to_owned(),
    };
    let edits = edits.iter().map(edit).collect();
    let shown = match apply_answer(question, Answer::Edit { edits }) {
        Ok(AnswerOutcome::Edited { grant, edits }) => {
            let paths: Vec<&str> = edits.iter().map(|edit| edit.path.as_str()).collect();
            format!("granted by {} to {paths:?}", grant.authorizer())
        }
        Ok(AnswerOutcome::Granted { grant, approval }) => {
            format!(
                "granted by {}, kept: {}",
                grant.authorizer(),
                approval.is_some()
            )
        }
        Ok(AnswerOutcome::Modified { input }) => format!("modified {input}"),
        Err(denial) => format!("{}: {}", denial.code, denial.reason),
    };
    expected.assert_eq(&shown);
}

#[test]
fn r_195_edited_changes_apply_once_and_only_to_shown_files() {
    check(
        true,
        &[("new", "saved")],
        expect![[r#"granted by the user, once, with changes to ["new"]"#]],
    );
    // Unchanged contents are a plain approval.
    check(
        true,
        &[("new", "proposed")],
        expect!["granted by the user, once, kept: false"],
    );
    check(true, &[], expect!["granted by the user, once, kept: false"]);
    check(
        true,
        &[("gone", "saved"), ("new", "saved")],
        expect![[
            r#"policy_violation: the edited changes of `write_file` cannot be applied: `gone` is not an editable text file; approve or deny it unchanged"#
        ]],
    );
    check(
        true,
        &[("/etc/passwd", "saved")],
        expect![[
            r#"policy_violation: the edited changes of `write_file` cannot be applied: `/etc/passwd` is not one of the changes; use a path from the prompt"#
        ]],
    );
    // A call that has not run proposes no changes.
    check(
        false,
        &[("new", "saved")],
        expect![
            "policy_violation: the edited changes of `write_file` cannot be applied: the call has not run, so it has no changes to edit"
        ],
    );
    check(
        false,
        &[],
        expect![
            "policy_violation: the edited changes of `write_file` cannot be applied: the call has not run, so it has no changes to edit"
        ],
    );
}
