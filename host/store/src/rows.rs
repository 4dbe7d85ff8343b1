//! The rows a caller hands in and gets back; times are milliseconds since 1970 and come from the caller.

use serde_json::Value;

use crate::ChainSubject;

/// The largest row, measured as the bytes of its texts. What a call may leave behind is bounded by the caller; this is
/// the line behind which a missing bound becomes an error and not a huge file.
pub const MAX_ROW: usize = 8 << 20;

/// One call and where it stands.
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
    /// Nothing will follow.
    pub finished: bool,
    /// Waits on purpose without a process; never an orphan.
    pub deferred: bool,
    pub effectful: bool,
    pub created_ms: i64,
    /// While a call waits for an answer this names the question: [`AnswerRow`]s belong to one value of it.
    pub updated_ms: i64,
    pub record: Value,
}

/// One step in the life of a call, appended and never changed.
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

/// A transition with its place in the chain.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTransition {
    pub seq: i64,
    /// What it is about. For another subject than a step of a call, `call` is the key of the row, `kind` names the
    /// subject, and `state` says what happened to the row.
    pub subject: ChainSubject,
    /// Of the row that was written with it.
    pub digest: Option<[u8; 32]>,
    pub row: TransitionRow,
    pub hash: [u8; 32],
}

/// A yes that outlives its question.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRow {
    pub id: String,
    pub tool: String,
    pub plugin: String,
    /// The digest of the component or the hash of the definition it was given for.
    pub identity: String,
    /// `session`, `project` or `user`.
    pub scope: String,
    pub session: Option<String>,
    pub body: Value,
    pub created_ms: i64,
    pub expires_ms: Option<i64>,
    /// How many uses are left; without it, any number.
    pub uses_left: Option<u32>,
    pub used: u32,
    pub revoked_ms: Option<i64>,
}

/// One client's stay.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    pub id: String,
    pub started_ms: i64,
    pub ended_ms: Option<i64>,
    pub client: String,
    pub mode: String,
    pub detail: Value,
}

/// Calls that came together and whose results go back together.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchRow {
    pub id: String,
    pub session: String,
    pub created_ms: i64,
    pub finished_ms: Option<i64>,
    /// When the results were handed to the model.
    pub submitted_ms: Option<i64>,
    pub calls: u32,
    pub strategy: String,
}

/// Something to tell whoever follows a channel.
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

/// What somebody, perhaps in another process, answered to a call that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerRow {
    pub call: String,
    /// The question that was seen: `updated_ms` of the call's row. None: whichever it asks now.
    pub asked_ms: Option<i64>,
    /// `allow_once`, `allow_session`, `allow_project`, `allow_user`, `deny`, `cancel` or `modify`.
    pub decision: String,
    pub note: Option<String>,
    pub payload: Option<Value>,
    pub by: String,
    pub at_ms: i64,
}

/// One thing to write. What is in one `Write` is on disk together or not at all.
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

/// Which calls to list, newest first.
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

/// Which transitions to list, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransitionFilter {
    pub call: Option<String>,
    pub session: Option<String>,
    /// Also the links about rows of other tables, not only the steps of calls.
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

/// What a row costs in a queue: the bytes of its texts and a little for each value.
pub(crate) trait Weight {
    fn weight(&self) -> usize;
}

/// The bytes of a value's texts, found without serialising it.
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

pub(crate) fn texts(texts: &[&str]) -> usize {
    texts.iter().map(|text| text.len()).sum()
}

pub(crate) fn maybe(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

impl Weight for CallRow {
    fn weight(&self) -> usize {
        texts(&[&self.id, &self.session, &self.state])
            + [&self.batch, &self.parent, &self.tool, &self.plugin]
                .map(|text| maybe(text.as_ref()))
                .iter()
                .sum::<usize>()
            + weight_of(&self.record)
    }
}

impl Weight for TransitionRow {
    fn weight(&self) -> usize {
        texts(&[&self.call, &self.session, &self.state, &self.kind])
            + maybe(self.note.as_ref())
            + weight_of(&self.detail)
    }
}

impl Weight for ApprovalRow {
    fn weight(&self) -> usize {
        texts(&[
            &self.id,
            &self.tool,
            &self.plugin,
            &self.identity,
            &self.scope,
        ]) + maybe(self.session.as_ref())
            + weight_of(&self.body)
    }
}

impl Weight for SessionRow {
    fn weight(&self) -> usize {
        texts(&[&self.id, &self.client, &self.mode]) + weight_of(&self.detail)
    }
}

impl Weight for BatchRow {
    fn weight(&self) -> usize {
        texts(&[&self.id, &self.session, &self.strategy])
    }
}

impl Weight for EventRow {
    fn weight(&self) -> usize {
        texts(&[&self.channel, &self.session, &self.kind])
            + maybe(self.call.as_ref())
            + weight_of(&self.body)
    }
}

impl Weight for AnswerRow {
    fn weight(&self) -> usize {
        texts(&[&self.call, &self.decision, &self.by])
            + maybe(self.note.as_ref())
            + self.payload.as_ref().map_or(0, weight_of)
    }
}
