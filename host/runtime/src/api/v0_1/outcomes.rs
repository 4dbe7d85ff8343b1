//! Conversion of outcomes, failures and errors of a call, with limits on their size.

use serde_json::Value;
use toolhost_contract::{
    CallError, ErrorClass, Failure, Outcome, Part, TailCall, Truncation, exact_integers, text,
    value_counter,
};

use super::{RESERVED_PREFIX, preview, types};

const MAX_RECOMMENDATIONS: usize = 16;
/// Maximum size of one recommendation, in bytes.
const MAX_RECOMMENDATION: usize = 2_000;
/// Maximum size of the details of one failure, in bytes.
pub const MAX_DETAILS: usize = 16 << 10;

/// Converts the outcome of a call. `limit` bounds the total size of its texts and blobs, in bytes.
pub fn outcome(raw: types::Outcome, limit: u64) -> Result<Outcome, CallError> {
    let size = outcome_size(&raw);
    if size > limit {
        return Err(too_large(size, limit));
    }
    if !value_counter::are_within_limit(json_texts(&raw)) {
        return Err(too_many_values("the result"));
    }
    let bad = |label: &str, error: String| {
        CallError::new(
            ErrorClass::Failed,
            format!("the tool returned an invalid {label}: {error}"),
        )
        .code("invalid_output")
    };
    let json = |label: &'static str, text: Option<String>| {
        text.map(|text| {
            exact_integers::parse_exact::<Value>(&text).map_err(|error| bad(label, error))
        })
        .transpose()
    };
    let llm = raw
        .llm
        .into_iter()
        .map(|raw| part(raw).map_err(|error| bad("content part", error)))
        .collect::<Result<_, _>>()?;
    Ok(Outcome {
        summary: raw.summary,
        llm,
        structured: json("structured result", raw.structured)?,
        display: raw.display.map(preview::display).transpose()?,
        error: raw.error.map(failure),
        truncated: raw.truncated.map(|truncated| Truncation {
            original_bytes: truncated.original_bytes,
            shown_bytes: truncated.shown_bytes,
            saved_to: truncated.saved_to,
        }),
        tail: raw
            .tail
            .map(|tail| {
                Ok::<_, CallError>(TailCall {
                    tool: tail.tool,
                    input: json("tail call", Some(tail.input))?.unwrap_or_default(),
                })
            })
            .transpose()?,
        meta: json("meta", raw.meta)?.map(without_reserved),
    })
}

/// The error for a result above its limit, both in bytes.
pub fn too_large(size: u64, limit: u64) -> CallError {
    CallError::new(
        ErrorClass::OutputLimit,
        format!("the result is {size} bytes; the limit is {limit} bytes"),
    )
    .recommend("ask for less: a narrower path or pattern, or a range")
}

/// The error for JSON with too many values, whose memory does not depend on its size in bytes.
pub(super) fn too_many_values(what: &str) -> CallError {
    let limit = value_counter::MAX_VALUES;
    CallError::new(
        ErrorClass::OutputLimit,
        format!("{what} has more than {limit} JSON values"),
    )
    .recommend("ask for less: a narrower path or pattern, or a range")
}

/// All texts of an outcome that are parsed as JSON.
fn json_texts(raw: &types::Outcome) -> impl Iterator<Item = &str> {
    let parts = raw.llm.iter().filter(|part| part.kind == "json");
    let display = raw
        .display
        .as_ref()
        .and_then(|display| display.data.as_ref());
    let details = raw.error.as_ref().and_then(|error| error.details.as_ref());
    parts
        .filter_map(|part| part.text.as_ref())
        .chain(&raw.structured)
        .chain(&raw.meta)
        .chain(raw.tail.as_ref().map(|tail| &tail.input))
        .chain(display)
        .chain(details)
        .map(String::as_str)
}

