//! Commit journal: records file changes before they start, so that an interrupted commit can be recovered and a
//! finished one undone.
//!
//! The audit chain records each state of a row. The steps of the call record who did what; the journal records how
//! to undo it.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};
use serde_json::Value;

use crate::read::{MAX_LIST, json, list};
use crate::rows::{Weight, optional_bytes, text_bytes, weight_of};
use crate::{ChainSubject, CommitError, owner, subject};

/// Maximum length of a commit id, in bytes; with a prefix and suffix it must still be a valid file name.
const MAX_ID: usize = 64;

/// A set of file changes that is applied completely or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct CommitRow {
    /// Part of temporary file names: 1 to 64 characters of `a-z`, `0-9` and `-`.
    pub id: String,
    pub call: String,
    pub session: String,
    pub batch: Option<String>,
    pub tool: String,
    /// Time of the last state change.
    pub at_ms: i64,
    pub state: CommitState,
    /// The commit that this one undoes or redoes.
    pub of: Option<String>,
    /// The changes, in the caller's format.
    pub body: Value,
}

/// State of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitState {
    /// Possibly half applied if its process has ended.
    Begun,
    Done,
    /// Failed or recovered; no changes are left.
    Reverted,
    Undone,
}

impl CommitState {
    pub const ALL: [Self; 4] = [Self::Begun, Self::Done, Self::Reverted, Self::Undone];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Reverted => "reverted",
            Self::Undone => "undone",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Whether the transition to state `next` is valid.
    fn can_become(self, next: Self) -> bool {
        match self {
            Self::Begun => matches!(next, Self::Done | Self::Reverted),
            Self::Done => next == Self::Undone,
            Self::Undone => next == Self::Done,
            Self::Reverted => false,
        }
    }
}

impl fmt::Display for CommitState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Selects commits to list, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitFilter {
    pub call: Option<String>,
    pub session: Option<String>,
    pub batch: Option<String>,
    pub limit: u32,
}

impl Default for CommitFilter {
    fn default() -> Self {
        Self {
            call: None,
            session: None,
            batch: None,
            limit: 100,
        }
    }
}

impl Weight for CommitRow {
    fn weight(&self) -> usize {
        text_bytes(&[&self.id, &self.call, &self.session, &self.tool])
            + optional_bytes(self.batch.as_ref())
            + optional_bytes(self.of.as_ref())
            + weight_of(&self.body)
    }
}

/// Checked before anything is written, because the id becomes part of a path.
pub fn check(row: &CommitRow) -> Result<(), CommitError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if row.id.is_empty() || row.id.len() > MAX_ID || !row.id.bytes().all(plain) {
        return Err(CommitError::Name { id: row.id.clone() });
    }
    if row.state != CommitState::Begun {
        return Err(CommitError::NotBegun { state: row.state });
    }
    Ok(())
}

pub fn begin(
    connection: &Connection,
    row: &CommitRow,
    us: &str,
) -> rusqlite::Result<Result<(), CommitError>> {
    if let Some(of) = &row.of
        && let Some(refusal) = undo_conflict(connection, of)?
    {
        return Ok(Err(refusal));
    }
    let added = connection
        .prepare_cached(
            "INSERT INTO commits (id, call, session, batch, tool, at_ms, state, of, owner, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            row.id,
            row.call,
            row.session,
            row.batch,
            row.tool,
            row.at_ms,
            row.state.as_str(),
            row.of,
            us,
            row.body.to_string()
        ])?;
    if added == 0 {
        return Ok(Err(CommitError::Exists { id: row.id.clone() }));
    }
    subject::append_state(
        connection,
        ChainSubject::Commit,
        &row.id,
        row.at_ms,
        "begun",
    )?;
    Ok(Ok(()))
}

/// Returns why a commit cannot be undone or redone now. Two concurrent undos would both find the expected files,
/// and the second to end would revert the first.
fn undo_conflict(connection: &Connection, of: &str) -> rusqlite::Result<Option<CommitError>> {
    let found = connection
        .prepare_cached("SELECT state FROM commits WHERE id = ?1")?
        .query_row([of], |row| state(row, 0))
        .optional()?;
    let id = of.to_owned();
    match found {
        None => return Ok(Some(CommitError::Unknown { id })),
        Some(CommitState::Done) => {}
        Some(state) => return Ok(Some(CommitError::NotDone { id, state })),
    }
    let by = connection
        .prepare_cached("SELECT id FROM commits WHERE state = 'begun' AND of = ?1")?
        .query_row([of], |row| row.get(0))
        .optional()?;
    Ok(by.map(|by| CommitError::Busy { id, by }))
}

