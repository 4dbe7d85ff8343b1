//! Verification of the chain and of the rows that it covers.

use rusqlite::{Connection, OptionalExtension as _, Row};
use toolhost_contract::text;

use crate::chain::{Head, genesis};
use crate::segments::{self, Segment};
use crate::steps;
use crate::subject::{REMOVED_DIGEST, TABLES, Table};

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verification {
    Verified {
        rows: i64,
        /// The first of them, which are no longer stored. Only their last hash was verified.
        removed: i64,
        head: [u8; 32],
    },
    /// The chain is unchanged, but the step of the recorded head may be among the `removed` ones. `seq` is its number, if
    /// known.
    HeadRemoved { seq: Option<i64>, removed: i64 },
    /// The first step that does not match.
    Broken { seq: i64, reason: ChainDefect },
}

/// A head of the chain that was recorded elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedHead {
    /// Number of the step, if it was recorded too.
    pub seq: Option<i64>,
    pub hash: [u8; 32],
}

impl RecordedHead {
    fn is(&self, seq: i64, hash: &[u8; 32]) -> bool {
        self.hash == *hash && self.seq.is_none_or(|stated| stated == seq)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainDefect {
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
    #[error("the record of the dropped segments does not match the chain")]
    Segments,
    #[error("`{}` of {table} does not match this step", name(key))]
    RowChanged { table: &'static str, key: String },
    #[error("`{}` of {table} is missing", name(key))]
    RowMissing { table: &'static str, key: String },
    #[error("`{}` of {table} was added outside the chain", name(key))]
    RowAdded { table: &'static str, key: String },
    #[error(
        "the recorded head is not in the chain: the file is older than the head, or its chain was recreated"
    )]
    Rollback,
    #[error(
        "the recorded head has the number {stated}, but its hash is that of step {found}; pass both as `host audit head` printed them"
    )]
    HeadNumber { stated: i64, found: i64 },
    #[error("the table `{0}` is missing or was replaced")]
    Table(&'static str),
}

fn name(key: &str) -> String {
    text::escape_line(key, 80)
}

/// Extent of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The hashes of the chain.
    Chain,
    /// Also the rows of all tables that the chain covers.
    Rows,
}

/// Verifies all rows, one at a time, on one snapshot. A `noted` head must be in the chain, or the end of a dropped
/// segment.
pub fn verify(
    connection: &mut Connection,
    extent: Extent,
    noted: Option<RecordedHead>,
) -> rusqlite::Result<Verification> {
    let snapshot = connection.transaction()?;
    walk(&snapshot, extent, noted)
}

/// Like [`verify`], within the caller's transaction.
pub fn walk(
    connection: &Connection,
    extent: Extent,
    noted: Option<RecordedHead>,
) -> rusqlite::Result<Verification> {
    let mut walk = match Walk::begin(connection, noted)? {
        Ok(walk) => walk,
        Err(reason) => return Ok(Verification::Broken { seq: 0, reason }),
    };
    let result = walk.steps(extent)?;
    let (rows, removed, head) = (walk.at.rows, walk.base, walk.at.hash);
    Ok(match (result, walk.noted) {
        (Ok(()), Some(RecordedHead { seq, .. })) => Verification::HeadRemoved { seq, removed },
        (Ok(()), None) => Verification::Verified {
            rows,
            removed,
            head,
        },
        (Err((seq, reason)), _) => Verification::Broken { seq, reason },
    })
}

type StepResult = Result<(), (i64, ChainDefect)>;

struct Walk<'c> {
    connection: &'c Connection,
    stored: Option<Head>,
    base: i64,
    segments: Vec<Segment>,
    /// The last verified step.
    at: Head,
    /// Digest of the newest link about dropped segments.
    dropped: Option<[u8; 32]>,
    /// The recorded head, until it is found.
    noted: Option<RecordedHead>,
    /// The step with the hash of the recorded head, but another number.
    noted_at: Option<i64>,
    /// Number of rows of each table that the chain covers.
    rows: [i64; TABLES.len()],
}

