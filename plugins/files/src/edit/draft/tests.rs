//! Tests of drafts.

use proptest::prelude::*;

use super::*;
use crate::testing::Workspace;

fn edit(old: &str, new: &str) -> Edit {
    Edit {
        old: old.to_owned(),
        new: new.to_owned(),
        all: false,
        expected: None,
    }
}

/// The file after one edit, or the error code.
fn run(bytes: &[u8], encoding: Encoding, old: &str, new: &str) -> Result<Vec<u8>, String> {
    let workspace = Workspace::new(&[]);
    workspace.write("a.txt", bytes);
    let edited = Draft::open(&workspace.cx(), "a.txt", encoding).and_then(|mut draft| {
        draft.apply(&edit(old, new))?;
        draft.new_bytes()
    });
    edited.map_err(|error| error.code.unwrap_or_default())
}

fn check(bytes: &[u8], old: &str, new: &str, expected: &[u8]) {
    check_as(Encoding::Auto, bytes, old, new, Ok(expected));
}

fn check_as(encoding: Encoding, bytes: &[u8], old: &str, new: &str, expected: Result<&[u8], &str>) {
    let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let answer = run(bytes, encoding, old, new).map(|bytes| shown(&bytes));
    assert_eq!(
        answer,
        expected.map(shown).map_err(str::to_owned),
        "{}",
        shown(bytes)
    );
}

//
#[test]
fn r_320_encoding_mark_line_breaks_and_the_last_line_stay() {
    check(
        b"\xef\xbb\xbfa\r\nb\r\n",
        "a\nb",
        "x\ny",
        b"\xef\xbb\xbfx\r\ny\r\n",
    );
    check(
        b"\xff\xfea\0\r\0\n\0",
        "a",
        "\u{e9}",
        b"\xff\xfe\xe9\0\r\0\n\0",
    );
    check(b"\xfe\xff\0a\0\n", "a", "b", b"\xfe\xff\0b\0\n");
    check(b"\0\0\xfe\xff\0\0\0a", "a", "b", b"\0\0\xfe\xff\0\0\0b");
    check(
        b"\xef\xbb\xbfa\n",
        "\u{feff}a",
        "\u{feff}b",
        b"\xef\xbb\xbfb\n",
    );
    check(b"a\nb", "b", "c", b"a\nc");
    check(b"a\nb\n", "b", "c", b"a\nc\n");
    check(b"a\rb\n", "b", "c", b"a\rc\n");
}

#[test]
fn where_the_encoding_is_a_guess_only_ascii_is_touched() {
    check(b"caf\xe9 one\n", "one", "two", b"caf\xe9 two\n");
    check_as(
        Encoding::Auto,
        b"caf\xe9\n",
        "caf\u{e9}",
        "tea",
        Err("encoding_unknown"),
    );
    check_as(
        Encoding::Auto,
        b"caf\xe9 one\n",
        "one",
        "th\u{e9}",
        Err("encoding_unknown"),
    );
    check_as(
        Encoding::Latin1,
        b"caf\xe9\n",
        "caf\u{e9}",
        "th\u{e9}",
        Ok(b"th\xe9\n"),
    );
    check_as(
        Encoding::Latin1,
        b"caf\xe9\n",
        "caf",
        "5 \u{20ac}",
        Err("encoding_mismatch"),
    );
    check_as(
        Encoding::Utf8,
        b"caf\xe9\n",
        "caf",
        "tea",
        Err("encoding_mismatch"),
    );
    check_as(Encoding::Utf16le, b"a\0b\0", "b", "c", Ok(b"a\0c\0"));
    check_as(
        Encoding::Latin1,
        "caf\u{e9}\n".as_bytes(),
        "caf",
        "th\u{e9}",
        Err("encoding_mismatch"),
    );
    // UTF-8 with an invalid byte.
    let damaged = b"caf\xc3\xa9\xff\n";
    check(damaged, "caf", "tea", b"tea\xc3\xa9\xff\n");
    check_as(
        Encoding::Auto,
        damaged,
        "caf",
        "th\u{e9}",
        Err("encoding_unknown"),
    );
    check_as(
        Encoding::Utf8,
        damaged,
        "caf",
        "tea",
        Err("encoding_mismatch"),
    );
}

#[test]
fn a_file_that_grows_too_large_is_refused() {
    let workspace = Workspace::new(&[]);
    workspace.write("a.txt", &b"x".repeat(100_000));
    let mut draft = Draft::open(&workspace.cx(), "a.txt", Encoding::Auto).unwrap();
    let edit = Edit {
        all: true,
        ..edit("x", &"y".repeat(1000))
    };
    let error = draft.apply(&edit).unwrap_err();
    assert_eq!(error.code.as_deref(), Some("file_too_large"));
    let text = "x".repeat(MAX_MATCHES + 1);
    workspace.write("b.txt", text.as_bytes());
    let mut draft = Draft::open(&workspace.cx(), "b.txt", Encoding::Auto).unwrap();
    let edit = Edit {
        new: "y".to_owned(),
        ..edit
    };
    let error = draft.apply(&edit).unwrap_err();
    assert_eq!(
        error.message,
        "more than 500000 matches in b.txt; replace a longer text"
    );
}

