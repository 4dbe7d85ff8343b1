//! Bindings of the interface `hooks`, and conversion of hook results to host types.

use serde_json::Value;
use toolhost_contract::hook::{OutcomePatch, PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_contract::{
    CallError, Display, ErrorClass, Failure, FileDiff, Outcome, Part, TailCall, Truncation,
    exact_integers, text, value_counter,
};

use super::outcomes::{self, outcome, outcome_size};
use super::types;

wasmtime::component::bindgen!({
    path: "../../wit/v0.1",
    world: "hook",
    exports: { default: async },
    with: {
        "toolhost:plugin/types@0.1.0": super::toolhost::plugin::types,
        "toolhost:plugin/host@0.1.0": super::toolhost::plugin::host,
    },
});

pub use exports::toolhost::plugin::hooks::{
    Patch as RawPatch, PostToolUseResult, PreToolUseResult,
};

/// Maximum size of a reason, which a prompt shows to the user, in bytes.
const MAX_REASON: usize = 16 << 10;
/// Maximum size of the metadata that a hook adds to a prompt, in bytes.
const MAX_META: usize = 64 << 10;

/// Size limits of a hook's results, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct HookLimits {
    /// Limit of an input that replaces the call's input.
    pub input: u64,
    /// Limit of an outcome.
    pub output: u64,
}

/// Converts the verdict of a pre-call hook.
pub fn before(raw: PreToolUseResult, room: HookLimits) -> Result<PreHookResponse, CallError> {
    let PreToolUseResult {
        decision: decision_name,
        reason,
        updated_input,
        outcome: stands,
        meta,
    } = raw;
    let reason = reason.map(|reason| text::head(&reason, MAX_REASON).to_owned());
    let updated_input = updated_input
        .map(|text| object("input", &text, room.input))
        .transpose()?;
    let meta = meta
        .map(|text| object("meta", &text, MAX_META as u64))
        .transpose()?;
    let stands = stands
        .map(|raw| outcome(raw, room.output).map(Box::new))
        .transpose()?;
    let decision = match (decision_name.as_str(), stands) {
        ("continue", None) => PreHookDecision::Continue,
        ("ask", None) => PreHookDecision::Ask { reason, meta },
        ("deny", outcome) => PreHookDecision::Deny { reason, outcome },
        ("result", Some(outcome)) => PreHookDecision::Result(outcome),
        ("result", None) => {
            return Err(invalid_result("the decision `result` requires an outcome"));
        }
        ("continue" | "ask", Some(_)) => {
            return Err(invalid_result(&format!(
                "the decision `{decision_name}` has an outcome; only `result` and `deny` may have one"
            )));
        }
        // The operator's own hook commands may return `allow`, but components may not: third-party code can only
        // make the host stricter.
        ("allow", _) => {
            return Err(invalid_result(
                "a component may not return `allow`; write an allow rule, or return `continue`",
            ));
        }
        (other, _) => {
            return Err(invalid_result(&format!(
                "`{}` is not a decision; use continue, ask, deny or result",
                text::escape_line(other, 40)
            )));
        }
    };
    Ok(PreHookResponse {
        decision,
        updated_input,
    })
}

/// Converts the revision of a post-call hook.
pub fn after(raw: PostToolUseResult, room: HookLimits) -> Result<PostHookResponse, CallError> {
    let PostToolUseResult {
        action,
        patch,
        outcome: replacement,
    } = raw;
    match (action.as_str(), patch, replacement) {
        ("keep", None, None) => Ok(PostHookResponse::Keep),
        ("update", Some(patch), None) => {
            Ok(PostHookResponse::Update(Box::new(update(patch, room)?)))
        }
        ("replace", None, Some(raw)) => Ok(PostHookResponse::Replace(Box::new(outcome(
            raw,
            room.output,
        )?))),
        ("keep" | "update" | "replace", _, _) => Err(invalid_result(&format!(
            "the action `{action}` has the wrong fields: `update` takes a patch, `replace` an outcome, `keep` neither"
        ))),
        (other, _, _) => Err(invalid_result(&format!(
            "`{}` is not an action; use keep, update or replace",
            text::escape_line(other, 40)
        ))),
    }
}

/// A patch is a partial outcome, so it is validated as one.
fn update(raw: RawPatch, room: HookLimits) -> Result<OutcomePatch, CallError> {
    let has_llm = raw.llm.is_some();
    let part = types::Outcome {
        summary: raw.summary,
        llm: raw.llm.unwrap_or_default(),
        structured: raw.structured,
        display: None,
        error: None,
        truncated: None,
        tail: None,
        meta: raw.meta,
    };
    let part = outcome(part, room.output)?;
    Ok(OutcomePatch {
        summary: part.summary,
        llm: has_llm.then_some(part.llm),
        structured: part.structured,
        meta: part.meta,
        text_only: false,
    })
}

