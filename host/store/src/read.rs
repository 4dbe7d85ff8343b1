//! Reads rows with SQL.

use std::borrow::Cow;
use std::error::Error;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use serde_json::Value;

use crate::{
    AnswerRow, ApprovalRow, BatchRow, CallFilter, CallRow, ChainSubject, EventRow, SessionRow,
    StoredTransition, TransitionFilter, TransitionRow, chain, shapes, steps, subject,
};

/// Maximum length of a list, regardless of the requested limit.
pub const MAX_LIST: u32 = 10_000;

const CALL: &str =
    "id, session, batch, parent, tool, plugin, state, finished, deferred, effectful, created_ms,
                    updated_ms, record, owner, (SELECT text FROM shapes WHERE shapes.id = calls.shape)";

/// The columns of [`CALL`] and the position of the call.
pub const CALL_AT: &str =
    "id, session, batch, parent, tool, plugin, state, finished, deferred, effectful, created_ms,
                    updated_ms, record, owner, (SELECT text FROM shapes WHERE shapes.id = calls.shape), seq";

pub fn call(connection: &Connection, id: &str) -> rusqlite::Result<Option<CallRow>> {
    connection
        .prepare_cached(&format!("SELECT {CALL} FROM calls WHERE id = ?1"))?
        .query_row([id], call_of)
        .optional()?
        .map(|row| checked(connection, ChainSubject::Call, row, |row| &row.id))
        .transpose()
}

/// Returns the row if it matches the chain.
fn checked<T>(
    connection: &Connection,
    subject: ChainSubject,
    row: T,
    key: impl Fn(&T) -> &str,
) -> rusqlite::Result<T> {
    subject::check(connection, subject, key(&row))?;
    Ok(row)
}

fn all_checked<T>(
    connection: &Connection,
    subject: ChainSubject,
    rows: Vec<T>,
    key: impl Fn(&T) -> &str,
) -> rusqlite::Result<Vec<T>> {
    for row in &rows {
        subject::check(connection, subject, key(row))?;
    }
    Ok(rows)
}

pub fn calls(connection: &Connection, filter: &CallFilter) -> rusqlite::Result<Vec<CallRow>> {
    let rows = list(
        connection,
        &format!(
            "SELECT {CALL} FROM calls
             WHERE (?1 IS NULL OR session = ?1) AND (?2 IS NULL OR tool = ?2) AND (?3 IS NULL OR state = ?3)
               AND (?4 = 0 OR finished = 0) AND (?5 IS NULL OR created_ms >= ?5)
               AND (?6 IS NULL OR created_ms < ?6)
             ORDER BY seq DESC LIMIT ?7"
        ),
        params![
            filter.session,
            filter.tool,
            filter.state,
            filter.unfinished,
            filter.after_ms,
            filter.before_ms,
            filter.limit.min(MAX_LIST)
        ],
        call_of,
    )?;
    all_checked(connection, ChainSubject::Call, rows, |row| &row.id)
}

/// Unfinished calls that are not deferred, each with its owner.
pub fn unfinished(connection: &Connection) -> rusqlite::Result<Vec<(String, CallRow)>> {
    list(
        connection,
        &format!(
            "SELECT {CALL} FROM calls WHERE finished = 0 AND deferred = 0 ORDER BY seq LIMIT ?1"
        ),
        [MAX_LIST],
        |row| Ok((row.get(13)?, call_of(row)?)),
    )
}

/// Deferred calls, one at a time, because their inputs can be large.
pub fn deferred(connection: &Connection, mut each: impl FnMut(CallRow)) -> rusqlite::Result<()> {
    connection
        .prepare_cached(&format!(
            "SELECT {CALL} FROM calls WHERE finished = 0 AND deferred = 1"
        ))?
        .query_map([], call_of)?
        .try_for_each(|row| row.map(&mut each))
}

pub fn transitions(
    connection: &Connection,
    filter: &TransitionFilter,
) -> rusqlite::Result<Vec<StoredTransition>> {
    let columns = format!(
        "SELECT {} FROM transitions WHERE seq > ?1 AND (?2 IS NULL OR session = ?2) AND subject <= ?3",
        steps::COLUMNS
    );
    let limit = filter.limit.min(MAX_LIST);
    let subjects = if filter.every_subject {
        i64::MAX
    } else {
        ChainSubject::Step.code()
    };
    // Hash of the step before the next row, when rows are read in sequence.
    let mut before = None;
    let row = |row: &Row| transitions_of(connection, row, &mut before);
    // Two statements, because SQLite uses the index on `call` only for a direct comparison.
    let rows = match &filter.call {
        Some(call) => list(
            connection,
            &format!("{columns} AND call = ?4 ORDER BY seq LIMIT ?5"),
            params![filter.after_seq, filter.session, subjects, call, limit],
            row,
        ),
        None => list(
            connection,
            &format!("{columns} ORDER BY seq LIMIT ?4"),
            params![filter.after_seq, filter.session, subjects, limit],
            row,
        ),
    }?;
    // A row can begin with steps at or before `after_seq`, and contain more than the limit.
    Ok(rows
        .into_iter()
        .flatten()
        .filter(|step| step.seq > filter.after_seq)
        .take(limit as usize)
        .collect())
}

