//! Public snapshots of records: without raw input, with secrets masked and long texts truncated.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use super::{ApprovalRecord, CallRecord, Timestamp, TrailEntry, mask_text};
use crate::{OnlyPaths, text};

/// A snapshot of a record that is safe to log, show and save. The JSON is created lazily, because most snapshots are
/// never read.
#[derive(Clone)]
pub struct Snapshot {
    /// `None` if the JSON came from elsewhere.
    record: Option<Arc<CallRecord>>,
    value: OnceLock<Value>,
}

/// Initial capacity for the members of a record. Few records have more.
const MEMBERS: usize = 28;
/// Maximum number of bytes of an error message or a note.
const MAX_TEXT_BYTES: usize = 2_000;

impl Snapshot {
    pub fn new(record: Arc<CallRecord>) -> Self {
        Self {
            record: Some(record),
            value: OnceLock::new(),
        }
    }

    /// Creates a snapshot from existing JSON, possibly of a process that has ended.
    pub fn from_json(shown: Value) -> Self {
        Self {
            record: None,
            value: shown.into(),
        }
    }

    /// Returns the snapshot as JSON.
    pub fn json(&self) -> &Value {
        self.value.get_or_init(|| match &self.record {
            Some(record) => {
                let mut shown = record_json(record);
                shown.insert("auditTrail".to_owned(), trail_json(record));
                Value::Object(shown)
            }
            None => Value::Null,
        })
    }

    /// Returns the approximate memory size in bytes. Cheap, and independent of whether the JSON was created.
    pub fn memory_size(&self) -> usize {
        match &self.record {
            Some(record) => record.memory_size(),
            None => self.value.get().map_or(0, super::memory_size),
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

fn only_paths_json(lists: &[OnlyPaths]) -> Value {
    if lists.is_empty() {
        return Value::Null;
    }
    let lists = lists.iter().map(|list| {
        let paths = list.iter().map(|path| mask_text(&path.to_string()));
        paths.collect::<Vec<_>>()
    });
    lists.collect::<Vec<_>>().into()
}

/// Returns the public members of a record, without its trail.
pub fn record_json(record: &CallRecord) -> Map<String, Value> {
    let at = |at: Option<Timestamp>| at.map(|at| at.0);
    let mut shown = Map::with_capacity(MEMBERS);
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            shown.insert(name.to_owned(), value);
        }
    };
    put("id", json!(record.id.0));
    put("name", json!(text::escape_line(&record.name, 128)));
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
    put("onlyPaths", only_paths_json(&record.only_paths));
    if let Some(found) = &record.resolved_tool {
        put("plugin", json!(found.plugin));
        put("toolVersion", json!(text::escape_line(&found.version, 64)));
        put("toolHash", json!(found.digest));
        put("effect", json!(found.effect));
        put("mode", json!(found.mode));
        if !found.sources.is_empty() {
            put("sources", json!(found.sources));
        }
        if !found.destinations.is_empty() {
            put("destinations", json!(found.destinations));
        }
    }
    let approval = &record.approval;
    if approval.required || approval.decision.is_some() {
        put("approval", approval_json(approval));
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
        let mut shown = json!({"code": error.code, "message": masked_text_head(&error.message)});
        if let Some(remedy) = &error.remedy {
            shown["remedy"] = json!(masked_text_head(remedy));
        }
        put("error", shown);
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
    put("memoryBytes", json!(record.usage.memory));
    put("outputBytes", json!(record.usage.output));
    shown
}

fn approval_json(approval: &ApprovalRecord) -> Value {
    let mut shown = json!({
        "required": approval.required,
        "reason": approval.reason.as_deref().map(masked_text_head),
        "decision": approval.decision,
        "decidedBy": approval.decided_by,
        "decidedAt": approval.decided_at.map(|at| at.0),
        "scope": approval.scope,
        "note": approval.note.as_deref().map(masked_text_head),
        "meta": approval.meta.as_ref().map(super::mask_value),
    });
    if let Some(rule) = &approval.rule {
        shown["rule"] = json!(rule);
    }
    shown
}

fn trail_json(record: &CallRecord) -> Value {
    let line = |line: &TrailEntry| {
        json!({
            "state": line.state.as_str(),
            "timestamp": line.at.0,
            "kind": line.kind,
            "note": line.note.as_deref().map(masked_text_head),
        })
    };
    record.trail.iter().map(line).collect()
}

fn masked_text_head(text: &str) -> String {
    mask_text(text::head(text, MAX_TEXT_BYTES))
}