impl<'c> Walk<'c> {
    fn begin(
        connection: &'c Connection,
        noted: Option<RecordedHead>,
    ) -> rusqlite::Result<Result<Self, ChainDefect>> {
        if let Some(table) = missing_table(connection)? {
            return Ok(Err(ChainDefect::Table(table)));
        }
        let stored = connection
            .query_row("SELECT rows, head FROM chain WHERE id = 1", [], |row| {
                Ok(head_of(row))
            })
            .optional()?
            .flatten();
        let base: Option<i64> = connection
            .query_row("SELECT base FROM chain WHERE id = 1", [], |row| row.get(0))
            .optional()?;
        let base = base.unwrap_or_default();
        let Some(segments) = segments::all(connection)? else {
            return Ok(Err(ChainDefect::Segments));
        };
        let hash = match segments.iter().find(|segment| segment.last == base) {
            Some(segment) => segment.head,
            None if base == 0 => genesis(),
            None => return Ok(Err(ChainDefect::Segments)),
        };
        // A head at the end of a segment can be verified even if the segment was dropped.
        let dropped = |head: &RecordedHead| {
            let mut parts = segments.iter().filter(|segment| segment.last <= base);
            parts.any(|segment| head.is(segment.last, &segment.head))
        };
        let noted = noted.filter(|noted| !dropped(noted) && !noted.is(0, &genesis()));
        Ok(Ok(Self {
            connection,
            stored,
            base,
            segments,
            at: Head { rows: base, hash },
            dropped: None,
            noted,
            noted_at: None,
            rows: [0; TABLES.len()],
        }))
    }

