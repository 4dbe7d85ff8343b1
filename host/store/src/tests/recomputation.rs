//! `verify` compared with a second implementation of the chain, written from docs/audit.md without shared code.
//! Both must agree on whether a file is unchanged, and on the first step that is not.

use std::collections::BTreeMap;

use rusqlite::types::Value as Cell;
use rusqlite::{Connection, Row};
use sha2::{Digest as _, Sha256};

use crate::Verification;
use crate::verify::{Extent, walk};

type Hash = [u8; 32];

/// Tables with their keys, and their columns in hashing order.
const TABLES: [(i64, &str, &str, &str); 7] = [
    (
        1,
        "calls",
        "id",
        "seq id session batch parent tool plugin state finished deferred effectful created_ms updated_ms owner record shape",
    ),
    (
        2,
        "approvals",
        "id",
        "seq id tool plugin identity scope session body created_ms expires_ms uses_left used revoked_ms",
    ),
    (
        3,
        "sessions",
        "id",
        "seq id started_ms ended_ms client mode detail owner",
    ),
    (
        4,
        "batches",
        "id",
        "seq id session created_ms finished_ms submitted_ms calls strategy",
    ),
    (
        5,
        "commits",
        "id",
        "seq id call session batch tool at_ms state of owner body",
    ),
    (
        6,
        "answers",
        "call",
        "call asked_ms decision note payload by at_ms",
    ),
    (
        7,
        "events",
        "seq",
        "seq channel session call at_ms kind body",
    ),
];

/// A step, extracted from its row.
struct Step {
    seq: i64,
    at_ms: i64,
    /// Call, session, state, kind and detail.
    texts: [String; 5],
    note: Option<String>,
    subject: i64,
    digest: Option<Hash>,
}

impl Step {
    fn hash(&self, before: &Hash) -> Hash {
        let mut bytes = before.to_vec();
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.at_ms.to_be_bytes());
        for text in &self.texts {
            put(&mut bytes, text.as_bytes());
        }
        bytes.push(u8::from(self.note.is_some()));
        put(&mut bytes, self.note.clone().unwrap_or_default().as_bytes());
        if self.subject != 0 || self.digest.is_some() {
            bytes.extend(self.subject.to_be_bytes());
            bytes.push(u8::from(self.digest.is_some()));
            bytes.extend(self.digest.unwrap_or([0; 32]));
        }
        Sha256::digest(bytes).into()
    }
}

fn put(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend((text.len() as u64).to_be_bytes());
    bytes.extend(text);
}

fn cell(row: &Row, column: &str) -> Cell {
    // Invalid UTF-8 cannot be represented in a `Cell`.
    row.get(column).unwrap_or(Cell::Blob(vec![0xff]))
}

fn text(row: &Row, column: &str) -> Option<String> {
    match cell(row, column) {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

fn number(row: &Row, column: &str) -> Option<i64> {
    match cell(row, column) {
        Cell::Integer(number) => Some(number),
        _ => None,
    }
}

/// The inner `None` means that the column is null.
#[allow(
    clippy::option_option,
    reason = "null and unreadable values are different cases"
)]
fn maybe<T>(row: &Row, column: &str, read: fn(&Row, &str) -> Option<T>) -> Option<Option<T>> {
    match cell(row, column) {
        Cell::Null => Some(None),
        _ => read(row, column).map(Some),
    }
}

fn hash(row: &Row, column: &str) -> Option<Hash> {
    match cell(row, column) {
        Cell::Blob(bytes) => bytes.try_into().ok(),
        _ => None,
    }
}

