//! The chain through all transitions: each hash covers the row and the hash before it.
//!
//! It finds what an accident or a careless hand changed. Somebody who may write the file and knows this code can make
//! a new chain from any row on; against that, note the head elsewhere and compare.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension as _, Row};
use sha2::{Digest as _, Sha256};

use crate::steps;

/// The hash before the first row.
pub fn genesis() -> [u8; 32] {
    Sha256::digest(b"toolhost transitions, format 1").into()
}

/// A transition as it is stored.
#[derive(Debug, Clone)]
pub struct Link<'a> {
    pub seq: i64,
    pub call: &'a str,
    pub session: &'a str,
    pub at_ms: i64,
    pub state: Cow<'a, str>,
    pub kind: Cow<'a, str>,
    pub note: Option<Cow<'a, str>>,
    pub detail: &'a str,
}

impl Link<'_> {
    /// Every column with its length in front, in a fixed order: no two rows have the same bytes.
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
        // No note and an empty note are two things.
        hasher.update([u8::from(self.note.is_some())]);
        put(&mut hasher, self.note.as_deref().unwrap_or_default());
        hasher.finalize().into()
    }
}

fn put(hasher: &mut Sha256, column: &str) {
    hasher.update((column.len() as u64).to_be_bytes());
    hasher.update(column.as_bytes());
}

/// Where the chain ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub rows: i64,
    pub hash: [u8; 32],
}

/// Read inside the transaction that appends: another process may have appended a moment ago.
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

/// What a walk through the whole chain found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verification {
    Verified {
        rows: i64,
        head: [u8; 32],
    },
    /// The first row that is not as it was written.
    Broken {
        seq: i64,
        reason: Breakage,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Breakage {
    #[error("the row is missing")]
    Missing,
    #[error("the row does not match its hash and the row before it")]
    Changed,
    #[error("the row was added outside the chain")]
    Added,
    #[error("the last row does not match the head of the chain")]
    Head,
    #[error("the head of the chain is missing or unreadable")]
    NoHead,
}

/// Walks all rows, one at a time, on one snapshot.
pub fn verify(connection: &mut Connection) -> rusqlite::Result<Verification> {
    let snapshot = connection.transaction()?;
    let stored = snapshot
        .query_row("SELECT rows, head FROM chain WHERE id = 1", [], |row| {
            Ok(head_of(row))
        })
        .optional()?
        .flatten();
    let mut walked = Head {
        rows: 0,
        hash: genesis(),
    };
    let broken = |seq, reason| Verification::Broken { seq, reason };
    let mut statement = snapshot.prepare(&format!(
        "SELECT {} FROM transitions ORDER BY seq",
        steps::COLUMNS
    ))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let expected = walked.rows + 1;
        let found = steps::of_row(row);
        let first = match found.as_ref().and_then(|steps| steps.first()) {
            Some((link, _)) => link.seq,
            None => row.get(0)?,
        };
        if first < expected || stored.is_some_and(|head| first > head.rows && expected > head.rows)
        {
            return Ok(broken(first, Breakage::Added));
        }
        let Some(found) = found else {
            // What it holds besides nobody can tell.
            return Ok(broken(expected, Breakage::Changed));
        };
        if first > expected {
            return Ok(broken(expected, Breakage::Missing));
        }
        for (link, hash) in found {
            if link.hash(&walked.hash) != hash {
                return Ok(broken(link.seq, Breakage::Changed));
            }
            walked = Head {
                rows: link.seq,
                hash,
            };
        }
    }
    Ok(match stored {
        Some(head) if head == walked => Verification::Verified {
            rows: head.rows,
            head: head.hash,
        },
        Some(head) if head.rows > walked.rows => broken(walked.rows + 1, Breakage::Missing),
        Some(_) => broken(walked.rows, Breakage::Head),
        None => broken(walked.rows, Breakage::NoHead),
    })
}

fn head_of(row: &Row) -> Option<Head> {
    Some(Head {
        rows: row.get(0).ok()?,
        hash: row.get(1).ok()?,
    })
}
