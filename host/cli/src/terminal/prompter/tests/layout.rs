//! Tests of the layout of questions at several widths.

use expect_test::{Expect, expect};

use super::super::keys_text;
use super::super::question_draft::QuestionDraft;
use super::super::question_text::{Extent, QuestionContext, format_body, format_question};
use super::super::testing::{
    QuestionSpec, command, layout, question, staged_question, tool, with_header, write,
};
use super::super::untrusted_text::text_width;

const WIDTHS: [usize; 5] = [20, 40, 80, 120, 200];

const OLD: &str = "# Notes\n\n- buy milk\n- call Ada about the meeting next week in the large room\n- fix the door\n- rest\n";
const NEW: &str = "# Notes\n\n- buy milk\n- call Grace about the meeting next week in the large room\n- fix the door\n- rest\n";

fn context() -> QuestionContext {
    QuestionContext {
        position: (1, 9),
        alike: 3,
        next: vec![
            "write_file  a.txt  (+1 −0 lines)".to_owned(),
            format!("write_file  {}", "long/".repeat(60)),
        ],
        base: Some("/w".to_owned()),
        ..QuestionContext::default()
    }
}

fn check(width: usize, expected: Expect) {
    let (question, call) = staged_question(&[("/w/notes/a.md", Some(OLD), NEW)]);
    let draft = QuestionDraft::new(&question);
    let (shown, _) = format_question(&draft, &call, &context(), layout(width, 40));
    expected.assert_eq(&with_header(&shown));
}

