//! Tests of page ranges and rendering.

use expect_test::{Expect, expect};

use super::*;

fn check(text: &str, wish: Wish, expected: Expect) {
    let answer = wish
        .range()
        .and_then(|range| Page::of(text, range, "a.txt"))
        .map(|page| {
            let note = page.how_to_go_on("a.txt").unwrap_or_default();
            format!("{}\n{}\n{note}", page.summary("a.txt"), page.render(true))
        });
    expected.assert_eq(&answer.unwrap_or_else(|error| format!("error: {error}")));
}

const FIVE: &str = "one\ntwo\r\nthree\n\nfive";

#[test]
fn a_whole_text() {
    check(
        FIVE,
        Wish::default(),
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
        Wish::default(),
        expect![[r#"
        0 lines of a.txt
        (file is empty)
    "#]],
    );
}

#[test]
fn a_part_says_how_to_go_on() {
    check(
        FIVE,
        Wish {
            limit: Some(2),
            ..Wish::default()
        },
        expect![[r#"
        lines 1-2 of 5 of a.txt
             1→one
             2→two
        showing lines 1-2 of 5; 3 lines left; to go on: read_file with path "a.txt" and offset 3"#]],
    );
    check(
        FIVE,
        Wish {
            offset: Some(2),
            limit: Some(3),
            ..Wish::default()
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
        Wish {
            offset: Some(2),
            end_line: Some(3),
            ..Wish::default()
        },
        expect![[r#"
        lines 2-3 of 5 of a.txt
             2→two
             3→three
        showing lines 2-3 of 5; 2 lines left; to go on: read_file with path "a.txt" and offset 4"#]],
    );
    check(
        FIVE,
        Wish {
            offset: Some(5),
            ..Wish::default()
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
        Wish {
            head: Some(1),
            ..Wish::default()
        },
        expect![[r#"
        lines 1-1 of 5 of a.txt
             1→one
        showing lines 1-1 of 5; 4 lines left; to go on: read_file with path "a.txt" and offset 2"#]],
    );
    check(
        FIVE,
        Wish {
            tail: Some(2),
            ..Wish::default()
        },
        expect![[r#"
        lines 4-5 of 5 of a.txt
             4→
             5→five
    "#]],
    );
    check(
        FIVE,
        Wish {
            tail: Some(99),
            ..Wish::default()
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
        Wish {
            offset: Some(6),
            ..Wish::default()
        },
        expect!["error: line 6 is past the end of a.txt, which has 5 lines"],
    );
    check(
        FIVE,
        Wish {
            offset: Some(3),
            end_line: Some(2),
            ..Wish::default()
        },
        expect!["error: `end_line` 2 is before `offset` 3; swap them"],
    );
    check(
        FIVE,
        Wish {
            head: Some(3),
            tail: Some(2),
            ..Wish::default()
        },
        expect!["error: `head` and `tail` are mutually exclusive; omit one"],
    );
    check(
        FIVE,
        Wish {
            offset: Some(3),
            tail: Some(2),
            ..Wish::default()
        },
        expect!["error: `tail` and `offset` are mutually exclusive; omit one"],
    );
    check(
        FIVE,
        Wish {
            limit: Some(3),
            head: Some(2),
            ..Wish::default()
        },
        expect!["error: `head` and `limit` are mutually exclusive; omit one"],
    );
}

#[test]
fn a_long_line_is_cut_for_the_model_only() {
    let text = "é".repeat(MOST_CHARS + 7);
    let page = Page::of(&text, Range::default(), "a.txt").unwrap();
    assert!(page.render(false).ends_with("é… [+7 chars]"));
    assert_eq!(
        (page.content.len(), page.is_truncated()),
        (text.len(), false)
    );
}

#[test]
fn a_page_has_a_limit_in_bytes() {
    let text = format!("{}\n", "x".repeat(MOST_BYTES / 3)).repeat(4);
    let page = Page::of(&text, Range::From(1, 4), "a.txt").unwrap();
    assert_eq!((page.end, page.total, page.is_truncated()), (2, 4, true));
    let text = "é".repeat(MOST_BYTES);
    let page = Page::of(&text, Range::default(), "a.txt").unwrap();
    assert_eq!(
        (page.content.len(), page.is_truncated()),
        (MOST_BYTES, true)
    );
    expect!["showing the beginning of line 1 of 1, which is too long to show completely"]
        .assert_eq(&page.how_to_go_on("a.txt").unwrap());
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
        let page = Page::of(&text, Range::default(), "a.txt").unwrap();
        let shown = page.render(true);
        let hint = page.how_to_go_on("a.txt").expect("there is more");
        assert!(shown.len() + hint.len() < 40_000, "{}", shown.len());
        assert!(hint.contains("offset"), "{hint}");
        // The next window starts where this one ended.
        let next = Page::of(&text, Range::Window(page.end + 1), "a.txt").unwrap();
        assert_eq!(next.start, page.end + 1);
    }
    // An explicit range is shown completely.
    let text = format!("{}\n", "x".repeat(70)).repeat(2_000);
    let page = Page::of(&text, Range::From(1, 2_000), "a.txt").unwrap();
    assert_eq!(page.end, 2_000);
}