pub fn sessions(connection: &Connection, limit: u32) -> rusqlite::Result<Vec<SessionRow>> {
    let rows = sessions_before(connection, None, limit)?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Sessions before a position, newest first, with their positions.
pub fn sessions_before(
    connection: &Connection,
    before: Option<i64>,
    limit: u32,
) -> rusqlite::Result<Vec<(i64, SessionRow)>> {
    let rows = list(
        connection,
        "SELECT id, started_ms, ended_ms, client, mode, detail, seq FROM sessions
         WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2",
        params![before.unwrap_or(i64::MAX), limit.min(MAX_LIST)],
        |row| {
            let session = SessionRow {
                id: row.get(0)?,
                started_ms: row.get(1)?,
                ended_ms: row.get(2)?,
                client: row.get(3)?,
                mode: row.get(4)?,
                detail: json(row, 5)?,
            };
            Ok((row.get(6)?, session))
        },
    )?;
    all_checked(connection, ChainSubject::Session, rows, |(_, row)| &row.id)
}

pub fn batches(connection: &Connection, session: &str) -> rusqlite::Result<Vec<BatchRow>> {
    let rows = list(
        connection,
        "SELECT id, session, created_ms, finished_ms, submitted_ms, calls, strategy FROM batches
         WHERE session = ?1 ORDER BY seq DESC LIMIT ?2",
        params![session, MAX_LIST],
        |row| {
            Ok(BatchRow {
                id: row.get(0)?,
                session: row.get(1)?,
                created_ms: row.get(2)?,
                finished_ms: row.get(3)?,
                submitted_ms: row.get(4)?,
                calls: row.get(5)?,
                strategy: row.get(6)?,
            })
        },
    )?;
    all_checked(connection, ChainSubject::Batch, rows, |row| &row.id)
}

pub fn events(
    connection: &Connection,
    channel: Option<&str>,
    after: i64,
    limit: u32,
) -> rusqlite::Result<Vec<(i64, EventRow)>> {
    let columns =
        "SELECT seq, channel, session, call, at_ms, kind, body FROM events WHERE seq > ?1";
    let limit = limit.min(MAX_LIST);
    let rows = match channel {
        Some(channel) => list(
            connection,
            &format!("{columns} AND channel = ?2 ORDER BY seq LIMIT ?3"),
            params![after, channel, limit],
            event_of,
        ),
        None => list(
            connection,
            &format!("{columns} ORDER BY seq LIMIT ?2"),
            params![after, limit],
            event_of,
        ),
    }?;
    for (seq, _) in &rows {
        subject::check(connection, ChainSubject::Event, &seq.to_string())?;
    }
    Ok(rows)
}

/// Events of one call after the number `after`.
pub fn events_of_call(
    connection: &Connection,
    call: &str,
    after: i64,
    limit: u32,
) -> rusqlite::Result<Vec<(i64, EventRow)>> {
    let rows = list(
        connection,
        "SELECT seq, channel, session, call, at_ms, kind, body FROM events
         WHERE call = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        params![call, after, limit.min(MAX_LIST)],
        event_of,
    )?;
    for (seq, _) in &rows {
        subject::check(connection, ChainSubject::Event, &seq.to_string())?;
    }
    Ok(rows)
}

/// Number of the newest event, to follow only newer ones.
pub fn last_event(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM events")?
        .query_row([], |row| row.get(0))
}

pub fn approvals(connection: &Connection) -> rusqlite::Result<Vec<ApprovalRow>> {
    let rows = list(
        connection,
        "SELECT id, tool, plugin, identity, scope, session, body, created_ms, expires_ms, uses_left, used, revoked_ms
         FROM approvals ORDER BY seq",
        [],
        |row| {
            Ok(ApprovalRow {
                id: row.get(0)?,
                tool: row.get(1)?,
                plugin: row.get(2)?,
                identity: row.get(3)?,
                scope: row.get(4)?,
                session: row.get(5)?,
                body: json(row, 6)?,
                created_ms: row.get(7)?,
                expires_ms: row.get(8)?,
                uses_left: row.get(9)?,
                used: row.get(10)?,
                revoked_ms: row.get(11)?,
            })
        },
    )?;
    all_checked(connection, ChainSubject::Approval, rows, |row| &row.id)
}

/// The answer to one question; answers to earlier questions of the same call do not count.
pub fn answer(
    connection: &Connection,
    call: &str,
    asked_ms: i64,
) -> rusqlite::Result<Option<AnswerRow>> {
    connection
        .prepare_cached(
            "SELECT call, decision, note, payload, by, at_ms FROM answers WHERE call = ?1 AND asked_ms = ?2",
        )?
        .query_row(params![call, asked_ms], |row| {
            Ok(AnswerRow {
                asked_ms: None,
                call: row.get(0)?,
                decision: row.get(1)?,
                note: row.get(2)?,
                payload: match row.get_ref(3)?.data_type() {
                    Type::Null => None,
                    _ => Some(json(row, 3)?),
                },
                by: row.get(4)?,
                at_ms: row.get(5)?,
            })
        })
        .optional()?
        .map(|row| checked(connection, ChainSubject::Answer, row, |row| &row.call))
        .transpose()
}

/// Changes whenever another connection, of this or another process, has written.
pub fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("PRAGMA data_version")?
        .query_row([], |row| row.get(0))
}

