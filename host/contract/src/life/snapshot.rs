//! Public snapshots of records: without raw input, with secrets masked and long texts truncated.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use super::{Millis, Record, Trail, masked_text};
use crate::text;

/// A snapshot of a record that is safe to log, show and save. The JSON is created lazily, because most snapshots are
/// never read.
#[derive(Clone)]
pub struct Snapshot {
    /// `None` if the JSON came from elsewhere.
    record: Option<Arc<Record>>,
    shown: OnceLock<Value>,
}

/// Maximum number of bytes of an error message or a note.
const WORDS: usize = 2_000;

impl Snapshot {
    pub fn of(record: Arc<Record>) -> Self {
        Self {
            record: Some(record),
            shown: OnceLock::new(),
        }
    }

    /// Creates a snapshot from existing JSON, possibly of a process that has ended.
    pub fn drawn(shown: Value) -> Self {
        Self {
            record: None,
            shown: shown.into(),
        }
    }

    /// Returns the snapshot as JSON.
    pub fn json(&self) -> &Value {
        self.shown.get_or_init(|| match &self.record {
            Some(record) => {
                let mut shown = draw(record);
                shown.insert("auditTrail".to_owned(), draw_trail(record));
                Value::Object(shown)
            }
            None => Value::Null,
        })
    }

    /// Returns the approximate memory size in bytes. Cheap, and independent of whether the JSON was created.
    pub fn weight(&self) -> usize {
        match &self.record {
            Some(record) => record.weight(),
            None => self.shown.get().map_or(0, super::weight),
        }
    }
}

/// Omits the record, which contains the raw input.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot").field(self.json()).finish()
    }
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

/// Returns the public members of a record, without its trail.
pub fn draw(record: &Record) -> Map<String, Value> {
    let at = |at: Option<Millis>| at.map(|at| at.0);
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            shown.insert(name.to_owned(), value);
        }
    };
    put("id", json!(record.id.0));
    put("name", json!(text::inline(&record.name, 128)));
    put("state", json!(record.state.as_str()));
    put("inputPreview", record.input.preview().clone());
    put(
        "inputModified",
        json!(record.input_modified.then_some(true)),
    );
    put("sessionId", json!(record.caller.session));
    put("agentId", json!(record.caller.agent));
    put("parentAgentId", json!(record.caller.parent_agent));
    put("taskId", json!(record.caller.task));
    put("userId", json!(record.caller.user.name()));
    put("origin", json!(record.origin.as_str()));
    put(
        "parentCallId",
        json!(record.parent.as_ref().map(|id| &id.0)),
    );
    put("batchId", json!(record.batch));
    put("waveIndex", json!(record.wave));
    if let Some(found) = &record.found {
        put("plugin", json!(found.plugin));
        put("toolVersion", json!(text::inline(&found.version, 64)));
        put("toolHash", json!(found.digest));
        put("effect", json!(found.effect));
        put("mode", json!(found.mode));
    }
    let approval = &record.approval;
    if approval.required || approval.decision.is_some() {
        put(
            "approval",
            json!({
                "required": approval.required,
                "reason": approval.reason.as_deref().map(words),
                "decision": approval.decision,
                "decidedBy": approval.decided_by,
                "decidedAt": at(approval.decided_at),
                "scope": approval.scope,
                "note": approval.note.as_deref().map(words),
                "meta": approval.meta.as_ref().map(super::masked),
            }),
        );
    }
    put("policyRuleId", json!(record.allowed_by));
    put("command", json!(record.command));
    put("suppliedBy", json!(record.supplied_by));
    put("backgroundTask", json!(record.backgrounded));
    put(
        "isError",
        json!(record.state.is_terminal().then_some(record.is_error)),
    );
    if let Some(error) = &record.error {
        put(
            "error",
            json!({"code": error.code, "message": words(&error.message)}),
        );
    }
    put(
        "attempts",
        json!((record.attempts > 0).then_some(record.attempts)),
    );
    put("createdAt", json!(record.created_at.0));
    put("updatedAt", json!(record.updated_at.0));
    put("startedAt", json!(at(record.started_at)));
    put("completedAt", json!(at(record.completed_at)));
    put(
        "durationMs",
        json!(
            record
                .duration
                .map(|duration| duration.as_secs_f64() * 1000.0)
        ),
    );
    shown
}

fn draw_trail(record: &Record) -> Value {
    let line = |line: &Trail| {
        json!({
            "state": line.state.as_str(),
            "timestamp": line.at.0,
            "kind": line.kind,
            "note": line.note.as_deref().map(words),
        })
    };
    record.trail.iter().map(line).collect()
}

fn words(text: &str) -> String {
    masked_text(text::head(text, WORDS))
}
