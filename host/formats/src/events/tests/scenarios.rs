//! Scenarios: complete lifecycles of calls as events, generated like in a kernel.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use toolhost_contract::bus::{BusEvent, EventKind};
use toolhost_contract::lifecycle::{
    CallRecord, CallState, ResolvedTool, Snapshot, Timestamp, Transition,
};
use toolhost_contract::{CallEvent, CallId, ChangeKind, ChangeSet, FileChange, FileDiff, FileKind};

pub struct Scenario {
    pub name: &'static str,
    pub tool: &'static str,
    pub input: Value,
    pub parts: Vec<ScenarioStep>,
}

pub enum ScenarioStep {
    Apply(Transition),
    /// Prompts the user, with this content.
    Prompt(Value),
    /// Prompts the user to approve changes.
    PromptChanges(Value, ChangeSet),
    Emit(CallEvent),
    /// Completes the call with this result.
    Complete(bool, Value),
    /// Completes the call, which changed one file.
    CompleteChange(Value, FileDiff),
}

use ScenarioStep::{Apply, Complete, CompleteChange, Emit, Prompt, PromptChanges};

fn found(tool: &str) -> ScenarioStep {
    Apply(Transition::ToolResolved(Arc::new(ResolvedTool {
        tool: tool.to_owned(),
        plugin: "files".to_owned(),
        version: "1.0.0".to_owned(),
        digest: None,
        effect: "writes",
        mode: "default".to_owned(),
        sources: Vec::new(),
        destinations: Vec::new(),
    })))
}

fn failed(code: &str, message: &str, millis: u64) -> ScenarioStep {
    Apply(Transition::Failed {
        code: code.to_owned(),
        message: message.to_owned(),
        duration: Duration::from_millis(millis),
    })
}

fn denied(code: &str, reason: &str, by: &str, note: Option<&str>) -> ScenarioStep {
    Apply(Transition::Denied {
        code: code.to_owned(),
        reason: reason.to_owned(),
        by: Some(by.to_owned()),
        note: note.map(str::to_owned),
        remedy: None,
    })
}

fn cancelled(reason: &str, millis: u64) -> ScenarioStep {
    Apply(Transition::Cancelled {
        reason: reason.to_owned(),
        duration: Duration::from_millis(millis),
    })
}

fn approved(scope: &str) -> ScenarioStep {
    Apply(Transition::Approved {
        by: "user".to_owned(),
        scope: scope.to_owned(),
        note: None,
    })
}

fn scheduled(by: &str) -> ScenarioStep {
    Apply(Transition::Scheduled {
        by: by.to_owned(),
        wave: Some(0),
        command: None,
    })
}

/// The transitions from the start to the run.
fn runs(tool: &str) -> Vec<ScenarioStep> {
    vec![
        Apply(Transition::ValidationStarted),
        found(tool),
        scheduled("rule allow `*`"),
        Apply(Transition::Started),
    ]
}

fn and(
    mut parts: Vec<ScenarioStep>,
    more: impl IntoIterator<Item = ScenarioStep>,
) -> Vec<ScenarioStep> {
    parts.extend(more);
    parts
}

fn scenario(
    name: &'static str,
    tool: &'static str,
    input: Value,
    parts: Vec<ScenarioStep>,
) -> Scenario {
    Scenario {
        name,
        tool,
        input,
        parts,
    }
}

fn file_diff(new: &str) -> FileDiff {
    FileDiff {
        file_name: "a.txt".to_owned(),
        diff: format!("--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-one\n+{new}\u{202e}\n"),
        original: Some("one\n".to_owned()),
        new: format!("{new}\n"),
    }
}

/// Offers for this call, the session and the project.
fn edit_content() -> Value {
    json!({
        "kind": "edit",
        "choices": [
            {"text": "Allow `edit` this once", "scope": "once", "covers": "call"},
            {"text": "Allow `edit` in a.txt for this session", "scope": "session", "covers": "subject"},
            {"text": "Allow `edit` in a.txt in this project", "scope": "project", "covers": "subject"},
        ],
    })
}

pub fn change(new: &str) -> ChangeSet {
    let change = FileChange {
        path: "a.txt".to_owned(),
        kind: ChangeKind::Modified,
        file_kind: FileKind::File,
        diff: Some(file_diff(new)),
        sizes: (Some(4), Some(new.len() as u64 + 1)),
        link_targets: (None, None),
        modes: None,
        executable: false,
        no_diff_reason: None,
        content: None,
    };
    ChangeSet {
        changes: vec![change],
    }
}