pub fn list<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    row: impl FnMut(&Row) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection
        .prepare_cached(sql)?
        .query_map(params, row)?
        .collect()
}

pub fn call_of(row: &Row) -> rusqlite::Result<CallRow> {
    let mut call = CallRow {
        id: row.get(0)?,
        session: row.get(1)?,
        batch: row.get(2)?,
        parent: row.get(3)?,
        tool: row.get(4)?,
        plugin: row.get(5)?,
        state: row.get(6)?,
        finished: row.get(7)?,
        deferred: row.get(8)?,
        effectful: row.get(9)?,
        created_ms: row.get(10)?,
        updated_ms: row.get(11)?,
        record: json(row, 12)?,
    };
    if let Some(shape) = row
        .get_ref(14)?
        .as_str_or_null()
        .map_err(|error| unreadable(14, error.into()))?
    {
        shapes::join(&mut call, shape)
            .ok_or_else(|| unreadable(14, "not the shape of this record".into()))?;
    }
    Ok(call)
}

/// The steps of a row, each checked against its hash.
fn transitions_of(
    connection: &Connection,
    row: &Row,
    before: &mut Option<(i64, [u8; 32])>,
) -> rusqlite::Result<Vec<StoredTransition>> {
    let steps =
        steps::of_row(row).ok_or_else(|| unreadable(8, "not the steps of a call".into()))?;
    let hash = match *before {
        Some((last, hash)) if last.checked_add(1) == Some(steps.first()) => hash,
        _ => chain::hash_before(connection, steps.first())?,
    };
    let steps = steps
        .checked(hash)
        .map_err(|seq| unreadable(8, format!("step {seq} does not match its hash").into()))?;
    *before = steps.last().map(|(link, hash)| (link.seq, *hash));
    steps
        .into_iter()
        .map(|(link, hash)| {
            let detail = serde_json::from_str(link.detail);
            Ok(StoredTransition {
                seq: link.seq,
                subject: link.subject,
                digest: link.digest,
                row: TransitionRow {
                    call: link.call.to_owned(),
                    session: link.session.to_owned(),
                    at_ms: link.at_ms,
                    state: link.state.into_owned(),
                    kind: link.kind.into_owned(),
                    note: link.note.map(Cow::into_owned),
                    detail: detail.map_err(|error| unreadable(7, error.into()))?,
                },
                hash,
            })
        })
        .collect()
}

fn event_of(row: &Row) -> rusqlite::Result<(i64, EventRow)> {
    Ok((
        row.get(0)?,
        EventRow {
            channel: row.get(1)?,
            session: row.get(2)?,
            call: row.get(3)?,
            at_ms: row.get(4)?,
            kind: row.get(5)?,
            body: json(row, 6)?,
        },
    ))
}

pub fn json(row: &Row, index: usize) -> rusqlite::Result<Value> {
    let text = row.get_ref(index)?.as_str()?;
    serde_json::from_str(text).map_err(|error| unreadable(index, error.into()))
}

pub fn unreadable(index: usize, why: Box<dyn Error + Send + Sync>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(index, Type::Text, why)
}
