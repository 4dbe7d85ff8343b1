//! Scenarios: complete lifecycles of calls as events, generated like in a kernel.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bus::{BusEvent, Happening};
use crate::life::{CallState, Found, Millis, Record, Snapshot, Step};
use crate::{CallId, Event};

pub struct Story {
    pub name: &'static str,
    pub tool: &'static str,
    pub input: Value,
    pub parts: Vec<Part>,
}

pub enum Part {
    Takes(Step),
    /// Prompts the user, with this content.
    Asks(Value),
    Says(Event),
    /// Completes the call with this result.
    Brings(bool, Value),
}

use Part::{Asks, Brings, Says, Takes};

fn found(tool: &str) -> Part {
    Takes(Step::Found(Arc::new(Found {
        tool: tool.to_owned(),
        plugin: "files".to_owned(),
        version: "1.0.0".to_owned(),
        digest: None,
        effect: "writes",
        mode: "default".to_owned(),
    })))
}

fn failed(code: &str, message: &str, millis: u64) -> Part {
    Takes(Step::Failed {
        code: code.to_owned(),
        message: message.to_owned(),
        duration: Duration::from_millis(millis),
    })
}

fn denied(code: &str, reason: &str, by: &str, note: Option<&str>) -> Part {
    Takes(Step::Denied {
        code: code.to_owned(),
        reason: reason.to_owned(),
        by: Some(by.to_owned()),
        note: note.map(str::to_owned),
    })
}

fn cancelled(reason: &str, millis: u64) -> Part {
    Takes(Step::Cancelled {
        reason: reason.to_owned(),
        duration: Duration::from_millis(millis),
    })
}

fn approved(scope: &str) -> Part {
    Takes(Step::Approved {
        by: "person".to_owned(),
        scope: scope.to_owned(),
        note: None,
    })
}

fn scheduled(by: &str) -> Part {
    Takes(Step::Scheduled {
        by: by.to_owned(),
        wave: Some(0),
        command: None,
    })
}

/// The transitions from the start to the run.
fn runs(tool: &str) -> Vec<Part> {
    vec![
        Takes(Step::Picked),
        found(tool),
        scheduled("rule allow `*`"),
        Takes(Step::Started),
    ]
}

fn and(mut parts: Vec<Part>, more: impl IntoIterator<Item = Part>) -> Vec<Part> {
    parts.extend(more);
    parts
}

fn story(name: &'static str, tool: &'static str, input: Value, parts: Vec<Part>) -> Story {
    Story {
        name,
        tool,
        input,
        parts,
    }
}

fn diff(new: &str) -> Value {
    json!({
        "kind": "edit",
        "diff": {"file_name": "a.txt", "diff": format!("-one\n+{new}\u{202e}\n"), "original": "one\n", "new": format!("{new}\n")},
    })
}

