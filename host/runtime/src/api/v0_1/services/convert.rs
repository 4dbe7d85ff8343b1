//! Conversions from host types to the types of the service interfaces.

use serde_json::Value;
use toolhost_contract::{BackgroundCall, CallError, ErrorClass, Failure, Outcome, Part};

use super::super::{hooks, types};
use super::bindings::toolhost::plugin::tools;

/// Maximum size of another tool's outcome, in bytes. It bounds what the host copies; the guest has a
/// separate memory limit.
const MAX_OUTCOME: u64 = 8 << 20;

pub(super) fn failure(failure: Failure) -> types::Failure {
    types::Failure {
        code: failure.code,
        message: failure.message,
        recommendations: failure.recommendations,
        retryable: failure.retryable,
        cause: failure.cause,
        details: failure.details.as_ref().map(Value::to_string),
    }
}

pub(super) fn refused(reason: String) -> types::Failure {
    failure(Failure::new("service_not_granted", reason))
}

pub(super) fn invalid_json(error: &serde_json::Error) -> types::Failure {
    failure(Failure::new(
        "invalid_json",
        format!("invalid JSON: {error}"),
    ))
}

pub(super) fn background(call: BackgroundCall) -> tools::Background {
    let state = if call.ended { "ended" } else { "running" };
    tools::Background {
        id: call.id,
        tool: call.tool,
        state: state.to_owned(),
        started_ms: call.started_ms,
    }
}

pub(super) fn outcome(outcome: Outcome) -> Result<types::Outcome, types::Failure> {
    hooks::outcome_to_wit(&outcome, MAX_OUTCOME).map_err(|_| {
        failure(Failure::new(
            "output_limit",
            format!("the result of the other tool exceeds {MAX_OUTCOME} bytes"),
        ))
    })
}

pub(super) fn parts(parts: Vec<Part>) -> Result<Vec<types::Part>, types::Failure> {
    let whole = Outcome {
        llm: parts,
        ..Outcome::default()
    };
    Ok(outcome(whole)?.llm)
}

pub(super) fn tool_error(error: CallError) -> types::ToolError {
    let case = match error.class {
        ErrorClass::InvalidInput => types::ToolError::InvalidInput,
        ErrorClass::NotFound | ErrorClass::NotRegistered => types::ToolError::NotFound,
        ErrorClass::Denied => types::ToolError::Denied,
        ErrorClass::Cancelled | ErrorClass::TimedOut => types::ToolError::Interrupted,
        ErrorClass::Unavailable => types::ToolError::Unavailable,
        ErrorClass::LimitExceeded
        | ErrorClass::OutputLimit
        | ErrorClass::StackOverflow
        | ErrorClass::Trapped
        | ErrorClass::Failed
        | ErrorClass::Internal => types::ToolError::Failed,
    };
    case(failure(Failure {
        recommendations: error.recommendations,
        retryable: error.retryable,
        details: error.details,
        ..Failure::new(&error.code, error.message)
    }))
}
