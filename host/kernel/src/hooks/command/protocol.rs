//! The JSON protocol of command hooks: encoding events and decoding answers, without I/O.

use std::path::Path;

use serde_json::{Value, json};
use toolhost_contract::hook::{After, Before, Decision, Patch};
use toolhost_contract::{Failure, Outcome, Part, text};

use super::answer::{Answer, MAX_REASON, ProtocolError, Word, misplaced};
use super::{HookEvent, STOP_CODE};
use crate::hooks::HookCall;

type Result<T> = std::result::Result<T, ProtocolError>;

/// Returns the event for a call that is about to run or has ended with `outcome`.
pub(super) fn told_of_call(
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
    let mut told = json!({
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
        told["result"] = result_of(outcome);
    }
    told
}

pub(super) fn told_of_messages(session: &str, messages: &Value, dir: &Path) -> Value {
    json!({
        "event": HookEvent::MessagesChanged.as_str(),
        "session_id": session,
        "cwd": dir.to_string_lossy(),
        "messages": messages,
    })
}

/// Encodes an outcome in the form that answers use, so that a command can return it with few changes.
fn result_of(outcome: &Outcome) -> Value {
    let mut told = json!({"text": outcome.model_text(), "is_error": outcome.is_error()});
    let code = outcome.error.as_ref().and_then(|error| error.code.clone());
    for (name, value) in [
        ("summary", outcome.summary.clone().map(Value::String)),
        ("structured", outcome.structured.clone()),
        ("code", code.map(Value::String)),
        ("meta", outcome.meta.clone()),
    ] {
        if let Some(value) = value {
            told[name] = value;
        }
    }
    told
}

/// Parses the answer to the event before a call.
pub(super) fn before(stdout: &[u8]) -> Result<Before> {
    let Some(answer) = Answer::parse(stdout)? else {
        return Ok(Before::default());
    };
    let place = "before a call";
    let fix = "use `result` to answer instead of the tool";
    misplaced(answer.replace.is_some(), "replace", place, fix)?;
    misplaced(answer.update.is_some(), "update", place, fix)?;
    let fix = "use it in the event PostToolUse";
    misplaced(answer.context.is_some(), "additional_context", place, fix)?;
    let asks = answer.word == Some(Word::Ask) && !answer.stop;
    let fix = "use it with the decision ask or inside `result`";
    misplaced(answer.meta.is_some() && !asks, "meta", place, fix)?;
    let fix = "use the decision allow or deny";
    misplaced(answer.result.is_some() && asks, "result", "with ask", fix)?;

    let reason = answer.reason;
    let decision = if answer.stop {
        Decision::Deny {
            outcome: Some(Box::new(stopped(reason.as_deref()))),
            reason,
        }
    } else {
        match (answer.word, answer.result) {
            (Some(Word::Deny), result) => Decision::Deny {
                reason,
                outcome: result.map(|result| Box::new(result.outcome())),
            },
            (Some(Word::Ask), _) => Decision::Ask {
                reason,
                meta: answer.meta,
            },
            (Some(Word::Allow | Word::Continue) | None, Some(result)) => {
                Decision::Result(Box::new(result.outcome()))
            }
            (Some(Word::Allow), None) => Decision::Allow { reason },
            (Some(Word::Continue) | None, None) => Decision::Continue,
        }
    };
    Ok(Before {
        decision,
        updated_input: answer.updated_input,
    })
}

/// Parses the answer to the event after a call with `outcome`.
pub(super) fn after(stdout: &[u8], outcome: &Outcome) -> Result<After> {
    let Some(answer) = Answer::parse(stdout)? else {
        return Ok(After::Keep);
    };
    let place = "after a call";
    let fix = "the tool has already run; use it in the event PreToolUse";
    misplaced(answer.updated_input.is_some(), "updated_input", place, fix)?;
    let fix = "use `replace` or `update`";
    misplaced(answer.result.is_some(), "result", place, fix)?;
    let fix = "the tool has already run; use deny to withhold its result";
    misplaced(answer.word == Some(Word::Ask), "decision: ask", place, fix)?;

    let fix = "put it into `replace` or `update`";
    misplaced(answer.meta.is_some(), "meta", place, fix)?;
    let both = answer.replace.is_some() && answer.update.is_some();
    let fix = "use one of the two";
    misplaced(both, "update", "with `replace`", fix)?;

    if answer.stop {
        return Ok(After::Replace(Box::new(stopped(answer.reason.as_deref()))));
    }
    let withholds = answer.word == Some(Word::Deny);
    let fix = "no result is left to update; use `replace`";
    misplaced(
        withholds && answer.update.is_some(),
        "update",
        "with deny",
        fix,
    )?;
    let change = match (answer.replace, answer.update) {
        (Some(result), _) => After::Replace(Box::new(result.outcome())),
        (None, _) if withholds => withheld(answer.reason.as_deref()),
        (None, Some(result)) => After::Update(Box::new(result.patch()?)),
        (None, None) => After::Keep,
    };
    Ok(match answer.context {
        Some(context) => with_context(change, context, outcome),
        None => change,
    })
}

/// Returns the result that replaces a blocked one. It must not contain the original, and must tell the model that the
/// tool has run.
pub(super) fn withheld(reason: Option<&str>) -> After {
    let reason = reason.unwrap_or("no reason given");
    let message = format!("the tool ran, but a hook withheld its result: {reason}");
    After::Replace(Box::new(failed("hook_denied", message)))
}

/// Returns the end of standard error as a reason for the model.
pub(super) fn reason(stderr: &[u8]) -> Option<String> {
    let words = String::from_utf8_lossy(stderr);
    let words = text::block(text::tail(words.trim(), MAX_REASON), MAX_REASON);
    (!words.is_empty()).then_some(words)
}

fn stopped(reason: Option<&str>) -> Outcome {
    failed(
        STOP_CODE,
        reason.unwrap_or("a hook stopped the agent").to_owned(),
    )
}

fn failed(code: &str, message: String) -> Outcome {
    Outcome {
        error: Some(Failure::new(code, message)),
        ..Outcome::default()
    }
}

/// Adds a text part with the context to the change.
fn with_context(change: After, context: String, outcome: &Outcome) -> After {
    let changed = change.clone().apply(outcome.clone());
    let mut parts = changed.llm.clone();
    // Without parts, the model reads another member, which a first part would hide, so it is added first.
    if parts.is_empty() && (changed.structured.is_some() || changed.is_error()) {
        parts.push(Part::Text(changed.model_text()));
    }
    parts.push(Part::Text(context));
    let longer = Patch {
        llm: Some(parts),
        ..Patch::default()
    };
    match change {
        After::Keep => After::Update(Box::new(longer)),
        After::Update(patch) => After::Update(Box::new(Patch {
            llm: longer.llm,
            ..*patch
        })),
        After::Replace(other) => {
            let longer = After::Update(Box::new(longer));
            After::Replace(Box::new(longer.apply(*other)))
        }
    }
}

#[cfg(test)]
mod tests;
