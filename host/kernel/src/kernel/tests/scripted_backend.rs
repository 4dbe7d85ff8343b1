//! A backend controlled by its input that records how it is used.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use toolhost_contract::{
    Annotations, Backend, BoxFuture, Call, CallError, CallEvent, ChangeKind, ChangeSet,
    CommitError, Concurrency, Descriptor, DetachableCommand, EditedChanges, ErrorClass, Failure,
    FileChange, FileDiff, FileKind, Grant, Outcome, Sink, StagedChanges, StagedEffects,
    StagedResult, TailCall, ToolName, UserEdit,
};

type StartCallback = dyn Fn(&Call) + Send + Sync;

/// The backend and its recordings.
#[derive(Default)]
pub(super) struct ScriptedBackend {
    pub tools: Vec<Descriptor>,
    /// Ids of the calls that were started.
    pub started: Mutex<Vec<String>>,
    /// The questions that were asked.
    pub questions: Mutex<Vec<String>>,
    pub sinks: Mutex<HashMap<String, Arc<dyn Sink>>>,
    pub holds: bool,
    /// Committed paths, in order.
    pub real: Arc<Mutex<Vec<String>>>,
    /// Number of commits that will find a conflict.
    pub conflicts: Arc<AtomicUsize>,
    /// Called when a call starts.
    pub on_start: Mutex<Option<Box<StartCallback>>>,
}

impl Backend for ScriptedBackend {
    fn tools(&self) -> &[Descriptor] {
        &self.tools
    }

    fn invoke(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(async move {
            self.started.lock().unwrap().push(call.id.0.clone());
            if let Some(look) = &*self.on_start.lock().unwrap() {
                look(&call);
            }
            let id = call.id.0.clone();
            self.sinks.lock().unwrap().insert(id, Arc::clone(&sink));
            act(&call.input, &grant, &*sink).await
        })
    }

    fn supports_staging(&self) -> bool {
        self.holds
    }

    fn stage(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<StagedResult, CallError>> {
        Box::pin(async move {
            assert_eq!(
                grant.is_staged(),
                self.holds && !call.tool.as_str().starts_with("look")
            );
            let paths = call.input["changes"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let paths: Vec<String> = paths
                .iter()
                .map(|path| path.as_str().unwrap().to_owned())
                .collect();
            let outcome = self.invoke(call, grant, sink).await?;
            let effects = if self.holds && !paths.is_empty() {
                StagedEffects::Staged(Box::new(FakeStaged {
                    changes: changes(&paths, "proposed\n"),
                    real: Arc::clone(&self.real),
                    conflicts: Arc::clone(&self.conflicts),
                }))
            } else {
                StagedEffects::None
            };
            Ok(StagedResult { outcome, effects })
        })
    }
}

/// Staged changes that are committed by recording their paths.
struct FakeStaged {
    changes: ChangeSet,
    real: Arc<Mutex<Vec<String>>>,
    conflicts: Arc<AtomicUsize>,
}

/// Returns the diff of one-line texts; the original is the letter `o`.
fn diff(path: &str, original: &str, new: &str) -> FileDiff {
    FileDiff {
        file_name: path.to_owned(),
        diff: format!("--- a\n+++ b\n@@ -1 +1 @@\n-{original}+{new}"),
        original: Some(original.to_owned()),
        new: new.to_owned(),
    }
}

fn changes(paths: &[String], text: &str) -> ChangeSet {
    let change = |path: &String| FileChange {
        path: path.clone(),
        kind: ChangeKind::Modified,
        file_kind: FileKind::File,
        sizes: (Some(1), Some(2)),
        link_targets: (None, None),
        modes: None,
        executable: false,
        diff: Some(diff(path, "o\n", text)),
        no_diff_reason: None,
        content: None,
    };
    ChangeSet {
        changes: paths.iter().map(change).collect(),
    }
}

impl StagedChanges for FakeStaged {
    fn changes(&self) -> &ChangeSet {
        &self.changes
    }

    fn prepare(&self) -> BoxFuture<'_, Result<Value, CommitError>> {
        Box::pin(async {
            let left = self.conflicts.load(Relaxed);
            if left > 0 {
                self.conflicts.store(left - 1, Relaxed);
                return Err(CommitError::Conflict(vec!["a".to_owned()]));
            }
            Ok(json!(self.changes.paths()))
        })
    }

    /// Text saved as `o` equals the original.
    fn edit(
        mut self: Box<Self>,
        edits: Vec<UserEdit>,
    ) -> BoxFuture<'static, Result<EditedChanges, CallError>> {
        Box::pin(async move {
            let edits = self
                .changes
                .validate_edits(edits)
                .map_err(CallError::internal)?;
            let diffs = edits
                .iter()
                .map(|edit| diff(&edit.path, "proposed\n", &edit.text));
            let diffs = diffs.collect();
            for edit in edits {
                let changes = &mut self.changes.changes;
                match edit.text.as_str() {
                    "conflict" => {
                        let effects = StagedEffects::Conflict(vec![edit.path]);
                        return Ok(EditedChanges { effects, diffs });
                    }
                    "o" => changes.retain(|change| change.path != edit.path),
                    text => {
                        let mut named = changes.iter_mut();
                        let change = named.find(|change| change.path == edit.path).unwrap();
                        change.diff = Some(diff(&edit.path, "o\n", text));
                    }
                }
            }
            let effects = if self.changes.is_empty() {
                StagedEffects::None
            } else {
                StagedEffects::Staged(self)
            };
            Ok(EditedChanges { effects, diffs })
        })
    }

