//! Tests of dialogs in which the user edits the files that a call would write.

use expect_test::{Expect, expect};
use toolhost_contract::Answer;

use super::super::testing::{staged_question, with_header};
use super::{DialogResult, FakeTerminal, run_questions};

type Files<'a> = &'a [(&'a str, Option<&'a str>, &'a str)];
type EditorResult = Result<&'static str, &'static str>;

const ONE: Files<'_> = &[("/w/a.rs", Some("old\n"), "new\n")];
const TWO: Files<'_> = &[("/w/a.rs", Some("old\n"), "new\n"), ("/w/b", None, "b\n")];

fn run_edit_dialog(
    files: Files<'_>,
    lines: &[&'static str],
    left: &[EditorResult],
) -> DialogResult {
    let fake = FakeTerminal {
        lines: lines.iter().copied().collect(),
        edits: left.iter().copied().collect(),
        ..FakeTerminal::default()
    };
    run_questions(vec![staged_question(files)], fake)
}

fn format_answer(answer: &Answer) -> String {
    match answer {
        Answer::Edit { edits } => {
            let saved = edits
                .iter()
                .map(|edit| format!("{} {:?}", edit.path, edit.text));
            format!("saved {}", saved.collect::<Vec<_>>().join(", "))
        }
        answer => format!("{answer:?}"),
    }
}

/// The answer, and the screen from the editor up to the input of the next question.
fn check(files: Files<'_>, lines: &[&'static str], left: &[EditorResult], expected: Expect) {
    let result = run_edit_dialog(files, lines, left);
    let from = result.screen.find("<<editor").unwrap_or_default();
    let screen = &result.screen[from..];
    let to = screen.find("    call ").unwrap_or(screen.len());
    let answers: Vec<String> = result.answers.iter().map(format_answer).collect();
    let shown = format!("{}\n{}", answers.join("\n"), &screen[..to]);
    expected.assert_eq(&with_header(&shown));
}

// R-194, R-247
#[test]
fn r_047_edits_are_shown_before_approval() {
    check(
        ONE,
        &["m", "y"],
        &[Ok("mine\u{1b}\n")],
        expect![[r#"
            screen:
            saved /w/a.rs "mine\u{1b}\n"
            <<editor.rs
            new
            >>

              Plugin `files` wants to modify /w/a.rs  (+1 −1)  not applied yet
                edited   /w/a.rs  (by you)
                modify   /w/a.rs  (file, 4 B → 6 B)
               1 │ - old
               1 │ + mine\u{1b}
        "#]],
    );
    check(
        ONE,
        &["m", "n"],
        &[Ok("mine\n")],
        expect![[r#"
            screen:
            Deny { note: None }
            <<editor.rs
            new
            >>

              Plugin `files` wants to modify /w/a.rs  (+1 −1)  not applied yet
                edited   /w/a.rs  (by you)
                modify   /w/a.rs  (file, 4 B → 5 B)
               1 │ - old
               1 │ + mine
        "#]],
    );
    // Restored to the original: nothing is left of the change.
    check(
        ONE,
        &["m", "y"],
        &[Ok("old\n")],
        expect![[r#"
            screen:
            saved /w/a.rs "old\n"
            <<editor.rs
            new
            >>

              Plugin `files` wants to change nothing  (+0 −0)  not applied yet
                edited   /w/a.rs  (by you, restored to the original content)
        "#]],
    );
    // Restored to the proposal: a plain approval with all offers.
    check(
        ONE,
        &["m", "m", "a", "1"],
        &[Ok("mine\n"), Ok("new\n")],
        expect![[r#"
            screen:
            Allow { offer: 1, note: None }
            <<editor.rs
            new
            >>

              Plugin `files` wants to modify /w/a.rs  (+1 −1)  not applied yet
                edited   /w/a.rs  (by you)
                modify   /w/a.rs  (file, 4 B → 5 B)
               1 │ - old
               1 │ + mine
        "#]],
    );
}

#[test]
fn r_195_a_file_is_selected_by_number() {
    check(
        TWO,
        &["m 2", "y"],
        &[Ok("mine\n")],
        expect![[r#"
            screen:
            saved /w/b "mine\n"
            <<editor
            b
            >>

              Plugin `files` wants to change 2 files  (+2 −1)  not applied yet
                edited   /w/b  (by you)
                modify   /w/a.rs  (file, 4 B → 4 B)
               1 │ - old
               1 │ + new
                create   /w/b  (file, 5 B)
               1 │ + mine
        "#]],
    );
    check(
        TWO,
        &["m", "1", "m 2", "y"],
        &[Ok("first\n"), Ok("second\n")],
        expect![[r#"
            screen:
            saved /w/a.rs "first\n", /w/b "second\n"
            <<editor.rs
            new
            >>

              Plugin `files` wants to change 2 files  (+2 −1)  not applied yet
                edited   /w/a.rs  (by you)
                modify   /w/a.rs  (file, 4 B → 6 B)
               1 │ - old
               1 │ + first
                create   /w/b  (file, 2 B)
               1 │ + b
        "#]],
    );
    for lines in [["m 3", "y"], ["m b", "y"], ["m 0", "y"]] {
        let result = run_edit_dialog(TWO, &lines, &[]);
        assert_eq!(result.answers, [Answer::once()]);
        assert!(result.screen.contains("choose 1 to 2"), "{lines:?}");
    }
    let result = run_edit_dialog(TWO, &["m", "", "y"], &[]);
    assert_eq!(result.answers, [Answer::once()]);
    let list = result.screen.split_once("«m»").unwrap().1;
    let list = list.split_once('«').unwrap().0;
    expect![[r#"
        screen:

            1.       /w/a.rs
            2.       /w/b
          file number, or Enter to return to the question: "#]]
    .assert_eq(&with_header(list));
}

#[test]
fn edited_changes_can_only_be_allowed_once() {
    let result = run_edit_dialog(ONE, &["m", "a", "y"], &[Ok("mine\n")]);
    assert_eq!(
        format_answer(&result.answers[0]),
        "saved /w/a.rs \"mine\\n\""
    );
    let end = result.screen.rsplit_once("    call ").unwrap().1;
    expect![[r#"
        screen:
            write_file (makes reversible changes)  content=x
            reason   it changes files
          y once  n no  e edit  ? more ›·«a»
          answer with y, n, e or ?
          y once  n no  e edit  ? more ›·«y»
    "#]]
    .assert_eq(&with_header(&end.replace(" «", "·«")));
}

#[test]
fn errors_are_shown_and_saved_edits_are_kept() {
    let failed = Err("the editor ended with exit status: 1");
    check(
        ONE,
        &["m", "y"],
        &[failed],
        expect![[r#"
            screen:
            Allow { offer: 0, note: None }
            <<editor.rs
            new
            >>
              the editor ended with exit status: 1

              Plugin `files` wants to modify /w/a.rs  (+1 −1)  not applied yet
                modify   /w/a.rs  (file, 4 B → 4 B)
               1 │ - old
               1 │ + new
        "#]],
    );
    check(
        ONE,
        &["m", "m", "y"],
        &[Ok("mine\n"), failed],
        expect![[r#"
            screen:
            saved /w/a.rs "mine\n"
            <<editor.rs
            new
            >>

              Plugin `files` wants to modify /w/a.rs  (+1 −1)  not applied yet
                edited   /w/a.rs  (by you)
                modify   /w/a.rs  (file, 4 B → 5 B)
               1 │ - old
               1 │ + mine
        "#]],
    );
    check(
        ONE,
        &["m", "y"],
        &[Ok("new\n")],
        expect![[r#"
            screen:
            Allow { offer: 0, note: None }
            <<editor.rs
            new
            >>
              no changes

              Plugin `files` wants to modify /w/a.rs  (+1 −1)  not applied yet
                modify   /w/a.rs  (file, 4 B → 4 B)
               1 │ - old
               1 │ + new
        "#]],
    );
    // Leaving the editor with an empty file may be meant as a denial.
    check(
        ONE,
        &["m", "n", "y"],
        &[Ok("")],
        expect![[r#"
            screen:
            Allow { offer: 0, note: None }
            <<editor.rs
            new
            >>
              the file is now empty
              y keep it empty  e edit again, anything else returns to the question › «n»

              Plugin `files` wants to modify /w/a.rs  (+1 −1)  not applied yet
                modify   /w/a.rs  (file, 4 B → 4 B)
               1 │ - old
               1 │ + new
        "#]],
    );
    check(
        ONE,
        &["m", "y", "y"],
        &[Ok("")],
        expect![[r#"
            screen:
            saved /w/a.rs ""
            <<editor.rs
            new
            >>
              the file is now empty
              y keep it empty  e edit again, anything else returns to the question › «y»

              Plugin `files` wants to modify /w/a.rs  (+0 −1)  not applied yet
                edited   /w/a.rs  (by you)
                modify   /w/a.rs  (file, 4 B → 0 B)
               1 │ - old
        "#]],
    );
    // Invalid text is opened again as saved.
    let result = run_edit_dialog(ONE, &["m", "e", "y"], &[Ok("a\0b"), Ok("ab")]);
    assert_eq!(format_answer(&result.answers[0]), "saved /w/a.rs \"ab\"");
    let message = "the new text of `/w/a.rs` contains a NUL character; remove it";
    assert!(result.screen.contains(message) && result.screen.contains("\na\0b>>"));
    let long = &*Box::leak("x".repeat(600 << 10).into_boxed_str());
    let result = run_edit_dialog(ONE, &["m", "n", "y"], &[Ok(long)]);
    assert_eq!(result.answers, [Answer::once()]);
    let message = "the new text of `/w/a.rs` is 614400 bytes; the limit is 524288";
    assert!(result.screen.contains(message));
}

#[test]
fn binary_changes_cannot_be_edited() {
    let (mut question, call) = staged_question(ONE);
    let mut changes = question.changes.as_deref().unwrap().clone();
    changes.changes[0].diff = None;
    question.changes = Some(changes.into());
    let fake = FakeTerminal {
        lines: ["?", "m", "y"].into(),
        ..FakeTerminal::default()
    };
    let result = run_questions(vec![(question, call)], fake);
    assert_eq!(result.answers, [Answer::once()]);
    assert!(!result.screen.contains("new content"), "{}", result.screen);
    assert!(result.screen.contains("answer with"));
}