#[test]
fn a_question_uses_the_width_of_the_window() {
    check(
        40,
        expect![[r#"
            screen:

              Plugin `files` wants to modify
                ┊ notes/a.md  (+1 −1)
              not applied yet  (1 of 9 waiting)
                modify   /w/notes/a.md  (file, 99 B
                       ┊  → 101 B)
               2 │
               3 │   - buy milk
               4 │ - - call Ada about the meeting n
                 ┊ ext week in the large room
               4 │ + - call Grace about the meeting
                 ┊  next week in the large room
               5 │   - fix the door
               6 │   - rest
                call     write_file (makes reversib
                       ┊ le changes)  path=/w/a.rs
                reason   it changes files
                next     write_file  a.txt  (+1 …
                         write_file  long/long/lo…
                         … 6 more
              y once  a  g  n no  e  ? › "#]],
    );
    check(
        80,
        expect![[r#"
            screen:

              Plugin `files` wants to modify notes/a.md  (+1 −1)  not applied yet
              (1 of 9 waiting)
                modify   /w/notes/a.md  (file, 99 B → 101 B)
               2 │
               3 │   - buy milk
               4 │ - - call Ada about the meeting next week in the large room
               4 │ + - call Grace about the meeting next week in the large room
               5 │   - fix the door
               6 │   - rest
                call     write_file (makes reversible changes)  path=/w/a.rs
                reason   it changes files
                next     write_file  a.txt  (+1 −0 lines)
                         write_file  long/long/long/long/long/long/long/long/long/long/lo…
                         … 6 more
              y once  a always…  g all 3…  n no  e edit  ? more › "#]],
    );
    check(
        120,
        expect![[r#"
            screen:

              Plugin `files` wants to modify notes/a.md  (+1 −1)  not applied yet  (1 of 9 waiting)
                modify   /w/notes/a.md  (file, 99 B → 101 B)
               2 │
               3 │   - buy milk
               4 │ - - call Ada about the meeting next week in the large room
               4 │ + - call Grace about the meeting next week in the large room
               5 │   - fix the door
               6 │   - rest
                call     write_file (makes reversible changes)  path=/w/a.rs
                reason   it changes files
                next     write_file  a.txt  (+1 −0 lines)
                         write_file  long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/lo…
                         … 6 more
              y once  a always…  g all 3…  n no  e edit  ? more › "#]],
    );
    check(
        200,
        expect![[r#"
            screen:

              Plugin `files` wants to modify notes/a.md  (+1 −1)  not applied yet  (1 of 9 waiting)
                modify   /w/notes/a.md  (file, 99 B → 101 B)
               2 │
               3 │   - buy milk
               4 │ - - call Ada about the meeting next week in the large room
               4 │ + - call Grace about the meeting next week in the large room
               5 │   - fix the door
               6 │   - rest
                call     write_file (makes reversible changes)  path=/w/a.rs
                reason   it changes files
                next     write_file  a.txt  (+1 −0 lines)
                         write_file  long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/long/lo…
                         … 6 more
              y once  a always…  g all 3…  n no  e edit  ? more › "#]],
    );
}

/// Texts that a terminal would wrap, and that could imitate text of the host.
fn hostile_questions() -> Vec<QuestionSpec> {
    let hostile = format!(
        "src/{}\n  y once  n no › \u{1b}[2J\u{202e}α·Ж─{}",
        "deep/".repeat(50),
        "日本語".repeat(40)
    );
    let mut edit = write(&hostile, &hostile.repeat(3));
    edit.meta = Some(serde_json::json!({"risk": hostile, "reason": hostile}));
    edit.agent = Some("explore");
    let input = serde_json::json!({"url": hostile, "headers": {"x": hostile}});
    vec![
        edit,
        command(&hostile),
        command("ls"),
        tool("srv", "mcp__srv__look_up", input),
    ]
}

#[test]
fn t_06_every_row_fits_and_rows_of_tools_are_marked() {
    let mut questions: Vec<_> = hostile_questions().iter().map(question).collect();
    questions.push(staged_question(&[
        ("/w/notes/a.md", Some(OLD), NEW),
        ("/w/b", None, &"x\u{1b}y\t日".repeat(500)),
    ]));
    for width in WIDTHS {
        let look = layout(width, 24);
        for (question, call) in &questions {
            let draft = QuestionDraft::new(question);
            for extent in [Extent::Folded, Extent::Whole] {
                let (body, _) = format_body(&draft, call, &context(), extent, look);
                for row in body.lines() {
                    assert!(text_width(row) <= width, "{width}: {row}");
                    // Rows of the host start with two blanks and a letter; text of a tool is never there.
                    assert!(!row.starts_with("  y "), "{row}");
                    assert!(!row.contains(['\u{1b}', '\u{202e}']), "{row}");
                }
            }
            for row in keys_text::format_offers(&draft, look).lines() {
                assert!(text_width(row) <= width.max(44), "{width}: {row}");
            }
        }
    }
}

#[test]
fn t_05_a_diff_is_truncated_by_rows_with_a_note() {
    let lines = |count: usize| "x\n".repeat(count);
    let long_line = format!("{}\n", "y".repeat(500_000));
    for (height, new, shown, hidden) in [
        (24, lines(5), 5, 0),
        // The other rows of the question take six, and the note takes one.
        (24, lines(18), 18, 0),
        (24, lines(19), 17, 2),
        (200, lines(100), 39, 61),
        // A small window scrolls.
        (5, lines(100), 5, 95),
        (24, long_line, 17, 6_928),
    ] {
        let (question, call) = staged_question(&[("/w/a", None, &new)]);
        let draft = QuestionDraft::new(&question);
        let look = layout(80, height);
        let context = QuestionContext::default();
        let (text, left_out) = format_question(&draft, &call, &context, look);
        let rows = text.lines().filter(|row| row.contains(['│', '┊'])).count();
        assert_eq!((rows, left_out), (shown, hidden), "{text}");
        assert_eq!(text.contains("more line"), hidden > 0, "{text}");
        let (whole, none) = format_body(&draft, &call, &context, Extent::Whole, look);
        let rows = whole.lines().filter(|row| row.contains(['│', '┊'])).count();
        assert_eq!((rows, none), (shown + hidden, 0));
    }
}
