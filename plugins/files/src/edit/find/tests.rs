//! Tests of the matching strategies.

use proptest::prelude::*;

use super::*;

/// The strategy and the resulting text; or the number of matches if it is not one.
fn run(text: &str, old: &str, new: &str, leniency: Leniency) -> (String, String) {
    let mut found = find(text, old, new, leniency);
    if found.replacements.len() != 1 {
        return (
            found.strategy,
            format!("{} places", found.replacements.len()),
        );
    }
    if new.is_empty() {
        delete_lines(text, old, &mut found.replacements);
    }
    let TextReplacement { range, new } = &found.replacements[0];
    let (before, after) = (&text[..range.start], &text[range.end..]);
    (found.strategy, format!("{before}{new}{after}"))
}

fn check(text: &str, old: &str, new: &str, expected: (&str, &str)) {
    check_as(Leniency::Free, text, old, new, expected);
}

fn check_as(leniency: Leniency, text: &str, old: &str, new: &str, expected: (&str, &str)) {
    let (strategy, text) = run(text, old, new, leniency);
    assert_eq!((strategy.as_str(), text.as_str()), expected, "{old:?}");
}

//
#[test]
fn r_320_what_is_exact_is_taken_as_it_is() {
    check("a b c", "b", "x", ("exact", "a x c"));
    check("a b c", " b ", "", ("exact", "ac"));
    check("a b b", "b", "x", ("exact", "2 places"));
    check(
        "x \u{201c}q\u{201d}",
        "\u{201c}q\u{201d}",
        "\"r\"",
        ("exact", "x \"r\""),
    );
    check("1→a\n", "1→a", "1→b", ("exact", "1→b\n"));
    check(
        "s = \"a\\n\"",
        "\"a\\n\"",
        "\"b\\n\"",
        ("exact", "s = \"b\\n\""),
    );
}

#[test]
fn new_lines_end_as_those_of_the_file() {
    check("a\r\nb\r\n", "a", "x\ny", ("exact", "x\r\ny\r\nb\r\n"));
    check("a\r\nb\r\n", "a\nb", "x\ny", ("line_endings", "x\r\ny\r\n"));
    check(
        "a\nb\n",
        "a\r\nb\r\n",
        "x\r\ny\r\n",
        ("line_endings", "x\ny\n"),
    );
    check(
        "a\r\nb\nc\n",
        "a\nb\nc",
        "x\ny",
        ("line_endings", "x\r\ny\n"),
    );
    check("a\r\nb\nc\n", "b\nc", "x\ny", ("exact", "a\r\nx\ny\n"));
    // An explicit carriage return is intended.
    check("a\r\nb\r\n", "a\r\n", "x\n", ("exact", "x\nb\r\n"));
    check("a", "a", "x\ny", ("exact", "x\ny"));
}

#[test]
fn typographic_signs_are_plain_ones_and_stay_where_nothing_changes() {
    check(
        "say \u{201c}one\u{201d} and \u{2018}two\u{2019}\n",
        "\"one\" and 'two'",
        "\"one\" or 'two'",
        (
            "characters",
            "say \u{201c}one\u{201d} or \u{2018}two\u{2019}\n",
        ),
    );
    for (text, old, new, expected) in [
        // Otherwise one quote of a pair would be plain.
        ("“hello” – x", "\"hello\" - x", "\"bye\" - y", "\"bye\" - y"),
        ("“a”", "\"a\"", "\"b\" and \"c\"", "\"b\" and \"c\""),
        ("‘a’ b", "'a' b", "'c'", "'c'"),
        ("a – b", "a - b", "x - y", "x - y"),
        (
            "“a” b – c",
            "\"a\" b - c",
            "\"a\" \"b\" - c",
            "“a” \"b\" – c",
        ),
        ("it’s b", "it's b", "it's c's", "it’s c's"),
    ] {
        check(text, old, new, ("characters", expected));
    }
    check("a\u{a0}b\n", "a b", "a c", ("characters", "a\u{a0}c\n"));
    check(
        "it's\n",
        "it\u{2019}s",
        "it\u{2019}s so",
        ("characters", "it's so\n"),
    );
    check("a\u{200b}b\n", "ab", "c", ("characters", "c\n"));
}

