//! Tests of applying hunks.

use proptest::prelude::*;

use super::*;
use crate::edit::diff::Difference;
use crate::patch::parse::parse;
use crate::patch::section::Action;

fn hunks(patch: &str) -> Vec<Hunk> {
    let section = parse(patch).unwrap().remove(0);
    let Action::Update { hunks, .. } = section.action else {
        panic!("{section:?}")
    };
    hunks
}

/// Applies consecutive hunks without file headers.
fn check(text: &str, patch: &str, expected: Result<&str, HunkError>) {
    let patch = format!("*** Begin Patch\n*** Update File: a\n{patch}\n*** End Patch");
    let patched = apply(text, &hunks(&patch), Leniency::Free).map(|patched| patched.text);
    assert_eq!(patched, expected.map(str::to_owned), "{patch}");
}

fn missing(wanted: &str) -> Result<&'static str, HunkError> {
    Err(HunkError::Missing {
        hunk: 0,
        wanted: wanted.to_owned(),
    })
}

#[test]
fn a_hunk_goes_to_the_place_that_it_states() {
    check("f\na\ng\na\n", "@@ g\n-a\n+c", Ok("f\na\ng\nc\n"));
    check(
        "f\nx\na\ng\nx\na\n",
        "@@ g\n@@ x\n-a\n+c",
        Ok("f\nx\na\ng\nx\nc\n"),
    );
    check("a\nb\na\n", "-a\n+c\n*** End of File", Ok("a\nb\nc\n"));
    check("a\nb\na\n", "@@ -3 +3 @@\n-a\n+c", Ok("a\nb\nc\n"));
    check("a\nb\na\n", " b\n-a\n+1", Ok("a\nb\n1\n"));
    check("f\na\nb\na\n", " f\n-a\n+1\n@@\n-a\n+2", Ok("f\n1\nb\n2\n"));
}

#[test]
fn a_hunk_with_several_places_is_refused() {
    let ambiguous = |lines: &[usize]| {
        let lines = lines.to_vec();
        Err(HunkError::Ambiguous { hunk: 0, lines })
    };
    check("a\nb\na\nb\n", " a\n-b\n+c", ambiguous(&[1, 3]));
    check("a\nb\na\n", "@@\n-a\n+c", ambiguous(&[1, 3]));
    check(
        "a\n a\na\nb\n",
        "-a\n+c\n*** End of File",
        ambiguous(&[1, 3]),
    );
    check(" a\n  a\n", "-a\n+c", ambiguous(&[1, 2]));
}

#[test]
fn what_is_only_added_has_a_place_too() {
    check("a\nb\n", "+c", Ok("a\nb\nc\n"));
    check("a\nb\n", "@@ a\n+c", Ok("a\nc\nb\n"));
    check("a\nb\n", "@@ -1,0 +2,1 @@\n+c", Ok("a\nc\nb\n"));
    check("", "+c", Ok("c\n"));
    check("a", "+c", Ok("a\nc"));
}

#[test]
fn white_space_and_signs_are_read_leniently() {
    check("a  \nb\n", " a\n-b\n+c", Ok("a  \nc\n"));
    check(
        "  if x {\n    a\n  }\n",
        " if x {\n-  a\n+  b\n }",
        Ok("  if x {\n    b\n  }\n"),
    );
    check(
        "say(\u{201c}hi\u{201d})\nb\n",
        " say(\"hi\")\n-b\n+c",
        Ok("say(\u{201c}hi\u{201d})\nc\n"),
    );
}

#[test]
fn line_breaks_stay() {
    check("a\r\nb\r\n", " a\n-b\n+c\n+d", Ok("a\r\nc\r\nd\r\n"));
    check("a\r\nb", "-b\n+c", Ok("a\r\nc"));
    check("a\r\nb", "+c", Ok("a\r\nb\r\nc"));
    check("a\r\nb\n", " a\r\n-b\n+c", Ok("a\r\nc\n"));
    check("a\r\nb\nc\n", " a\n+x", Ok("a\r\nx\r\nb\nc\n"));
    check("a\r\n", "-a\n+\n+b", Ok("\r\nb\r\n"));
}

