//! The road itself.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures::FutureExt;
use serde_json::Value;
use tokio::time::{Instant, timeout};
use toolhost_contract::policy::{self, Request};
use toolhost_contract::{
    Backend, Call, CallError, CallId, Caller, Denial, ErrorClass, Grant, Outcome, PluginName, Sink,
    ToolName, Verdict,
};

use crate::gate::Gate;
use crate::register::{self, Draft};
use crate::{Entry, PluginInfo, Prompter, RegisterError, Settings, Snapshot, UnknownTool};

/// What somebody wants done, unchecked.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRequest {
    pub id: CallId,
    /// Any name of the tool.
    pub tool: String,
    pub input: Value,
    pub caller: Caller,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub id: CallId,
    /// None when no tool has the name.
    pub tool: Option<ToolName>,
    pub result: Result<Outcome, CallError>,
    /// The rule or person that allowed the call.
    pub allowed_by: Option<String>,
    /// Time of execution; waiting for a person or for other calls does not count.
    pub duration: Duration,
    /// What was put right in the input before the tool saw it.
    pub repairs: Vec<String>,
}

/// A backend keeps the time of its calls itself and knows best how to stop one. So much later the kernel stops
/// waiting for it, lest one that forgot holds its place for ever.
const GRACE: Duration = Duration::from_secs(5);

/// Boxed, because most calls go well and should not carry the room for an error through every step.
type Refusal = Box<CallError>;

/// Holds the tools and lets calls through to them, one road for all.
pub struct Kernel {
    settings: Settings,
    prompter: Arc<dyn Prompter>,
    registry: RwLock<Arc<Snapshot>>,
    warnings: Mutex<Vec<String>>,
    gate: Gate,
}

impl Kernel {
    pub fn new(settings: Settings, prompter: Arc<dyn Prompter>) -> Self {
        let gate = Gate::new(settings.concurrency);
        Self {
            settings,
            prompter,
            registry: RwLock::default(),
            warnings: Mutex::default(),
            gate,
        }
    }

    /// Runs one call to its end. Dropping the future cancels the call.
    pub async fn call(&self, request: CallRequest, sink: Arc<dyn Sink>) -> Report {
        let mut report = Report::of(&request.id);
        report.result = self
            .road(request, sink, &mut report)
            .await
            .map_err(|error| *error);
        report
    }

    async fn road(
        &self,
        wish: CallRequest,
        sink: Arc<dyn Sink>,
        report: &mut Report,
    ) -> Result<Outcome, Refusal> {
        let entry = self.find(&wish.tool, report)?;
        let input = self.check(&entry, wish.input, report)?;
        let call = Call {
            id: wish.id,
            tool: entry.tool.name.clone(),
            input,
            caller: wish.caller,
        };
        let verdict = self.decide(&entry);
        let grant = self.settle(verdict, &call, report).await?;
        let _permit = self.gate.admit(entry.tool.concurrency, &entry.lane).await;
        let result = invoke(&entry, call, grant, sink, report).await;
        entry.counters.record(report.duration, is_failure(&result));
        result
    }

    fn find(&self, name: &str, report: &mut Report) -> Result<Arc<Entry>, Refusal> {
        let registry = self.registry();
        let Some(entry) = registry.find(name) else {
            let error = CallError::new(
                ErrorClass::NotRegistered,
                registry.unknown(name).to_string(),
            );
            return Err(error.recommend("list the tools to see the names").into());
        };
        report.tool = Some(entry.name.clone());
        if !entry.enabled {
            let remedy = format!(
                "take `{}` out of the disabled tools in the configuration",
                entry.name
            );
            let reason = format!("`{}` is disabled", entry.name);
            return Err(denied(Denial {
                reason,
                remedy: Some(remedy),
                code: "policy_violation",
            })
            .into());
        }
        Ok(Arc::clone(entry))
    }

    fn check(&self, entry: &Entry, input: Value, report: &mut Report) -> Result<Value, Refusal> {
        entry.schema.check(
            &entry.tool,
            input,
            self.settings.max_input_bytes,
            &mut report.repairs,
        )
    }

    /// What the rules say about the tool. The same answer that a call gets, for whoever wants to explain it.
    pub fn decide(&self, entry: &Entry) -> Verdict {
        let Entry {
            name,
            plugin,
            tool,
            timeout,
            ..
        } = entry;
        policy::decide(
            &self.settings.rules,
            Request {
                plugin: &plugin.name,
                name,
                tool,
                timeout: *timeout,
            },
        )
    }

