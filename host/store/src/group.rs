//! Writes a group of rows as SQL in one transaction.

use std::collections::HashMap;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use crate::chain::{self, Head};
use crate::shapes::ShapeIds;
use crate::writer::Pace;
use crate::{
    BatchRow, CallRow, ChainSubject, EventRow, SessionRow, TransitionRow, Write, segments, shapes,
    steps, subject,
};

/// The rows of one group, with work that is done once per group.
pub struct Group<'a> {
    connection: &'a Connection,
    owner: &'a str,
    /// In the order in which the calls first appear.
    calls: Vec<PendingCall<'a>>,
    indexes: HashMap<&'a str, usize>,
    /// `None` if not yet read, or already stored.
    head: Option<Head>,
    text: Vec<u8>,
    pace: Pace<'a>,
}

/// The latest row of a call within a group. A short call is created, runs and ends in one group, so only its last
/// row is stored.
struct PendingCall<'a> {
    row: &'a CallRow,
    steps: Vec<&'a TransitionRow>,
}

impl<'a> Group<'a> {
    pub fn new(connection: &'a Connection, owner: &'a str, pace: Pace<'a>) -> Self {
        Self {
            connection,
            owner,
            calls: Vec::new(),
            indexes: HashMap::new(),
            head: None,
            text: Vec::new(),
            pace,
        }
    }

    pub fn write(&mut self, write: &'a Write) -> rusqlite::Result<()> {
        self.pace.pause();
        match write {
            Write::Call { row, transitions } => {
                if let Some(&index) = self.indexes.get(row.id.as_str()) {
                    let latest = &mut self.calls[index];
                    latest.row = row;
                    latest.steps.extend(transitions);
                } else {
                    self.indexes.insert(&row.id, self.calls.len());
                    self.calls.push(PendingCall {
                        row,
                        steps: transitions.iter().collect(),
                    });
                }
                Ok(())
            }
            Write::Event(row) => self.event(row),
            Write::Session(row) => self.session(row),
            Write::Batch(row) => self.batch(row),
            Write::Many(writes) => writes.iter().try_for_each(|write| self.write(write)),
        }
    }

    /// Writes the pending call rows and the chain head, so that queries see them.
    pub fn flush(&mut self) -> rusqlite::Result<()> {
        self.indexes.clear();
        let mut shapes = ShapeIds::default();
        for latest in std::mem::take(&mut self.calls) {
            let digest = self.call(&mut shapes, latest.row)?;
            self.append(&mut shapes, latest.row, &latest.steps, digest)?;
            self.pace.pause();
        }
        match self.head.take() {
            Some(head) => chain::set_head(self.connection, head),
            None => Ok(()),
        }
    }

    pub fn finish(mut self) -> rusqlite::Result<()> {
        self.flush()?;
        segments::seal_if_long(self.connection, chain::head(self.connection)?)
    }

    fn head(&self) -> rusqlite::Result<Head> {
        match self.head {
            Some(head) => Ok(head),
            None => chain::head(self.connection),
        }
    }

