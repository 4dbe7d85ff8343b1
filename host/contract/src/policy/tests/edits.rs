//! Tests of answers that edit the proposed changes.

use std::sync::Arc;

use expect_test::expect;

use super::*;
use crate::{Edit, FileDiff};

/// `has_run`: the question has changes that create `new` and remove `gone`.
fn check(has_run: bool, edits: &[(&str, &str)], expected: Expect) {
    let change = |path: &str, kind| FileChange {
        path: path.to_owned(),
        kind,
        what: FileKind::File,
        sizes: (None, None),
        modes: None,
        executable: false,
        diff: Some(FileDiff {
            file_name: path.to_owned(),
            diff: String::new(),
            original: None,
            new: "proposed".to_owned(),
        }),
        undiffed: None,
    };
    let changes = vec![
        change("gone", ChangeKind::Deleted),
        change("new", ChangeKind::Created),
    ];
    let mut question = question("", "files/write_file writes kind=edit path=new");
    question.changes = has_run.then(|| Arc::new(ChangeSet { changes }));
    let edit = |(path, text): &(&str, &str)| Edit {
        path: (*path).to_owned(),
        text: (*text).to_owned(),
    };
    let edits = edits.iter().map(edit).collect();
    let shown = match settle(question, Answer::Edit { edits }) {
        Ok(Settled::Edited { grant, edits }) => {
            let paths: Vec<&str> = edits.iter().map(|edit| edit.path.as_str()).collect();
            format!("granted by {} to {paths:?}", grant.by())
        }
        Ok(Settled::Granted { grant, approval }) => {
            format!("granted by {}, kept: {}", grant.by(), approval.is_some())
        }
        Ok(Settled::Modified { input }) => format!("modified {input}"),
        Err(denial) => format!("{}: {}", denial.code, denial.reason),
    };
    expected.assert_eq(&shown);
}

#[test]
fn r_195_a_yes_with_other_contents_is_for_one_call_and_for_files_that_were_shown() {
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
        expect![
            "policy_violation: the edited changes of `write_file` cannot be applied: `gone` has no text that could be edited; answer for it as it is"
        ],
    );
    check(
        true,
        &[("/etc/passwd", "saved")],
        expect![
            "policy_violation: the edited changes of `write_file` cannot be applied: `/etc/passwd` is not one of the changes; name a file as the question names it"
        ],
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
