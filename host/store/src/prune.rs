//! Retention: drops the oldest segment of the chain with the rows that it covers.
//!
//! Rows that are still needed are recorded again at the end of the chain, calls with all of their steps. A segment
//! is dropped in one transaction, so it is complete or gone after a kill. A segment that does not match its hashes
//! is not dropped, so that `verify` reports it.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _};
use serde_json::json;

use crate::chain::{self, Link};
use crate::read::{self, unreadable};
use crate::segments::{self, Segment};
use crate::shapes::ShapeIds;
use crate::subject::{self, ChainSubject, REMOVED_DIGEST, TABLES, Table};
use crate::{TransitionFilter, TransitionRow, crash, owner, steps};

/// Number of pages returned to the file system per segment.
const PAGES: u32 = 1_024;

/// Retention limits of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRetention {
    /// Milliseconds since 1970.
    pub now_ms: i64,
    /// Segments whose latest step is older are dropped.
    pub max_age_ms: Option<i64>,
    /// While the file uses more bytes, without those of calls that have not ended, its oldest segment is dropped.
    pub max_bytes: Option<u64>,
    /// How long file changes can be undone, in milliseconds; their journal entries are kept for that time.
    pub undo_ms: i64,
}

/// Numbers of dropped records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedRecords {
    pub segments: usize,
    pub steps: i64,
    /// Rows of calls, sessions, approvals and other tables.
    pub rows: usize,
    /// Rows in the dropped segments that are still needed.
    pub kept: usize,
}

impl DroppedRecords {
    pub(crate) fn add(&mut self, other: Self) {
        self.segments += other.segments;
        self.steps += other.steps;
        self.rows += other.rows;
        self.kept += other.kept;
    }
}

impl RecordRetention {
    /// A segment that began before this time is ended, so that the steps of a store with few calls can be dropped.
    pub(crate) fn end_segments_before_ms(&self) -> i64 {
        const DAY_MS: i64 = 24 * 3_600 * 1_000;
        let age = self.max_age_ms.map_or(DAY_MS, |most| most.min(DAY_MS));
        self.now_ms.saturating_sub(age)
    }

    fn is_too_old(&self, segment: &Segment) -> bool {
        let age = self.now_ms.saturating_sub(segment.at_ms);
        self.max_age_ms.is_some_and(|most| age > most)
    }
}

/// Number of bytes used in the file.
pub fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name: &str| {
        connection
            .query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
            .map(|number| u64::try_from(number).unwrap_or_default())
    };
    let pages = number("page_count")?.saturating_sub(number("freelist_count")?);
    Ok(pages.saturating_mul(number("page_size")?))
}

/// Number of bytes used in the file without the records of calls that have not ended, which no limit removes.
fn removable(connection: &Connection) -> rusqlite::Result<u64> {
    let kept: i64 = connection.query_row(
        "SELECT coalesce(sum(octet_length(record)), 0) FROM calls WHERE finished = 0",
        [],
        |row| row.get(0),
    )?;
    Ok(used(connection)?.saturating_sub(u64::try_from(kept).unwrap_or_default()))
}

/// The segments that would be dropped now. For the size limit this is an estimate based on the average step size.
pub fn due(connection: &Connection, keep: &RecordRetention) -> rusqlite::Result<Vec<Segment>> {
    let (base, head) = (chain::base(connection)?, chain::head(connection)?.rows);
    let used = removable(connection)?;
    let steps = u64::try_from(head.saturating_sub(base)).unwrap_or_default();
    let each = used / steps.max(1);
    let mut due = Vec::new();
    for segment in segments::remaining(connection)? {
        let before = u64::try_from(due.last().map_or(0, |last: &Segment| last.last - base));
        let left = used.saturating_sub(each.saturating_mul(before.unwrap_or_default()));
        if keep.is_too_old(&segment) || keep.max_bytes.is_some_and(|most| left > most) {
            due.push(segment);
        } else {
            break;
        }
    }
    Ok(due)
}

