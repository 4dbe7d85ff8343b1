//! Records with plain and hostile texts, and a host whose plugins and files are hostile too.

use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolhost_contract::{
    CallError, ChangeKind, ChangeSet, CommitError, CommitRecovery, FileChange, FileDiff, FileKind,
    RecoveryOutcome, ToolName,
};
use toolhost_store::{CallRow, CommitFilter, CommitRow, CommitState, Store, TransitionRow, Write};

use super::world::World;
use crate::state::Permission;
use crate::{FileHistory, HostView, Need, PluginKind, PluginLimits, PluginView, UndoPreview};

/// Text that must be escaped and isolated on every page.
pub const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\"'&`";

pub struct TestView;

impl HostView for TestView {
    fn plugins(&self) -> Vec<PluginView> {
        vec![
            PluginView {
                name: "shell".to_owned(),
                version: HOSTILE.to_owned(),
                description: HOSTILE.to_owned(),
                source: HOSTILE.to_owned(),
                signature: HOSTILE.to_owned(),
                needs: vec![Need {
                    what: format!("connect to {HOSTILE}"),
                    why: HOSTILE.to_owned(),
                }],
                grants: vec![HOSTILE.to_owned()],
                limits: Some(PluginLimits {
                    memory: 64 << 20,
                    output: 1 << 20,
                    timeout: Some(std::time::Duration::from_secs(10)),
                }),
                tools: ["remove", "run"]
                    .map(|name| ToolName::parse(name).unwrap())
                    .to_vec(),
                log: vec![HOSTILE.to_owned()],
                ..PluginView::default()
            },
            PluginView {
                name: HOSTILE.to_owned(),
                kind: PluginKind::Broken,
                problem: Some(HOSTILE.to_owned()),
                ..PluginView::default()
            },
        ]
    }

    fn config_file(&self) -> Option<std::path::PathBuf> {
        Some(format!("/home/{HOSTILE}/toolhost.toml").into())
    }

    fn files(&self) -> Option<Arc<dyn FileHistory>> {
        Some(Arc::new(TestFiles))
    }
}

/// Undoes everything whose journal entry does not contain `conflict`.
struct TestFiles;

impl CommitRecovery for TestFiles {
    fn recover(&self, _: &str, _: &Value) -> Result<RecoveryOutcome, CallError> {
        Ok(RecoveryOutcome::Committed)
    }

    fn inverse_entry(&self, entry: &Value) -> Result<Value, CallError> {
        Ok(entry.clone())
    }

    fn undo(&self, _: &str, entry: &Value) -> Result<(), CommitError> {
        match entry.as_str() {
            Some("conflict") => Err(CommitError::Conflict(vec![HOSTILE.to_owned()])),
            _ => Ok(()),
        }
    }
}

impl FileHistory for TestFiles {
    fn describe_commit(&self, _: &Value) -> Result<ChangeSet, CallError> {
        let change = FileChange {
            path: format!("notes/{HOSTILE}.md"),
            kind: ChangeKind::Modified,
            file_kind: FileKind::File,
            sizes: (Some(1), Some(2)),
            link_targets: (Some(HOSTILE.to_owned()), None),
            modes: None,
            executable: false,
            diff: Some(FileDiff {
                file_name: "x".to_owned(),
                diff: format!("--- a\n+++ b\n@@ -1 +1 @@\n-old\n+{HOSTILE} password=hunter22\n"),
                original: None,
                new: String::new(),
            }),
            no_diff_reason: None,
            content: None,
        };
        Ok(ChangeSet {
            changes: vec![change],
        })
    }

    fn preview_undo(&self, entry: &Value) -> Result<UndoPreview, CallError> {
        let conflicts = (entry == "conflict").then(|| HOSTILE.to_owned());
        Ok(UndoPreview {
            changes: self.describe_commit(entry)?,
            conflicts: conflicts.into_iter().collect(),
        })
    }
}

pub struct Home {
    _dir: TempDir,
    pub store: Store,
}

