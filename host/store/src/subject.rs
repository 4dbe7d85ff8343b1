//! The tables that the chain covers, and the digests of their rows.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row};
use sha2::{Digest as _, Sha256};

use crate::chain::{self, Head, Link};
use crate::read::unreadable;

/// What a link of the chain is about. The numbers are stored and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainSubject {
    /// A step of a call; its digest, if any, is that of the call's row.
    Step = 0,
    /// The row of a call, without a step.
    Call = 1,
    Approval = 2,
    Session = 3,
    Batch = 4,
    Commit = 5,
    Answer = 6,
    Event = 7,
    /// Dropped segments of the chain.
    Segments = 8,
}

/// The digest of a removed row.
pub const REMOVED_DIGEST: [u8; 32] = [0; 32];

/// A table whose rows the chain covers.
#[derive(Debug)]
pub struct Table {
    pub subject: ChainSubject,
    pub name: &'static str,
    pub key: &'static str,
    /// In the order in which they are hashed.
    columns: &'static str,
}

/// Calls, whose digests are computed when they are written.
pub const CALLS: Table = Table {
    subject: ChainSubject::Call,
    name: "calls",
    key: "id",
    columns: "seq, id, session, batch, parent, tool, plugin, state, finished, deferred, effectful, created_ms, updated_ms, owner, record, (SELECT text FROM shapes WHERE shapes.id = calls.shape)",
};

pub const TABLES: [Table; 7] = [
    CALLS,
    Table {
        subject: ChainSubject::Approval,
        name: "approvals",
        key: "id",
        columns: "seq, id, tool, plugin, identity, scope, session, body, created_ms, expires_ms, uses_left, used, revoked_ms",
    },
    Table {
        subject: ChainSubject::Session,
        name: "sessions",
        key: "id",
        columns: "seq, id, started_ms, ended_ms, client, mode, detail, owner",
    },
    Table {
        subject: ChainSubject::Batch,
        name: "batches",
        key: "id",
        columns: "seq, id, session, created_ms, finished_ms, submitted_ms, calls, strategy",
    },
    Table {
        subject: ChainSubject::Commit,
        name: "commits",
        key: "id",
        columns: "seq, id, call, session, batch, tool, at_ms, state, of, owner, body",
    },
    Table {
        subject: ChainSubject::Answer,
        name: "answers",
        key: "call",
        columns: "call, asked_ms, decision, note, payload, by, at_ms",
    },
    Table {
        subject: ChainSubject::Event,
        name: "events",
        key: "seq",
        columns: "seq, channel, session, call, at_ms, kind, body",
    },
];

impl ChainSubject {
    pub fn of(code: i64) -> Option<Self> {
        [
            Self::Step,
            Self::Call,
            Self::Approval,
            Self::Session,
            Self::Batch,
            Self::Commit,
            Self::Answer,
            Self::Event,
            Self::Segments,
        ]
        .into_iter()
        .find(|subject| subject.code() == code)
    }

    pub fn code(self) -> i64 {
        self as i64
    }

    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Call => "call",
            Self::Approval => "approval",
            Self::Session => "session",
            Self::Batch => "batch",
            Self::Commit => "commit",
            Self::Answer => "answer",
            Self::Event => "event",
            Self::Segments => "segments",
        }
    }

    /// The table of the subject.
    pub fn table(self) -> Option<&'static Table> {
        let subject = match self {
            Self::Step => Self::Call,
            other => other,
        };
        TABLES.iter().find(|table| table.subject == subject)
    }
}

impl Table {
    /// Digest of the row with this key; `None` if there is no such row.
    pub fn digest(&self, connection: &Connection, key: &str) -> rusqlite::Result<Option<[u8; 32]>> {
        let Self {
            name, key: column, ..
        } = self;
        connection
            .prepare_cached(&format!(
                "SELECT {} FROM {name} WHERE {column} = ?1",
                self.columns
            ))?
            .query_row([key], |row| self.digest_of_row(row))
            .optional()
    }

    fn digest_of_row(&self, row: &Row) -> rusqlite::Result<[u8; 32]> {
        let columns = 0..row.as_ref().column_count();
        let values: Vec<ValueRef> = columns
            .map(|index| row.get_ref(index))
            .collect::<rusqlite::Result<_>>()?;
        Ok(self.digest_of(values))
    }

