//! Segments of the chain, which are dropped as a whole. A segment ends every [`STEPS`] steps, at each head that was
//! handed out, and when retention finds one that began a day ago.
//!
//! A dropped segment keeps its row in `segments`, so that the remaining chain has a start. Each row contains a hash
//! over itself and the previous row, and the link appended when a segment is dropped contains the newest of these
//! hashes. The remaining chain so covers the dropped segments.

use rusqlite::{Connection, OptionalExtension as _};
use sha2::{Digest as _, Sha256};

use crate::ChainSubject;
use crate::chain::{self, Head};

/// Number of steps after which a segment ends.
pub const STEPS: i64 = 1_024;

/// One segment of the chain, which starts after the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Number of the last step.
    pub last: i64,
    /// Latest time in the segment, in milliseconds since 1970.
    pub at_ms: i64,
    /// Hash of the last step.
    pub head: [u8; 32],
    pub(crate) total: [u8; 32],
}

impl Segment {
    fn new(last: i64, at_ms: i64, head: [u8; 32], before: &[u8; 32]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(before);
        hasher.update(last.to_be_bytes());
        hasher.update(at_ms.to_be_bytes());
        hasher.update(head);
        Self {
            last,
            at_ms,
            head,
            total: hasher.finalize().into(),
        }
    }
}

/// All segments, oldest first. `None` if one does not match its hash.
pub fn all(connection: &Connection) -> rusqlite::Result<Option<Vec<Segment>>> {
    let mut statement =
        connection.prepare("SELECT last, at_ms, head, total FROM segments ORDER BY last")?;
    let mut rows = statement.query([])?;
    let mut segments: Vec<Segment> = Vec::new();
    while let Some(row) = rows.next()? {
        let before = segments.last().map_or([0; 32], |segment| segment.total);
        let (Ok(head), Ok(total)) = (row.get::<_, [u8; 32]>(2), row.get::<_, [u8; 32]>(3)) else {
            return Ok(None);
        };
        let segment = Segment::new(row.get(0)?, row.get(1)?, head, &before);
        if segment.total != total {
            return Ok(None);
        }
        segments.push(segment);
    }
    Ok(Some(segments))
}

/// The hash over all segments up to the one that ends with this step.
pub fn total_at(segments: &[Segment], last: i64) -> Option<[u8; 32]> {
    let segment = segments.iter().find(|segment| segment.last == last)?;
    Some(segment.total)
}

/// The end of the newest segment.
pub fn last(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(last), 0) FROM segments")?
        .query_row([], |row| row.get(0))
}

/// Ends a segment at the head, unless one already ends there.
pub fn seal(connection: &Connection, head: Head) -> rusqlite::Result<()> {
    let before: Option<(i64, [u8; 32])> = connection
        .prepare_cached("SELECT last, total FROM segments ORDER BY last DESC LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (last, total) = before.unwrap_or_default();
    if head.rows <= last {
        return Ok(());
    }
    let at_ms: i64 = connection
        .prepare_cached(
            "SELECT coalesce(max(at_ms), 0) FROM transitions WHERE seq > ?1 AND seq <= ?2",
        )?
        .query_row([last, head.rows], |row| row.get(0))?;
    let segment = Segment::new(head.rows, at_ms, head.hash, &total);
    connection
        .prepare_cached("INSERT INTO segments (last, at_ms, head, total) VALUES (?1, ?2, ?3, ?4)")?
        .execute((
            segment.last,
            segment.at_ms,
            segment.head.as_slice(),
            segment.total.as_slice(),
        ))?;
    Ok(())
}

/// Creates segments for the steps of an earlier format, which had none.
pub fn seal_all(connection: &Connection) -> rusqlite::Result<()> {
    loop {
        let next: Option<(i64, Vec<u8>)> = connection
            .prepare_cached(
                "SELECT seq, hash FROM transitions WHERE seq >= ?1 ORDER BY seq LIMIT 1",
            )?
            .query_row([last(connection)? + STEPS], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((rows, hashes)) = next else {
            return Ok(());
        };
        // A hash of the wrong length is detected by `verify`.
        let hash = hashes.last_chunk().copied().unwrap_or_default();
        seal(connection, Head { rows, hash })?;
    }
}

/// Ends the current segment if it is long enough.
pub fn seal_if_long(connection: &Connection, head: Head) -> rusqlite::Result<()> {
    if head.rows - last(connection)? >= STEPS {
        seal(connection, head)?;
    }
    Ok(())
}

/// Ends the current segment if its first step is older than this time. Steps before a link about dropped segments do not
/// count: they have the times of the rows that were kept.
pub fn seal_if_older(connection: &Connection, at_ms: i64) -> rusqlite::Result<()> {
    let first: Option<i64> = connection
        .prepare_cached(
            "SELECT at_ms FROM transitions WHERE seq >= coalesce(
                 (SELECT max(seq) FROM transitions WHERE seq > ?1 AND subject = ?2), ?1 + 1)
             ORDER BY seq LIMIT 1",
        )?
        .query_row((last(connection)?, ChainSubject::Segments.code()), |row| {
            row.get(0)
        })
        .optional()?;
    if first.is_some_and(|first| first < at_ms) {
        seal(connection, chain::head(connection)?)?;
    }
    Ok(())
}

/// The segments that were not dropped, oldest first.
pub fn remaining(connection: &Connection) -> rusqlite::Result<Vec<Segment>> {
    let base = chain::base(connection)?;
    connection
        .prepare_cached(
            "SELECT last, at_ms, head, total FROM segments WHERE last > ?1 ORDER BY last",
        )?
        .query_map([base], |row| {
            Ok(Segment {
                last: row.get(0)?,
                at_ms: row.get(1)?,
                head: row.get(2)?,
                total: row.get(3)?,
            })
        })?
        .collect()
}
