//! Fuzz targets for exports of the audit trail and for saved heads.
//!
//! An export is correct if the hash chain can be recomputed from its lines alone.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use toolhost_fuzz_input::{assembled, check_message};
use toolhost_store::{CallRow, Store, TransitionRow, Write};

use super::{hex, parse_head, write_steps};

const FRAGMENTS: &[&str] = &[
    "\n",
    "|",
    "pending",
    "executing",
    "completed",
    "state",
    "why",
    "null",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\"a\":",
    "\"\\u0000\"",
    "\"\\u202e\"",
    "-1",
    "1.5",
    "9007199254740993",
    "\0",
    "\r",
    "\u{202e}",
    "\u{2028}",
    "é",
];

/// Steps of one call: a line is `state|kind|note|detail`.
fn steps(text: &str, call: &str) -> Vec<TransitionRow> {
    let step = |line: &str| {
        let mut fields = line.splitn(4, '|');
        let mut field = || fields.next().map(str::to_owned);
        TransitionRow {
            call: call.to_owned(),
            session: "s1".to_owned(),
            at_ms: 1_000 - i64::try_from(line.len()).unwrap(),
            state: field().unwrap_or_default(),
            kind: field().unwrap_or_default(),
            note: field(),
            detail: field()
                .and_then(|detail| serde_json::from_str(&detail).ok())
                .unwrap_or_default(),
        }
    };
    text.lines().take(40).map(step).collect()
}

fn row(id: &str) -> CallRow {
    CallRow {
        id: id.to_owned(),
        session: "s1".to_owned(),
        batch: None,
        parent: None,
        tool: Some("read".to_owned()),
        plugin: None,
        state: "pending".to_owned(),
        finished: false,
        deferred: false,
        effectful: false,
        created_ms: 1,
        updated_ms: 2,
        record: Value::Null,
    }
}

/// The hash of an exported line, computed as specified in docs/audit.md.
fn hash(line: &Value, before: &[u8; 32]) -> [u8; 32] {
    fn put(bytes: &mut Vec<u8>, text: &str) {
        bytes.extend((text.len() as u64).to_be_bytes());
        bytes.extend(text.as_bytes());
    }
    let text = |name: &str| line[name].as_str().unwrap_or_default();
    let mut bytes = before.to_vec();
    for name in ["seq", "at"] {
        bytes.extend(line[name].as_i64().unwrap().to_be_bytes());
    }
    for name in ["call", "session", "state", "kind"] {
        put(&mut bytes, text(name));
    }
    put(&mut bytes, &line["detail"].to_string());
    bytes.push(u8::from(!line["note"].is_null()));
    put(&mut bytes, text("note"));
    let subject = u64::from(line["subject"] == "call");
    let digest = line
        .get("digest")
        .map(|_| parse_head(text("digest")).unwrap().hash);
    if subject > 0 || digest.is_some() {
        bytes.extend(subject.to_be_bytes());
        bytes.push(u8::from(digest.is_some()));
        bytes.extend(digest.unwrap_or_default());
    }
    Sha256::digest(bytes).into()
}

#[test]
fn fuzz_export() {
    let home = tempfile::tempdir().unwrap();
    let store = AssertUnwindSafe(Store::open(&home.path().join("state")).unwrap());
    let runtime = AssertUnwindSafe(
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap(),
    );
    // Where the chain ends.
    let genesis: [u8; 32] = Sha256::digest("toolhost transitions, format 1").into();
    let end = AssertUnwindSafe(Cell::new((0, genesis)));
    bolero::check!().for_each(|bytes: &[u8]| {
        let (store, runtime, end) = (&*store, &*runtime, &*end);
        let text = assembled(bytes, FRAGMENTS);
        if let Ok(noted) = parse_head(&text).map_err(|error| check_message(&error)) {
            let hash = hex(&noted.hash);
            let printed = noted
                .seq
                .map_or(hash.clone(), |seq| format!("{seq}:{hash}"));
            assert_eq!(parse_head(&printed), Ok(noted));
        }
        let (mut seq, mut before) = end.get();
        let id = format!("c{seq}");
        let transitions = steps(&text, &id);
        let count = transitions.len().max(1);
        let write = Write::Call {
            row: Box::new(row(&id)),
            transitions: transitions.clone(),
        };
        runtime.block_on(store.commit(write)).unwrap();
        let mut exported = Vec::new();
        assert!(write_steps(store, seq, None, &mut exported).is_ok());
        let exported = String::from_utf8(exported).unwrap();
        let lines: Vec<&str> = exported.strip_suffix('\n').unwrap().split('\n').collect();
        assert_eq!(lines.len(), count, "{exported}");
        for (line, step) in lines.iter().zip(&transitions) {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["state"], step.state.as_str());
            assert_eq!(line["note"].as_str(), step.note.as_deref());
        }
        for line in lines {
            let line: Value = serde_json::from_str(line).unwrap();
            before = hash(&line, &before);
            assert_eq!(line["hash"], hex(&before), "{line}");
            seq += 1;
            assert_eq!(line["seq"], seq);
        }
        end.set((seq, before));
    });
}