pub fn all() -> Vec<Scenario> {
    let path = || json!({"path": "a.txt", "password": "hunter2"});
    vec![
        scenario(
            "success",
            "Read",
            path(),
            and(
                runs("read_file"),
                [
                    Emit(CallEvent::Output {
                        stream: "stdout".to_owned(),
                        bytes: vec![b'4', 0xe2, 0x82],
                    }),
                    Emit(CallEvent::Output {
                        stream: "stdout".to_owned(),
                        bytes: vec![0xac],
                    }),
                    Emit(CallEvent::Progress {
                        message: Some("half".to_owned()),
                        progress: Some(1.0),
                        total: Some(2.0),
                    }),
                    Emit(CallEvent::Custom {
                        event: "task_started".to_owned(),
                        data: json!({"taskId": 7}),
                    }),
                    Emit(CallEvent::Dropped { count: 2 }),
                    Apply(Transition::PostProcessing),
                    Complete(false, json!({"content": "hi", "size": 2})),
                ],
            ),
        ),
        scenario(
            "logical failure",
            "bash_run",
            json!({"command": "false"}),
            and(
                runs("bash_run"),
                [Complete(
                    true,
                    json!({"ok": false, "error": "exit code 1", "api_key": "k"}),
                )],
            ),
        ),
        scenario(
            "supplied by a hook",
            "read_file",
            path(),
            vec![
                Apply(Transition::ValidationStarted),
                found("read_file"),
                Apply(Transition::Completed {
                    is_error: false,
                    supplied_by: Some("cache".to_owned()),
                    duration: Duration::ZERO,
                }),
            ],
        ),
        scenario(
            "validation error",
            "read_file",
            json!({"pth": 1}),
            vec![
                Apply(Transition::ValidationStarted),
                found("read_file"),
                failed(
                    "invalid_tool_params",
                    "Parameter validation failed: path: is required",
                    0,
                ),
            ],
        ),
        scenario(
            "unknown tool",
            "raed_file",
            json!({}),
            vec![
                Apply(Transition::ValidationStarted),
                failed(
                    "tool_not_registered",
                    "Tool \"raed_file\" not found. Did you mean: read_file?",
                    0,
                ),
            ],
        ),
        scenario(
            "policy deny",
            "bash_run",
            json!({"command": "rm -rf /"}),
            vec![
                Apply(Transition::ValidationStarted),
                found("bash_run"),
                denied(
                    "policy_violation",
                    "rule deny `bash_run` forbids it",
                    "rule 2",
                    None,
                ),
            ],
        ),
        scenario(
            "hook deny",
            "read_file",
            json!({"path": ".env"}),
            vec![
                Apply(Transition::ValidationStarted),
                found("read_file"),
                denied("hook_denied", "sensitive file", "hook:guard", None),
            ],
        ),
        scenario(
            "user deny",
            "bash_run",
            json!({"command": "make"}),
            vec![
                Apply(Transition::ValidationStarted),
                found("bash_run"),
                Prompt(json!({"kind": "exec", "command": "make\u{1b}[2K all"})),
                denied(
                    "user_denied",
                    "Permission denied by user",
                    "user",
                    Some("use just"),
                ),
            ],
        ),
        scenario(
            "cancel at the prompt",
            "mcp__tracker__add_issue",
            json!({"title": "x"}),
            vec![
                Apply(Transition::ValidationStarted),
                found("mcp__tracker__add_issue"),
                Prompt(json!({})),
                cancelled("cancelled by user", 0),
            ],
        ),
        scenario(
            "modify",
            "edit",
            json!({"path": "a.txt", "new": "two"}),
            vec![
                Apply(Transition::ValidationStarted),
                found("edit"),
                PromptChanges(edit_content(), change("two")),
                Apply(Transition::InputModified {
                    input: json!({"path": "a.txt", "new": "three"}).into(),
                    by: "user".to_owned(),
                }),
                Apply(Transition::ValidationStarted),
                found("edit"),
                PromptChanges(edit_content(), change("three")),
                approved("session"),
                scheduled("user"),
                Apply(Transition::Started),
                CompleteChange(json!("Modified a.txt"), file_diff("three")),
            ],
        ),
        scenario(
            "timeout",
            "fetch",
            json!({"url": "https://example.org/"}),
            and(
                runs("fetch"),
                [failed(
                    "timeout",
                    "Tool execution timed out after 30000ms",
                    30_001,
                )],
            ),
        ),
        scenario(
            "trap",
            "fetch",
            json!({}),
            and(
                runs("fetch"),
                [failed("trap", "the tool crashed: unreachable", 3)],
            ),
        ),
        scenario(
            "cancel",
            "fetch",
            json!({}),
            and(runs("fetch"), [cancelled("cancelled by user", 12)]),
        ),
        scenario(
            "seal",
            "bash_run",
            json!({}),
            and(runs("bash_run"), [Apply(Transition::Sealed)]),
        ),
        scenario(
            "seal at the prompt",
            "ask",
            json!({}),
            vec![
                Apply(Transition::ValidationStarted),
                found("ask"),
                Prompt(json!({"text": "go on?"})),
                Apply(Transition::Sealed),
            ],
        ),
    ]
}

/// The result of a call, and the diff of the file that it changed.
struct Ended {
    result: Value,
    diff: Option<Arc<FileDiff>>,
}

/// A call and its events so far.
pub struct RecordedScenario {
    pub record: CallRecord,
    pub events: Vec<BusEvent>,
    now: i64,
}

