//! Results of Kode-SDK for the model: any value for a success, `{ok: false, …}` for a failure.

use serde_json::{Value, json};

use crate::events::snapshot_view::object_without_nulls;
use toolhost_contract::{CallError, CallId, ErrorClass, Outcome, text};

/// The `tool_result` block of a message. Front ends use the same content.
pub fn tool_result(
    id: &CallId,
    tool: &str,
    answer: &Result<Outcome, CallError>,
    note: Option<&str>,
) -> Value {
    let content = content(tool, answer, note);
    let failed = match answer {
        // It completed with a logical failure.
        Ok(outcome) => outcome.is_error() || is_failure(&content),
        Err(_) => true,
    };
    json!({"type": "tool_result", "tool_use_id": id.0, "content": content, "is_error": failed})
}

/// `note` is the user's comment on a denial.
pub fn content(tool: &str, answer: &Result<Outcome, CallError>, note: Option<&str>) -> Value {
    match answer {
        Ok(outcome) => {
            let Some(failure) = &outcome.error else {
                return result_value(outcome);
            };
            // Results that already have Kode's form, from a tool or a hook, are returned unchanged.
            match &outcome.structured {
                Some(structured) if is_failure(structured) => structured.clone(),
                _ => failure_value(&failure.message, &failure.recommendations, note),
            }
        }
        Err(error) => {
            let own = own_recommendations(error.class).iter();
            let mut recommendations: Vec<String> = own.map(|&text| text.to_owned()).collect();
            recommendations.extend(suggested_names(error));
            recommendations.extend(error.recommendations.iter().cloned());
            let note = note.or_else(|| denial_comment(error));
            failure_value(&error_message(tool, error), &recommendations, note)
        }
    }
}

fn is_failure(content: &Value) -> bool {
    content["ok"] == false
}

fn failure_value(error: &str, recommendations: &[String], note: Option<&str>) -> Value {
    let recommendations = (!recommendations.is_empty()).then_some(recommendations);
    object_without_nulls([
        ("ok", json!(false)),
        ("error", json!(error)),
        ("recommendations", json!(recommendations)),
        ("note", json!(note)),
    ])
}

/// Extracts the user's comment, which Kode's message omits, from ``… the user rejected `tool`: note``.
fn denial_comment(error: &CallError) -> Option<&str> {
    if error.code != "user_denied" {
        return None;
    }
    let (_, tool_and_note) = error.message.split_once("the user rejected `")?;
    let (_, note) = tool_and_note.split_once("`: ")?;
    Some(note)
}

fn error_message(tool: &str, error: &CallError) -> String {
    match (error.class, error.code.as_str()) {
        (ErrorClass::NotRegistered, _) => {
            format!("Tool not found: {}", text::escape_line(tool, 128))
        }
        (_, "user_denied") => "Permission denied by user".to_owned(),
        (_, "policy_violation") => "Permission denied by policy".to_owned(),
        (_, "hook_denied") => {
            let message = error.message.as_str();
            let reason = message
                .strip_prefix("Permission denied: ")
                .unwrap_or(message);
            if reason.is_empty() {
                "Denied by hook".to_owned()
            } else {
                reason.to_owned()
            }
        }
        _ => error.message.clone(),
    }
}

/// The names in `Tool "x" not found. Did you mean: a, b?`, which Kode's message omits.
fn suggested_names(error: &CallError) -> Option<String> {
    if error.class != ErrorClass::NotRegistered {
        return None;
    }
    let (_, names) = error.message.split_once("Did you mean: ")?;
    Some(format!("did you mean: {names}"))
}

/// Kode's recommendations, which come before those of the host.
fn own_recommendations(class: ErrorClass) -> &'static [&'static str] {
    match class {
        ErrorClass::NotRegistered => &[
            "check that the tool is registered",
            "check the tools of the agent's template",
        ],
        ErrorClass::InvalidInput => &[
            "check the arguments against the tool's schema",
            "correct them and call again",
        ],
        ErrorClass::Denied
        | ErrorClass::NotFound
        | ErrorClass::TimedOut
        | ErrorClass::Cancelled
        | ErrorClass::LimitExceeded
        | ErrorClass::OutputLimit
        | ErrorClass::StackOverflow
        | ErrorClass::Trapped
        | ErrorClass::Unavailable
        | ErrorClass::Failed
        | ErrorClass::Internal => &[],
    }
}

/// Returns the structured value, or the text if there is none.
fn result_value(outcome: &Outcome) -> Value {
    outcome
        .structured
        .clone()
        .unwrap_or_else(|| Value::String(outcome.model_text()))
}
