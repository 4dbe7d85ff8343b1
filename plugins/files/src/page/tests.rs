//! Tests of page ranges and rendering.

use expect_test::{Expect, expect};

use super::*;

fn check(text: &str, input: RangeInput, expected: Expect) {
    let answer = input
        .range()
        .and_then(|range| Page::of(text, range, "a.txt"))
        .map(|page| {
            let note = page.continuation_note("a.txt").unwrap_or_default();
            format!("{}\n{}\n{note}", page.summary("a.txt"), page.render(true))
        });
    expected.assert_eq(&answer.unwrap_or_else(|error| format!("error: {error}")));
}

const FIVE: &str = "one\ntwo\r\nthree\n\nfive";

#[test]
fn a_whole_text() {
    check(
        FIVE,
        RangeInput::default(),
        expect![[r#"
        5 lines of a.txt
             1→one
             2→two
             3→three
             4→
             5→five
    "#]],
    );
    check(
        "",
        RangeInput::default(),
        expect![[r#"
        0 lines of a.txt
        (file is empty)
    "#]],
    );
}

#[test]
fn a_partial_page_has_a_continuation() {
    check(
        FIVE,
        RangeInput {
            limit: Some(2),
            ..RangeInput::default()
        },
        expect![[r#"
        lines 1-2 of 5 of a.txt
             1→one
             2→two
        showing lines 1-2 of 5; 3 lines left; to go on: read_file with path "a.txt" and offset 3"#]],
    );
    check(
        FIVE,
        RangeInput {
            offset: Some(2),
            limit: Some(3),
            ..RangeInput::default()
        },
        expect![[r#"
        lines 2-4 of 5 of a.txt
             2→two
             3→three
             4→
        showing lines 2-4 of 5; 1 line left; to go on: read_file with path "a.txt" and offset 5"#]],
    );
    check(
        FIVE,
        RangeInput {
            offset: Some(2),
            end_line: Some(3),
            ..RangeInput::default()
        },
        expect![[r#"
        lines 2-3 of 5 of a.txt
             2→two
             3→three
        showing lines 2-3 of 5; 2 lines left; to go on: read_file with path "a.txt" and offset 4"#]],
    );
    check(
        FIVE,
        RangeInput {
            offset: Some(5),
            ..RangeInput::default()
        },
        expect![[r#"
        lines 5-5 of 5 of a.txt
             5→five
    "#]],
    );
}

#[test]
fn both_ends() {
    check(
        FIVE,
        RangeInput {
            head: Some(1),
            ..RangeInput::default()
        },
        expect![[r#"
        lines 1-1 of 5 of a.txt
             1→one
        showing lines 1-1 of 5; 4 lines left; to go on: read_file with path "a.txt" and offset 2"#]],
    );
    check(
        FIVE,
        RangeInput {
            tail: Some(2),
            ..RangeInput::default()
        },
        expect![[r#"
        lines 4-5 of 5 of a.txt
             4→
             5→five
    "#]],
    );
    check(
        FIVE,
        RangeInput {
            tail: Some(99),
            ..RangeInput::default()
        },
        expect![[r#"
        5 lines of a.txt
             1→one
             2→two
             3→three
             4→
             5→five
    "#]],
    );
}

#[test]
fn ranges_that_make_no_sense() {
    check(
        FIVE,
        RangeInput {
            offset: Some(6),
            ..RangeInput::default()
        },
        expect!["error: line 6 is past the end of a.txt, which has 5 lines"],
    );
    check(
        FIVE,
        RangeInput {
            offset: Some(3),
            end_line: Some(2),
            ..RangeInput::default()
        },
        expect!["error: `end_line` 2 is before `offset` 3; swap them"],
    );
    check(
        FIVE,
        RangeInput {
            head: Some(3),
            tail: Some(2),
            ..RangeInput::default()
        },
        expect!["error: `head` and `tail` are mutually exclusive; omit one"],
    );
    check(
        FIVE,
        RangeInput {
            offset: Some(3),
            tail: Some(2),
            ..RangeInput::default()
        },
        expect!["error: `tail` and `offset` are mutually exclusive; omit one"],
    );
    check(
        FIVE,
        RangeInput {
            limit: Some(3),
            head: Some(2),
            ..RangeInput::default()
        },
        expect!["error: `head` and `limit` are mutually exclusive; omit one"],
    );
}

#[test]
fn a_long_line_is_cut_for_the_model_only() {
    let text = "é".repeat(MOST_CHARS + 7);
    let page = Page::of(&text, LineRange::default(), "a.txt").unwrap();
    assert!(page.render(false).ends_with("é… [+7 chars]"));
    assert_eq!(
        (page.content.len(), page.is_truncated()),
        (text.len(), false)
    );
}

#[test]
fn a_page_has_a_limit_in_bytes() {
    let text = format!("{}\n", "x".repeat(MOST_BYTES / 3)).repeat(4);
    let page = Page::of(&text, LineRange::From(1, 4), "a.txt").unwrap();
    assert_eq!((page.end, page.total, page.is_truncated()), (2, 4, true));
    let text = "é".repeat(MOST_BYTES);
    let page = Page::of(&text, LineRange::default(), "a.txt").unwrap();
    assert_eq!(
        (page.content.len(), page.is_truncated()),
        (MOST_BYTES, true)
    );
    expect!["showing the beginning of line 1 of 1, which is too long to show completely"]
        .assert_eq(&page.continuation_note("a.txt").unwrap());
}

#[test]
fn c_13_what_is_shown_unasked_fits_every_client() {
    for line in [
        "x".repeat(70),
        "x".repeat(400),
        "é".repeat(5_000),
        String::new(),
    ] {
        let text = format!("{line}\n").repeat(3_000);
        let page = Page::of(&text, LineRange::default(), "a.txt").unwrap();
        let shown = page.render(true);
        let hint = page.continuation_note("a.txt").expect("there is more");
        assert!(shown.len() + hint.len() < 40_000, "{}", shown.len());
        assert!(hint.contains("offset"), "{hint}");
        // The next window starts where this one ended.
        let next = Page::of(&text, LineRange::Window(page.end + 1), "a.txt").unwrap();
        assert_eq!(next.start, page.end + 1);
    }
    // An explicit range is shown completely.
    let text = format!("{}\n", "x".repeat(70)).repeat(2_000);
    let page = Page::of(&text, LineRange::From(1, 2_000), "a.txt").unwrap();
    assert_eq!(page.end, 2_000);
}
