//! Conversion of call snapshots to OpenTelemetry attributes, without I/O.
//!
//! Inputs, results, messages and reasons are not exported, because they can contain text of a model or a file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::KeyValue;
use serde_json::Value;
use toolhost_contract::ErrorClass;
use toolhost_contract::lifecycle::{CallState, Snapshot, mask_text};
use toolhost_contract::text;

/// Maximum characters of an untrusted name.
const MAX_NAME_CHARS: usize = 256;
/// Maximum characters of the preview of an input.
const MAX_PREVIEW_CHARS: usize = 4_096;
/// The metric attribute for names of unknown tools and for error codes beyond the limit, because models and tools can
/// invent any number of these.
pub(crate) const OTHER: &str = "_OTHER";

pub(crate) struct CallAttributes<'a>(&'a Value);

/// A step of the audit trail that changed the state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StateChange {
    pub state: String,
    pub step: String,
    pub at: SystemTime,
}

impl<'a> CallAttributes<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        Self(snapshot.json())
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name)?.as_str()
    }

    fn time(&self, name: &str) -> Option<SystemTime> {
        Some(system_time(self.0.get(name)?.as_i64()?))
    }

    pub(crate) fn state(&self) -> &'a str {
        self.text("state").unwrap_or_default()
    }

    pub(crate) fn batch(&self) -> Option<&'a str> {
        self.text("batchId")
    }

    pub(crate) fn parent(&self) -> Option<&'a str> {
        self.text("parentCallId")
    }

    pub(crate) fn start(&self) -> SystemTime {
        self.time("createdAt").unwrap_or(UNIX_EPOCH)
    }

    pub(crate) fn end(&self) -> SystemTime {
        self.time("completedAt")
            .or_else(|| self.time("updatedAt"))
            .unwrap_or_else(|| self.start())
    }

    /// The tool's name, if the tool exists.
    pub(crate) fn tool(&self) -> Option<String> {
        self.text("plugin")?;
        Some(text::escape_line(self.text("name")?, MAX_NAME_CHARS))
    }

    /// Names of unknown tools are omitted, because span names must have low cardinality.
    pub(crate) fn span_name(&self) -> String {
        match self.tool() {
            Some(tool) => format!("execute_tool {tool}"),
            None => "execute_tool".to_owned(),
        }
    }

    /// The error code.
    pub(crate) fn error(&self) -> Option<String> {
        let code = self
            .0
            .get("error")
            .and_then(|error| error.get("code")?.as_str());
        let failed = self.0.get("isError") == Some(&Value::Bool(true));
        code.or(failed.then_some(ErrorClass::Failed.as_str()))
            .map(|code| if is_code(code) { code } else { OTHER })
            .map(str::to_owned)
    }

    /// Execution time in seconds; `None` if the tool did not run.
    pub(crate) fn duration(&self) -> Option<f64> {
        self.0.get("startedAt")?;
        Some(self.0.get("durationMs")?.as_f64()? / 1000.0)
    }

    /// The state changes, in order.
    pub(crate) fn state_changes(&self) -> Vec<StateChange> {
        let mut turns: Vec<StateChange> = Vec::new();
        let trail = self.0.get("auditTrail").and_then(Value::as_array);
        for line in trail.into_iter().flatten() {
            let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
            let state = text("state");
            if turns.last().is_some_and(|last| last.state == state) {
                continue;
            }
            turns.push(StateChange {
                state: state.to_owned(),
                step: text("kind").to_owned(),
                at: system_time(line.get("timestamp").and_then(Value::as_i64).unwrap_or(0)),
            });
        }
        turns
    }

    /// Seconds that the call was in the state; `None` if it never was.
    pub(crate) fn seconds_in(&self, state: CallState) -> Option<f64> {
        let turns = self.state_changes();
        let mut waited = None;
        for (index, turn) in turns.iter().enumerate() {
            if turn.state == state.as_str() {
                let until = turns
                    .get(index + 1)
                    .map_or_else(|| self.end(), |next| next.at);
                let time = until.duration_since(turn.at).unwrap_or_default();
                *waited.get_or_insert(0.0) += time.as_secs_f64();
            }
        }
        waited
    }

    /// Attributes known at the start, which samplers can use.
    pub(crate) fn start_attributes(&self) -> Vec<KeyValue> {
        let mut attributes = vec![
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.type", "function"),
        ];
        let mut put = put(&mut attributes);
        put("gen_ai.tool.call.id", self.text("id"));
        put("gen_ai.conversation.id", self.text("sessionId"));
        put("gen_ai.agent.id", self.text("agentId"));
        put("toolhost.session", self.text("sessionId"));
        put("toolhost.origin", self.text("origin"));
        put("toolhost.batch", self.batch());
        drop(put);
        attributes
    }

    /// Attributes known at the end. `contents` includes the masked preview of the input.
    pub(crate) fn end_attributes(&self, contents: bool) -> Vec<KeyValue> {
        let mut attributes = Vec::new();
        let mut put = put(&mut attributes);
        put("gen_ai.tool.name", self.text("name"));
        put("toolhost.plugin", self.text("plugin"));
        put("toolhost.plugin.version", self.text("toolVersion"));
        put("toolhost.effect", self.text("effect"));
        put("toolhost.mode", self.text("mode"));
        put("toolhost.state", self.text("state"));
        let approval = self.0.get("approval");
        let approval = |name: &str| approval.and_then(|approval| approval.get(name)?.as_str());
        let rule = self.text("policyRuleId");
        // Without a prompt, a rule allowed the call.
        put(
            "toolhost.decision",
            approval("decision").or(rule.map(|_| "allow")),
        );
        put("toolhost.decision.by", approval("decidedBy").or(rule));
        put("toolhost.decision.scope", approval("scope"));
        put("toolhost.supplied_by", self.text("suppliedBy"));
        put("error.type", self.error().as_deref());
        drop(put);
        if self.0.get("inputModified") == Some(&Value::Bool(true)) {
            attributes.push(KeyValue::new("toolhost.input.modified", true));
        }
        if let Some(duration) = self.duration() {
            attributes.push(KeyValue::new("toolhost.execution.seconds", duration));
        }
        if contents && let Some(preview) = self.0.get("inputPreview") {
            let preview = text::escape_line(&preview.to_string(), MAX_PREVIEW_CHARS);
            attributes.push(KeyValue::new("gen_ai.tool.call.arguments", preview));
        }
        attributes
    }
}

/// Whether the text is a plain code. Tools choose their codes and could put file content there.
fn is_code(code: &str) -> bool {
    let is_letter = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-.".contains(&c);
    (1..=64).contains(&code.len())
        && code.starts_with(|c: char| c.is_ascii_lowercase())
        && code.bytes().all(is_letter)
        && mask_text(code) == code
}

fn put(attributes: &mut Vec<KeyValue>) -> impl FnMut(&'static str, Option<&str>) {
    |name, value| {
        let value = value
            .map(|value| KeyValue::new(name, text::escape_line(&mask_text(value), MAX_NAME_CHARS)));
        attributes.extend(value);
    }
}

/// Converts milliseconds since the Unix epoch. A negative time counts as the epoch.
pub(crate) fn system_time(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