#[test]
fn two_places_that_overlap_are_ambiguous() {
    let workspace = Workspace::new(&[("a.txt", "bbbb\nabab\n")]);
    let apply = |old: &str, all, expected| {
        let mut draft = Draft::open(&workspace.cx(), "a.txt", Encoding::Auto).unwrap();
        let edit = Edit {
            all,
            expected,
            ..edit(old, "x")
        };
        let applied = draft.apply(&edit).map(|applied| applied.replacements);
        applied.map_err(|error| error.message)
    };
    let ambiguous = "2 matches for old_string in a.txt, at lines 1, 1";
    assert_eq!(apply("bbb", false, None), Err(ambiguous.to_owned()));
    assert_eq!(
        apply("bbb", false, Some(1)),
        Err(format!("{ambiguous}; expected 1"))
    );
    assert_eq!(apply("bbb", true, None), Ok(1));
    assert_eq!(apply("bbbb", false, None), Ok(1));
    assert_eq!(apply("abab", false, None), Ok(1));
}

//
#[test]
fn r_305_a_file_that_changed_is_edited_only_where_it_is_clear_what_is_meant() {
    let workspace = Workspace::new(&[("a.txt", "one\ntwo\n    three\n")]);
    let now = sha256(b"one\ntwo\n    three\n");
    let open = || Draft::open(&workspace.cx(), "a.txt", Encoding::Auto).unwrap();
    for (old, observed, require, expected) in [
        ("two", Some(now.as_str()), true, Ok(false)),
        ("two", None, false, Ok(false)),
        ("two", Some("00"), true, Ok(true)),
        ("two", None, true, Err("a.txt was not read in this session")),
        (
            "two\nthree\n",
            Some("00"),
            false,
            Err(
                "a.txt changed since it was read; the current text at that position is:\n     1→one\n     2→two\n     3→    three",
            ),
        ),
    ] {
        let mut draft = open();
        draft.apply(&edit(old, "x\ny")).unwrap();
        let answer = draft
            .compare(observed, require)
            .map_err(|error| error.message);
        assert_eq!(
            answer,
            expected.map_err(str::to_owned),
            "{old:?} {observed:?}"
        );
    }
    let mut draft = Draft::open(&workspace.cx(), "new.txt", Encoding::Auto).unwrap();
    draft.apply(&edit("", "x")).unwrap();
    assert_eq!(draft.compare(None, true), Ok(false));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn mark_and_line_breaks_are_kept_whatever_is_edited(
        before in prop::collection::vec("[a-c]{0,3}", 1..6),
        after in prop::collection::vec("[a-c]{0,3}", 1..6),
        new in prop::collection::vec("[d-f]{1,3}", 1..4),
        has_mark: bool,
        is_crlf: bool,
    ) {
        let line_break = if is_crlf { "\r\n" } else { "\n" };
        let file = |middle: &[String]| {
            let lines: Vec<&str> = before.iter().chain(middle).chain(&after).map(String::as_str).collect();
            let mark = if has_mark { "\u{feff}" } else { "" };
            format!("{mark}{}", lines.join(line_break)).into_bytes()
        };
        let old = file(&["NEEDLE".to_owned(), "EYE".to_owned()]);
        let edited = run(&old, Encoding::Auto, "NEEDLE\nEYE", &new.join("\n"));
        prop_assert_eq!(edited, Ok(file(&new)));
    }

    #[test]
    fn an_edit_is_what_plain_replacing_makes_of_the_text(
        text in "[ab \n]{0,30}", old in "[ab \n]{1,4}", new in "[a-c\n]{1,4}", all: bool
    ) {
        prop_assume!(old != new && !old.trim().is_empty());
        // Also for overlapping matches.
        let occurrences = (0..text.len()).filter(|at| text[*at..].starts_with(&old)).count();
        let workspace = Workspace::new(&[("a.txt", &text)]);
        let input = json!({"path": "a.txt", "old_string": old, "new_string": new, "replace_all": all});
        let answer = toolhost_sdk::testing::call::<crate::edit::edit_file>(&workspace.cx(), input);
        let edited = fs::read_to_string(workspace.path("a.txt")).unwrap();
        match (answer, occurrences) {
            (Ok(_), 1) => prop_assert_eq!(edited, text.replacen(&old, &new, 1)),
            (Ok(_), 2..) => {
                prop_assert!(all);
                prop_assert_eq!(edited, text.replace(&old, &new));
            }
            (Ok(outcome), 0) => {
                let strategy = outcome.structured.unwrap()["strategy"].clone();
                prop_assert!(strategy != json!("exact"), "{strategy}");
            }
            (Err(error), occurrences) => {
                prop_assert!(occurrences != 1 && !(occurrences > 1 && all), "{}", error);
                prop_assert_eq!(edited, text);
            }
        }
    }
}
