//! Hook that truncates results that are too long for a model.
//!
//! A result of more than 100 000 characters of text becomes its first 10 000 and a line that states its length.
//! Structured output and display stay complete.

use toolhost_sdk::{Part, Truncation, prelude::*};

/// Limit of characters of one result.
const LIMIT: usize = 100_000;
/// Characters that remain of a longer one.
const SHOWN: usize = 10_000;

fn after_call(_: &Context, _: &HookCall, outcome: &Outcome) -> After {
    let parts = parts(outcome);
    let texts = || parts.iter().filter_map(text_of);
    let characters: usize = texts().map(|text| text.chars().count()).sum();
    if characters <= LIMIT {
        return After::keep();
    }
    let bytes: usize = texts().map(str::len).sum();
    let (mut llm, shown) = shorten(&parts);
    llm.push(Part::text(format!(
        "[the result is {characters} characters long; these are its first {SHOWN}]"
    )));
    // If the tool truncated its own result, its information about the original is more accurate.
    let earlier = outcome.truncated.clone();
    let truncated = Truncation {
        original_bytes: earlier
            .as_ref()
            .map_or(0, |earlier| earlier.original_bytes)
            .max(bytes as u64),
        shown_bytes: shown as u64,
        saved_to: earlier.and_then(|earlier| earlier.saved_to),
    };
    After::replace(Outcome {
        llm,
        truncated: Some(truncated),
        ..outcome.clone()
    })
}

/// The content for the model; without content, the structured output.
fn parts(outcome: &Outcome) -> Vec<Part> {
    match &outcome.structured {
        Some(Value::String(text)) if outcome.llm.is_empty() => vec![Part::text(text.as_str())],
        Some(value) if outcome.llm.is_empty() && outcome.error.is_none() => {
            vec![Part::text(format!("{value:#}"))]
        }
        _ => outcome.llm.clone(),
    }
}

fn text_of(part: &Part) -> Option<&str> {
    let is_text = part.data.is_none() && part.kind != "resource-link";
    part.text.as_deref().filter(|_| is_text)
}

/// The parts with `SHOWN` characters of text, and the size of that in bytes. Images and other media stay.
fn shorten(parts: &[Part]) -> (Vec<Part>, usize) {
    let (mut left, mut bytes) = (SHOWN, 0);
    let mut short = Vec::new();
    for part in parts {
        let Some(text) = text_of(part) else {
            short.push(part.clone());
            continue;
        };
        let end = text
            .char_indices()
            .nth(left)
            .map_or(text.len(), |(at, _)| at);
        let head = &text[..end];
        if left > 0 {
            left -= head.chars().count();
            bytes += head.len();
            // A prefix of JSON is not valid JSON.
            short.push(if end < text.len() {
                Part::text(head)
            } else {
                part.clone()
            });
        }
    }
    (short, bytes)
}

export_hooks! { after: after_call }

#[cfg(test)]
mod tests {
    use super::*;

    fn after(outcome: &Outcome) -> Outcome {
        let call = HookCall::new("read_file", json!({"path": "x"}));
        after_call(&Context::test(), &call, outcome).apply(outcome.clone())
    }

    fn note(characters: usize) -> String {
        format!("[the result is {characters} characters long; these are its first 10000]")
    }

    fn check(outcome: Outcome, expected: Outcome) {
        let cut = after(&outcome);
        assert_eq!(cut, expected);
        assert_eq!(after(&cut), cut, "a second time it changes nothing");
    }

    #[test]
    fn r_215_a_long_text_is_cut_and_says_how_long_it_was() {
        let expected = Outcome::text("x".repeat(10_000))
            .part(Part::text(note(100_001)))
            .truncated(100_001, 10_000);
        check(Outcome::text("x".repeat(100_001)), expected);
    }

    #[test]
    fn r_215_a_text_within_the_limit_stays() {
        for length in [0, 10_001, 100_000] {
            let outcome = Outcome::text("ä".repeat(length)).summary("s");
            check(outcome.clone(), outcome);
        }
    }

    #[test]
    fn r_215_characters_are_never_cut_in_two() {
        let expected = Outcome::text("€".repeat(10_000))
            .part(Part::text(note(150_000)))
            .truncated(450_000, 30_000);
        check(Outcome::text("€".repeat(150_000)), expected);
    }

    #[test]
    fn r_215_texts_are_counted_together_and_pictures_stay() {
        let picture = || Part::image([1_u8], "image/png");
        let outcome = Outcome::text("a".repeat(9_000))
            .part(picture())
            .part(Part::text("b".repeat(60_000)))
            .part(Part::text("c".repeat(60_000)))
            .part(picture());
        let expected = Outcome::text("a".repeat(9_000))
            .part(picture())
            .part(Part::text("b".repeat(1_000)))
            .part(picture())
            .part(Part::text(note(129_000)))
            .truncated(129_000, 10_000);
        check(outcome, expected);
    }

    #[test]
    fn r_215_data_that_stands_for_text_is_cut_for_the_model_and_whole_for_programs() {
        let outcome = Outcome::new().structured(&"x".repeat(200_000));
        let expected = Outcome::text("x".repeat(10_000))
            .part(Part::text(note(200_000)))
            .structured(&"x".repeat(200_000))
            .truncated(200_000, 10_000);
        check(outcome, expected);

        let list = json!(vec![1; 60_000]);
        let cut = after(&Outcome::new().structured(&list));
        assert_eq!(cut.structured, Some(list));
        assert_eq!(cut.llm[0].text.as_ref().map(String::len), Some(10_000));
    }

    #[test]
    fn r_215_json_that_is_cut_is_text() {
        let outcome = Outcome::new().part(Part::json(&json!("x".repeat(200_000))));
        let cut = after(&outcome);
        assert_eq!((cut.llm[0].kind.as_str(), cut.llm.len()), ("text", 2));
    }

    #[test]
    fn r_215_what_a_tool_knows_of_its_own_cut_is_kept() {
        let earlier = Truncation {
            original_bytes: 5_000_000,
            shown_bytes: 200_000,
            saved_to: Some("/tmp/all".to_owned()),
        };
        let mut outcome = Outcome::text("x".repeat(200_000));
        outcome.truncated = Some(earlier.clone());
        let expected = Truncation {
            shown_bytes: 10_000,
            ..earlier
        };
        assert_eq!(after(&outcome).truncated, Some(expected));
    }
}