pub fn all() -> Vec<Story> {
    let path = || json!({"path": "a.txt", "password": "hunter2"});
    vec![
        story(
            "success",
            "Read",
            path(),
            and(
                runs("read_file"),
                [
                    Says(Event::Output {
                        stream: "stdout".to_owned(),
                        bytes: vec![b'4', 0xe2, 0x82],
                    }),
                    Says(Event::Output {
                        stream: "stdout".to_owned(),
                        bytes: vec![0xac],
                    }),
                    Says(Event::Progress {
                        message: Some("half".to_owned()),
                        progress: Some(1.0),
                        total: Some(2.0),
                    }),
                    Says(Event::Custom {
                        event: "task_started".to_owned(),
                        data: json!({"taskId": 7}),
                    }),
                    Says(Event::Dropped { count: 2 }),
                    Takes(Step::PostProcessing),
                    Brings(false, json!({"content": "hi", "size": 2})),
                ],
            ),
        ),
        story(
            "logical failure",
            "bash_run",
            json!({"command": "false"}),
            and(
                runs("bash_run"),
                [Brings(
                    true,
                    json!({"ok": false, "error": "exit code 1", "api_key": "k"}),
                )],
            ),
        ),
        story(
            "supplied by a hook",
            "read_file",
            path(),
            vec![
                Takes(Step::Picked),
                found("read_file"),
                Takes(Step::Completed {
                    is_error: false,
                    supplied_by: Some("cache".to_owned()),
                    duration: Duration::ZERO,
                }),
            ],
        ),
        story(
            "validation error",
            "read_file",
            json!({"pth": 1}),
            vec![
                Takes(Step::Picked),
                found("read_file"),
                failed(
                    "invalid_tool_params",
                    "Parameter validation failed: path: is required",
                    0,
                ),
            ],
        ),
        story(
            "unknown tool",
            "raed_file",
            json!({}),
            vec![
                Takes(Step::Picked),
                failed(
                    "tool_not_registered",
                    "Tool \"raed_file\" not found. Did you mean: read_file?",
                    0,
                ),
            ],
        ),
        story(
            "policy deny",
            "bash_run",
            json!({"command": "rm -rf /"}),
            vec![
                Takes(Step::Picked),
                found("bash_run"),
                denied(
                    "policy_violation",
                    "rule deny `bash_run` forbids it",
                    "rule 2",
                    None,
                ),
            ],
        ),
        story(
            "hook deny",
            "read_file",
            json!({"path": ".env"}),
            vec![
                Takes(Step::Picked),
                found("read_file"),
                denied("hook_denied", "sensitive file", "hook:guard", None),
            ],
        ),
        story(
            "user deny",
            "bash_run",
            json!({"command": "make"}),
            vec![
                Takes(Step::Picked),
                found("bash_run"),
                Asks(json!({"kind": "exec", "command": "make\u{1b}[2K all"})),
                denied(
                    "user_denied",
                    "Permission denied by user",
                    "person",
                    Some("use just"),
                ),
            ],
        ),
        story(
            "cancel at the prompt",
            "mcp__tracker__add_issue",
            json!({"title": "x"}),
            vec![
                Takes(Step::Picked),
                found("mcp__tracker__add_issue"),
                Asks(json!({})),
                cancelled("cancelled by user", 0),
            ],
        ),
        story(
            "modify",
            "edit",
            json!({"path": "a.txt", "new": "two"}),
            vec![
                Takes(Step::Picked),
                found("edit"),
                Asks(diff("two")),
                Takes(Step::Modified {
                    input: json!({"path": "a.txt", "new": "three"}).into(),
                    by: "person".to_owned(),
                }),
                Takes(Step::Picked),
                found("edit"),
                Asks(diff("three")),
                approved("session"),
                scheduled("person"),
                Takes(Step::Started),
                Brings(false, json!("Modified a.txt")),
            ],
        ),
        story(
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
        story(
            "trap",
            "fetch",
            json!({}),
            and(
                runs("fetch"),
                [failed("trap", "the tool crashed: unreachable", 3)],
            ),
        ),
        story(
            "cancel",
            "fetch",
            json!({}),
            and(runs("fetch"), [cancelled("cancelled by user", 12)]),
        ),
        story(
            "seal",
            "bash_run",
            json!({}),
            and(runs("bash_run"), [Takes(Step::Sealed)]),
        ),
        story(
            "seal at the prompt",
            "ask",
            json!({}),
            vec![
                Takes(Step::Picked),
                found("ask"),
                Asks(json!({"text": "go on?"})),
                Takes(Step::Sealed),
            ],
        ),
    ]
}

/// A call and its events so far.
pub struct Told {
    pub record: Record,
    pub events: Vec<BusEvent>,
    now: i64,
}

impl Told {
    /// Runs the scenario, in a batch if `batch` is given.
    pub fn tell(story: Story, batch: Option<&str>) -> Self {
        let id = CallId("c1".to_owned());
        let mut record = Record::new(
            id.clone(),
            story.tool.to_owned(),
            story.input.into(),
            Arc::default(),
            Millis(0),
        );
        record.batch = batch.map(str::to_owned);
        let mut told = Self {
            record,
            events: Vec::new(),
            now: 0,
        };
        told.say(Happening::CallCreated);
        for part in story.parts {
            told.part(part);
        }
        assert!(told.record.state.is_terminal(), "{}", story.name);
        if let Some(batch) = batch {
            let calls = vec![id];
            told.say_of_none(Happening::BatchCompleted {
                batch: batch.to_owned(),
                calls: calls.clone(),
            });
            told.say_of_none(Happening::BatchSubmitted { calls });
        }
        told
    }

    /// Returns the same scenario with another call identifier.
    pub fn renamed(mut self, id: &str) -> Self {
        self.record.id = CallId(id.to_owned());
        for event in &mut self.events {
            event.call = event.call.is_some().then(|| self.record.id.clone());
            if let Some(snapshot) = &mut event.snapshot {
                let mut shown = snapshot.json().clone();
                shown["id"] = json!(id);
                *snapshot = Arc::new(Snapshot::drawn(shown));
            }
        }
        self
    }

    fn part(&mut self, part: Part) {
        self.now += 1;
        match part {
            Takes(step) => self.step(step, None),
            Asks(content) => {
                let step = Step::Asked {
                    reason: "it changes things".to_owned(),
                    rule: None,
                    meta: Some(json!({"risk": "high"})),
                };
                self.step(step, None);
                self.say(Happening::PermissionRequest {
                    title: format!("Allow {}?", self.record.name),
                    summary: "it changes things".to_owned(),
                    content,
                });
            }
            Says(event) => self.say(Happening::Call(event)),
            Brings(is_error, result) => {
                let step = Step::Completed {
                    is_error,
                    supplied_by: None,
                    duration: Duration::from_micros(7_600),
                };
                self.step(step, Some(result));
            }
        }
    }

    fn step(&mut self, step: Step, result: Option<Value>) {
        let asked = self.record.state == CallState::AwaitingApproval;
        let answer = match &step {
            Step::Approved { by, note, .. } => Some(("allow", Some(by), note)),
            Step::Denied { by, note, .. } if asked => Some(("deny", by.as_ref(), note)),
            _ => None,
        };
        let decided = answer.map(|(decision, by, note)| Happening::PermissionDecided {
            decision,
            by: by.cloned().unwrap_or_default(),
            note: note.clone(),
        });
        let state = self.record.take(step, Millis(self.now)).unwrap();
        if let Some(decided) = decided {
            self.say(decided);
        }
        self.say(match state {
            CallState::Completed => Happening::CallCompleted {
                title: format!("Ran {}", self.record.name),
                summary: result.is_some().then(|| "done".to_owned()),
                result,
            },
            CallState::Failed => Happening::CallFailed,
            CallState::Denied => Happening::CallDenied,
            CallState::Cancelled => Happening::CallCancelled,
            CallState::Sealed => Happening::CallSealed,
            state => Happening::CallState(state),
        });
    }

    fn say(&mut self, happening: Happening) {
        let snapshot = Arc::new(Snapshot::of(Arc::new(self.record.clone())));
        let call = Some(self.record.id.clone());
        self.push(happening, call, Some(snapshot));
    }

    fn say_of_none(&mut self, happening: Happening) {
        self.push(happening, None, None);
    }

    fn push(
        &mut self,
        happening: Happening,
        call: Option<CallId>,
        snapshot: Option<Arc<Snapshot>>,
    ) {
        self.events.push(BusEvent {
            seq: self.events.len() as u64,
            at: Millis(self.now),
            caller: Arc::default(),
            call,
            happening,
            snapshot,
        });
    }
}