/// Drops the oldest segment if it is due and ends at or before `until`. `None` if there is nothing to drop.
pub fn drop_oldest(
    connection: &Connection,
    owners: &Path,
    keep: &RecordRetention,
    until: i64,
) -> rusqlite::Result<Option<DroppedRecords>> {
    let base = chain::base(connection)?;
    let Some(segment) = segments::remaining(connection)?.into_iter().next() else {
        return Ok(None);
    };
    let too_large = || -> rusqlite::Result<bool> {
        Ok(match keep.max_bytes {
            Some(most) => removable(connection)? > most,
            None => false,
        })
    };
    if segment.last > until || !(keep.is_too_old(&segment) || too_large()?) {
        return Ok(None);
    }
    let ends = expiring_rows(connection, &segment)?;
    crash::at("prune_checked");
    let (mut retained, mut ended) = (Vec::new(), Vec::new());
    for end in ends {
        if is_needed(connection, owners, keep, &end)? {
            end.table.check(connection, &end.key)?;
            let steps = steps_of(connection, &end)?;
            retained.push((end, steps));
        } else {
            ended.push(end);
        }
    }
    for ExpiringRow { table, key, .. } in &ended {
        let Table { name, key: at, .. } = table;
        connection
            .prepare_cached(&format!("DELETE FROM {name} WHERE {at} = ?1"))?
            .execute([key])?;
    }
    connection.execute("UPDATE chain SET base = ?1", [segment.last])?;
    connection.execute("DELETE FROM transitions WHERE seq <= ?1", [segment.last])?;
    crash::at("prune_deleted");
    for (end, steps) in &retained {
        restate(connection, end, steps)?;
    }
    record_drop(connection, base, &segment, keep.now_ms)?;
    connection.execute_batch(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    crash::at("prune_noted");
    Ok(Some(DroppedRecords {
        segments: 1,
        steps: segment.last - base,
        rows: ended.len(),
        kept: retained.len(),
    }))
}

/// Removes shapes that no row uses.
pub fn remove_unused_shapes(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute(
        "DELETE FROM shapes WHERE id NOT IN
             (SELECT shape FROM calls WHERE shape IS NOT NULL
              UNION SELECT shape FROM transitions WHERE shape IS NOT NULL)",
        [],
    )?;
    Ok(())
}

/// A row whose newest link is in the dropped segment.
struct ExpiringRow {
    table: &'static Table,
    key: String,
    at_ms: i64,
}

/// Walks a segment, checks all hashes, and lists the rows that only it covers.
fn expiring_rows(connection: &Connection, segment: &Segment) -> rusqlite::Result<Vec<ExpiringRow>> {
    let base = chain::base(connection)?;
    let mut hash = chain::hash_before(connection, base + 1)?;
    let mut at = base;
    let broken = |seq: i64| unreadable(0, format!("step {seq} is not as it was written").into());
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {} FROM transitions WHERE seq > ?1 AND seq <= ?2 ORDER BY seq",
        steps::COLUMNS
    ))?;
    let mut rows = statement.query([base, segment.last])?;
    let mut ends = Vec::new();
    while let Some(row) = rows.next()? {
        let found = steps::of_row(row).ok_or_else(|| broken(at + 1))?;
        if found.first() != at + 1 {
            return Err(broken(at + 1));
        }
        for (link, step) in found.checked(hash).map_err(broken)? {
            (at, hash) = (link.seq, step);
            let Some(table) = link.digest.and_then(|_| link.subject.table()) else {
                continue;
            };
            let newest = table.newest_link(connection, link.call)?;
            if newest.is_some_and(|(seq, digest)| seq == link.seq && digest != Some(REMOVED_DIGEST))
            {
                ends.push(ExpiringRow {
                    table,
                    key: link.call.to_owned(),
                    at_ms: link.at_ms,
                });
            }
        }
    }
    if at != segment.last || hash != segment.head {
        return Err(broken(segment.last));
    }
    Ok(ends)
}

