//! Reads calls page by page, for views: newest first, each page with a bounded cost.
//!
//! Uses its own connection, so that the calls of a running host do not wait for a page.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use crate::read::{self, MAX_LIST, call_of, list};
use crate::{
    CallRow, ChainSubject, CommitFilter, CommitRow, CommitState, EventRow, SessionRow, Store,
    StoreError, StoredTransition, TransitionFilter, commits, schema, subject,
};

/// Maximum number of calls that one page looks at. A filter that matches few calls yields a short page and the
/// position at which the search continues.
pub const MAX_SCAN: u32 = 20_000;

/// How long a page waits for another process that has locked the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection that reads records for a view.
pub struct History {
    connection: Mutex<Connection>,
    database: PathBuf,
}

/// Selects calls. Unset members match every call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryFilter {
    pub session: Option<String>,
    pub batch: Option<String>,
    pub tool: Option<String>,
    pub plugin: Option<String>,
    pub agent: Option<String>,
    /// Any of these states.
    pub states: Vec<String>,
    /// Whether completed calls must have a result that is a failure. Calls in other states match.
    pub is_error: Option<bool>,
    /// Part of the id, the tool, the recorded input, the error or what decided. ASCII letters match in any case.
    pub text: Option<String>,
    /// Created at this time or later.
    pub after_ms: Option<i64>,
    /// Created before this time.
    pub before_ms: Option<i64>,
    /// Continues before this position, see [`HistoryPage::next`].
    pub before: Option<i64>,
    pub limit: u32,
}

/// Calls with their positions, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPage {
    pub rows: Vec<(i64, CallRow)>,
    /// Where to continue; `None` if no older calls exist.
    pub next: Option<i64>,
}

impl Store {
    /// Opens a connection for views.
    pub fn history(&self) -> Result<History, StoreError> {
        let database = self.database().to_owned();
        let connection = schema::connect(&database, BUSY_TIMEOUT)?;
        connection
            .pragma_update(None, "query_only", true)
            .map_err(|error| StoreError::sql(&database, &error))?;
        Ok(History {
            connection: Mutex::new(connection),
            database,
        })
    }
}

impl History {
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let failed = |error| StoreError::sql(&self.database, &error);
        let connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // One snapshot, because rows are checked against the links written with them.
        let snapshot = connection.unchecked_transaction().map_err(failed)?;
        read(&snapshot).map_err(failed)
    }

    /// A page of calls that match the filter. Each is checked against the audit chain.
    pub fn page(&self, filter: &HistoryFilter) -> Result<HistoryPage, StoreError> {
        self.read(|connection| page(connection, filter))
    }

    /// Calls after a position, oldest first, with their positions.
    pub fn newer(&self, after: i64, limit: u32) -> Result<Vec<(i64, CallRow)>, StoreError> {
        self.read(|connection| {
            let sql = format!(
                "SELECT {} FROM calls WHERE seq > ?1 ORDER BY seq LIMIT ?2",
                read::CALL_AT
            );
            let rows = list(
                connection,
                &sql,
                params![after, limit.min(MAX_LIST)],
                positioned,
            )?;
            checked(connection, rows)
        })
    }

    /// The position before the newest `count` calls, for [`Self::newer`].
    pub fn position_before(&self, count: u32) -> Result<i64, StoreError> {
        self.read(|connection| {
            let sql = "SELECT seq FROM calls ORDER BY seq DESC LIMIT 1 OFFSET ?1";
            let seq = connection
                .query_row(sql, [count], |row| row.get(0))
                .optional()?;
            Ok(seq.unwrap_or(0))
        })
    }

    /// The calls with these ids that exist, with their positions.
    pub fn calls(&self, ids: &[String]) -> Result<Vec<(i64, CallRow)>, StoreError> {
        self.read(|connection| {
            let sql = format!("SELECT {} FROM calls WHERE id = ?1", read::CALL_AT);
            let mut found = Vec::new();
            for id in ids {
                let mut statement = connection.prepare_cached(&sql)?;
                found.extend(statement.query_row([id], positioned).optional()?);
            }
            checked(connection, found)
        })
    }

    /// Sessions that started before the position, newest first, with their positions.
    pub fn sessions(
        &self,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<(i64, SessionRow)>, StoreError> {
        self.read(|connection| read::sessions_before(connection, before, limit))
    }

    /// The steps of a call, oldest first.
    pub fn steps(&self, call: &str, limit: u32) -> Result<Vec<StoredTransition>, StoreError> {
        let filter = TransitionFilter {
            call: Some(call.to_owned()),
            limit,
            ..TransitionFilter::default()
        };
        self.read(|connection| read::transitions(connection, &filter))
    }

    /// The file changes of a call and their undos, in the order in which they began.
    pub fn commits(&self, call: &str) -> Result<Vec<CommitRow>, StoreError> {
        let filter = CommitFilter {
            call: Some(call.to_owned()),
            ..CommitFilter::default()
        };
        let mut rows = self.read(|connection| commits::commits(connection, &filter))?;
        rows.reverse();
        Ok(rows)
    }

    /// The states of all commits of a call, without their changes.
    pub fn commit_states(&self, call: &str) -> Result<Vec<CommitState>, StoreError> {
        self.read(|connection| commits::states(connection, call))
    }

    /// Events of a call after the number `after`, oldest first.
    pub fn events(
        &self,
        call: &str,
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, EventRow)>, StoreError> {
        self.read(|connection| read::events_of_call(connection, call, after, limit))
    }
}