/// Changes the state of all commits, or of none.
pub fn end(
    connection: &Connection,
    ends: &[(String, CommitState)],
    at_ms: i64,
) -> rusqlite::Result<Result<(), CommitError>> {
    let mut find = connection.prepare_cached("SELECT state FROM commits WHERE id = ?1")?;
    let mut states: HashMap<&str, CommitState> = HashMap::new();
    for (id, next) in ends {
        subject::check(connection, ChainSubject::Commit, id)?;
        let known = match states.get(id.as_str()) {
            Some(&state) => Some(state),
            None => find.query_row([id], |row| state(row, 0)).optional()?,
        };
        match known {
            None => return Ok(Err(CommitError::Unknown { id: id.clone() })),
            Some(state) if !state.can_become(*next) => {
                return Ok(Err(CommitError::State {
                    id: id.clone(),
                    state,
                    next: *next,
                }));
            }
            Some(_) => states.insert(id, *next),
        };
    }
    // Written last: updates before a refused change would be committed with the rest of the transaction.
    let mut update =
        connection.prepare_cached("UPDATE commits SET state = ?2, at_ms = ?3 WHERE id = ?1")?;
    for (id, state) in states {
        update.execute(params![id, state.as_str(), at_ms])?;
        subject::append_state(connection, ChainSubject::Commit, id, at_ms, state.as_str())?;
    }
    Ok(Ok(()))
}

const COMMIT: &str = "id, call, session, batch, tool, at_ms, state, of, body";

pub fn commit(connection: &Connection, id: &str) -> rusqlite::Result<Option<CommitRow>> {
    connection
        .prepare_cached(&format!("SELECT {COMMIT} FROM commits WHERE id = ?1"))?
        .query_row([id], commit_of)
        .optional()?
        .map(|row| {
            subject::check(connection, ChainSubject::Commit, &row.id)?;
            Ok(row)
        })
        .transpose()
}

/// In the order in which they began, regardless of timestamps.
pub fn commits(connection: &Connection, filter: &CommitFilter) -> rusqlite::Result<Vec<CommitRow>> {
    // Compares only the given columns, so that SQLite uses the index.
    let mut sql = format!("SELECT {COMMIT} FROM commits WHERE TRUE");
    let mut values: Vec<&dyn ToSql> = Vec::new();
    for (test, value) in [
        (" AND call = ?", &filter.call),
        (" AND session = ?", &filter.session),
        (" AND batch = ?", &filter.batch),
    ] {
        if let Some(value) = value {
            sql.push_str(test);
            values.push(value);
        }
    }
    sql.push_str(" ORDER BY seq DESC LIMIT ?");
    let limit = filter.limit.min(MAX_LIST);
    values.push(&limit);
    let rows = list(connection, &sql, values.as_slice(), commit_of)?;
    for row in &rows {
        subject::check(connection, ChainSubject::Commit, &row.id)?;
    }
    Ok(rows)
}

/// The states of all commits of a call, in the order in which they began.
pub fn states(connection: &Connection, call: &str) -> rusqlite::Result<Vec<CommitState>> {
    let sql = "SELECT state FROM commits WHERE call = ?1 ORDER BY seq LIMIT ?2";
    list(connection, sql, params![call, MAX_LIST], |row| {
        state(row, 0)
    })
}

/// Without a limit, because blobs of a missing commit could be swept. An invalid state is an error.
pub fn begun(connection: &Connection) -> rusqlite::Result<Vec<CommitRow>> {
    list(
        connection,
        &format!(
            "SELECT {COMMIT} FROM commits WHERE state NOT IN ('done', 'undone', 'reverted') ORDER BY seq DESC"
        ),
        [],
        commit_of,
    )
}

/// Adopts the commits that an ended process has begun, so that only one process recovers each. Newest first, which
/// is the order to revert them in.
pub fn adopt(connection: &Connection, owners: &Path, us: &str) -> rusqlite::Result<Vec<CommitRow>> {
    let begun = list(
        connection,
        "SELECT id, owner FROM commits WHERE state = 'begun' ORDER BY seq DESC",
        [],
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
    )?;
    let mut alive = HashMap::new();
    let mut taken = Vec::new();
    let mut update = connection.prepare_cached("UPDATE commits SET owner = ?2 WHERE id = ?1")?;
    for (id, owner) in begun {
        if *alive
            .entry(owner)
            .or_insert_with_key(|owner| owner::is_alive(owners, owner))
        {
            continue;
        }
        // A row that does not match the chain could describe file changes that no call made.
        subject::check(connection, ChainSubject::Commit, &id)?;
        update.execute(params![id, us])?;
        let Some(at_ms) = at(connection, &id)? else {
            continue;
        };
        subject::append_state(connection, ChainSubject::Commit, &id, at_ms, "adopted")?;
        taken.extend(commit(connection, &id)?);
    }
    Ok(taken)
}

fn at(connection: &Connection, id: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT at_ms FROM commits WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()
}

fn commit_of(row: &Row) -> rusqlite::Result<CommitRow> {
    Ok(CommitRow {
        id: row.get(0)?,
        call: row.get(1)?,
        session: row.get(2)?,
        batch: row.get(3)?,
        tool: row.get(4)?,
        at_ms: row.get(5)?,
        state: state(row, 6)?,
        of: row.get(7)?,
        body: json(row, 8)?,
    })
}

fn state(row: &Row, index: usize) -> rusqlite::Result<CommitState> {
    let name = row.get_ref(index)?.as_str()?;
    CommitState::parse(name).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            index,
            Type::Text,
            format!("no commit is `{name}`").into(),
        )
    })
}
