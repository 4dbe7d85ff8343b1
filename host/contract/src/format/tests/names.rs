//! Tests of unsupported tool names and of format names.

use crate::format::{Format, Names};

#[test]
fn a_name_that_fits_stays_and_others_are_changed_and_found_again() {
    let long = format!("mcp__{}__read", "x".repeat(70));
    let other = format!("mcp__{}__write", "x".repeat(70));
    let all = [
        "read_file",
        "Read",
        "get-time",
        "files.read",
        "a b",
        "a/b",
        "2nd",
        "héllo",
        "",
        long.as_str(),
        other.as_str(),
        "files_read",
    ];
    for format in [
        Format::Anthropic,
        Format::OpenAi,
        Format::OpenAiResponses,
        Format::Gemini,
    ] {
        let names = Names::new(format, all);
        let mut seen = std::collections::HashSet::new();
        for name in all {
            let shown = names.shown(name).to_owned();
            let fits = !shown.is_empty()
                && shown.len() <= 64
                && shown
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
            assert!(fits, "{name} {shown}");
            assert!(seen.insert(shown.clone()), "{shown} twice");
            assert_eq!(names.own(&shown), name);
        }
        for name in ["read_file", "Read", "get-time", "files_read"] {
            assert_eq!(names.shown(name), name);
        }
        assert_eq!(names.shown("2nd"), "_2nd");
        assert_eq!(names.shown("héllo"), "h_llo");
        // The order of tools does not matter.
        let turned = Names::new(format, all.into_iter().rev());
        for name in all {
            assert_eq!(names.shown(name), turned.shown(name));
        }
        assert_eq!(names.own("unknown"), "unknown");
    }
}

#[test]
fn two_names_that_are_alike_both_get_a_mark() {
    let names = Names::new(Format::OpenAi, ["a.b", "a:b"]);
    let (one, other) = (names.shown("a.b"), names.shown("a:b"));
    assert!(one.starts_with("a_b_") && other.starts_with("a_b_"));
    assert_ne!(one, other);
    assert_eq!(Names::new(Format::Mcp, ["a.b"]).shown("a.b"), "a.b");
}

#[test]
fn a_format_is_named_and_a_slip_gets_a_hint() {
    for format in Format::ALL {
        assert_eq!(format.as_str().parse(), Ok(format));
    }
    for (word, message) in [
        (
            "openia",
            "`openia` is not a format; did you mean `openai`? \
             the formats are anthropic, openai, openai-responses, gemini, mcp",
        ),
        (
            "\u{1b}x",
            r"`\u{1b}x` is not a format; use one of anthropic, openai, openai-responses, gemini, mcp",
        ),
    ] {
        assert_eq!(word.parse::<Format>().unwrap_err().to_string(), message);
    }
}