impl RecordedScenario {
    /// Runs the scenario, in a batch if `batch` is given.
    pub fn run(scenario: Scenario, batch: Option<&str>) -> Self {
        let id = CallId("c1".to_owned());
        let mut record = CallRecord::new(
            id.clone(),
            scenario.tool.to_owned(),
            scenario.input.into(),
            Arc::default(),
            Timestamp(0),
        );
        record.batch = batch.map(str::to_owned);
        let mut recorded = Self {
            record,
            events: Vec::new(),
            now: 0,
        };
        recorded.emit(EventKind::CallCreated);
        for part in scenario.parts {
            recorded.part(part);
        }
        assert!(recorded.record.state.is_terminal(), "{}", scenario.name);
        if let Some(batch) = batch {
            let calls = vec![id];
            recorded.emit_without_call(EventKind::BatchCompleted {
                batch: batch.to_owned(),
                calls: calls.clone(),
            });
            recorded.emit_without_call(EventKind::BatchSubmitted { calls });
        }
        recorded
    }

    /// Returns the same scenario with another call identifier.
    pub fn with_id(mut self, id: &str) -> Self {
        self.record.id = CallId(id.to_owned());
        for event in &mut self.events {
            event.call = event.call.is_some().then(|| self.record.id.clone());
            if let Some(snapshot) = &mut event.snapshot {
                let mut shown = snapshot.json().clone();
                shown["id"] = json!(id);
                *snapshot = Arc::new(Snapshot::from_json(shown));
            }
        }
        self
    }

    fn part(&mut self, part: ScenarioStep) {
        self.now += 1;
        match part {
            Apply(step) => self.step(step, None),
            Prompt(content) => self.prompt(content, None),
            PromptChanges(content, changes) => self.prompt(content, Some(Arc::new(changes))),
            Emit(event) => self.emit(EventKind::Call(event)),
            Complete(is_error, result) => self.complete(is_error, Ended { result, diff: None }),
            CompleteChange(result, diff) => {
                let diff = Some(Arc::new(diff));
                self.complete(false, Ended { result, diff });
            }
        }
    }

    fn prompt(&mut self, content: Value, changes: Option<Arc<ChangeSet>>) {
        let step = Transition::ApprovalRequested {
            reason: "it changes things".to_owned(),
            rule: None,
            meta: Some(json!({"risk": "high"})),
        };
        self.step(step, None);
        self.emit(EventKind::PermissionRequest {
            title: format!("Allow {}?", self.record.name),
            summary: "it changes things".to_owned(),
            content,
            changes,
        });
    }

    fn complete(&mut self, is_error: bool, ended: Ended) {
        let step = Transition::Completed {
            is_error,
            supplied_by: None,
            duration: Duration::from_micros(7_600),
        };
        self.step(step, Some(ended));
    }

    fn step(&mut self, step: Transition, ended: Option<Ended>) {
        let awaits_approval = self.record.state == CallState::AwaitingApproval;
        let answer = match &step {
            Transition::Approved { by, scope, note } => Some((
                "allow",
                serde_json::from_value(json!(scope)).ok(),
                Some(by),
                note,
            )),
            Transition::Denied { by, note, .. } if awaits_approval => {
                Some(("deny", None, by.as_ref(), note))
            }
            _ => None,
        };
        let decided = answer.map(|(decision, scope, by, note)| EventKind::PermissionDecided {
            decision,
            scope,
            by: by.cloned().unwrap_or_default(),
            note: note.clone(),
        });
        let state = self.record.apply(step, Timestamp(self.now)).unwrap();
        if let Some(decided) = decided {
            self.emit(decided);
        }
        self.emit(match state {
            CallState::Completed => EventKind::CallCompleted {
                title: format!("Ran {}", self.record.name),
                summary: ended.is_some().then(|| "done".to_owned()),
                diff: ended.as_ref().and_then(|ended| ended.diff.clone()),
                result: ended.map(|ended| ended.result),
            },
            CallState::Failed => EventKind::CallFailed,
            CallState::Denied => EventKind::CallDenied,
            CallState::Cancelled => EventKind::CallCancelled,
            CallState::Sealed => EventKind::CallSealed,
            state => EventKind::CallState(state),
        });
    }

    fn emit(&mut self, event_kind: EventKind) {
        let snapshot = Arc::new(Snapshot::new(Arc::new(self.record.clone())));
        let call = Some(self.record.id.clone());
        self.push(event_kind, call, Some(snapshot));
    }

    fn emit_without_call(&mut self, event_kind: EventKind) {
        self.push(event_kind, None, None);
    }

    fn push(
        &mut self,
        event_kind: EventKind,
        call: Option<CallId>,
        snapshot: Option<Arc<Snapshot>>,
    ) {
        self.events.push(BusEvent {
            seq: self.events.len() as u64,
            at: Timestamp(self.now),
            caller: Arc::default(),
            call,
            kind: event_kind,
            snapshot,
        });
    }
}