fn object(label: &str, text: &str, limit: u64) -> Result<Value, CallError> {
    if text.len() as u64 > limit {
        return Err(CallError::new(
            ErrorClass::OutputLimit,
            format!(
                "the hook's {label} is {} bytes; the limit is {limit} bytes",
                text.len()
            ),
        ));
    }
    if !value_counter::are_within_limit([text]) {
        return Err(outcomes::too_many_values(&format!("the hook's {label}")));
    }
    match exact_integers::parse_exact::<Value>(text) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(invalid_result(&format!("the {label} is not a JSON object"))),
        Err(error) => Err(invalid_result(&format!(
            "the {label} is not valid JSON: {error}"
        ))),
    }
}

fn invalid_result(why: &str) -> CallError {
    CallError::new(
        ErrorClass::Failed,
        format!("the hook returned an invalid result: {why}"),
    )
    .code("invalid_output")
}

/// Converts an outcome for a hook. An outcome larger than `limit` is an error, because a hook must not decide on a
/// part of it.
pub fn outcome_to_wit(outcome: &Outcome, limit: u64) -> Result<types::Outcome, CallError> {
    let shown = types::Outcome {
        summary: outcome.summary.clone(),
        llm: outcome.llm.iter().map(part_to_wit).collect(),
        structured: outcome.structured.as_ref().map(Value::to_string),
        display: outcome.display.as_ref().map(display_to_wit),
        error: outcome.error.as_ref().map(failure_to_wit),
        truncated: outcome.truncated.as_ref().map(truncation_to_wit),
        tail: outcome.tail.as_ref().map(tail_to_wit),
        meta: outcome.meta.as_ref().map(Value::to_string),
    };
    let size = outcome_size(&shown);
    if size > limit {
        return Err(CallError::new(
            ErrorClass::LimitExceeded,
            format!("the outcome of {size} bytes exceeds this hook's limit of {limit} bytes"),
        )
        .recommend("ask for less, or raise `output` in the limits of the hook's plugin"));
    }
    Ok(shown)
}

fn part_to_wit(part: &Part) -> types::Part {
    let mut shown = types::Part {
        kind: String::new(),
        text: None,
        data: None,
        media_type: None,
        uri: None,
        name: None,
    };
    let kind = match part {
        Part::Text(text) => {
            shown.text = Some(text.clone());
            "text"
        }
        Part::Json(value) => {
            shown.text = Some(value.to_string());
            "json"
        }
        Part::Image { data, media_type } => {
            shown.data = Some(data.clone());
            shown.media_type = Some(media_type.clone());
            "image"
        }
        Part::Audio { data, media_type } => {
            shown.data = Some(data.clone());
            shown.media_type = Some(media_type.clone());
            "audio"
        }
        Part::File {
            data,
            media_type,
            uri,
            name,
        } => {
            shown.data = Some(data.clone());
            shown.media_type = Some(media_type.clone());
            shown.uri.clone_from(uri);
            shown.name.clone_from(name);
            "file"
        }
        Part::ResourceLink {
            uri,
            name,
            media_type,
        } => {
            shown.uri = Some(uri.clone());
            shown.name.clone_from(name);
            shown.media_type.clone_from(media_type);
            "resource-link"
        }
        Part::Other { kind, text } => {
            shown.text.clone_from(text);
            kind
        }
    };
    kind.clone_into(&mut shown.kind);
    shown
}

fn display_to_wit(display: &Display) -> types::Display {
    types::Display {
        kind: display.kind.clone(),
        text: display.text.clone(),
        diff: display.diff.as_ref().map(diff_to_wit),
        data: display.data.as_ref().map(Value::to_string),
    }
}

fn diff_to_wit(diff: &FileDiff) -> types::FileDiff {
    types::FileDiff {
        file_name: diff.file_name.clone(),
        diff: diff.diff.clone(),
        original: diff.original.clone(),
        new: diff.new.clone(),
    }
}

fn failure_to_wit(failure: &Failure) -> types::Failure {
    types::Failure {
        code: failure.code.clone(),
        message: failure.message.clone(),
        recommendations: failure.recommendations.clone(),
        retryable: failure.retryable,
        cause: failure.cause.clone(),
        details: failure.details.as_ref().map(Value::to_string),
    }
}

fn truncation_to_wit(truncated: &Truncation) -> types::Truncation {
    types::Truncation {
        original_bytes: truncated.original_bytes,
        shown_bytes: truncated.shown_bytes,
        saved_to: truncated.saved_to.clone(),
    }
}

fn tail_to_wit(tail: &TailCall) -> types::TailCall {
    types::TailCall {
        tool: tail.tool.clone(),
        input: tail.input.to_string(),
    }
}

#[cfg(test)]
mod tests;
