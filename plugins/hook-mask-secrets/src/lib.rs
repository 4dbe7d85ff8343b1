//! Hook that masks passwords, tokens and keys in results before a model, user or log receives them.
//!
//! It checks every text of an outcome: content, structured output, display and error. Unknown kinds of secrets are not
//! detected; keep secrets where no tool can read them.

mod mask;
mod secret_finder;
mod token_patterns;

use mask::{mask_text, mask_value};
use toolhost_sdk::{FileDiff, Part, prelude::*};

fn after_call(_: &Context, _: &HookCall, outcome: &Outcome) -> After {
    let masked = mask_outcome(outcome.clone());
    if masked == *outcome {
        After::keep()
    } else {
        After::replace(masked)
    }
}

fn mask_outcome(outcome: Outcome) -> Outcome {
    let text = |text: Option<String>| text.map(mask_text);
    Outcome {
        summary: text(outcome.summary),
        llm: outcome.llm.into_iter().map(mask_part).collect(),
        structured: outcome.structured.map(mask_value),
        display: outcome.display.map(mask_display),
        error: outcome.error.map(mask_error),
        meta: outcome.meta.map(mask_value),
        // The input of a pending call must not change.
        tail: outcome.tail,
        truncated: outcome.truncated,
    }
}

fn mask_part(mut part: Part) -> Part {
    part.uri = part.uri.map(mask_text);
    part.text = part.text.map(|text| match json_value(&part.kind, &text) {
        Some(value) => mask_value(value).to_string(),
        None => mask_text(text),
    });
    // A file can contain text as well.
    part.data = part.data.map(|data| match String::from_utf8(data) {
        Ok(text) => mask_text(text).into_bytes(),
        Err(binary) => binary.into_bytes(),
    });
    part
}

/// JSON is masked value by value, so that it stays valid.
fn json_value(kind: &str, text: &str) -> Option<Value> {
    let is_json = kind == "json";
    is_json
        .then(|| toolhost_sdk::serde_json::from_str(text).ok())
        .flatten()
}

fn mask_display(display: Display) -> Display {
    let mask_diff = |diff: FileDiff| FileDiff {
        file_name: diff.file_name,
        diff: mask_text(diff.diff),
        original: diff.original.map(mask_text),
        new: mask_text(diff.new),
    };
    Display {
        kind: display.kind,
        text: display.text.map(mask_text),
        diff: display.diff.map(mask_diff),
        data: display.data.map(mask_value),
    }
}

fn mask_error(error: Error) -> Error {
    Error {
        message: mask_text(error.message),
        recommendations: error.recommendations.into_iter().map(mask_text).collect(),
        cause: error.cause.map(mask_text),
        details: error.details.map(mask_value),
        ..error
    }
}

export_hooks! { after: after_call }

#[cfg(test)]
mod tests {
    use super::*;

    fn after(outcome: Outcome) -> After {
        after_call(
            &Context::test(),
            &HookCall::new("shell", json!({})),
            &outcome,
        )
    }

    #[test]
    fn r_216_secrets_are_masked_everywhere_in_an_outcome() {
        let with = |secret: &str| {
            let line = format!("password={secret}");
            let diff = FileDiff {
                file_name: "f".to_owned(),
                diff: format!("+{line}"),
                original: Some(line.clone()),
                new: line.clone(),
            };
            let display = Display {
                data: Some(json!([line])),
                text: Some(line.clone()),
                ..Display::diff(diff)
            };
            let error = Error::failed(&line).recommend(&line).cause(&line);
            Outcome::text(&line)
                .part(Part::json(&json!({"password": secret, "n": 1})))
                .part(Part::file(line.as_bytes(), "text/plain"))
                .part(Part::resource_link(
                    format!("https://ann:{secret}@h/x"),
                    "x",
                ))
                .structured(&json!({"output": line, "api_key": secret}))
                .summary(&line)
                .display(display)
                .logical_error(error)
                .meta(json!({"env": {"DB_PASSWORD": secret}}))
        };
        assert_eq!(after(with("hunter2")), After::replace(with("***")));
        assert_eq!(
            after(with("***")),
            After::keep(),
            "a second time it changes nothing"
        );
    }

    #[test]
    fn r_216_an_outcome_without_secrets_stays_as_it_is() {
        let outcome = Outcome::text("hello")
            .part(Part::image([0xff_u8, 0xd8], "image/jpeg"))
            .part(Part::json(&json!({"b": 1, "a": [2.5, null]})))
            .tail("next", json!({"password": "needed"}));
        assert_eq!(after(outcome), After::keep());
    }
}