    /// Writes the row. Returns its digest, or `None` if it was neither inserted nor updated.
    fn call(&mut self, shapes: &mut ShapeIds, row: &CallRow) -> rusqlite::Result<Option<[u8; 32]>> {
        let split = shapes::split(row);
        let shape = match &split {
            Some((shape, _)) => shapes.id(self.connection, shape)?,
            None => None,
        };
        let (shape_text, record) = match &split {
            Some((text, own)) if shape.is_some() => (Some(text.as_str()), own.as_str()),
            _ => (None, json(&mut self.text, &row.record)),
        };
        // Only unfinished calls are looked up by owner.
        let owner = if row.finished { "" } else { self.owner };
        let seq: Option<i64> = self.connection.prepare_cached(
            "INSERT INTO calls (id, session, batch, parent, tool, plugin, state, finished, deferred, effectful,
                                created_ms, updated_ms, owner, record, shape)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
             ON CONFLICT (id) DO UPDATE SET
                session = ?2, batch = ?3, parent = ?4, tool = ?5, plugin = ?6, state = ?7, finished = ?8,
                deferred = ?9, effectful = ?10, updated_ms = ?12, owner = ?13, record = ?14, shape = ?15
             -- A later call with the same id must not write over the record of the first.
             WHERE finished = 0 AND created_ms = ?11 AND session = ?2
             RETURNING seq",
        )?
        .query_row(params![
            row.id,
            row.session,
            row.batch,
            row.parent,
            row.tool,
            row.plugin,
            row.state,
            row.finished,
            row.deferred,
            row.effectful,
            row.created_ms,
            row.updated_ms,
            owner,
            record,
            shape,
        ], |row| row.get(0)).optional()?;
        Ok(seq.map(|seq| call_digest(seq, row, owner, record, shape_text)))
    }

    /// Appends the steps of a call; the last one records the digest of its row.
    fn append(
        &mut self,
        shapes: &mut ShapeIds,
        row: &CallRow,
        steps: &[&'a TransitionRow],
        digest: Option<[u8; 32]>,
    ) -> rusqlite::Result<()> {
        let mut head = self.head()?;
        if steps.is_empty() {
            if digest.is_some() {
                self.state(ChainSubject::Call, &row.id, row.updated_ms, &row.state)?;
            }
            return Ok(());
        }
        let mut rows = steps::rows(steps).peekable();
        while let Some(together) = rows.next() {
            let detail = together.last().map_or(&Value::Null, |step| &step.detail);
            let detail = json(&mut self.text, detail);
            let digest = digest.filter(|_| rows.peek().is_none());
            if let Some(packed) =
                steps::pack(self.connection, shapes, together, detail, digest, head)?
            {
                chain::insert(self.connection, &packed)?;
                head = packed.head;
            }
        }
        self.head = Some(head);
        Ok(())
    }

    fn state(
        &mut self,
        subject: ChainSubject,
        key: &str,
        at_ms: i64,
        state: &str,
    ) -> rusqlite::Result<()> {
        let head = self.head()?;
        let head = subject::append_state_after(self.connection, head, subject, key, at_ms, state)?;
        self.head = Some(head);
        Ok(())
    }

    fn event(&mut self, row: &EventRow) -> rusqlite::Result<()> {
        let body = json(&mut self.text, &row.body);
        self.connection
            .prepare_cached(
                "INSERT INTO events (channel, session, call, at_ms, kind, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                row.channel,
                row.session,
                row.call,
                row.at_ms,
                row.kind,
                body
            ])?;
        let seq = self.connection.last_insert_rowid().to_string();
        self.state(ChainSubject::Event, &seq, row.at_ms, &row.kind)
    }

    fn session(&mut self, row: &SessionRow) -> rusqlite::Result<()> {
        let detail = json(&mut self.text, &row.detail);
        self.connection
            .prepare_cached(
                "INSERT INTO sessions (id, started_ms, ended_ms, client, mode, detail, owner)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (id) DO UPDATE SET
                    ended_ms = ?3, client = ?4, mode = ?5, detail = ?6, owner = ?7",
            )?
            .execute(params![
                row.id,
                row.started_ms,
                row.ended_ms,
                row.client,
                row.mode,
                detail,
                self.owner
            ])?;
        let (at_ms, state) = match row.ended_ms {
            Some(ended) => (ended, "ended"),
            None => (row.started_ms, "started"),
        };
        self.state(ChainSubject::Session, &row.id, at_ms, state)
    }

    fn batch(&mut self, row: &BatchRow) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO batches (id, session, created_ms, finished_ms, submitted_ms, calls, strategy)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (id) DO UPDATE SET
                    session = ?2, created_ms = ?3, finished_ms = ?4, submitted_ms = ?5, calls = ?6, strategy = ?7",
            )?
            .execute(params![
                row.id,
                row.session,
                row.created_ms,
                row.finished_ms,
                row.submitted_ms,
                row.calls,
                row.strategy
            ])?;
        let (at_ms, state) = match row.finished_ms {
            Some(finished) => (finished, "finished"),
            None => (row.created_ms, "created"),
        };
        self.state(ChainSubject::Batch, &row.id, at_ms, state)
    }
}

/// Digest of a row as it was just written. Reading it again would take as long as writing it.
fn call_digest(
    seq: i64,
    row: &CallRow,
    owner: &str,
    record: &str,
    shape: Option<&str>,
) -> [u8; 32] {
    let integer = |number: bool| ValueRef::Integer(number.into());
    // In the order of the columns of the table.
    subject::CALLS.digest_of([
        ValueRef::Integer(seq),
        ValueRef::from(row.id.as_str()),
        ValueRef::from(row.session.as_str()),
        ValueRef::from(row.batch.as_deref()),
        ValueRef::from(row.parent.as_deref()),
        ValueRef::from(row.tool.as_deref()),
        ValueRef::from(row.plugin.as_deref()),
        ValueRef::from(row.state.as_str()),
        integer(row.finished),
        integer(row.deferred),
        integer(row.effectful),
        ValueRef::Integer(row.created_ms),
        ValueRef::Integer(row.updated_ms),
        ValueRef::from(owner),
        ValueRef::from(record),
        ValueRef::from(shape),
    ])
}

/// Serializes on the writer's thread, into a reused buffer.
fn json<'b>(buffer: &'b mut Vec<u8>, value: &Value) -> &'b str {
    buffer.clear();
    serde_json::to_writer(&mut *buffer, value).expect("values serialize to JSON");
    str::from_utf8(buffer).expect("JSON is UTF-8")
}