    /// Digest of a row with these values, in the order of the columns. Hashes each value with its type and length as
    /// prefix, so that different rows never have the same encoding.
    pub fn digest_of<'a>(&self, values: impl IntoIterator<Item = ValueRef<'a>>) -> [u8; 32] {
        let mut hasher = Sha256::new();
        let mut put = |kind: u8, bytes: &[u8]| {
            hasher.update([kind]);
            hasher.update((bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        };
        put(9, self.name.as_bytes());
        for value in values {
            match value {
                ValueRef::Null => put(0, &[]),
                ValueRef::Integer(number) => put(1, &number.to_be_bytes()),
                ValueRef::Real(number) => put(2, &number.to_bits().to_be_bytes()),
                ValueRef::Text(text) => put(3, text),
                ValueRef::Blob(bytes) => put(4, bytes),
            }
        }
        hasher.finalize().into()
    }

    /// The newest link about a row, with its digest; the inner `None` means that the digest is invalid.
    pub fn newest_link(
        &self,
        connection: &Connection,
        key: &str,
    ) -> rusqlite::Result<Option<(i64, Option<[u8; 32]>)>> {
        connection
            .prepare_cached(
                "SELECT seq, digest FROM transitions
                 WHERE call = ?1 AND max(subject, 1) = ?2 AND digest IS NOT NULL ORDER BY seq DESC LIMIT 1",
            )?
            .query_row((key, self.subject.code()), |row| {
                Ok((row.get(0)?, row.get(1).ok()))
            })
            .optional()
    }

    /// Fails if a row does not match the chain.
    pub fn check(&self, connection: &Connection, key: &str) -> rusqlite::Result<()> {
        let stated = match self.newest_link(connection, key)? {
            Some((_, digest)) => digest,
            None => Some(REMOVED_DIGEST),
        };
        let found = self.digest(connection, key)?;
        if stated == Some(found.unwrap_or(REMOVED_DIGEST)) {
            return Ok(());
        }
        let key = toolhost_contract::text::escape_line(key, 80);
        let message = format!("`{key}` of {} does not match the audit chain", self.name);
        Err(unreadable(0, message.into()))
    }
}

/// Fails if a row does not match the chain. A changed row must not be written again, because that would confirm the
/// change.
pub fn check(connection: &Connection, subject: ChainSubject, key: &str) -> rusqlite::Result<()> {
    match subject.table() {
        Some(table) => table.check(connection, key),
        None => Ok(()),
    }
}

/// Appends the current digest of a row. `state` names the change.
pub fn append_state(
    connection: &Connection,
    subject: ChainSubject,
    key: &str,
    at_ms: i64,
    state: &str,
) -> rusqlite::Result<()> {
    let head = append_state_after(
        connection,
        chain::head(connection)?,
        subject,
        key,
        at_ms,
        state,
    )?;
    chain::set_head(connection, head)
}

/// Like [`state`], for a writer that knows the head and stores the new one later.
pub fn append_state_after(
    connection: &Connection,
    head: Head,
    subject: ChainSubject,
    key: &str,
    at_ms: i64,
    state: &str,
) -> rusqlite::Result<Head> {
    let digest = match subject.table() {
        Some(table) => table.digest(connection, key)?,
        None => None,
    };
    let link = Link {
        seq: head.rows + 1,
        call: key,
        session: "",
        at_ms,
        state: state.into(),
        kind: subject.name().into(),
        note: None,
        detail: "null",
        subject,
        digest: Some(digest.unwrap_or(REMOVED_DIGEST)),
    };
    chain::append(connection, &link, head)
}

/// Records all rows of a file of an earlier format.
pub fn append_all_states(connection: &Connection) -> rusqlite::Result<()> {
    let mut head = chain::head(connection)?;
    for table in &TABLES {
        let at = match table.subject {
            ChainSubject::Call => "updated_ms",
            ChainSubject::Session => "started_ms",
            ChainSubject::Approval | ChainSubject::Batch => "created_ms",
            _ => "at_ms",
        };
        let Table { name, key, .. } = table;
        let mut rows = connection.prepare(&format!(
            "SELECT CAST({key} AS TEXT), {at} FROM {name} ORDER BY 1"
        ))?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let (key, at_ms): (String, i64) = (row.get(0)?, row.get(1)?);
            head = append_state_after(connection, head, table.subject, &key, at_ms, "migrated")?;
        }
    }
    chain::set_head(connection, head)
}
