//! Hash chain of the audit log: each hash covers a step and the previous hash.
//!
//! A link also contains the digest of the row written with it, so the chain covers the rows of all tables. The
//! hashes have no key: a program that can write the file can forge the chain from any step on. Verifying a head
//! that was recorded elsewhere detects that.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension as _, params};
use sha2::{Digest as _, Sha256};

use crate::read::unreadable;
use crate::steps;
use crate::subject::ChainSubject;

/// The hash before the first step.
pub fn genesis() -> [u8; 32] {
    Sha256::digest(b"toolhost transitions, format 1").into()
}

/// A step as stored.
#[derive(Debug, Clone)]
pub struct Link<'a> {
    pub seq: i64,
    /// The key of the row, for subjects other than a call.
    pub call: &'a str,
    pub session: &'a str,
    pub at_ms: i64,
    pub state: Cow<'a, str>,
    pub kind: Cow<'a, str>,
    pub note: Option<Cow<'a, str>>,
    pub detail: &'a str,
    pub subject: ChainSubject,
    /// Digest of the row that was written with it.
    pub digest: Option<[u8; 32]>,
}

impl Link<'_> {
    /// Hashes each column with its length as prefix, in a fixed order, so that different links never have the same
    /// encoding.
    pub fn hash(&self, before: &[u8; 32]) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(before);
        hasher.update(self.seq.to_be_bytes());
        hasher.update(self.at_ms.to_be_bytes());
        for column in [
            self.call,
            self.session,
            &self.state,
            &self.kind,
            self.detail,
        ] {
            put(&mut hasher, column);
        }
        // Distinguishes no note from an empty note.
        hasher.update([u8::from(self.note.is_some())]);
        put(&mut hasher, self.note.as_deref().unwrap_or_default());
        // Steps of earlier formats end after the note.
        if self.subject != ChainSubject::Step || self.digest.is_some() {
            hasher.update(self.subject.code().to_be_bytes());
            hasher.update([u8::from(self.digest.is_some())]);
            hasher.update(self.digest.unwrap_or_default());
        }
        hasher.finalize().into()
    }
}

fn put(hasher: &mut Sha256, column: &str) {
    hasher.update((column.len() as u64).to_be_bytes());
    hasher.update(column.as_bytes());
}

/// End of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub rows: i64,
    pub hash: [u8; 32],
}

/// Read inside the transaction that appends, because another process may have appended before.
pub fn head(connection: &Connection) -> rusqlite::Result<Head> {
    connection
        .prepare_cached("SELECT rows, head FROM chain WHERE id = 1")?
        .query_row([], |row| {
            Ok(Head {
                rows: row.get(0)?,
                hash: row.get(1)?,
            })
        })
}

pub fn set_head(connection: &Connection, head: Head) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE chain SET rows = ?1, head = ?2 WHERE id = 1")?
        .execute((head.rows, head.hash.as_slice()))?;
    Ok(())
}

/// The `last` of the newest dropped segment.
pub fn base(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT base FROM chain WHERE id = 1")?
        .query_row([], |row| row.get(0))
}

/// Appends one link as a row; the caller stores the head.
pub fn append(connection: &Connection, link: &Link, head: Head) -> rusqlite::Result<Head> {
    let hash = link.hash(&head.hash);
    let head = Head {
        rows: link.seq,
        hash,
    };
    insert(
        connection,
        &steps::Packed {
            last: link.clone(),
            shape: None,
            earlier: None,
            head,
        },
    )?;
    Ok(head)
}

pub fn insert(connection: &Connection, packed: &steps::Packed) -> rusqlite::Result<()> {
    let last = &packed.last;
    connection
        .prepare_cached(
            "INSERT INTO transitions (seq, call, session, at_ms, state, kind, note, detail, hash, earlier, subject, digest, shape)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            last.seq,
            last.call,
            last.session,
            last.at_ms,
            last.state,
            last.kind,
            last.note,
            last.detail,
            packed.head.hash.as_slice(),
            packed.earlier,
            last.subject.code(),
            last.digest.as_ref().map(<[u8; 32]>::as_slice),
            packed.shape,
        ])?;
    Ok(())
}

/// The hash before step `seq`: of the previous step, of the segment dropped before it, or the genesis hash.
pub fn hash_before(connection: &Connection, seq: i64) -> rusqlite::Result<[u8; 32]> {
    let found: Option<(i64, Vec<u8>)> = connection
        .prepare_cached(
            "SELECT seq, hash FROM transitions WHERE seq < ?1 ORDER BY seq DESC LIMIT 1",
        )?
        .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let missing = || {
        unreadable(
            0,
            format!("step {} is missing", seq.saturating_sub(1)).into(),
        )
    };
    match found {
        Some((last, hashes)) if last.checked_add(1) == Some(seq) => {
            hashes.last_chunk().copied().ok_or_else(missing)
        }
        Some(_) => Err(missing()),
        None if seq == 1 => Ok(genesis()),
        None => connection
            .prepare_cached(
                "SELECT segments.head FROM segments JOIN chain ON base = last WHERE last = ?1 - 1",
            )?
            .query_row([seq], |row| row.get(0))
            .optional()?
            .ok_or_else(missing),
    }
}
