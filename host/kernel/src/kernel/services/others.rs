//! Other tools, sub-agents and permissions, for one running call.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolhost_contract::life::Origin;
use toolhost_contract::{
    BackgroundCall, CallError, CallId, ErrorClass, Failure, NoSink, Outcome, Query, QueryKind,
    Reply, Sink, ToolFacts, text,
};

use super::{CALLS, CallServices};
use crate::kernel::{CallRequest, Kernel, Within};
use crate::services::Task;

/// Background calls that one session keeps, ended ones included.
const JOBS: usize = 32;
/// Texts of a wish for permissions.
const MAX_WISHES: usize = 16;
/// Bytes of one of them. A person is shown all of it.
const MAX_WISH: usize = 500;

/// The background calls of one session.
#[derive(Default)]
pub(in crate::kernel) struct Jobs(Mutex<BTreeMap<String, Job>>);

struct Job {
    tool: String,
    started_ms: f64,
    cancel: CancellationToken,
    /// Its result, once it is there.
    end: watch::Receiver<Option<Result<Outcome, CallError>>>,
}

impl Job {
    fn shown(&self, id: &str) -> BackgroundCall {
        BackgroundCall {
            id: id.to_owned(),
            tool: self.tool.clone(),
            ended: self.end.borrow().is_some(),
            started_ms: self.started_ms,
        }
    }
}

impl Jobs {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Job>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn list(&self) -> Vec<BackgroundCall> {
        self.all().iter().map(|(id, job)| job.shown(id)).collect()
    }

    pub(super) async fn wait(
        &self,
        id: &str,
        wait_ms: u32,
    ) -> Result<Option<Result<Outcome, CallError>>, Failure> {
        let mut end = self.all().get(id).ok_or_else(|| unknown(id))?.end.clone();
        let wait = Duration::from_millis(wait_ms.into());
        // Gone without an end: the host stops.
        let ended = tokio::time::timeout(wait, end.wait_for(Option::is_some)).await;
        Ok(match ended {
            Ok(Ok(end)) => end.clone(),
            Ok(Err(_)) => Some(Err(CallError::new(
                ErrorClass::Cancelled,
                "the call was cancelled",
            ))),
            Err(_) => None,
        })
    }

    pub(super) fn stop(&self, id: &str) -> Result<BackgroundCall, Failure> {
        let all = self.all();
        let job = all.get(id).ok_or_else(|| unknown(id))?;
        job.cancel.cancel();
        Ok(job.shown(id))
    }

    /// Stops and forgets all of them. A call that is running keeps its session, so nobody may wait for that to go.
    pub(in crate::kernel) fn end(&self) {
        for job in std::mem::take(&mut *self.all()).into_values() {
            job.cancel.cancel();
        }
    }

    /// Room for one more: the oldest that has ended makes way.
    fn make_room(all: &mut BTreeMap<String, Job>) -> Result<(), Failure> {
        if all.len() < JOBS {
            return Ok(());
        }
        let oldest = all
            .iter()
            .filter(|(_, job)| job.end.borrow().is_some())
            .min_by(|(_, a), (_, b)| a.started_ms.total_cmp(&b.started_ms))
            .map(|(id, _)| id.clone());
        match oldest {
            Some(id) => {
                all.remove(&id);
                Ok(())
            }
            None => Err(Failure::new(
                "too_many_background_calls",
                format!("{JOBS} calls are running in the background already; stop one first"),
            )),
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.end();
    }
}

fn unknown(id: &str) -> Failure {
    let shown = text::inline(id, 80);
    Failure::new(
        "task_not_found",
        format!("no background call `{shown}` in this session"),
    )
}

impl CallServices {
    pub(super) fn list(&self) -> Vec<ToolFacts> {
        let Ok(kernel) = self.kernel() else {
            return Vec::new();
        };
        let registry = kernel.registry();
        let facts = registry.list().map(|entry| ToolFacts {
            name: entry.name.to_string(),
            plugin: entry.plugin.name.to_string(),
            description: entry.tool.description.clone(),
            input_schema: entry.tool.input_schema.clone(),
            aliases: entry.tool.aliases.clone(),
            tags: entry.tool.tags.clone(),
            can_background: entry.tool.can_background,
        });
        facts.collect()
    }