/// Whether a row is needed regardless of its age.
fn is_needed(
    connection: &Connection,
    owners: &Path,
    keep: &RecordRetention,
    end: &ExpiringRow,
) -> rusqlite::Result<bool> {
    let test = match end.table.subject {
        ChainSubject::Call => "id = ?1 AND finished = 0",
        ChainSubject::Approval => {
            "id = ?1 AND revoked_ms IS NULL AND coalesce(uses_left, 1) > 0
                 AND (expires_ms IS NULL OR expires_ms > ?2)
                 AND NOT (scope = 'session' AND EXISTS
                     (SELECT 1 FROM sessions WHERE sessions.id = approvals.session AND ended_ms IS NOT NULL))"
        }
        ChainSubject::Session => return session_is_open(connection, owners, &end.key),
        ChainSubject::Batch => {
            "id = ?1 AND EXISTS (SELECT 1 FROM calls WHERE calls.batch = batches.id AND calls.finished = 0)"
        }
        ChainSubject::Commit => "id = ?1 AND (state = 'begun' OR at_ms > ?2)",
        ChainSubject::Answer => {
            "call = ?1 AND EXISTS (SELECT 1 FROM calls WHERE calls.id = answers.call AND calls.finished = 0)"
        }
        ChainSubject::Step | ChainSubject::Event | ChainSubject::Segments => return Ok(false),
    };
    let at_ms = match end.table.subject {
        ChainSubject::Commit => keep.now_ms.saturating_sub(keep.undo_ms),
        _ => keep.now_ms,
    };
    connection
        .prepare_cached(&format!(
            "SELECT EXISTS (SELECT 1 FROM {} WHERE {test} AND ?2 IS NOT NULL)",
            end.table.name
        ))?
        .query_row((&end.key, at_ms), |row| row.get(0))
}

/// A session without an end belongs to a running host, or to one that was killed.
fn session_is_open(connection: &Connection, owners: &Path, id: &str) -> rusqlite::Result<bool> {
    let owner: Option<String> = connection
        .prepare_cached("SELECT owner FROM sessions WHERE id = ?1 AND ended_ms IS NULL")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    Ok(owner.is_some_and(|owner| owner::is_alive(owners, &owner)))
}

/// The steps of a call, which are recorded again with it.
fn steps_of(connection: &Connection, end: &ExpiringRow) -> rusqlite::Result<Vec<TransitionRow>> {
    if end.table.subject != ChainSubject::Call {
        return Ok(Vec::new());
    }
    let filter = TransitionFilter {
        call: Some(end.key.clone()),
        limit: read::MAX_LIST,
        ..TransitionFilter::default()
    };
    let steps = read::transitions(connection, &filter)?;
    Ok(steps.into_iter().map(|step| step.row).collect())
}

fn restate(
    connection: &Connection,
    end: &ExpiringRow,
    steps: &[TransitionRow],
) -> rusqlite::Result<()> {
    let steps: Vec<&TransitionRow> = steps.iter().collect();
    let mut head = chain::head(connection)?;
    let mut shapes = ShapeIds::default();
    for together in steps::rows(&steps) {
        let detail = together.last().map(|step| step.detail.to_string());
        let detail = detail.unwrap_or_default();
        let packed = steps::pack(connection, &mut shapes, together, &detail, None, head)?;
        if let Some(packed) = packed {
            chain::insert(connection, &packed)?;
            head = packed.head;
        }
    }
    chain::set_head(connection, head)?;
    let Table { subject, .. } = end.table;
    subject::append_state(connection, *subject, &end.key, end.at_ms, "kept")
}

/// Appends the link that covers everything dropped so far.
fn record_drop(
    connection: &Connection,
    base: i64,
    segment: &Segment,
    at_ms: i64,
) -> rusqlite::Result<()> {
    let head = chain::head(connection)?;
    let detail = json!({"first": base + 1, "last": segment.last}).to_string();
    let link = Link {
        seq: head.rows + 1,
        call: "",
        session: "",
        at_ms,
        state: "dropped".into(),
        kind: ChainSubject::Segments.name().into(),
        note: None,
        detail: &detail,
        subject: ChainSubject::Segments,
        digest: Some(segment.total),
    };
    let head = chain::append(connection, &link, head)?;
    chain::set_head(connection, head)
}

/// Compile-time check that retention is defined for each table.
const _: () = assert!(TABLES.len() == 7);
