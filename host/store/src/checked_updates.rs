//! Checked updates of approvals, answers and orphaned calls. Each runs in a write transaction, so its checks still
//! hold when it writes.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::{
    AnswerError, AnswerRow, ApprovalError, ApprovalRow, CallRow, ChainSubject, owner, read, subject,
};

pub fn put_approval(
    connection: &Connection,
    row: &ApprovalRow,
) -> rusqlite::Result<Result<(), ApprovalError>> {
    // Never replaced, so that a revoked approval cannot be restored under its id.
    let added = connection
        .prepare_cached(
            "INSERT INTO approvals (id, tool, plugin, identity, scope, session, body, created_ms, expires_ms,
                                    uses_left, used, revoked_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            row.id,
            row.tool,
            row.plugin,
            row.identity,
            row.scope,
            row.session,
            row.body.to_string(),
            row.created_ms,
            row.expires_ms,
            row.uses_left,
            row.used,
            row.revoked_ms
        ])?;
    if added == 0 {
        return Ok(Err(ApprovalError::Exists { id: row.id.clone() }));
    }
    subject::append_state(
        connection,
        ChainSubject::Approval,
        &row.id,
        row.created_ms,
        "kept",
    )?;
    Ok(Ok(()))
}

/// Idempotent: the first revocation time is kept.
pub fn revoke_approval(
    connection: &Connection,
    id: &str,
    at_ms: i64,
) -> rusqlite::Result<Result<(), ApprovalError>> {
    subject::check(connection, ChainSubject::Approval, id)?;
    let found = connection
        .prepare_cached("UPDATE approvals SET revoked_ms = coalesce(revoked_ms, ?2) WHERE id = ?1")?
        .execute(params![id, at_ms])?;
    if found == 0 {
        return Ok(Err(ApprovalError::Unknown { id: id.to_owned() }));
    }
    subject::append_state(connection, ChainSubject::Approval, id, at_ms, "revoked")?;
    Ok(Ok(()))
}

pub fn use_approval(connection: &Connection, id: &str, at_ms: i64) -> rusqlite::Result<bool> {
    subject::check(connection, ChainSubject::Approval, id)?;
    // If the clock is before the approval's creation, expiry cannot be determined; it counts as expired.
    let used = connection
        .prepare_cached(
            "UPDATE approvals SET used = used + 1, uses_left = uses_left - 1
             WHERE id = ?1 AND revoked_ms IS NULL AND (uses_left IS NULL OR uses_left > 0)
               AND (expires_ms IS NULL OR (created_ms <= ?2 AND ?2 < expires_ms))",
        )?
        .execute(params![id, at_ms])?;
    if used > 0 {
        subject::append_state(connection, ChainSubject::Approval, id, at_ms, "used")?;
    }
    Ok(used > 0)
}

pub fn answer(
    connection: &Connection,
    row: &AnswerRow,
) -> rusqlite::Result<Result<(), AnswerError>> {
    let call: Option<(String, bool, i64)> = connection
        .prepare_cached("SELECT state, finished, updated_ms FROM calls WHERE id = ?1")?
        .query_row([&row.call], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let asked_ms = match call {
        None => {
            return Ok(Err(AnswerError::UnknownCall {
                call: row.call.clone(),
            }));
        }
        Some((state, true, _)) => return Ok(Err(AnswerError::Finished { state })),
        Some((state, ..)) if state != "awaiting_approval" => {
            return Ok(Err(AnswerError::NotWaiting { state }));
        }
        Some((.., asked_ms)) => asked_ms,
    };
    if row.asked_ms.is_some_and(|expected| expected != asked_ms) {
        return Ok(Err(AnswerError::QuestionChanged {
            call: row.call.clone(),
        }));
    }
    if let Some(first) = read::answer(connection, &row.call, asked_ms)? {
        return Ok(Err(AnswerError::AlreadyAnswered { by: first.by }));
    }
    // An existing row answers an earlier question of this call.
    connection
        .prepare_cached("INSERT OR REPLACE INTO answers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
        .execute(params![
            row.call,
            asked_ms,
            row.decision,
            row.note,
            row.payload.as_ref().map(ToString::to_string),
            row.by,
            row.at_ms
        ])?;
    subject::append_state(
        connection,
        ChainSubject::Answer,
        &row.call,
        row.at_ms,
        "answered",
    )?;
    Ok(Ok(()))
}

pub fn clear_answer(connection: &Connection, call: &str) -> rusqlite::Result<()> {
    let removed: Option<i64> = connection
        .prepare_cached("DELETE FROM answers WHERE call = ?1 RETURNING at_ms")?
        .query_row([call], |row| row.get(0))
        .optional()?;
    match removed {
        Some(at_ms) => {
            subject::append_state(connection, ChainSubject::Answer, call, at_ms, "removed")
        }
        None => Ok(()),
    }
}

/// Unfinished calls whose process has ended.
pub fn orphans(connection: &Connection, owners: &Path) -> rusqlite::Result<Vec<CallRow>> {
    let mut alive = HashMap::new();
    let mut calls = read::unfinished(connection)?;
    calls.retain(|(owner, _)| {
        !*alive
            .entry(owner.clone())
            .or_insert_with(|| owner::is_alive(owners, owner))
    });
    Ok(calls.into_iter().map(|(_, call)| call).collect())
}

/// Adopts orphaned calls, so that only one process seals each. A row that does not match the chain is left alone,
/// because sealing it would confirm the change.
pub fn adopt(connection: &Connection, owners: &Path, us: &str) -> rusqlite::Result<Vec<CallRow>> {
    let mut calls = orphans(connection, owners)?;
    calls.retain(|call| subject::check(connection, ChainSubject::Call, &call.id).is_ok());
    let mut statement = connection.prepare_cached("UPDATE calls SET owner = ?2 WHERE id = ?1")?;
    for call in &calls {
        statement.execute(params![call.id, us])?;
        subject::append_state(
            connection,
            ChainSubject::Call,
            &call.id,
            call.updated_ms,
            "adopted",
        )?;
    }
    Ok(calls)
}
