//! Tests of unsupported tool names and of format names.

use crate::model::{Format, NameMap};

#[test]
fn unsupported_names_are_changed_and_mapped_back() {
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
        let names = NameMap::new(format, all);
        let mut seen = std::collections::HashSet::new();
        for name in all {
            let shown = names.to_listed(name).to_owned();
            let fits = !shown.is_empty()
                && shown.len() <= 64
                && shown
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
            assert!(fits, "{name} {shown}");
            assert!(seen.insert(shown.clone()), "{shown} twice");
            assert_eq!(names.to_tool(&shown), name);
        }
        for name in ["read_file", "Read", "get-time", "files_read"] {
            assert_eq!(names.to_listed(name), name);
        }
        assert_eq!(names.to_listed("2nd"), "_2nd");
        assert_eq!(names.to_listed("héllo"), "h_llo");
        // The order of tools does not matter.
        let turned = NameMap::new(format, all.into_iter().rev());
        for name in all {
            assert_eq!(names.to_listed(name), turned.to_listed(name));
        }
        assert_eq!(names.to_tool("unknown"), "unknown");
    }
}

#[test]
fn conflicting_names_both_get_a_suffix() {
    let names = NameMap::new(Format::OpenAi, ["a.b", "a:b"]);
    let (one, other) = (names.to_listed("a.b"), names.to_listed("a:b"));
    assert!(one.starts_with("a_b_") && other.starts_with("a_b_"));
    assert_ne!(one, other);
    assert_eq!(NameMap::new(Format::Mcp, ["a.b"]).to_listed("a.b"), "a.b");
}

#[test]
fn unknown_format_names_have_a_hint() {
    for format in Format::ALL {
        assert_eq!(format.as_str().parse(), Ok(format));
    }
    for (name, message) in [
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
        assert_eq!(name.parse::<Format>().unwrap_err().to_string(), message);
    }
}