fn positioned(row: &rusqlite::Row) -> rusqlite::Result<(i64, CallRow)> {
    Ok((row.get(15)?, call_of(row)?))
}

fn checked(
    connection: &Connection,
    rows: Vec<(i64, CallRow)>,
) -> rusqlite::Result<Vec<(i64, CallRow)>> {
    for (_, row) in &rows {
        subject::check(connection, ChainSubject::Call, &row.id)?;
    }
    Ok(rows)
}

fn page(connection: &Connection, filter: &HistoryFilter) -> rusqlite::Result<HistoryPage> {
    let before = filter.before.unwrap_or(i64::MAX);
    let limit = filter.limit.clamp(1, MAX_LIST);
    // SQLite uses the index on `session` only for a direct comparison.
    let scope = match filter.session {
        Some(_) => "WHERE session = ?2 AND seq < ?1",
        None => "WHERE seq < ?1 AND ?2 IS NULL",
    };
    let window = format!("FROM calls {scope} ORDER BY seq DESC LIMIT {MAX_SCAN}");
    let needles = [filter.text.as_deref(), filter.agent.as_deref()].map(|text| text.map(needle));
    let states = serde_json::to_string(&filter.states).unwrap_or_default();
    let sql = format!(
        "SELECT {} FROM (SELECT * {window}) AS calls
         WHERE (?3 IS NULL OR batch = ?3) AND (?4 IS NULL OR tool = ?4) AND (?5 IS NULL OR plugin = ?5)
           AND (?6 = '[]' OR state IN (SELECT value FROM json_each(?6)))
           AND (?7 IS NULL OR created_ms >= ?7) AND (?8 IS NULL OR created_ms < ?8)
           AND (?9 IS NULL OR instr(lower(record || coalesce(tool, '') || id), ?9))
           AND (?10 IS NULL OR instr(lower(record), ?10))
           AND (?12 IS NULL OR state <> 'completed' OR ?12 = (instr(record, '\"isError\":true') > 0 OR
                EXISTS (SELECT 1 FROM shapes WHERE id = calls.shape AND instr(text, '[\"isError\",true]') > 0)))
         ORDER BY seq DESC LIMIT ?11",
        read::CALL_AT
    );
    let found = list(
        connection,
        &sql,
        params![
            before,
            filter.session,
            filter.batch,
            filter.tool,
            filter.plugin,
            states,
            filter.after_ms,
            filter.before_ms,
            needles[0],
            needles[1],
            limit,
            filter.is_error
        ],
        positioned,
    )?;
    let next = match found.last() {
        Some((last, _)) if found.len() >= limit as usize => Some(*last),
        _ => end_of_window(connection, filter, &window, before)?,
    };
    let mut rows = checked(connection, found)?;
    rows.retain(|(_, row)| matches_record(row, filter));
    Ok(HistoryPage { rows, next })
}

/// The position of the oldest call that was looked at, if older ones exist.
fn end_of_window(
    connection: &Connection,
    filter: &HistoryFilter,
    window: &str,
    before: i64,
) -> rusqlite::Result<Option<i64>> {
    let sql = format!("SELECT count(*), min(seq) FROM (SELECT seq {window})");
    let (count, oldest): (u32, Option<i64>) = connection
        .prepare_cached(&sql)?
        .query_row(params![before, filter.session], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    Ok(oldest.filter(|_| count >= MAX_SCAN))
}

/// The text as it is in the JSON of a record, in lower case.
fn needle(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    let inner = quoted.get(1..quoted.len().saturating_sub(1));
    inner.unwrap_or_default().to_ascii_lowercase()
}

/// Checks what the query only approximates: it searches the whole record.
fn matches_record(row: &CallRow, filter: &HistoryFilter) -> bool {
    let field = |name: &str| row.record.pointer(name).and_then(Value::as_str);
    let agent = filter.agent.as_deref();
    if agent.is_some_and(|agent| field("/agentId") != Some(agent)) {
        return false;
    }
    let is_error = row.record.get("isError") == Some(&Value::Bool(true));
    if row.state == "completed" && filter.is_error.is_some_and(|wanted| wanted != is_error) {
        return false;
    }
    let Some(text) = &filter.text else {
        return true;
    };
    let text = text.to_ascii_lowercase();
    let contains = |value: &str| value.to_ascii_lowercase().contains(&text);
    let texts = [
        Some(row.id.as_str()),
        row.tool.as_deref(),
        field("/name"),
        field("/error/code"),
        field("/error/message"),
        field("/policyRuleId"),
        field("/approval/decidedBy"),
        field("/approval/reason"),
    ];
    texts.into_iter().flatten().any(contains)
        || (row.record.get("inputPreview")).is_some_and(|input| contains_text(input, &contains))
}

fn contains_text(value: &Value, contains: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => contains(text),
        Value::Array(items) => items.iter().any(|item| contains_text(item, contains)),
        Value::Object(members) => members
            .iter()
            .any(|(name, member)| contains(name) || contains_text(member, contains)),
        Value::Number(number) => contains(&number.to_string()),
        Value::Null | Value::Bool(_) => false,
    }
}
