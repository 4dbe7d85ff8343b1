//! The journal of commits: what was about to change in the files of a project, on disk before the first change, so that
//! a kill in the middle is found and everything done can be undone.
//!
//! Each state of a row is stated in the audit chain. Who did what is told by the steps of the call; the journal tells
//! how to take it back.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};
use serde_json::Value;

use crate::read::{MAX_LIST, json, list};
use crate::rows::{Weight, maybe, texts, weight_of};
use crate::{ChainSubject, CommitError, owner, subject};

/// The longest name of a commit: with something in front and behind it still names a file.
const MAX_ID: usize = 64;

/// One set of changes to files: all of it is done or nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct CommitRow {
    /// Names the temporary files too: `a-z`, `0-9` and `-`, at most 64 of them.
    pub id: String,
    pub call: String,
    pub session: String,
    pub batch: Option<String>,
    pub tool: String,
    /// When it took the state it has.
    pub at_ms: i64,
    pub state: CommitState,
    /// The commit that this one undoes or redoes.
    pub of: Option<String>,
    /// The changes, as the caller writes them.
    pub body: Value,
}

/// Where a commit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitState {
    /// May be half done if its process is gone.
    Begun,
    Done,
    /// Failed or was recovered; nothing of it is left.
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

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether a commit in this state may take that one next.
    fn leads_to(self, next: Self) -> bool {
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

/// Which commits to list, newest first.
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
        texts(&[&self.id, &self.call, &self.session, &self.tool])
            + maybe(self.batch.as_ref())
            + maybe(self.of.as_ref())
            + weight_of(&self.body)
    }
}

/// Looked at before anything is written: the name becomes part of a path.
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
        && let Some(refusal) = in_the_way(connection, of)?
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
    subject::state(
        connection,
        ChainSubject::Commit,
        &row.id,
        row.at_ms,
        "begun",
    )?;
    Ok(Ok(()))
}

/// Why a commit cannot be undone or redone just now. Two that try at once would both find the files as they expect
/// them, and the one that ends second would take back what the first has done.
fn in_the_way(connection: &Connection, of: &str) -> rusqlite::Result<Option<CommitError>> {
    let found = connection
        .prepare_cached("SELECT state FROM commits WHERE id = ?1")?
        .query_row([of], |row| state(row, 0))
        .optional()?;
    let id = of.to_owned();
    match found {
        None => return Ok(Some(CommitError::Unknown { id })),
        Some(state @ (CommitState::Begun | CommitState::Reverted)) => {
            return Ok(Some(CommitError::Unsettled { id, state }));
        }
        Some(CommitState::Done | CommitState::Undone) => {}
    }
    let by = connection
        .prepare_cached("SELECT id FROM commits WHERE state = 'begun' AND of = ?1")?
        .query_row([of], |row| row.get(0))
        .optional()?;
    Ok(by.map(|by| CommitError::Busy { id, by }))
}

/// Moves all of them or none.
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
            Some(state) if !state.leads_to(*next) => {
                return Ok(Err(CommitError::State {
                    id: id.clone(),
                    state,
                    next: *next,
                }));
            }
            Some(_) => states.insert(id, *next),
        };
    }
    // Only now: what a refused change had written would be committed with its neighbours.
    let mut update =
        connection.prepare_cached("UPDATE commits SET state = ?2, at_ms = ?3 WHERE id = ?1")?;
    for (id, state) in states {
        update.execute(params![id, state.as_str(), at_ms])?;
        subject::state(connection, ChainSubject::Commit, id, at_ms, state.as_str())?;
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

/// In the order in which they began, whatever the clock said.
pub fn commits(connection: &Connection, filter: &CommitFilter) -> rusqlite::Result<Vec<CommitRow>> {
    // Only what is asked for is compared, so that SQLite takes the index.
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

/// Not cut at any length: a blob whose commit is missing here may be swept away. A state that is none is an error here.
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

/// Takes over what a process that is gone has begun, so that of two processes that start at once only one recovers
/// each commit. The newest first, which is the order to revert them in.
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
            .or_insert_with_key(|owner| owner::lives(owners, owner))
        {
            continue;
        }
        // A row that is not as the chain says describes changes of files that no call made.
        subject::check(connection, ChainSubject::Commit, &id)?;
        update.execute(params![id, us])?;
        let Some(at_ms) = at(connection, &id)? else {
            continue;
        };
        subject::state(connection, ChainSubject::Commit, &id, at_ms, "adopted")?;
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
    let word = row.get_ref(index)?.as_str()?;
    CommitState::parse(word).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            index,
            Type::Text,
            format!("no commit is `{word}`").into(),
        )
    })
}