    async fn settle(
        &self,
        verdict: Verdict,
        call: &Call,
        report: &mut Report,
    ) -> Result<Grant, Refusal> {
        let grant = match verdict {
            Verdict::Allow(grant) => grant,
            Verdict::Ask(question) => {
                let answer = self.prompter.ask(&question, call).await;
                policy::settle(question, answer).map_err(denied)?
            }
            Verdict::Deny(denial) => return Err(denied(denial).into()),
        };
        report.allowed_by = Some(grant.by().to_owned());
        Ok(grant)
    }

    /// Adds the tools of one plugin: all of them, or none. Returns the names they got.
    pub fn register(
        &self,
        plugin: PluginInfo,
        backend: Arc<dyn Backend>,
    ) -> Result<Vec<ToolName>, RegisterError> {
        self.register_many(vec![(plugin, backend)])
            .pop()
            .expect("one plugin in, one result out")
    }

    /// One result per plugin, in order. A plugin that fails does not hurt the others.
    pub fn register_many(
        &self,
        plugins: Vec<(PluginInfo, Arc<dyn Backend>)>,
    ) -> Vec<Result<Vec<ToolName>, RegisterError>> {
        let prepared: Vec<_> = plugins
            .into_iter()
            .map(|(plugin, backend)| register::prepare(&self.settings, plugin, &backend))
            .collect();
        let mut warnings = Vec::new();
        let results = self.change(|draft| {
            prepared
                .into_iter()
                .map(|prepared| draft.place(prepared?, self.settings.on_duplicate, &mut warnings))
                .collect()
        });
        self.warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(&mut warnings);
        results
    }

    /// Removes the tools of a plugin; calls that are running end as they would have. Was there such a plugin?
    pub fn unregister(&self, plugin: &PluginName) -> bool {
        self.change(|draft| draft.remove(plugin))
    }

    pub fn set_enabled(&self, tool: &str, enabled: bool) -> Result<(), UnknownTool> {
        let registry = self.registry();
        let entry = registry.get(tool).ok_or_else(|| registry.unknown(tool))?;
        self.change(|draft| draft.set_enabled(&entry.name, enabled));
        Ok(())
    }

    pub fn registry(&self) -> Arc<Snapshot> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What registration had to decide between plugins, so that no name changes its owner silently.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn change<T>(&self, change: impl FnOnce(&mut Draft) -> T) -> T {
        let mut registry = self
            .registry
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut draft = Draft::from(&registry);
        let result = change(&mut draft);
        *registry = Arc::new(draft.finish());
        result
    }
}

async fn invoke(
    entry: &Entry,
    call: Call,
    grant: Grant,
    sink: Arc<dyn Sink>,
    report: &mut Report,
) -> Result<Outcome, Refusal> {
    // The clock starts here and not earlier: what a person or other calls take is not the tool's time.
    let start = Instant::now();
    let limit = grant.timeout();
    let running = AssertUnwindSafe(async { entry.backend.invoke(call, grant, sink).await });
    let result = timeout(limit + GRACE, running.catch_unwind()).await;
    report.duration = start.elapsed();
    let result = result.map_err(|_| CallError::timed_out(limit))?;
    let outcome = result.map_err(|panic| panicked(entry, panic.as_ref()))??;
    entry.schema.check_output(&entry.tool, &outcome)?;
    Ok(outcome)
}

fn is_failure(result: &Result<Outcome, Refusal>) -> bool {
    result.as_ref().map_or(true, Outcome::is_error)
}

fn panicked(entry: &Entry, panic: &(dyn Any + Send)) -> CallError {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    CallError::internal(format_args!("the backend of `{}` panicked", entry.name)).cause(words)
}

fn denied(denial: Denial) -> CallError {
    let error = CallError::new(
        ErrorClass::Denied,
        format!("Permission denied: {}", denial.reason),
    )
    .code(denial.code);
    denial.remedy.into_iter().fold(error, CallError::recommend)
}

impl Report {
    fn of(id: &CallId) -> Self {
        Self {
            id: id.clone(),
            tool: None,
            result: Err(CallError::internal("the call did not run")),
            allowed_by: None,
            duration: Duration::ZERO,
            repairs: Vec::new(),
        }
    }
}

#[cfg(test)]
#[expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]
mod tests;
