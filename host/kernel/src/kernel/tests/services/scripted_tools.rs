//! Tools that execute the lines of their input through the services of their call, and return the results.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use toolhost_contract::{
    Annotations, Backend, BoxFuture, Call, CallError, ChangeKind, ChangeSet, CommitError,
    Concurrency, Descriptor, EditedChanges, ErrorClass, Failure, FileChange, FileKind,
    FileObservation, Grant, Outcome, Services, Sink, StagedChanges, StagedEffects, StagedResult,
    TailCall, ToolName, UserEdit, UserQuestion,
};

pub(super) struct ScriptedTools {
    tools: Vec<Descriptor>,
    stages: bool,
    /// Ids of the background calls that were started.
    ids: Mutex<Vec<String>>,
    /// Number of commits that will find a conflict.
    pub(super) conflicts: Arc<Mutex<usize>>,
}

impl ScriptedTools {
    pub(super) fn new(tools: Vec<Descriptor>, stages: bool) -> Arc<Self> {
        Arc::new(Self {
            tools,
            stages,
            ids: Mutex::default(),
            conflicts: Arc::default(),
        })
    }

    /// Runs one line and returns its result. An error ends the call.
    async fn step(&self, line: &str, services: &dyn Services) -> Result<String, CallError> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        let value = || serde_json::from_str::<Value>(second).expect("JSON");
        let id = || match first.strip_prefix('$') {
            Some(number) => self.ids.lock().unwrap()[number.parse::<usize>().unwrap()].clone(),
            None => first.to_owned(),
        };
        let result = match verb {
            "recall" => services
                .session_get(first)
                .map(|value| value.map_or_else(|| "-".to_owned(), |value| value.to_string())),
            "remember" => services.session_set(first, Some(value())).map(done),
            "forget" => services.session_set(first, None).map(done),
            // `NUMBER SIZE`: the number and size of values.
            "fill" => Self::fill(first, second, services),
            "saw" => services
                .record_observation(observation(first, second))
                .map(done),
            "seen" => Ok(services.last_observation(first).map_or_else(
                || "-".to_owned(),
                |observation| format!("{}…", &observation.sha256[..2]),
            )),
            "ask" => services
                .ask_user(UserQuestion::parse(rest).expect("questions"))
                .await
                .map(|replies| serde_json::to_string(&replies).unwrap()),
            "mode" => Ok(services.mode().to_string()),
            "change" => {
                let change = services.change_mode(first.to_owned(), second.to_owned());
                change.await
            }
            "request" => {
                let request =
                    services.request_permissions(serde_json::from_str(rest).expect("JSON"));
                request.await.map(|given| given.to_string())
            }
            "agents" => Ok(format!("{} agents", services.agents().len())),
            "task" => {
                let task = services.run_agent(serde_json::from_str(rest).expect("JSON"));
                task.await.map(|answer| answer.to_string())
            }
            "call" => Ok(ended(services.call_tool(first.to_owned(), value()).await)),
            "start" => services
                .start_tool(first.to_owned(), value(), None)
                .map(|begun| {
                    let text = format!("{} {}", begun.tool, state(begun.ended));
                    self.ids.lock().unwrap().push(begun.id);
                    text
                }),
            "brief" => services
                .start_tool("peek".to_owned(), json!({"do": "hang"}), Some(1_000))
                .map(|begun| {
                    self.ids.lock().unwrap().push(begun.id);
                    done(())
                }),
            "running" => {
                let all = services.running_tools();
                let over = all.iter().filter(|call| call.ended).count();
                Ok(format!("{} running, {over} ended", all.len() - over))
            }
            "wait" => services
                .wait_tool(id(), second.parse().unwrap())
                .await
                .map(|end| end.map_or_else(|| "still running".to_owned(), ended)),
            "stop" => services.stop_tool(&id()).map(|job| job.tool),
            "sleep" => {
                sleep(Duration::from_secs(first.parse().unwrap())).await;
                Ok(done(()))
            }
            "large" => Ok("x".repeat(first.parse().unwrap())),
            "hang" => std::future::pending().await,
            "trap" => return Err(CallError::new(ErrorClass::Trapped, "it fell over")),
            other => panic!("no such step: {other}"),
        };
        Ok(result.unwrap_or_else(|failure| format!("! {}", failure.code.unwrap_or_default())))
    }

    fn fill(count: &str, size: &str, services: &dyn Services) -> Result<String, Failure> {
        let value = "x".repeat(size.parse().unwrap());
        for number in 0..count.parse::<usize>().unwrap() {
            services.session_set(&format!("fill-{number}"), Some(json!(value)))?;
        }
        Ok(done(()))
    }
}

fn done((): ()) -> String {
    "done".to_owned()
}