pub(super) fn outcome_size(raw: &types::Outcome) -> u64 {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let parts: usize = raw
        .llm
        .iter()
        .map(|part| {
            let names =
                part.kind.len() + text(&part.media_type) + text(&part.uri) + text(&part.name);
            text(&part.text) + part.data.as_ref().map_or(0, Vec::len) + names + 64
        })
        .sum();
    let error = raw.error.as_ref().map_or(0, |error| {
        let advice: usize = error
            .recommendations
            .iter()
            .map(|advice| advice.len() + 24)
            .sum();
        text(&error.code) + error.message.len() + advice + text(&error.cause) + text(&error.details)
    });
    let tail = raw
        .tail
        .as_ref()
        .map_or(0, |tail| tail.tool.len() + tail.input.len());
    let saved_to = raw
        .truncated
        .as_ref()
        .map_or(0, |truncated| text(&truncated.saved_to));
    let rest = text(&raw.summary) + text(&raw.structured) + text(&raw.meta);
    (parts + error + tail + saved_to + rest) as u64 + raw.display.as_ref().map_or(0, display_size)
}

pub(super) fn display_size(display: &types::Display) -> u64 {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let diff = display.diff.as_ref().map_or(0, |diff| {
        diff.file_name.len() + diff.diff.len() + text(&diff.original) + diff.new.len()
    });
    (display.kind.len() + text(&display.text) + text(&display.data) + diff) as u64
}

fn part(raw: types::Part) -> Result<Part, String> {
    let media =
        |media: Option<String>| media.unwrap_or_else(|| "application/octet-stream".to_owned());
    Ok(match (raw.kind.as_str(), raw.data) {
        ("text", _) => Part::Text(raw.text.unwrap_or_default()),
        ("json", _) => Part::Json(exact_integers::parse_exact(&raw.text.unwrap_or_default())?),
        ("image", Some(data)) => Part::Image {
            data,
            media_type: media(raw.media_type),
        },
        ("audio", Some(data)) => Part::Audio {
            data,
            media_type: media(raw.media_type),
        },
        ("file", Some(data)) => Part::File {
            data,
            media_type: media(raw.media_type),
            uri: raw.uri,
            name: raw.name,
        },
        ("resource-link", _) => Part::ResourceLink {
            uri: raw.uri.unwrap_or_default(),
            name: raw.name,
            media_type: raw.media_type,
        },
        (kind, _) => Part::Other {
            kind: text::escape_line(kind, 64),
            text: raw.text,
        },
    })
}

/// Error codes of the host. A tool that uses one could imitate a denial or cancellation.
pub(super) const RESERVED: [&str; 12] = [
    "approval_pending",
    "cancelled",
    "capability_missing",
    "duplicate_call_id",
    "hook_denied",
    "policy_violation",
    "repeated_failure",
    "sealed",
    "sibling_cancelled",
    "stop_execution",
    "store_unavailable",
    "user_denied",
];

/// The code of a failure as the tool gave it, except for those of the host.
pub fn error_code(raw: &str) -> String {
    if RESERVED.contains(&raw) {
        format!("tool:{raw}")
    } else {
        text::escape_line(raw, 64)
    }
}

fn failure(mut raw: types::Failure) -> Failure {
    Failure {
        details: details(&mut raw),
        code: raw.code.as_deref().map(error_code),
        message: raw.message,
        recommendations: recommendations(&raw.recommendations),
        retryable: raw.retryable,
        cause: raw.cause,
    }
}

fn recommendations(raw: &[String]) -> Vec<String> {
    raw.iter()
        .take(MAX_RECOMMENDATIONS)
        .map(|advice| text::head(advice, MAX_RECOMMENDATION).to_owned())
        .collect()
}

/// The details of a failure. Invalid details must not hide the failure, so they are replaced by a note in its cause.
fn details(raw: &mut types::Failure) -> Option<Value> {
    let text = raw.details.take()?;
    let problem = if text.len() > MAX_DETAILS {
        format!("{} bytes; the limit is {MAX_DETAILS}", text.len())
    } else {
        match exact_integers::parse_exact::<Value>(&text) {
            Ok(value) if value.is_object() => return Some(without_reserved(value)),
            Ok(_) => "not a JSON object".to_owned(),
            Err(error) => format!("not JSON: {error}"),
        }
    };
    let cause = raw.cause.take().map_or(String::new(), |cause| cause + "\n");
    raw.cause = Some(format!("{cause}the details of the failure are {problem}"));
    None
}