#[test]
fn lines_are_found_and_written_at_their_indentation() {
    check(
        "if x {\n\t\ta();\n\t\tb();\n}\n",
        "a();\nb();\n",
        "a();\nif y {\n    b();\n}\n",
        (
            "indentation",
            "if x {\n\t\ta();\n\t\tif y {\n\t\t    b();\n\t\t}\n}\n",
        ),
    );
    check(
        "    if x {\n        a();\n    }\n",
        "if x {\n    a();\n}",
        "if y {\n    b();\n}",
        ("indentation", "    if y {\n        b();\n    }\n"),
    );
    check("a  \nb\n", "a\nb", "c", ("indentation", "c\n"));
    check("  a\n  a\n", "\ta", "x", ("indentation", "2 places"));
    check("  a", "a\n", "b\n", ("indentation", "  b"));
}

#[test]
fn where_white_space_has_a_meaning_it_is_moved_as_a_whole_or_not_at_all() {
    for leniency in [Leniency::Indented, Leniency::Data] {
        check_as(
            leniency,
            "class A:\n    def f():\n        a\n",
            "def f():\n    a\n",
            "def f():\n    b\n",
            ("indentation", "class A:\n    def f():\n        b\n"),
        );
        check_as(
            leniency,
            "if x:\n    a\nb\n",
            "if x:\n    a\n    b\n",
            "c",
            ("none", "0 places"),
        );
        check_as(leniency, "f(a,b)\n", "f(a, b)", "c", ("none", "0 places"));
        let long = "value = compute(alpha, beta)\n";
        check_as(
            leniency,
            long,
            "value = computee(alpha, beta)\n",
            "c",
            ("none", "0 places"),
        );
    }
}

#[test]
fn pasted_prefixes_are_removed() {
    let text = "fn a() {\n    b();\n}\n";
    check(
        text,
        "     1→fn a() {\n     2→    b();\n",
        "     1→fn a() {\n     2→    c();\n",
        ("line_numbers", "fn a() {\n    c();\n}\n"),
    );
    check(
        text,
        "2→b();",
        "2→c();",
        ("line_numbers", "fn a() {\n    c();\n}\n"),
    );
    check(
        text,
        "1→fn a() {\n2→b();",
        "fn a() {\nc();",
        ("line_numbers+indentation", "fn a() {\n    c();\n}\n"),
    );
    check(
        text,
        "fn a() {\\n    b();",
        "fn a() {\\n    c();",
        ("escapes", "fn a() {\n    c();\n}\n"),
    );
    check(
        "p(\"x\")\n",
        "p(\\\"x\\\")",
        "p(\\\"y\\\")",
        ("escapes", "p(\"y\")\n"),
    );
}

#[test]
fn white_space_within_lines_is_free_in_most_files() {
    check(
        "    call(a,b);\n",
        "call( a, b );\n",
        "call(c);\n",
        ("whitespace", "    call(c);\n"),
    );
    check(
        "call(a,\r\n     b);\r\nx\r\n",
        "call(a, b);",
        "one();\ntwo();",
        ("whitespace", "one();\r\ntwo();\r\nx\r\n"),
    );
    check(
        "f(a,b); f(a,b);\n",
        "f(a, b);",
        "x",
        ("whitespace", "2 places"),
    );
}

#[test]
fn a_slip_of_the_pen_is_forgiven_where_only_one_place_is_near() {
    let line = "let total = prices.iter().map(|price| price.amount).sum();\n";
    let wrong = "let total = prices.iter().map(|price| price.amonut).sum();\n";
    check(
        line,
        wrong,
        "let total = 0;\n",
        ("fuzzy", "let total = 0;\n"),
    );
    check(&line.repeat(2), wrong, "x\n", ("fuzzy", "0 places"));
    check("short = 1\n", "shirt = 1\n", "x", ("fuzzy", "0 places"));
}