fn state(ended: bool) -> &'static str {
    if ended { "ended" } else { "running" }
}

/// `a` is repeated to a valid hash; `short` is invalid.
fn observation(path: &str, sum: &str) -> FileObservation {
    let sha256 = if sum.len() == 1 {
        sum.repeat(64)
    } else {
        sum.to_owned()
    };
    FileObservation {
        path: path.to_owned(),
        sha256,
        lines: None,
    }
}

fn ended(result: Result<Outcome, CallError>) -> String {
    match result {
        Ok(outcome) => format!("({})", outcome.model_text().replace('\n', "; ")),
        Err(error) => format!("{:?} [{}]", error.class, error.code),
    }
}

impl Backend for ScriptedTools {
    fn tools(&self) -> &[Descriptor] {
        &self.tools
    }

    fn invoke(
        &self,
        call: Call,
        _: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(async move {
            let services = sink.services().expect("a running call is served");
            let mut lines = Vec::new();
            for line in call.input["do"].as_str().unwrap_or_default().lines() {
                match line.trim() {
                    "" => {}
                    "fail" => {
                        return Ok(Outcome {
                            error: Some(Failure::new("no", "no luck")),
                            ..Outcome::default()
                        });
                    }
                    "obey" => {
                        while !sink.is_cancelled() {
                            sleep(Duration::from_millis(10)).await;
                        }
                        return Err(CallError::new(ErrorClass::Cancelled, "stopped"));
                    }
                    line if line.starts_with("tail ") => {
                        let (tool, input) = line[5..].split_once(' ').unwrap();
                        return Ok(Outcome {
                            tail: Some(TailCall {
                                tool: tool.to_owned(),
                                input: serde_json::from_str(input).unwrap(),
                            }),
                            ..Outcome::text("see the tail")
                        });
                    }
                    line => lines.push(self.step(line, &*services).await?),
                }
            }
            Ok(Outcome::text(lines.join("\n")))
        })
    }

    fn supports_staging(&self) -> bool {
        self.stages
    }

    fn only_calls_tools(&self, tool: &Descriptor, _input: &Value) -> bool {
        tool.name.as_str() == "relay"
    }

    fn stage(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<StagedResult, CallError>> {
        Box::pin(async move {
            let effects = if self.stages {
                StagedEffects::Staged(Box::new(FakeStaged {
                    changes: one_change(),
                    conflicts: Arc::clone(&self.conflicts),
                }))
            } else {
                StagedEffects::None
            };
            let outcome = self.invoke(call, grant, sink).await?;
            Ok(StagedResult { outcome, effects })
        })
    }
}

fn one_change() -> ChangeSet {
    ChangeSet {
        changes: vec![FileChange {
            sizes: (Some(1), Some(2)),
            ..FileChange::new("a", ChangeKind::Modified, FileKind::File)
        }],
    }
}

struct FakeStaged {
    changes: ChangeSet,
    conflicts: Arc<Mutex<usize>>,
}

impl StagedChanges for FakeStaged {
    fn changes(&self) -> &ChangeSet {
        &self.changes
    }

    fn prepare(&self) -> BoxFuture<'_, Result<Value, CommitError>> {
        Box::pin(async {
            let mut left = self.conflicts.lock().unwrap();
            if *left > 0 {
                *left -= 1;
                return Err(CommitError::Conflict(vec!["a".to_owned()]));
            }
            Ok(json!([]))
        })
    }

    fn edit(
        self: Box<Self>,
        _: Vec<UserEdit>,
    ) -> BoxFuture<'static, Result<EditedChanges, CallError>> {
        unreachable!("these tests propose no edits")
    }

    fn commit(self: Box<Self>, _: String) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(async { Ok(()) })
    }
}

pub(super) fn tool(name: &str, reads: bool) -> Descriptor {
    let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), "");
    tool.annotations = Annotations {
        read_only: Some(reads),
        destructive: Some(false),
        ..Annotations::default()
    };
    tool.concurrency = Concurrency::Parallel;
    tool.input_schema = json!({"type": "object", "additionalProperties": true});
    tool
}

pub(super) fn tools() -> Vec<Descriptor> {
    let mut peek = tool("peek", true);
    peek.can_background = true;
    peek.concurrency = Concurrency::Serial;
    // Only calls other tools.
    let mut relay = tool("relay", false);
    relay.requires = vec!["tools".to_owned(), "session".to_owned()];
    let mut edit = tool("edit", false);
    edit.kind = "edit".to_owned();
    let mut fetch = tool("fetch", true);
    fetch.kind = "fetch".to_owned();
    fetch.annotations.open_world = Some(true);
    vec![
        tool("look", true),
        peek,
        tool("act", false),
        relay,
        edit,
        fetch,
    ]
}