    fn commit(self: Box<Self>, _: String) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(async move {
            if self.changes.paths() == ["full"] {
                let error =
                    CallError::new(ErrorClass::Failed, "no space left").code("commit_failed");
                return Err(CommitError::Failed(Box::new(error)));
            }
            let made = self.changes.changes.iter().map(|change| {
                match change.diff.as_ref().map(|diff| diff.new.as_str()) {
                    None | Some("proposed\n") => change.path.clone(),
                    Some(saved) => format!("{}: {saved}", change.path),
                }
            });
            let mut made: Vec<String> = made.collect();
            made.sort();
            self.real.lock().unwrap().extend(made);
            Ok(())
        })
    }
}

/// Executes the `do` member of the input.
async fn act(input: &Value, grant: &Grant, sink: &dyn Sink) -> Result<Outcome, CallError> {
    let seconds = input["sleep"].as_u64().unwrap_or(0);
    if seconds > 0 {
        sleep(Duration::from_secs(seconds)).await;
    }
    if let Some(bytes) = input["memory"].as_u64() {
        sink.record_memory(bytes);
    }
    match input["do"].as_str().unwrap_or("well") {
        "fail" => Ok(Outcome {
            error: Some(Failure::new("no", "no luck")),
            ..Outcome::default()
        }),
        "panic" => panic!("it fell over"),
        "trap" => Err(CallError::new(
            ErrorClass::Trapped,
            "the guest trapped: unreachable",
        )),
        "interrupted" => Err(CallError::new(
            ErrorClass::Cancelled,
            "the guest was interrupted",
        )),
        "timeout" => Err(CallError::timed_out(grant.timeout())),
        "hang" => std::future::pending().await,
        // A command that can be detached if the tool can run in the background.
        "command" => {
            let command = sink.detach_switch().map(|switch| switch.open());
            loop {
                if command
                    .as_ref()
                    .is_some_and(DetachableCommand::is_requested)
                {
                    return Ok(Outcome::text("continues as job-1"));
                }
                sleep(Duration::from_millis(10)).await;
            }
        }
        // Stops cooperatively when it is cancelled.
        "polite" => {
            while !sink.is_cancelled() {
                sleep(Duration::from_millis(10)).await;
            }
            Err(CallError::new(ErrorClass::Failed, "stopped half way"))
        }
        // The same, but returns its partial result.
        "thorough" => {
            while !sink.is_cancelled() {
                sleep(Duration::from_millis(10)).await;
            }
            Ok(Outcome::text("half: password=hunter2"))
        }
        "complain" => Err(CallError::new(
            ErrorClass::Failed,
            input["words"].as_str().unwrap_or_default(),
        )
        .recommend(input["words"].as_str().unwrap_or_default())),
        "flood" => Ok(Outcome::text("x".repeat(super::super::turn::MAX_RESULTS))),
        "say" => {
            sink.event(CallEvent::Output {
                stream: "stdout".to_owned(),
                bytes: b"hello".to_vec(),
            });
            let words = input["words"].as_str().unwrap_or_default();
            for _ in 0..input["times"].as_u64().unwrap_or(1) {
                sink.event(CallEvent::Custom {
                    event: "counted".to_owned(),
                    data: json!({"n": 1, "words": words}),
                });
            }
            Ok(Outcome::text("said"))
        }
        "tail" => Ok(Outcome {
            tail: Some(TailCall {
                tool: input["tool"].as_str().unwrap().to_owned(),
                input: input["input"].clone(),
            }),
            ..Outcome::text("see the tail")
        }),
        _ => Ok(Outcome::text("done")),
    }
}

pub(super) fn tools() -> Vec<Descriptor> {
    use Concurrency::{Exclusive, Parallel, Serial};
    let tool = |name: &str, concurrency, read_only, destructive| {
        let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), "");
        tool.annotations = Annotations {
            read_only: Some(read_only),
            destructive: Some(destructive),
            ..Annotations::default()
        };
        tool.concurrency = concurrency;
        tool.input_schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": true});
        tool
    };
    let measure = Descriptor {
        output_schema: Some(
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
        ),
        ..tool("measure", Parallel, true, false)
    };
    let preset = Descriptor {
        input_schema: json!({"type": "object", "properties": {
            "words": {"type": "string"}, "n": {"type": "integer", "default": 1},
        }}),
        ..tool("preset", Parallel, true, false)
    };
    let dependent = |name: &str, on: &str| Descriptor {
        depends_on: vec![on.to_owned()],
        ..tool(name, Parallel, true, false)
    };
    let background = Descriptor {
        can_background: true,
        ..tool("background", Parallel, true, false)
    };
    vec![
        background,
        dependent("report", "look"),
        dependent("publish", "p/report"),
        preset,
        measure,
        tool("look", Parallel, true, false),
        tool("step", Serial, true, false),
        tool("alone", Exclusive, true, false),
        tool("write", Parallel, false, false),
        tool("erase", Serial, false, true),
    ]
}