/// Removes members that belong to later versions of the contract, so that this host passes on only what it understands.
fn without_reserved(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.retain(|name, _| !name.starts_with(RESERVED_PREFIX));
    }
    value
}

pub fn error(raw: types::ToolError) -> CallError {
    let (class, mut raw) = match raw {
        types::ToolError::InvalidInput(failure) => (ErrorClass::InvalidInput, failure),
        types::ToolError::NotFound(failure) => (ErrorClass::NotFound, failure),
        types::ToolError::Denied(failure) => (ErrorClass::Denied, failure),
        types::ToolError::Interrupted(failure) if failure.code.as_deref() == Some("timeout") => {
            (ErrorClass::TimedOut, failure)
        }
        types::ToolError::Interrupted(failure) => (ErrorClass::Cancelled, failure),
        types::ToolError::Unavailable(failure) => (ErrorClass::Unavailable, failure),
        types::ToolError::Failed(failure) => (ErrorClass::Failed, failure),
    };
    let mut error = CallError::new(class, text::head(&raw.message, 16 << 10));
    error.details = details(&mut raw);
    if let Some(code) = raw.code {
        error.code = error_code(&code);
    }
    error.recommendations = recommendations(&raw.recommendations);
    error.retryable = raw.retryable;
    error.cause = raw.cause.map(|cause| text::escape_lines(&cause, 2_000));
    error
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_details(details: &str) -> CallError {
        error(types::ToolError::Unavailable(types::Failure {
            code: Some("busy".to_owned()),
            message: "the server is busy".to_owned(),
            recommendations: Vec::new(),
            retryable: true,
            cause: Some("503".to_owned()),
            details: Some(details.to_owned()),
        }))
    }

    #[test]
    fn details_of_a_failure_are_passed_on_without_reserved_members() {
        let error = with_details(r#"{"retry_after_ms": 2000, "dev.toolhost/later": 1}"#);
        assert_eq!(error.details, Some(json!({"retry_after_ms": 2000})));
        assert_eq!(error.cause.as_deref(), Some("503"));
    }

    #[test]
    fn invalid_details_do_not_hide_the_failure() {
        let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(MAX_DETAILS));
        for (details, problem) in [
            ("[1]", "not a JSON object"),
            ("{", "not JSON"),
            (long.as_str(), "the limit is 16384"),
        ] {
            let error = with_details(details);
            assert_eq!((error.code.as_str(), error.details), ("busy", None));
            let cause = error.cause.unwrap();
            assert!(
                cause.starts_with("503\nthe details") && cause.contains(problem),
                "{cause}"
            );
        }
    }

    #[test]
    fn the_values_of_all_parts_of_a_result_are_limited() {
        let half = format!("[{}0]", "[],".repeat(value_counter::MAX_VALUES / 4));
        let part = |text: &str| types::Part {
            kind: "json".to_owned(),
            text: Some(text.to_owned()),
            data: None,
            media_type: None,
            uri: None,
            name: None,
        };
        let result = |parts: Vec<types::Part>, structured: Option<&str>| types::Outcome {
            summary: None,
            llm: parts,
            structured: structured.map(str::to_owned),
            display: None,
            error: None,
            truncated: None,
            tail: None,
            meta: None,
        };
        assert!(outcome(result(vec![part(&half)], None), 4 << 20).is_ok());
        let error = outcome(result(vec![part(&half)], Some(&half)), 4 << 20).unwrap_err();
        assert_eq!(error.class, ErrorClass::OutputLimit);
        assert!(error.message.contains("100000 JSON values"), "{error:?}");
    }

    #[test]
    fn recommendations_of_a_failure_are_limited() {
        let failed = failure(types::Failure {
            code: None,
            message: "no".to_owned(),
            recommendations: vec!["x".repeat(1 << 20); 100],
            retryable: false,
            cause: None,
            details: None,
        });
        let bytes: usize = failed.recommendations.iter().map(String::len).sum();
        assert_eq!(bytes, MAX_RECOMMENDATIONS * MAX_RECOMMENDATION);
    }

    #[test]
    fn reserved_members_are_removed() {
        let reserved = json!({"a": 1, "dev.toolhost/later": 1});
        assert_eq!(without_reserved(reserved), json!({"a": 1}));
    }
}
