//! Row types of the store. Times are milliseconds since 1970 and provided by the caller.

use serde_json::Value;

use crate::ChainSubject;

/// Maximum size of a row, as bytes of its texts. Callers have their own limits; this one turns a missing limit into
/// an error instead of a huge file.
pub const MAX_ROW: usize = 8 << 20;

/// One call and its state.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRow {
    pub id: String,
    pub session: String,
    pub batch: Option<String>,
    /// The call that started this one.
    pub parent: Option<String>,
    pub tool: Option<String>,
    pub plugin: Option<String>,
    pub state: String,
    /// The state is final.
    pub finished: bool,
    /// Deferred deliberately and independent of a process; never orphaned.
    pub deferred: bool,
    pub effectful: bool,
    pub created_ms: i64,
    /// While a call waits for an answer, this identifies the question, see [`AnswerRow::asked_ms`].
    pub updated_ms: i64,
    pub record: Value,
}

/// One step of a call; appended and never changed.
#[derive(Debug, Clone, PartialEq)]
pub struct TransitionRow {
    pub call: String,
    pub session: String,
    pub at_ms: i64,
    pub state: String,
    pub kind: String,
    pub note: Option<String>,
    pub detail: Value,
}

/// A transition with its position in the chain.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTransition {
    pub seq: i64,
    /// What it is about. For subjects other than a call's step, `call` is the key of the row, `kind` is the
    /// subject, and `state` is what happened to the row.
    pub subject: ChainSubject,
    /// Digest of the row that was written with it.
    pub digest: Option<[u8; 32]>,
    pub row: TransitionRow,
    pub hash: [u8; 32],
}

/// A saved approval for later calls.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRow {
    pub id: String,
    pub tool: String,
    pub plugin: String,
    /// Digest of the component, or hash of the definition, that was approved.
    pub identity: String,
    /// `session`, `project` or `user`.
    pub scope: String,
    pub session: Option<String>,
    pub body: Value,
    pub created_ms: i64,
    pub expires_ms: Option<i64>,
    /// Remaining uses; unlimited if `None`.
    pub uses_left: Option<u32>,
    pub used: u32,
    pub revoked_ms: Option<i64>,
}

/// The session of one client.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    pub id: String,
    pub started_ms: i64,
    pub ended_ms: Option<i64>,
    pub client: String,
    pub mode: String,
    pub detail: Value,
}

/// Calls that were submitted together and whose results are returned together.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchRow {
    pub id: String,
    pub session: String,
    pub created_ms: i64,
    pub finished_ms: Option<i64>,
    /// When the results were returned to the model.
    pub submitted_ms: Option<i64>,
    pub calls: u32,
    pub strategy: String,
}

/// An event for followers of a channel.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    /// `progress`, `control` or `monitor`.
    pub channel: String,
    pub session: String,
    pub call: Option<String>,
    pub at_ms: i64,
    pub kind: String,
    pub body: Value,
}

/// The answer to a waiting call, possibly from another process.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerRow {
    pub call: String,
    /// Identifies the answered question: `updated_ms` of the call's row. `None` for the current question.
    pub asked_ms: Option<i64>,
    /// `allow_once`, `allow_session`, `allow_project`, `allow_user`, `deny`, `cancel` or `modify`.
    pub decision: String,
    pub note: Option<String>,
    pub payload: Option<Value>,
    pub by: String,
    pub at_ms: i64,
}

/// Rows to write. One `Write` is durable completely or not at all.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Replaces the call's row and appends its transitions.
    Call {
        row: Box<CallRow>,
        transitions: Vec<TransitionRow>,
    },
    Event(EventRow),
    Session(SessionRow),
    Batch(BatchRow),
    Many(Vec<Write>),
}

/// Selects calls to list, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFilter {
    pub session: Option<String>,
    pub tool: Option<String>,
    pub state: Option<String>,
    pub unfinished: bool,
    /// Created at this time or later.
    pub after_ms: Option<i64>,
    /// Created before this time.
    pub before_ms: Option<i64>,
    pub limit: u32,
}

impl Default for CallFilter {
    fn default() -> Self {
        Self {
            session: None,
            tool: None,
            state: None,
            unfinished: false,
            after_ms: None,
            before_ms: None,
            limit: 100,
        }
    }
}

/// Selects transitions to list, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransitionFilter {
    pub call: Option<String>,
    pub session: Option<String>,
    /// Include links about rows of other tables, not only steps of calls.
    pub every_subject: bool,
    pub after_seq: i64,
    pub limit: u32,
}

impl Default for TransitionFilter {
    fn default() -> Self {
        Self {
            call: None,
            session: None,
            every_subject: false,
            after_seq: 0,
            limit: 1000,
        }
    }
}

/// Approximate size of a row in the queue: the bytes of its texts and a small overhead per value.
pub(crate) trait Weight {
    fn weight(&self) -> usize;
}

/// Size of a value's texts in bytes, without serializing it.
pub(crate) fn weight_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => 8 + text.len(),
        Value::Array(values) => values.iter().map(weight_of).fold(8, usize::saturating_add),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| 8 + name.len() + weight_of(value))
            .fold(8, usize::saturating_add),
    }
}

pub(crate) fn text_bytes(texts: &[&str]) -> usize {
    texts.iter().map(|text| text.len()).sum()
}

pub(crate) fn optional_bytes(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

impl Weight for CallRow {
    fn weight(&self) -> usize {
        text_bytes(&[&self.id, &self.session, &self.state])
            + [&self.batch, &self.parent, &self.tool, &self.plugin]
                .map(|text| optional_bytes(text.as_ref()))
                .iter()
                .sum::<usize>()
            + weight_of(&self.record)
    }
}

impl Weight for TransitionRow {
    fn weight(&self) -> usize {
        text_bytes(&[&self.call, &self.session, &self.state, &self.kind])
            + optional_bytes(self.note.as_ref())
            + weight_of(&self.detail)
    }
}

impl Weight for ApprovalRow {
    fn weight(&self) -> usize {
        text_bytes(&[
            &self.id,
            &self.tool,
            &self.plugin,
            &self.identity,
            &self.scope,
        ]) + optional_bytes(self.session.as_ref())
            + weight_of(&self.body)
    }
}

impl Weight for SessionRow {
    fn weight(&self) -> usize {
        text_bytes(&[&self.id, &self.client, &self.mode]) + weight_of(&self.detail)
    }
}

impl Weight for BatchRow {
    fn weight(&self) -> usize {
        text_bytes(&[&self.id, &self.session, &self.strategy])
    }
}

impl Weight for EventRow {
    fn weight(&self) -> usize {
        text_bytes(&[&self.channel, &self.session, &self.kind])
            + optional_bytes(self.call.as_ref())
            + weight_of(&self.body)
    }
}

impl Weight for AnswerRow {
    fn weight(&self) -> usize {
        text_bytes(&[&self.call, &self.decision, &self.by])
            + optional_bytes(self.note.as_ref())
            + self.payload.as_ref().map_or(0, weight_of)
    }
}