#[test]
fn a_deleted_line_leaves_no_empty_line() {
    check("a\nb\nc\n", "b", "", ("exact", "a\nc\n"));
    check("a\n  b\nc\n", "b", "", ("exact", "a\nc\n"));
    check("a\r\n\tb\r\nc\r\n", "\tb", "", ("exact", "a\r\nc\r\n"));
    check("a\nb\nc\n", "b\n", "", ("exact", "a\nc\n"));
    check("a\nx b\nc\n", " b", "", ("exact", "a\nx\nc\n"));
    check("a\nb x\nc\n", "b ", "", ("exact", "a\nx\nc\n"));
    check("a\nb", "b", "", ("exact", "a\n"));
    check("a \n", " ", "", ("exact", "a\n"));
}

#[test]
fn deleted_lines_that_begin_with_a_line_break_do_not_overlap() {
    for (text, old, expected) in [
        ("\nx\nx\n", "\nx", "\n"),
        ("a\nx\nx\nb\n", "\nx", "a\nb\n"),
        ("\r\nx\r\nx\r\n", "\nx", "\r\n"),
    ] {
        let mut found = find(text, old, "", Leniency::Free);
        delete_lines(text, old, &mut found.replacements);
        let mut edited = text.to_owned();
        for replacement in found.replacements.iter().rev() {
            edited.replace_range(replacement.range.clone(), &replacement.new);
        }
        assert_eq!(edited, expected, "{text:?}");
    }
}

#[test]
fn a_name_tells_how_lenient_a_reading_may_be() {
    for (path, expected) in [
        ("a.rs", Leniency::Free),
        ("a", Leniency::Free),
        ("src/A.PY", Leniency::Indented),
        ("Makefile", Leniency::Indented),
        ("b.yml", Leniency::Indented),
        ("package.json", Leniency::Data),
    ] {
        assert_eq!(Leniency::for_path(Path::new(path)), expected, "{path}");
    }
}

#[test]
fn no_text_takes_long() {
    // The worst case of each strategy; with quadratic work each would take minutes.
    let lines = "ab\n".repeat(50_000);
    let blank = "\n".repeat(50_000);
    let one_line = "a ".repeat(50_000);
    let crlf = "ab\r\n".repeat(50_000);
    for (text, old) in [
        (&lines, format!("{}x", "ab\n".repeat(5_000))),
        (&blank, format!("{}x\n", "\n".repeat(5_000))),
        (&one_line, format!("{}b", "a  ".repeat(5_000))),
        (&crlf, format!("{}ac\n", "ab\n".repeat(5_000))),
    ] {
        let found = find(text, &old, "y", Leniency::Free);
        assert!(found.replacements.len() <= 1);
    }
    for (text, old) in [
        (&lines, "ab\n"),
        (&blank, "\n"),
        (&one_line, "a"),
        (&crlf, "ab"),
    ] {
        assert_eq!(
            find(text, old, "y\nz", Leniency::Free).replacements.len(),
            50_000
        );
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a", "b", " ", "\t", "\n", "\r\n", "\u{201c}", "\u{a0}", "é", "1→", "\\n", "x(y, z)",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn an_exact_edit_changes_nothing_outside_of_its_place(before in any_text(), new in "[a-z\n]{1,9}", after in any_text()) {
        let text = format!("{before}@needle@{after}");
        let found = find(&text, "@needle@", &new, Leniency::Free);
        prop_assert_eq!(&found.strategy, "exact");
        prop_assert_eq!(found.replacements.len(), 1);
        let replacement = &found.replacements[0];
        prop_assert_eq!(&text[..replacement.range.start], &before);
        prop_assert_eq!(&text[replacement.range.end..], &after);
        prop_assert_eq!(replacement.new.replace("\r\n", "\n"), new);
    }

    #[test]
    fn places_are_in_order_and_never_overlap(text in any_text(), old in any_text(), new in "[a-z]{0,3}") {
        prop_assume!(!old.is_empty());
        for leniency in [Leniency::Free, Leniency::Indented] {
            let mut found = find(&text, &old, &new, leniency);
            if new.is_empty() {
                delete_lines(&text, &old, &mut found.replacements);
            }
            let mut end = 0;
            for TextReplacement { range, .. } in &found.replacements {
                prop_assert!(end <= range.start && range.start <= range.end, "{:?}", found);
                prop_assert!(text.is_char_boundary(range.start) && text.is_char_boundary(range.end));
                end = range.end;
            }
        }
    }
}
