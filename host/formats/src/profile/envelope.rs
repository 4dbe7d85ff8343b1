//! The envelope in which Pegasus returns the result of a call, and what its reflector learns of a failure.

use serde_json::{Map, Value, json};

use super::Profile;
use super::profiled_registry::ProfiledRegistry;
use super::render::RenderedResult;
use super::task_failures::ToolFailure;
use crate::events::pegasus::{PegasusErrorName, ReflectorAction, reflector_action};
use toolhost_contract::lifecycle::CallTimes;
use toolhost_contract::{CallError, Outcome, Part, text};

/// Maximum length of the error of a failure in bytes.
const MAX_ERROR_BYTES: usize = 2000;

impl ProfiledRegistry<'_> {
    /// Returns `{toolName, success, result | error, startedAt, completedAt, durationMs}`, with times in milliseconds
    /// since the Unix epoch and without those that are not known. `None` if the profile's agent has no envelope.
    /// `canonical` and `input` are the values that [`ProfiledRegistry::accept`] returned for the call.
    pub fn envelope(
        &self,
        canonical: &str,
        input: &Value,
        rendered: &RenderedResult,
        times: CallTimes,
    ) -> Option<Value> {
        if self.profile != Profile::Pegasus {
            return None;
        }
        let text = text_of(rendered);
        let value = if rendered.is_error {
            ("error", Value::String(text))
        } else {
            let value = rendered.structured.clone();
            ("result", value.unwrap_or(Value::String(text)))
        };
        let success = !rendered.is_error;
        Some(self.members(canonical, input, (success, Some(value)), times))
    }

    /// Like [`ProfiledRegistry::envelope`], without `result` and `error`, for a message that has them elsewhere.
    pub fn envelope_without_value(
        &self,
        canonical: &str,
        input: &Value,
        rendered: &RenderedResult,
        times: CallTimes,
    ) -> Option<Value> {
        let success = !rendered.is_error;
        (self.profile == Profile::Pegasus)
            .then(|| self.members(canonical, input, (success, None), times))
    }

    fn members(
        &self,
        canonical: &str,
        input: &Value,
        (success, value): (bool, Option<(&str, Value)>),
        times: CallTimes,
    ) -> Value {
        let mut members = Map::new();
        let name = self.called_name(canonical, input);
        members.insert("toolName".to_owned(), name.into());
        members.insert("success".to_owned(), success.into());
        if let Some((member, value)) = value {
            members.insert(member.to_owned(), value);
        }
        for (member, at) in [
            ("startedAt", times.started_at),
            ("completedAt", times.completed_at),
        ] {
            if let Some(at) = at {
                members.insert(member.to_owned(), at.0.into());
            }
        }
        let duration_ms = times.duration.as_secs_f64() * 1e3;
        members.insert("durationMs".to_owned(), json!(duration_ms));
        Value::Object(members)
    }

    /// Returns the failure for the reflector. `None` for a successful call, and if the profile's agent has no reflector.
    pub fn tool_failure(
        &self,
        canonical: &str,
        input: &Value,
        rendered: &RenderedResult,
        result: &Result<Outcome, CallError>,
    ) -> Option<ToolFailure> {
        if self.profile != Profile::Pegasus || !rendered.is_error {
            return None;
        }
        let (verdict, suggestion) = match result {
            Err(error) if error.code == "user_denied" => (
                reflector_action(error),
                Some("the user denied the call; find another way"),
            ),
            Err(error) => (
                reflector_action(error),
                PegasusErrorName::of(error.class).suggestion(),
            ),
            Ok(outcome) => {
                let is_retryable = outcome.error.as_ref().is_some_and(|error| error.retryable);
                let verdict = if is_retryable {
                    ReflectorAction::Continue
                } else {
                    ReflectorAction::Replan
                };
                (verdict, None)
            }
        };
        let error = text_of(rendered);
        Some(ToolFailure {
            tool: self.called_name(canonical, input).to_owned(),
            error: text::head(&error, MAX_ERROR_BYTES).to_owned(),
            suggestion,
            verdict,
        })
    }

    /// The name with which the model called the tool.
    fn called_name<'n>(&self, canonical: &'n str, input: &Value) -> &'n str {
        let row = self.called_mapping(canonical, input);
        row.map_or(canonical, |row| row.name)
    }
}

fn text_of(rendered: &RenderedResult) -> String {
    let texts = rendered.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