/// The steps of a row of `transitions`, oldest first, and the stored hashes of the last ones.
fn steps(row: &Row) -> Option<(Vec<Step>, Vec<Hash>)> {
    let (seq, at_ms) = (number(row, "seq")?, number(row, "at_ms")?);
    let (call, session) = (text(row, "call")?, text(row, "session")?);
    let (earlier, shape) = (
        maybe(row, "earlier", text)?,
        maybe(row, "shape_text", text)?,
    );
    if maybe(row, "shape", number)?.is_some() && (earlier.is_none() || shape.is_none()) {
        return None;
    }
    let earlier: Vec<(i64, String, String, Option<String>)> = match (earlier, shape) {
        (None, _) => Vec::new(),
        (Some(earlier), None) => serde_json::from_str(&earlier).ok()?,
        (Some(earlier), Some(shape)) => {
            let labels: Vec<(String, String)> = serde_json::from_str(&shape).ok()?;
            let (times, notes): (Vec<i64>, Vec<(usize, String)>) =
                serde_json::from_str(&earlier).ok()?;
            if labels.len() != times.len() {
                return None;
            }
            let notes: BTreeMap<usize, String> = notes.into_iter().collect();
            if notes.keys().any(|at| *at >= labels.len()) {
                return None;
            }
            let mut all = Vec::new();
            for (at, ((state, kind), before)) in labels.into_iter().zip(times).enumerate() {
                let note = notes.get(&at).cloned();
                all.push((at_ms.checked_sub(before)?, state, kind, note));
            }
            all
        }
    };
    let first = seq.checked_sub(i64::try_from(earlier.len()).ok()?)?;
    let mut steps = Vec::new();
    for (number, (at_ms, state, kind, note)) in (first..=i64::MAX).zip(earlier) {
        steps.push(Step {
            seq: number,
            at_ms,
            texts: [
                call.clone(),
                session.clone(),
                state,
                kind,
                "null".to_owned(),
            ],
            note,
            subject: 0,
            digest: None,
        });
    }
    let subject = number(row, "subject")?;
    steps.push(Step {
        seq,
        at_ms,
        texts: [
            call,
            session,
            text(row, "state")?,
            text(row, "kind")?,
            text(row, "detail")?,
        ],
        note: maybe(row, "note", text)?,
        subject: (0..=8).contains(&subject).then_some(subject)?,
        digest: maybe(row, "digest", hash)?,
    });
    let Cell::Blob(hashes) = cell(row, "hash") else {
        return None;
    };
    let fits = hashes.len() == 32 || hashes.len() == 32 * steps.len();
    let hashes = hashes
        .chunks(32)
        .map(|hash| hash.try_into().unwrap_or([0; 32]));
    fits.then(|| (steps, hashes.collect()))
}

