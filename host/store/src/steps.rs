//! Steps that are written together share a row: a short call takes all of its steps at once, and a row for each costs
//! more than the call's own record. Numbers and hashes are those of steps all the same.

use std::borrow::Cow;

use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::TransitionRow;
use crate::chain::{Head, Link};

/// Steps in one row.
const MOST: usize = 32;
const HASH: usize = 32;

/// The columns, in the order in which [`of_row`] reads them.
pub const COLUMNS: &str = "seq, call, session, at_ms, state, kind, note, detail, hash, earlier";

/// What the row of a later step keeps of an earlier one.
#[derive(Serialize, Deserialize)]
struct Earlier<'a>(
    i64,
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] Option<Cow<'a, str>>,
);

/// Cuts a list into what goes into one row each.
pub fn rows(steps: &[TransitionRow]) -> impl Iterator<Item = &[TransitionRow]> {
    steps
        .chunk_by(|one, next| {
            one.detail == Value::Null && one.call == next.call && one.session == next.session
        })
        .flat_map(|together| together.chunks(MOST))
}

/// A row as it is written.
pub struct Packed<'a> {
    pub last: Link<'a>,
    /// JSON; None when the last is the only one.
    pub earlier: Option<String>,
    pub hashes: Vec<u8>,
    pub head: Head,
}

/// None: there is no step.
pub fn pack<'a>(steps: &'a [TransitionRow], detail: &'a str, mut head: Head) -> Option<Packed<'a>> {
    let (last, earlier) = steps.split_last()?;
    let mut hashes = Vec::with_capacity(steps.len() * HASH);
    let mut next = |step: &'a TransitionRow, detail: &'a str| {
        let link = Link {
            seq: head.rows + 1,
            call: &step.call,
            session: &step.session,
            at_ms: step.at_ms,
            state: Cow::Borrowed(&step.state),
            kind: Cow::Borrowed(&step.kind),
            note: step.note.as_deref().map(Cow::Borrowed),
            detail,
        };
        let hash = link.hash(&head.hash);
        hashes.extend(hash);
        head = Head {
            rows: link.seq,
            hash,
        };
        link
    };
    let others: Vec<Earlier> = earlier
        .iter()
        .map(|step| {
            let link = next(step, NOTHING);
            Earlier(link.at_ms, link.state, link.kind, link.note)
        })
        .collect();
    let last = next(last, detail);
    let earlier = (!others.is_empty())
        .then(|| serde_json::to_string(&others).expect("texts and numbers are JSON"));
    Some(Packed {
        last,
        earlier,
        hashes,
        head,
    })
}

/// The detail of a step that has none.
const NOTHING: &str = "null";

/// The steps of a row, oldest first, each with its hash as it stands there. None: it is no row of ours.
pub fn of_row<'a>(row: &'a Row) -> Option<Vec<(Link<'a>, [u8; HASH])>> {
    let text = |index| row.get_ref(index).ok()?.as_str().ok();
    let maybe = |index| match row.get_ref(index).ok()? {
        ValueRef::Null => Some(None),
        value => Some(Some(value.as_str().ok()?)),
    };
    let (seq, call, session): (i64, _, _) = (row.get(0).ok()?, text(1)?, text(2)?);
    let earlier: Vec<Earlier> = match maybe(9)? {
        Some(earlier) => serde_json::from_str(earlier).ok()?,
        None => Vec::new(),
    };
    let first = seq.checked_sub(i64::try_from(earlier.len()).ok()?)?;
    // The numbers come second, so that none behind the last is made: there may be none.
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
            detail: NOTHING,
        })
        .collect();
    links.push(Link {
        seq,
        call,
        session,
        at_ms: row.get(3).ok()?,
        state: text(4)?.into(),
        kind: text(5)?.into(),
        note: maybe(6)?.map(Cow::Borrowed),
        detail: text(7)?,
    });
    let (hashes, rest) = row.get_ref(8).ok()?.as_blob().ok()?.as_chunks::<HASH>();
    (rest.is_empty() && hashes.len() == links.len())
        .then(|| links.into_iter().zip(hashes.iter().copied()).collect())
}
