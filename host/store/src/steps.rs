//! Packing of steps: steps that are written together share a row, because a row for each step of a short call would
//! exceed the size of the call's own record. Sequence numbers and hashes still count steps.

use std::borrow::Cow;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::TransitionRow;
use crate::chain::{Head, Link};
use crate::shapes::ShapeIds;
use crate::subject::ChainSubject;

/// Maximum number of steps in one row.
const MAX_STEPS: usize = 32;
const HASH: usize = 32;

/// The columns in the order in which [`of_row`] reads them.
pub const COLUMNS: &str =
    "seq, call, session, at_ms, state, kind, note, detail, hash, earlier, subject, digest,
    (SELECT text FROM shapes WHERE id = shape), shape";

/// An earlier step in a row without a shape, as in older formats.
#[derive(Serialize, Deserialize)]
struct Earlier<'a>(
    i64,
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] Option<Cow<'a, str>>,
);

/// State and kind of an earlier step, in the text of a shape.
#[derive(Serialize, Deserialize)]
struct StepLabel<'a>(#[serde(borrow)] Cow<'a, str>, #[serde(borrow)] Cow<'a, str>);

/// The other values of earlier steps: their time before the last step, and their notes.
#[derive(Serialize, Deserialize)]
struct EarlierValues<'a>(Vec<i64>, #[serde(borrow)] Vec<(usize, Cow<'a, str>)>);

/// Splits a list into the parts for one row each.
pub fn rows<'a, 'b>(
    steps: &'b [&'a TransitionRow],
) -> impl Iterator<Item = &'b [&'a TransitionRow]> {
    steps
        .chunk_by(|one, next| {
            one.detail == Value::Null && one.call == next.call && one.session == next.session
        })
        .flat_map(|together| together.chunks(MAX_STEPS))
}

/// A row as it is written.
pub struct Packed<'a> {
    pub last: Link<'a>,
    pub shape: Option<i64>,
    /// JSON; `None` if there is only one step.
    pub earlier: Option<String>,
    pub head: Head,
}

/// Packs steps into a row; `None` if there are none. `digest` is that of the row written with the last step.
pub fn pack<'a>(
    connection: &Connection,
    shapes: &mut ShapeIds,
    steps: &[&'a TransitionRow],
    detail: &'a str,
    digest: Option<[u8; HASH]>,
    mut head: Head,
) -> rusqlite::Result<Option<Packed<'a>>> {
    let Some((last, earlier)) = steps.split_last() else {
        return Ok(None);
    };
    let mut next = |step: &'a TransitionRow, detail: &'a str, digest| {
        let link = Link {
            seq: head.rows + 1,
            call: &step.call,
            session: &step.session,
            at_ms: step.at_ms,
            state: Cow::Borrowed(&step.state),
            kind: Cow::Borrowed(&step.kind),
            note: step.note.as_deref().map(Cow::Borrowed),
            detail,
            subject: ChainSubject::Step,
            digest,
        };
        head = Head {
            rows: link.seq,
            hash: link.hash(&head.hash),
        };
        link
    };
    let others: Vec<Link> = earlier
        .iter()
        .map(|step| next(step, NO_DETAIL, None))
        .collect();
    let last = next(last, detail, digest);
    let (shape, earlier) = encode_earlier(connection, shapes, &others, last.at_ms)?;
    Ok(Some(Packed {
        last,
        shape,
        earlier,
        head,
    }))
}

/// The columns `shape` and `earlier`.
fn encode_earlier(
    connection: &Connection,
    shapes: &mut ShapeIds,
    steps: &[Link],
    at_ms: i64,
) -> rusqlite::Result<(Option<i64>, Option<String>)> {
    if steps.is_empty() {
        return Ok((None, None));
    }
    let labels: Vec<StepLabel> = steps
        .iter()
        .map(|link| StepLabel((*link.state).into(), (*link.kind).into()))
        .collect();
    let times: Option<Vec<i64>> = steps
        .iter()
        .map(|link| at_ms.checked_sub(link.at_ms))
        .collect();
    if let Some(times) = times
        && let Some(shape) = shapes.id(connection, &json(&labels))?
    {
        let notes = steps.iter().enumerate();
        let notes = notes.filter_map(|(at, link)| Some((at, Cow::from(link.note.as_deref()?))));
        return Ok((
            Some(shape),
            Some(json(&EarlierValues(times, notes.collect()))),
        ));
    }
    let whole: Vec<Earlier> = steps
        .iter()
        .map(|link| {
            let note = link.note.as_deref().map(Cow::from);
            Earlier(link.at_ms, (*link.state).into(), (*link.kind).into(), note)
        })
        .collect();
    Ok((None, Some(json(&whole))))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers serialize to JSON")
}