    fn steps(&mut self, extent: Extent) -> rusqlite::Result<StepResult> {
        let connection = self.connection;
        let mut statement = connection.prepare(&format!(
            "SELECT {} FROM transitions ORDER BY seq",
            steps::COLUMNS
        ))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Err(broken) = self.step(row, extent)? {
                return Ok(Err(broken));
            }
        }
        let end = self.end();
        if end.is_err() || extent == Extent::Chain {
            return Ok(end);
        }
        self.find_added()
    }

    fn step(&mut self, row: &Row, extent: Extent) -> rusqlite::Result<StepResult> {
        let expected = self.at.rows + 1;
        let found = steps::of_row(row);
        let first = match &found {
            Some(steps) => steps.first(),
            None => row.get(0)?,
        };
        if first < expected
            || self
                .stored
                .is_some_and(|head| first > head.rows && expected > head.rows)
        {
            return Ok(Err((first, ChainDefect::Added)));
        }
        let Some(found) = found else {
            return Ok(Err((expected, ChainDefect::Changed)));
        };
        if first > expected {
            return Ok(Err((expected, ChainDefect::Missing)));
        }
        let links = match found.checked(self.at.hash) {
            Ok(links) => links,
            Err(seq) => return Ok(Err((seq, ChainDefect::Changed))),
        };
        for (link, hash) in links {
            self.at = Head {
                rows: link.seq,
                hash,
            };
            self.noted.take_if(|noted| noted.is(link.seq, &hash));
            if self.noted.is_some_and(|noted| noted.hash == hash) {
                self.noted_at = Some(link.seq);
            }
            let Some(digest) = link.digest else { continue };
            match link.subject.table() {
                None => self.dropped = Some(digest),
                Some(table) if extent == Extent::Rows => {
                    let looked = self.row(table, link.call, link.seq, digest)?;
                    if let Err(reason) = looked {
                        return Ok(Err((link.seq, reason)));
                    }
                }
                Some(_) => {}
            }
        }
        let segment = self.segments.iter().find(|part| part.last == self.at.rows);
        Ok(match segment {
            Some(segment) if segment.head != self.at.hash => {
                Err((self.at.rows, ChainDefect::Segments))
            }
            _ => Ok(()),
        })
    }

    /// Compares a row with the newest link about it.
    fn row(
        &mut self,
        table: &'static Table,
        key: &str,
        seq: i64,
        digest: [u8; 32],
    ) -> rusqlite::Result<Result<(), ChainDefect>> {
        let newest = table.newest_link(self.connection, key)?;
        if newest.is_none_or(|(newest, _)| newest != seq) {
            return Ok(Ok(()));
        }
        let found = table.digest(self.connection, key)?;
        let (table, key) = (table.name, key.to_owned());
        Ok(match found {
            None if digest == REMOVED_DIGEST => Ok(()),
            None => Err(ChainDefect::RowMissing { table, key }),
            Some(found) if found == digest => {
                let index = TABLES.iter().position(|other| other.name == table);
                self.rows[index.unwrap_or_default()] += 1;
                Ok(())
            }
            Some(_) if digest == REMOVED_DIGEST => Err(ChainDefect::RowAdded { table, key }),
            Some(_) => Err(ChainDefect::RowChanged { table, key }),
        })
    }

    fn end(&self) -> StepResult {
        let walked = self.at;
        let broken = |seq, reason| Err((seq, reason));
        match self.stored {
            Some(head) if head == walked => {}
            Some(head) if head.rows > walked.rows => {
                return broken(walked.rows + 1, ChainDefect::Missing);
            }
            Some(_) => return broken(walked.rows, ChainDefect::Head),
            None => return broken(walked.rows, ChainDefect::NoHead),
        }
        let total = segments::total_at(&self.segments, self.base);
        let known = self.segments.iter().all(|part| part.last <= walked.rows);
        if !known || (self.base > 0 && self.dropped != total) {
            return broken(walked.rows, ChainDefect::Segments);
        }
        match self.noted {
            None => Ok(()),
            Some(noted) => match (noted.seq, self.noted_at) {
                (Some(stated), Some(found)) => {
                    broken(walked.rows, ChainDefect::HeadNumber { stated, found })
                }
                _ if self.may_be_removed(noted) => Ok(()),
                _ => broken(walked.rows, ChainDefect::Rollback),
            },
        }
    }

    /// Whether the step of a head can be one of those that were removed. Only the hashes at the ends of segments are known.
    fn may_be_removed(&self, head: RecordedHead) -> bool {
        match head.seq {
            Some(seq) => {
                let is_known = self.segments.iter().any(|segment| segment.last == seq);
                0 < seq && seq <= self.base && !is_known
            }
            None => self.base > 0,
        }
    }

    /// Rows without a link.
    fn find_added(&self) -> rusqlite::Result<StepResult> {
        let seq = self.at.rows;
        for (table, known) in TABLES.iter().zip(self.rows) {
            let Table { name, key, .. } = table;
            let count: i64 =
                self.connection
                    .query_row(&format!("SELECT count(*) FROM {name}"), [], |row| {
                        row.get(0)
                    })?;
            if count == known {
                continue;
            }
            // A row added by another program can have a key that is not text.
            let added: Option<Vec<u8>> = self
                .connection
                .query_row(
                    &format!(
                        "SELECT CAST({key} AS BLOB) FROM {name} WHERE NOT EXISTS
                             (SELECT 1 FROM transitions WHERE transitions.call = CAST({name}.{key} AS TEXT)
                                 AND max(subject, 1) = ?1 AND digest IS NOT NULL) LIMIT 1"
                    ),
                    [table.subject.code()],
                    |row| row.get(0),
                )
                .optional()?;
            let key = String::from_utf8_lossy(&added.unwrap_or_default()).into_owned();
            let table = *name;
            return Ok(Err((seq, ChainDefect::RowAdded { table, key })));
        }
        let probe: i64 = self
            .connection
            .query_row("SELECT count(*) FROM probe", [], |row| row.get(0))?;
        Ok(match probe {
            0 => Ok(()),
            _ => Err((
                seq,
                ChainDefect::RowAdded {
                    table: "probe",
                    key: String::new(),
                },
            )),
        })
    }
}

/// A table that is missing, or replaced by a view.
fn missing_table(connection: &Connection) -> rusqlite::Result<Option<&'static str>> {
    let names = TABLES.iter().map(|table| table.name);
    let others = ["transitions", "chain", "segments", "shapes", "probe"];
    let mut find = connection.prepare(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)",
    )?;
    for name in names.chain(others) {
        if !find.query_row([name], |row| row.get::<_, bool>(0))? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn head_of(row: &Row) -> Option<Head> {
    Some(Head {
        rows: row.get(0).ok()?,
        hash: row.get(1).ok()?,
    })
}