    /// A call like any other, below this one. It may do no more than this one may, and rules see that a tool made it.
    fn below(&self, tool: String, input: Value, origin: Origin) -> Result<CallRequest, Failure> {
        let number = self.called.fetch_add(1, Relaxed) + 1;
        if number > CALLS {
            let message = format!("this call has made {CALLS} calls already");
            return Err(Failure::new("too_many_calls", message));
        }
        if self.within.is_below() {
            let message = "a tool that another tool has called cannot call further ones";
            return Err(Failure::new("nested_call", message));
        }
        Ok(CallRequest {
            within: Within {
                origin,
                parent: Some(self.id.clone()),
                batch: None,
                ..self.within.clone()
            },
            ..CallRequest::new(
                CallId(format!("{}/{}-{number}", self.id, origin.as_str())),
                tool,
                input,
                (*self.caller).clone(),
            )
        })
    }

    pub(super) async fn call(&self, tool: String, input: Value) -> Result<Outcome, CallError> {
        let refused = |failure: Failure| {
            CallError::new(ErrorClass::Unavailable, failure.message)
                .code(failure.code.as_deref().unwrap_or("unavailable"))
        };
        let kernel = self.kernel().map_err(refused)?;
        let request = self.below(tool, input, Origin::Tool).map_err(refused)?;
        let sink: Arc<dyn Sink> = Arc::new(Stopping(self.halt.token().clone()));
        let _wait = self.waiting.begin();
        kernel.call(request, sink).await.result
    }

    pub(super) fn start(
        &self,
        tool: String,
        input: Value,
        timeout_ms: Option<u32>,
    ) -> Result<BackgroundCall, Failure> {
        let kernel = self.kernel()?;
        let registry = kernel.registry();
        let Some(entry) = registry.find(&tool) else {
            return Err(Failure::new(
                "tool_not_registered",
                registry.unknown(&tool).to_string(),
            ));
        };
        if !entry.tool.can_background {
            return Err(Failure::new(
                "invalid_tool",
                format!("`{}` cannot go on in the background", entry.name),
            ));
        }
        let name = entry.name.to_string();
        let jobs = self.session.jobs();
        let mut all = jobs.all();
        Jobs::make_room(&mut all)?;
        let id = format!("tool-{}", crate::id::random());
        let request = CallRequest {
            id: CallId(format!("{}/{id}", self.id)),
            ..self.below(tool, input, Origin::Background)?
        };
        let cancel = CancellationToken::new();
        let (end, receiver) = watch::channel(None);
        let stop = cancel.clone();
        let limit = timeout_ms.map_or(Duration::MAX, |ms| Duration::from_millis(ms.into()));
        tokio::spawn(async move {
            let call = request.id.clone();
            let result = run(&kernel, request, stop, limit).await;
            // Nobody may be left to hear of it.
            let _ = end.send(Some(result));
            drop(call);
        });
        let job = Job {
            tool: name,
            started_ms: self.started_ms(),
            cancel,
            end: receiver,
        };
        let shown = job.shown(&id);
        all.insert(id, job);
        Ok(shown)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "milliseconds since 1970 are exact in f64 for long enough"
    )]
    fn started_ms(&self) -> f64 {
        self.kernel()
            .map_or(0.0, |kernel| kernel.journal.clock.now().0 as f64)
    }