/// The detail of a step without one.
const NO_DETAIL: &str = "null";

/// A row of steps as it was read.
pub struct Stored<'a> {
    links: Vec<Link<'a>>,
    /// Hashes of all steps in earlier formats, of the last step in the current one.
    hashes: &'a [[u8; HASH]],
}

impl<'a> Stored<'a> {
    pub fn first(&self) -> i64 {
        self.links.first().map_or(0, |link| link.seq)
    }

    /// The steps with their hashes, or the number of the first step that does not match.
    pub fn checked(self, before: [u8; HASH]) -> Result<Vec<(Link<'a>, [u8; HASH])>, i64> {
        let (mut hash, first) = (before, self.first());
        let skipped = self.links.len() - self.hashes.len();
        let mut checked = Vec::with_capacity(self.links.len());
        for (index, link) in self.links.into_iter().enumerate() {
            hash = link.hash(&hash);
            let stored = index.checked_sub(skipped).map(|index| self.hashes[index]);
            if stored.is_some_and(|stored| stored != hash) {
                // A single hash does not show which of the steps was changed.
                return Err(if skipped > 0 { first } else { link.seq });
            }
            checked.push((link, hash));
        }
        Ok(checked)
    }
}

/// The steps of a row, oldest first. `None` if the row is invalid.
pub fn of_row<'a>(row: &'a Row) -> Option<Stored<'a>> {
    let text = |index| row.get_ref(index).ok()?.as_str().ok();
    let maybe = |index| match row.get_ref(index).ok()? {
        ValueRef::Null => Some(None),
        value => Some(Some(value.as_str().ok()?)),
    };
    let (seq, call, session): (i64, _, _) = (row.get(0).ok()?, text(1)?, text(2)?);
    let at_ms: i64 = row.get(3).ok()?;
    let (earlier, shape) = (maybe(9)?, maybe(12)?);
    let number: Option<i64> = row.get(13).ok()?;
    if number.is_some() && (earlier.is_none() || shape.is_none()) {
        return None;
    }
    let earlier = decode_earlier(earlier, shape, at_ms)?;
    let first = seq.checked_sub(i64::try_from(earlier.len()).ok()?)?;
    // Zipped in this order, so that no number beyond the last is computed, which could overflow.
    let mut links: Vec<Link> = earlier
        .into_iter()
        .zip(first..)
        .map(|(Earlier(at_ms, state, kind, note), seq)| Link {
            seq,
            call,
            session,
            at_ms,
            state,
            kind,
            note,
            detail: NO_DETAIL,
            subject: ChainSubject::Step,
            digest: None,
        })
        .collect();
    links.push(Link {
        seq,
        call,
        session,
        at_ms,
        state: text(4)?.into(),
        kind: text(5)?.into(),
        note: maybe(6)?.map(Cow::Borrowed),
        detail: text(7)?,
        subject: ChainSubject::of(row.get(10).ok()?)?,
        digest: row.get(11).ok()?,
    });
    let (hashes, rest) = row.get_ref(8).ok()?.as_blob().ok()?.as_chunks::<HASH>();
    let counted = hashes.len() == links.len() || hashes.len() == 1;
    (rest.is_empty() && counted).then_some(Stored { links, hashes })
}

fn decode_earlier<'a>(
    earlier: Option<&'a str>,
    shape: Option<&'a str>,
    at_ms: i64,
) -> Option<Vec<Earlier<'a>>> {
    let Some(earlier) = earlier else {
        return Some(Vec::new());
    };
    let Some(shape) = shape else {
        return serde_json::from_str(earlier).ok();
    };
    let labels: Vec<StepLabel> = serde_json::from_str(shape).ok()?;
    let EarlierValues(times, notes) = serde_json::from_str(earlier).ok()?;
    if labels.len() != times.len() {
        return None;
    }
    let steps = labels.into_iter().zip(times);
    let mut steps: Vec<Earlier> = steps
        .map(|(StepLabel(state, kind), before)| {
            Some(Earlier(at_ms.checked_sub(before)?, state, kind, None))
        })
        .collect::<Option<_>>()?;
    for (at, note) in notes {
        steps.get_mut(at)?.3 = Some(note);
    }
    Some(steps)
}