/// Digests of all rows of a table, by key.
fn digests(connection: &Connection, name: &str, key: &str, columns: &str) -> Vec<(Vec<u8>, Hash)> {
    let shape = "(SELECT text FROM shapes WHERE shapes.id = calls.shape)";
    let columns: Vec<String> = columns
        .split(' ')
        .map(|column| match column {
            "shape" => shape.to_owned(),
            column => column.to_owned(),
        })
        .map(|column| format!("typeof({column}), CAST({column} AS BLOB)"))
        .collect();
    let sql = format!(
        "SELECT CAST(CAST({key} AS TEXT) AS BLOB), {} FROM {name}",
        columns.join(", ")
    );
    let mut statement = connection.prepare(&sql).unwrap();
    let rows = statement.query_map([], |row| {
        let mut bytes = vec![9];
        put(&mut bytes, name.as_bytes());
        for at in 0..columns.len() {
            let kind: String = row.get(1 + 2 * at)?;
            let value: Option<Vec<u8>> = row.get(2 + 2 * at)?;
            let value = value.unwrap_or_default();
            let (kind, value) = match kind.as_str() {
                "null" => (0, Vec::new()),
                "integer" => {
                    let number: i64 = String::from_utf8(value).unwrap().parse().unwrap();
                    (1, number.to_be_bytes().to_vec())
                }
                "text" => (3, value),
                _ => (4, value),
            };
            bytes.push(kind);
            put(&mut bytes, &value);
        }
        Ok((row.get(0)?, Sha256::digest(bytes).into()))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

/// Number of steps and the last hash; or the number of the first step that does not match, 0 if the start of the
/// chain is missing.
pub fn recompute(connection: &Connection) -> Result<(i64, Hash), i64> {
    let stored: Option<(Option<(i64, Hash)>, i64)> = connection
        .query_row("SELECT * FROM chain", [], |row| {
            let head = number(row, "rows").zip(hash(row, "head"));
            Ok((head, number(row, "base").unwrap_or_default()))
        })
        .ok();
    let (stored, base) = stored.unwrap_or_default();
    // The segments: each contains a hash over itself and the previous one.
    let mut parts: BTreeMap<i64, (Hash, Hash)> = BTreeMap::new();
    let mut total = [0; 32];
    let mut statement = connection
        .prepare("SELECT * FROM segments ORDER BY last")
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (last, at_ms) = (
            number(row, "last").ok_or(0)?,
            number(row, "at_ms").ok_or(0)?,
        );
        let head = hash(row, "head").ok_or(0)?;
        let bytes = [&total[..], &last.to_be_bytes(), &at_ms.to_be_bytes(), &head].concat();
        total = Sha256::digest(bytes).into();
        if hash(row, "total") != Some(total) {
            return Err(0);
        }
        parts.insert(last, (head, total));
    }
    let mut at = match (base, parts.get(&base)) {
        (_, Some((head, _))) => (base, *head),
        (0, None) => (0, Sha256::digest("toolhost transitions, format 1").into()),
        _ => return Err(0),
    };
    // The newest step about each row.
    let mut newest: BTreeMap<(i64, Vec<u8>), i64> = BTreeMap::new();
    let mut statement = connection
        .prepare("SELECT seq, max(subject, 1), CAST(call AS BLOB) FROM transitions WHERE digest IS NOT NULL ORDER BY seq")
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let key = (row.get(1).unwrap(), row.get(2).unwrap());
        newest.insert(key, row.get(0).unwrap());
    }
    let mut tables: BTreeMap<(i64, Vec<u8>), Hash> = BTreeMap::new();
    for (code, name, key, columns) in TABLES {
        for (key, digest) in digests(connection, name, key, columns) {
            tables.insert((code, key), digest);
        }
    }
    let mut covered = 0;
    let mut dropped = None;
    let mut statement = connection
        .prepare(
            "SELECT *, (SELECT text FROM shapes WHERE id = shape) AS shape_text FROM transitions ORDER BY seq",
        )
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let expected = at.0 + 1;
        let found = steps(row);
        let seq = number(row, "seq").unwrap();
        let first = found.as_ref().map_or(seq, |(steps, _)| steps[0].seq);
        let beyond = stored.is_some_and(|(rows, _)| first > rows && expected > rows);
        if first < expected || beyond {
            return Err(first);
        }
        let Some((steps, hashes)) = found else {
            return Err(expected);
        };
        if first > expected {
            return Err(expected);
        }
        // All hashes of a row are checked before its steps are used.
        let has_all = hashes.len() == steps.len();
        let mut made = Vec::new();
        for step in &steps {
            made.push(step.hash(made.last().unwrap_or(&at.1)));
        }
        let made_last = &made[made.len() - hashes.len()..];
        if let Some(wrong) = made_last.iter().zip(&hashes).position(|(a, b)| a != b) {
            return Err(if has_all { steps[wrong].seq } else { first });
        }
        for (step, hash) in steps.iter().zip(made) {
            at = (step.seq, hash);
            let Some(digest) = step.digest else { continue };
            if step.subject == 8 {
                dropped = Some(digest);
                continue;
            }
            let key = (step.subject.max(1), step.texts[0].clone().into_bytes());
            if newest.get(&key) != Some(&step.seq) {
                continue;
            }
            if *tables.get(&key).unwrap_or(&[0; 32]) != digest {
                return Err(step.seq);
            }
            covered += usize::from(digest != [0; 32]);
        }
        if parts.get(&at.0).is_some_and(|(head, _)| *head != at.1) {
            return Err(at.0);
        }
    }
    match stored {
        Some(head) if head == at => {}
        Some((rows, _)) if rows > at.0 => return Err(at.0 + 1),
        _ => return Err(at.0),
    }
    let beyond = parts.keys().any(|last| *last > at.0);
    let total = parts.get(&base).map(|(_, total)| *total);
    let probe: i64 = connection
        .query_row("SELECT count(*) FROM probe", [], |row| row.get(0))
        .unwrap();
    if beyond || (base > 0 && dropped != total) || covered != tables.len() || probe > 0 {
        return Err(at.0);
    }
    Ok(at)
}

/// Checks that both implementations agree; returns the result of `verify`.
pub fn agree(connection: &Connection, label: &str) -> Verification {
    let found = walk(connection, Extent::Rows, None).expect("a damaged file is verified too");
    let resolved = match &found {
        Verification::Verified { rows, head, .. } => Ok((*rows, *head)),
        Verification::Broken { seq, .. } => Err(*seq),
        Verification::HeadRemoved { .. } => unreachable!("no recorded head is passed"),
    };
    assert_eq!(resolved, recompute(connection), "{label}: {found:?}");
    found
}