#[test]
fn mismatches_are_reported() {
    check("a\n", "-b\n+c", missing("b"));
    check(
        "a\n",
        "@@ g\n-a\n+c",
        Err(HunkError::MissingContext {
            hunk: 0,
            context: "g".to_owned(),
        }),
    );
    check(
        "g\na\nb\n",
        "-a\n+c\n@@ g\n-b\n+d",
        Err(HunkError::Behind { hunk: 1, line: 1 }),
    );
    check(
        "a\nb\n",
        "-b\n+c\n@@\n-a\n+d",
        Err(HunkError::Behind { hunk: 1, line: 1 }),
    );
    check("", "-a", missing("a"));
}

#[test]
fn where_white_space_has_a_meaning_lines_move_together() {
    let patch = "*** Begin Patch\n*** Update File: a\n if x:\n-    a\n     b\n*** End Patch";
    for (text, expected) in [
        ("  if x:\n      a\n      b\n", Some("  if x:\n      b\n")),
        ("  if x:\n      a\n  b\n", None),
    ] {
        let patched = apply(text, &hunks(patch), Leniency::Indented).ok();
        assert_eq!(
            patched.map(|patched| patched.text).as_deref(),
            expected,
            "{text:?}"
        );
    }
}

fn any_text() -> impl Strategy<Value = String> {
    // Few distinct lines, so that many match, and every kind of line end.
    let line = prop::sample::select(vec![
        "\n", "a\n", "b\n", " c\n", "-- x\n", "++ y\n", "@@ z\n", "\\ w\n",
    ]);
    (prop::collection::vec(line, 0..30), any::<bool>()).prop_map(|(lines, is_unbroken)| {
        let mut text = lines.concat();
        if is_unbroken {
            text.pop();
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn the_difference_of_two_texts_makes_the_second_of_the_first(old in any_text(), new in any_text(), is_crlf: bool) {
        prop_assume!(old != new);
        let breaks = |text: String| if is_crlf { text.replace('\n', "\r\n") } else { text };
        let (old, new) = (breaks(old), breaks(new));
        let patch = similar::TextDiff::from_lines(&old, &new)
            .unified_diff()
            .header("a/x", "b/x")
            .to_string();
        let patched = apply(&old, &hunks(&patch), Leniency::Free);
        prop_assert_eq!(patched.map(|patched| patched.text), Ok(new), "{}", patch);
    }

    #[test]
    fn so_does_our_own_difference(old in any_text(), new in any_text()) {
        prop_assume!(old != new);
        let patch = Difference::of(&old, &new).unified("x", false);
        let patched = apply(&old, &hunks(&patch), Leniency::Data);
        prop_assert_eq!(patched.map(|patched| patched.text), Ok(new), "{}", patch);
    }

    #[test]
    fn a_patch_of_anything_does_no_harm(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "*** Begin Patch\n", "*** Update File: a\n", "*** Add File: b\n", "*** Move to: c\n", "*** End Patch\n",
            "*** End of File\n", "@@\n", "@@ a\n", "@@ -1,9 +0,0 @@\n", "--- a\n", "+++ b\n", "diff --git a b\n",
            "\\ No\n", " a\n", "-a\n", "+b\n", "\n", "\r\n", "é", "```\n",
        ]), 0..20),
        text in any_text(),
    ) {
        let Ok(sections) = parse(&pieces.concat()) else { return Ok(()) };
        for section in sections {
            if let Action::Update { hunks, .. } | Action::Delete { hunks } = section.action {
                // It may match or not, but must end without a panic.
                let _ = apply(&text, &hunks, Leniency::Free);
            }
        }
    }
}