impl Home {
    pub fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let store = Store::open(&dir.path().join("state")).unwrap();
        Self { _dir: dir, store }
    }

    pub fn world(&self, permission: Permission) -> World {
        World::with_store(permission, self.store.clone(), Arc::new(TestView))
    }

    pub async fn write(&self, row: CallRow) {
        self.write_with_note(row, HOSTILE).await;
    }

    /// Writes a call whose steps have a note.
    pub async fn write_with_note(&self, row: CallRow, note: &str) {
        let step = |kind: &str, state: &str, at_ms| TransitionRow {
            call: row.id.clone(),
            session: row.session.clone(),
            at_ms,
            state: state.to_owned(),
            kind: kind.to_owned(),
            note: Some(note.to_owned()),
            detail: Value::Null,
        };
        let start = row.created_ms;
        let transitions = vec![
            step("requested", "pending", start),
            step("approval_requested", "awaiting_approval", start + 10),
            step("approved", "approved", start + 500),
            step("started", "executing", start + 520),
            step("started", "executing", start + 600),
            step(&row.state, &row.state, row.updated_ms),
        ];
        let write = Write::Call {
            row: Box::new(row),
            transitions,
        };
        self.store.commit(write).await.unwrap();
    }

    pub async fn commit(&self, id: &str, body: Value) {
        let row = CommitRow {
            id: id.to_owned(),
            call: HOSTILE.to_owned(),
            session: "s".to_owned(),
            batch: None,
            tool: HOSTILE.to_owned(),
            at_ms: 1,
            state: CommitState::Begun,
            of: None,
            body,
        };
        self.store.begin_commit(row).await.unwrap();
        self.store
            .end_commit(id, CommitState::Done, 2)
            .await
            .unwrap();
    }

    pub fn commits(&self) -> Vec<(CommitState, Option<String>)> {
        let rows = self.store.commits(&CommitFilter::default()).unwrap();
        rows.into_iter().map(|row| (row.state, row.of)).collect()
    }
}

/// A call in which every text is hostile.
pub fn hostile_call() -> CallRow {
    CallRow {
        id: HOSTILE.to_owned(),
        session: HOSTILE.to_owned(),
        batch: Some(HOSTILE.to_owned()),
        parent: Some(HOSTILE.to_owned()),
        tool: Some(HOSTILE.to_owned()),
        plugin: Some(HOSTILE.to_owned()),
        state: "failed".to_owned(),
        finished: true,
        deferred: false,
        effectful: true,
        created_ms: 900_000,
        updated_ms: 901_000,
        record: json!({
            "inputPreview": {"path": HOSTILE, HOSTILE: HOSTILE}, "agentId": HOSTILE, "parentAgentId": HOSTILE,
            "userId": HOSTILE, "toolVersion": HOSTILE, "toolHash": HOSTILE, "policyRuleId": HOSTILE, "mode": HOSTILE,
            "error": {"code": HOSTILE, "message": HOSTILE, "remedy": HOSTILE}, "suppliedBy": HOSTILE,
            "approval": {"decision": "allow", "decidedBy": HOSTILE, "reason": HOSTILE, "rule": HOSTILE, "note": HOSTILE},
            "startedAt": 1, "durationMs": 12.5, "attempts": 2, "origin": "model", "effect": "writes",
        }),
    }
}

pub fn plain_call(number: u32) -> CallRow {
    CallRow {
        id: format!("call-{number}"),
        session: format!("s{}", number % 7),
        batch: Some(format!("t{}", number / 5)),
        parent: None,
        tool: Some(
            if number.is_multiple_of(3) {
                "grep"
            } else {
                "read_file"
            }
            .to_owned(),
        ),
        plugin: Some("files".to_owned()),
        state: "completed".to_owned(),
        finished: true,
        deferred: false,
        effectful: false,
        created_ms: i64::from(number) * 100,
        updated_ms: i64::from(number) * 100 + 40,
        record: json!({
            "inputPreview": {"path": format!("src/{number}.rs")}, "agentId": "main", "effect": "reads", "isError": false,
            "policyRuleId": "mode default: reads", "startedAt": 1, "durationMs": 40.0, "memoryBytes": 1 << 20,
        }),
    }
}

pub async fn fill(store: &Store, count: u32) {
    for number in 0..count {
        let row = plain_call(number);
        let steps = ["pending", "executing", "completed"].map(|state| TransitionRow {
            call: row.id.clone(),
            session: row.session.clone(),
            at_ms: row.created_ms,
            state: state.to_owned(),
            kind: state.to_owned(),
            note: None,
            detail: Value::Null,
        });
        let write = Write::Call {
            row: Box::new(row),
            transitions: steps.to_vec(),
        };
        if number % 500 == 499 {
            store.commit(write).await.unwrap();
        } else {
            store.queue(write).unwrap();
        }
    }
    store.flush().await.unwrap();
}
