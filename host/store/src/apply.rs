//! Rows become SQL: one group inside one transaction.

use std::collections::HashMap;

use rusqlite::{CachedStatement, Connection, params};
use serde_json::Value;

use crate::chain::{self, Head};
use crate::{BatchRow, CallRow, EventRow, SessionRow, TransitionRow, Write, steps};

/// What a group writes, with the parts that are done once for all of it.
pub struct Group<'a> {
    connection: &'a Connection,
    owner: &'a str,
    /// The newest row of each call, in the order the calls appeared. A short call is born, runs and ends within one
    /// group, and only its end is worth a row.
    calls: Vec<&'a CallRow>,
    places: HashMap<&'a str, usize>,
    head: Option<Head>,
    /// Prepared once for the group.
    insert_call: Option<CachedStatement<'a>>,
    insert_transition: Option<CachedStatement<'a>>,
    text: Vec<u8>,
}

impl<'a> Group<'a> {
    pub fn new(connection: &'a Connection, owner: &'a str) -> Self {
        Self {
            connection,
            owner,
            calls: Vec::new(),
            places: HashMap::new(),
            head: None,
            insert_call: None,
            insert_transition: None,
            text: Vec::new(),
        }
    }

    pub fn write(&mut self, write: &'a Write) -> rusqlite::Result<()> {
        match write {
            Write::Call { row, transitions } => {
                if let Some(&place) = self.places.get(row.id.as_str()) {
                    self.calls[place] = row;
                } else {
                    self.places.insert(&row.id, self.calls.len());
                    self.calls.push(row);
                }
                steps::rows(transitions).try_for_each(|steps| self.append(steps))
            }
            Write::Event(row) => self.event(row),
            Write::Session(row) => self.session(row),
            Write::Batch(row) => self.batch(row),
            Write::Many(writes) => writes.iter().try_for_each(|write| self.write(write)),
        }
    }

    /// Puts the rows of the calls where a query sees them.
    pub fn flush(&mut self) -> rusqlite::Result<()> {
        self.places.clear();
        for row in std::mem::take(&mut self.calls) {
            self.call(row)?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> rusqlite::Result<()> {
        self.flush()?;
        match self.head {
            Some(head) => chain::set_head(self.connection, head),
            None => Ok(()),
        }
    }

    fn call(&mut self, row: &CallRow) -> rusqlite::Result<()> {
        let record = json(&mut self.text, &row.record);
        let insert = once(&mut self.insert_call, || {
            self.connection.prepare_cached(
                "INSERT INTO calls (id, session, batch, parent, tool, plugin, state, finished, deferred, effectful,
                                    created_ms, updated_ms, owner, record)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
                 ON CONFLICT (id) DO UPDATE SET
                    session = ?2, batch = ?3, parent = ?4, tool = ?5, plugin = ?6, state = ?7, finished = ?8,
                    deferred = ?9, effectful = ?10, updated_ms = ?12, owner = ?13, record = ?14
                 -- A later call with the same id must not write over the record of the first.
                 WHERE finished = 0 AND created_ms = ?11 AND session = ?2",
            )
        })?;
        insert.execute(params![
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
            self.owner,
            record,
        ])?;
        Ok(())
    }

    fn append(&mut self, steps: &[TransitionRow]) -> rusqlite::Result<()> {
        let head = match self.head {
            Some(head) => head,
            None => chain::head(self.connection)?,
        };
        let detail = steps.last().map_or(&Value::Null, |step| &step.detail);
        let detail = json(&mut self.text, detail);
        let Some(packed) = steps::pack(steps, detail, head) else {
            return Ok(());
        };
        let insert = once(&mut self.insert_transition, || {
            self.connection.prepare_cached(&format!(
                "INSERT INTO transitions ({}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                steps::COLUMNS
            ))
        })?;
        let last = &packed.last;
        insert.execute(params![
            last.seq,
            last.call,
            last.session,
            last.at_ms,
            last.state,
            last.kind,
            last.note,
            last.detail,
            packed.hashes,
            packed.earlier,
        ])?;
        self.head = Some(packed.head);
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
        Ok(())
    }

    fn session(&mut self, row: &SessionRow) -> rusqlite::Result<()> {
        let detail = json(&mut self.text, &row.detail);
        self.connection
            .prepare_cached(
                "INSERT INTO sessions (id, started_ms, ended_ms, client, mode, detail)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (id) DO UPDATE SET
                    started_ms = ?2, ended_ms = ?3, client = ?4, mode = ?5, detail = ?6",
            )?
            .execute(params![
                row.id,
                row.started_ms,
                row.ended_ms,
                row.client,
                row.mode,
                detail
            ])?;
        Ok(())
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
        Ok(())
    }
}

fn once<'s, 'c>(
    slot: &'s mut Option<CachedStatement<'c>>,
    prepare: impl FnOnce() -> rusqlite::Result<CachedStatement<'c>>,
) -> rusqlite::Result<&'s mut CachedStatement<'c>> {
    match slot {
        Some(statement) => Ok(statement),
        None => Ok(slot.insert(prepare()?)),
    }
}

/// Serialised here, in the writer's time, and into one buffer.
fn json<'b>(buffer: &'b mut Vec<u8>, value: &Value) -> &'b str {
    buffer.clear();
    serde_json::to_writer(&mut *buffer, value).expect("a value is JSON, and memory takes it");
    str::from_utf8(buffer).expect("JSON is text")
}
