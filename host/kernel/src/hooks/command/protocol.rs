//! The JSON protocol of command hooks: encoding events and decoding answers, without I/O.

use std::path::Path;

use serde_json::{Value, json};
use toolhost_contract::hook::{OutcomePatch, PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_contract::{Failure, Outcome, Part, text};

use super::answer::{Answer, DecisionKeyword, MAX_REASON, ProtocolError, reject_misplaced};
use super::{HookEvent, STOP_CODE};
use crate::hooks::HookCall;

type Result<T> = std::result::Result<T, ProtocolError>;

/// Returns the event for a call that is about to run or has ended with `outcome`.
pub(super) fn call_event(
    event: HookEvent,
    call: &HookCall,
    outcome: Option<&Outcome>,
    dir: &Path,
) -> Value {
    let tool = &call.tool;
    // A tool that was renamed to avoid a conflict is identified by both names.
    let own = (call.name != tool.name).then(|| tool.name.as_str());
    let aliases: Vec<&str> = own
        .into_iter()
        .chain(tool.aliases.iter().map(String::as_str))
        .collect();
    let mut message = json!({
        "event": event.as_str(),
        "session_id": call.call.caller.session,
        "agent_id": call.call.caller.agent,
        "call_id": call.call.id.0,
        "cwd": dir.to_string_lossy(),
        "mode": call.mode,
        "tool": {
            "name": call.name.as_str(),
            "aliases": aliases,
            "version": tool.version,
            "plugin": call.plugin.as_str(),
        },
        "input": call.call.input,
    });
    if let Some(outcome) = outcome {
        message["result"] = result_of(outcome);
    }
    message
}

pub(super) fn messages_event(session: &str, messages: &Value, dir: &Path) -> Value {
    json!({
        "event": HookEvent::MessagesChanged.as_str(),
        "session_id": session,
        "cwd": dir.to_string_lossy(),
        "messages": messages,
    })
}

/// Encodes an outcome in the form that answers use, so that a command can return it with few changes.
fn result_of(outcome: &Outcome) -> Value {
    let mut result = json!({"text": outcome.model_text(), "is_error": outcome.is_error()});
    let code = outcome.error.as_ref().and_then(|error| error.code.clone());
    for (name, value) in [
        ("summary", outcome.summary.clone().map(Value::String)),
        ("structured", outcome.structured.clone()),
        ("code", code.map(Value::String)),
        ("meta", outcome.meta.clone()),
    ] {
        if let Some(value) = value {
            result[name] = value;
        }
    }
    result
}

/// Parses the answer to the event before a call.
pub(super) fn before(stdout: &[u8]) -> Result<PreHookResponse> {
    let Some(answer) = Answer::parse(stdout)? else {
        return Ok(PreHookResponse::default());
    };
    let location = "before a call";
    let fix = "use `result` to answer instead of the tool";
    reject_misplaced(answer.replace.is_some(), "replace", location, fix)?;
    reject_misplaced(answer.update.is_some(), "update", location, fix)?;
    let fix = "use it in the event PostToolUse";
    reject_misplaced(
        answer.context.is_some(),
        "additional_context",
        location,
        fix,
    )?;
    let asks = answer.decision == Some(DecisionKeyword::Ask) && !answer.stop;
    let fix = "use it with the decision ask or inside `result`";
    reject_misplaced(answer.meta.is_some() && !asks, "meta", location, fix)?;
    let fix = "use the decision allow or deny";
    reject_misplaced(answer.result.is_some() && asks, "result", "with ask", fix)?;

    let reason = answer.reason;
    let decision = if answer.stop {
        PreHookDecision::Deny {
            outcome: Some(Box::new(stop_outcome(reason.as_deref()))),
            reason,
        }
    } else {
        match (answer.decision, answer.result) {
            (Some(DecisionKeyword::Deny), result) => PreHookDecision::Deny {
                reason,
                outcome: result.map(|result| Box::new(result.outcome())),
            },
            (Some(DecisionKeyword::Ask), _) => PreHookDecision::Ask {
                reason,
                meta: answer.meta,
            },
            (Some(DecisionKeyword::Allow | DecisionKeyword::Continue) | None, Some(result)) => {
                PreHookDecision::Result(Box::new(result.outcome()))
            }
            (Some(DecisionKeyword::Allow), None) => PreHookDecision::Allow { reason },
            (Some(DecisionKeyword::Continue) | None, None) => PreHookDecision::Continue,
        }
    };
    Ok(PreHookResponse {
        decision,
        updated_input: answer.updated_input,
    })
}

/// Parses the answer to the event after a call with `outcome`.
pub(super) fn after(stdout: &[u8], outcome: &Outcome) -> Result<PostHookResponse> {
    let Some(answer) = Answer::parse(stdout)? else {
        return Ok(PostHookResponse::Keep);
    };
    let location = "after a call";
    let fix = "the tool has already run; use it in the event PreToolUse";
    reject_misplaced(
        answer.updated_input.is_some(),
        "updated_input",
        location,
        fix,
    )?;
    let fix = "use `replace` or `update`";
    reject_misplaced(answer.result.is_some(), "result", location, fix)?;
    let fix = "the tool has already run; use deny to withhold its result";
    reject_misplaced(
        answer.decision == Some(DecisionKeyword::Ask),
        "decision: ask",
        location,
        fix,
    )?;

    let fix = "put it into `replace` or `update`";
    reject_misplaced(answer.meta.is_some(), "meta", location, fix)?;
    let both = answer.replace.is_some() && answer.update.is_some();
    let fix = "use one of the two";
    reject_misplaced(both, "update", "with `replace`", fix)?;

    if answer.stop {
        return Ok(PostHookResponse::Replace(Box::new(stop_outcome(
            answer.reason.as_deref(),
        ))));
    }
    let withholds = answer.decision == Some(DecisionKeyword::Deny);
    let fix = "no result is left to update; use `replace`";
    reject_misplaced(
        withholds && answer.update.is_some(),
        "update",
        "with deny",
        fix,
    )?;
    let change = match (answer.replace, answer.update) {
        (Some(result), _) => PostHookResponse::Replace(Box::new(result.outcome())),
        (None, _) if withholds => withheld_outcome(answer.reason.as_deref()),
        (None, Some(result)) => PostHookResponse::Update(Box::new(result.patch()?)),
        (None, None) => PostHookResponse::Keep,
    };
    Ok(match answer.context {
        Some(context) => add_context(change, context, outcome),
        None => change,
    })
}

/// Returns the result that replaces a blocked one. It must not contain the original, and must tell the model that the
/// tool has run.
pub(super) fn withheld_outcome(reason: Option<&str>) -> PostHookResponse {
    let reason = reason.unwrap_or("no reason given");
    let message = format!("the tool ran, but a hook withheld its result: {reason}");
    PostHookResponse::Replace(Box::new(error_outcome("hook_denied", message)))
}

/// Returns the end of standard error as a reason for the model.
pub(super) fn reason(stderr: &[u8]) -> Option<String> {
    let message = String::from_utf8_lossy(stderr);
    let message = text::escape_lines(text::tail(message.trim(), MAX_REASON), MAX_REASON);
    (!message.is_empty()).then_some(message)
}

fn stop_outcome(reason: Option<&str>) -> Outcome {
    error_outcome(
        STOP_CODE,
        reason.unwrap_or("a hook stopped the agent").to_owned(),
    )
}

fn error_outcome(code: &str, message: String) -> Outcome {
    Outcome {
        error: Some(Failure::new(code, message)),
        ..Outcome::default()
    }
}

/// Adds a text part with the context to the change.
fn add_context(change: PostHookResponse, context: String, outcome: &Outcome) -> PostHookResponse {
    let changed = change.clone().apply(outcome.clone());
    let mut parts = changed.llm.clone();
    // Without parts, the model reads another member, which a first part would hide, so it is added first.
    if parts.is_empty() && (changed.structured.is_some() || changed.is_error()) {
        parts.push(Part::Text(changed.model_text()));
    }
    parts.push(Part::Text(context));
    let longer = OutcomePatch {
        llm: Some(parts),
        ..OutcomePatch::default()
    };
    match change {
        PostHookResponse::Keep => PostHookResponse::Update(Box::new(longer)),
        PostHookResponse::Update(patch) => PostHookResponse::Update(Box::new(OutcomePatch {
            llm: longer.llm,
            ..*patch
        })),
        PostHookResponse::Replace(other) => {
            let longer = PostHookResponse::Update(Box::new(longer));
            PostHookResponse::Replace(Box::new(longer.apply(*other)))
        }
    }
}

#[cfg(test)]
mod tests;
