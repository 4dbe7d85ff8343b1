//! The envelope in which Pegasus returns the result of a call, and what its reflector learns of a failure.

use serde_json::{Map, Value, json};

use super::Profile;
use super::profiled_registry::ProfiledRegistry;
use super::render::RenderedResult;
use crate::events::pegasus::{PegasusErrorName, ReflectorAction, reflector_action};
use toolhost_contract::lifecycle::Timestamp;
use toolhost_contract::{CallError, Outcome, Part};

/// When a call ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallTimes {
    /// `None` if the call was refused before it ran.
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub duration_ms: f64,
}

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
        let (member, value) = if rendered.is_error {
            ("error", Value::String(text))
        } else {
            let value = rendered.structured.clone();
            ("result", value.unwrap_or(Value::String(text)))
        };
        let mut envelope = Map::new();
        envelope.insert(
            "toolName".to_owned(),
            self.called_name(canonical, input).into(),
        );
        envelope.insert("success".to_owned(), (!rendered.is_error).into());
        envelope.insert(member.to_owned(), value);
        for (name, at) in [
            ("startedAt", times.started_at),
            ("completedAt", times.completed_at),
        ] {
            if let Some(at) = at {
                envelope.insert(name.to_owned(), at.0.into());
            }
        }
        envelope.insert("durationMs".to_owned(), json!(times.duration_ms));
        Some(Value::Object(envelope))
    }

    /// Returns `{verdict, toolFailures: [{toolName, error, suggestion}]}` for a failed call. `None` for a successful
    /// one, and if the profile's agent has no reflector.
    pub fn reflection(
        &self,
        canonical: &str,
        input: &Value,
        rendered: &RenderedResult,
        result: &Result<Outcome, CallError>,
    ) -> Option<Value> {
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
        let mut failure = json!({
            "toolName": self.called_name(canonical, input),
            "error": text_of(rendered),
        });
        if let Some(suggestion) = suggestion {
            failure["suggestion"] = suggestion.into();
        }
        Some(json!({"verdict": verdict.as_str(), "toolFailures": [failure]}))
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