    pub(super) async fn delegate(&self, task: Value) -> Result<Value, Failure> {
        let kernel = self.kernel()?;
        if !task.is_object() {
            let message = "a task is an object such as `{\"agent\": …, \"prompt\": …}`";
            return Err(Failure::new("invalid_task", message));
        }
        if self.called.fetch_add(1, Relaxed) >= CALLS {
            let message = format!("this call has handed on {CALLS} tasks already");
            return Err(Failure::new("too_many_calls", message));
        }
        let name = task["agent"].as_str().unwrap_or("general").to_owned();
        let known = kernel.agents.agents_for(&self.id);
        if !known.is_empty() && !known.iter().any(|agent| agent.name == name) {
            let names: Vec<&str> = known.iter().map(|agent| agent.name.as_str()).collect();
            return Err(Failure::new(
                "agent_not_found",
                format!(
                    "no sub-agent `{}`; there are {}",
                    text::inline(&name, 80),
                    names.join(", ")
                ),
            ));
        }
        let task = Task {
            agent: name,
            task,
            call: self.id.clone(),
            caller: (*self.caller).clone(),
            within: Within {
                origin: Origin::Model,
                parent: Some(self.id.clone()),
                batch: None,
                mode: Some(toolhost_contract::Services::mode(self)),
                ..self.within.clone()
            },
        };
        let _wait = self.waiting.begin();
        tokio::select! {
            biased;
            () = self.halt.token().cancelled() => Err(Failure::new("cancelled", "the call was cancelled")),
            result = kernel.agents.run(task) => result,
        }
    }

    /// Nothing beyond what the operator granted can be given, so a yes here only spares the questions: it is the
    /// session's mode for reads, and a note for the model. What it names is still judged call by call.
    pub(super) async fn permissions(&self, wish: Value) -> Result<Value, Failure> {
        let list = |name: &str| -> Vec<String> {
            let items = wish[name].as_array().into_iter().flatten();
            items
                .filter_map(Value::as_str)
                .take(MAX_WISHES)
                .map(str::to_owned)
                .collect()
        };
        let (read, write, hosts) = (list("read"), list("write"), list("hosts"));
        if read.is_empty() && write.is_empty() && hosts.is_empty() {
            return Err(Failure::new(
                "invalid_wish",
                "name what is wanted: `read`, `write` or `hosts`",
            ));
        }
        for name in read.iter().chain(&write).chain(&hosts) {
            // What a person reads must be what they give.
            let steps_back = name.split('/').any(|step| step == "..");
            if name.trim().is_empty() || name.len() > MAX_WISH || steps_back {
                let shown = text::inline(name, 80);
                let message =
                    format!("`{shown}` cannot be asked for: 1 to {MAX_WISH} bytes, without `..`");
                return Err(Failure::new("invalid_wish", message));
            }
        }
        let line = |what: &str, names: &[String]| {
            let shown = |name: &String| text::inline(name, MAX_WISH);
            let names: Vec<String> = names.iter().map(shown).collect();
            if names.is_empty() {
                String::new()
            } else {
                format!("\n  {what}: {}", names.join(", "))
            }
        };
        // Short, and above what the host itself says: what a yes means stands last, next to where it is typed.
        let reason = text::inline(wish["reason"].as_str().unwrap_or("no reason given"), 500);
        let question = format!(
            "its reason: {reason}\n\nMay this session do more, until it ends?{}{}{}",
            line("read", &read),
            line("change", &write),
            line("reach", &hosts)
        );
        let query = Query {
            question,
            header: "permissions".to_owned(),
            kind: QueryKind::YesNo,
            options: Vec::new(),
            multi_select: false,
            placeholder: None,
        };
        let replies = self.interview(vec![query]).await?;
        if replies.first() != Some(&Reply::YesNo(true)) {
            return Err(Failure::new("user_denied", "the user said no"));
        }
        let kernel = self.kernel()?;
        kernel
            .allow_in_session(&self.caller.session_id, &write, &hosts)
            .await?;
        Ok(json!({"read": read, "write": write, "hosts": hosts, "scope": "session"}))
    }
}

async fn run(
    kernel: &Arc<Kernel>,
    request: CallRequest,
    stop: CancellationToken,
    limit: Duration,
) -> Result<Outcome, CallError> {
    let id = request.id.clone();
    let sink: Arc<dyn Sink> = Arc::new(NoSink);
    let mut call = std::pin::pin!(kernel.call(request, sink));
    tokio::select! {
        biased;
        report = &mut call => return report.result,
        () = stop.cancelled() => {}
        () = tokio::time::sleep(limit.min(Duration::from_hours(24))) => {}
    }
    kernel.cancel(&id);
    call.await.result
}

/// Hears nothing, and passes on that the call above was cancelled.
struct Stopping(CancellationToken);

impl Sink for Stopping {
    fn event(&self, _event: toolhost_contract::Event) {}

    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
