//! Answers that come with other contents than a call proposed.

use std::sync::Arc;

use expect_test::expect;

use super::*;
use crate::{Edit, FileDiff};

/// The question is about a run that would create `new` and remove `gone`, or about one that has not been.
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
        expect![[r#"granted by a person, once, with changes to ["new"]"#]],
    );
    // What was left as it was proposed is a plain yes.
    check(
        true,
        &[("new", "proposed")],
        expect!["granted by a person, once, kept: false"],
    );
    check(true, &[], expect!["granted by a person, once, kept: false"]);
    check(
        true,
        &[("gone", "saved"), ("new", "saved")],
        expect![
            "policy_violation: what was made of the changes of `write_file` cannot be taken: `gone` is not an editable text file; approve or deny it unchanged"
        ],
    );
    check(
        true,
        &[("/etc/passwd", "saved")],
        expect![
            "policy_violation: what was made of the changes of `write_file` cannot be taken: `/etc/passwd` is not one of the changes; use a path from the prompt"
        ],
    );
    // A call that has not run proposes nothing.
    check(
        false,
        &[("new", "saved")],
        expect![
            "policy_violation: what was made of the changes of `write_file` cannot be taken: it has not run, and there is nothing of it to edit"
        ],
    );
    check(
        false,
        &[],
        expect![
            "policy_violation: what was made of the changes of `write_file` cannot be taken: it has not run, and there is nothing of it to edit"
        ],
    );
}
