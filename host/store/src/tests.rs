//! Shared helpers of the store tests: rows with all columns set, and a store in a temporary directory.

mod adoption;
mod answers;
mod approvals;
mod chain;
mod commits;
mod failures;
mod fuzz;
mod histories;
mod history;
mod migration;
mod owners;
mod paths;
mod prune;
mod queue;
mod recomputation;
mod rows;
mod stage;
mod tampering;

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::{
    AnswerRow, ApprovalRow, CallRow, CommitRow, CommitState, EventRow, Store, TransitionRow, Write,
};

/// Short, because some tests wait for a lock that is never released.
const BUSY: Duration = Duration::from_millis(50);

/// A state directory that is removed after the test.
struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
        }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn database(&self) -> PathBuf {
        self.state().join("store.db")
    }

    fn open(&self) -> Store {
        Store::open(&self.state()).unwrap()
    }

    /// A connection without the host's settings, like another program's.
    fn raw(&self) -> Connection {
        Connection::open(self.database()).unwrap()
    }
}

fn call(id: &str, state: &str) -> CallRow {
    CallRow {
        id: id.to_owned(),
        session: "s1".to_owned(),
        batch: Some("b1".to_owned()),
        parent: None,
        tool: Some("read".to_owned()),
        plugin: Some("files".to_owned()),
        state: state.to_owned(),
        finished: state == "completed",
        deferred: false,
        effectful: true,
        created_ms: 1_000,
        updated_ms: 2_000,
        record: json!({"input": {"path": "ä\u{0}\n"}, "b": 1, "a": [1.5, null, true]}),
    }
}

fn step(call: &str, state: &str) -> TransitionRow {
    TransitionRow {
        call: call.to_owned(),
        session: "s1".to_owned(),
        at_ms: 1_234,
        state: state.to_owned(),
        kind: "state".to_owned(),
        note: Some("why".to_owned()),
        detail: json!({"by": "policy"}),
    }
}

/// A call with one transition for each of its states.
fn write(id: &str, states: &[&str]) -> Write {
    Write::Call {
        row: Box::new(call(id, states.last().unwrap())),
        transitions: states.iter().map(|state| step(id, state)).collect(),
    }
}

fn event(channel: &str, kind: &str) -> EventRow {
    EventRow {
        channel: channel.to_owned(),
        session: "s1".to_owned(),
        call: Some("c1".to_owned()),
        at_ms: 5,
        kind: kind.to_owned(),
        body: json!({"kind": kind}),
    }
}

fn approval(id: &str) -> ApprovalRow {
    ApprovalRow {
        id: id.to_owned(),
        tool: "write".to_owned(),
        plugin: "files".to_owned(),
        identity: "sha256:00".to_owned(),
        scope: "project".to_owned(),
        session: None,
        body: json!({"path": "src/**"}),
        created_ms: 100,
        expires_ms: None,
        uses_left: None,
        used: 0,
        revoked_ms: None,
    }
}

fn answer(call: &str, by: &str) -> AnswerRow {
    AnswerRow {
        asked_ms: None,
        call: call.to_owned(),
        decision: "allow_once".to_owned(),
        note: Some("go on".to_owned()),
        payload: Some(json!({"path": "b"})),
        by: by.to_owned(),
        at_ms: 3_000,
    }
}

fn commit(id: &str) -> CommitRow {
    CommitRow {
        id: id.to_owned(),
        call: "c1".to_owned(),
        session: "s1".to_owned(),
        batch: Some("b1".to_owned()),
        tool: "write".to_owned(),
        at_ms: 1_500,
        state: CommitState::Begun,
        of: None,
        body: json!({"changes": [{"at": "ä\u{0}\n"}]}),
    }
}
