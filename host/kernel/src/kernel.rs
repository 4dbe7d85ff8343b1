//! The road itself.

mod batch;
mod deferred;
mod judge;
mod registration;
mod remember;
mod seal;

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures::FutureExt;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use toolhost_contract::life::{Millis, Origin, Step};
use toolhost_contract::policy::{Mode, Policy, Restriction};
use toolhost_contract::{
    Call, CallError, CallId, Caller, Denial, DenialCode, ErrorClass, Event, Grant, Level, Outcome,
    Sink, ToolName,
};
use toolhost_store::Store;

use self::judge::Cleared;
use self::remember::Session;
use crate::approvals::Approvals;
use crate::asks::{AnswerError, Answered, Asks, Pending};
use crate::bus::{Bus, Subscription};
use crate::clock::Clock;
use crate::hooks::{HookEntry, Hooks};
use crate::journal::{Durability, Journal, Life};
use crate::schedule::{Canceller, LimitError, Pools};
use crate::sink::CallSink;
use crate::{Entry, Prompter, Settings, Snapshot};

pub use self::batch::{BatchCall, BatchError, BatchRequest};
pub use self::deferred::{DeferredError, approve_deferred, deny_deferred};
pub use self::seal::Sealed;

/// What somebody wants done, unchecked.
#[derive(Debug, Clone)]
pub struct CallRequest {
    pub id: CallId,
    /// Any name of the tool.
    pub tool: String,
    pub input: Value,
    pub caller: Caller,
    pub within: Within,
}

/// What a call belongs to.
#[derive(Debug, Clone, Default)]
pub struct Within {
    pub origin: Origin,
    /// The call that caused this one.
    pub parent: Option<CallId>,
    pub batch: Option<String>,
    /// For this call; the policy's own mode when absent.
    pub mode: Option<Mode>,
    /// What a sub-agent may do of what its parent may.
    pub restriction: Option<Arc<Restriction>>,
}

impl CallRequest {
    pub fn new(id: CallId, tool: impl Into<String>, input: Value, caller: Caller) -> Self {
        Self {
            id,
            tool: tool.into(),
            input,
            caller,
            within: Within::default(),
        }
    }
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
    /// A person or the caller stopped it.
    pub stopped: bool,
}

/// A backend keeps the time of its calls itself and knows best how to stop one. So much later the kernel stops
/// waiting for it, lest one that forgot holds its place for ever.
const GRACE: Duration = Duration::from_secs(5);
/// So long a cancelled call may take to stop in good order.
const STOPPING: Duration = Duration::from_millis(100);
/// A call that runs longer than this is noted in the store while it runs.
const NOTED: Duration = Duration::from_millis(20);
/// Calls that may follow each other as tails of one.
const TAILS: usize = 4;

/// Boxed, because most calls go well and should not carry the room for an error through every step.
pub(crate) type Refusal = Box<CallError>;

/// Holds the tools and lets calls through to them, one road for all.
pub struct Kernel {
    settings: Settings,
    policy: RwLock<Arc<Policy>>,
    prompter: Arc<dyn Prompter>,
    hooks: Hooks,
    registry: RwLock<Arc<Snapshot>>,
    warnings: Mutex<Vec<String>>,
    pools: Pools,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    batches: Mutex<HashMap<String, Canceller>>,
    started: Millis,
    asks: Asks,
    approvals: Approvals,
    journal: Arc<Journal>,
    running: Mutex<HashMap<CallId, CancellationToken>>,
}

/// What a kernel is made of. Everything but the settings has a default: nobody to ask, no store, no hooks.
pub struct Builder {
    settings: Settings,
    prompter: Arc<dyn Prompter>,
    hooks: Vec<HookEntry>,
    store: Option<Store>,
    durability: Durability,
    clock: Clock,
}

impl Builder {
    #[must_use]
    pub fn prompter(mut self, prompter: Arc<dyn Prompter>) -> Self {
        self.prompter = prompter;
        self
    }

    /// They are heard in the order they were added.
    #[must_use]
    pub fn hook(mut self, hook: HookEntry) -> Self {
        self.hooks.push(hook);
        self
    }

    #[must_use]
    pub fn store(mut self, store: Store, durability: Durability) -> Self {
        self.store = Some(store);
        self.durability = durability;
        self
    }

    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// An error when a limit of the pools is 0.
    pub fn build(self) -> Result<Kernel, LimitError> {
        let journal = Arc::new(Journal {
            clock: self.clock,
            bus: Arc::new(Bus::default()),
            store: self.store,
            durability: self.durability,
        });
        Ok(Kernel {
            policy: RwLock::new(Arc::clone(&self.settings.policy)),
            pools: Pools::new(self.settings.pools)?,
            approvals: Approvals::new(Arc::clone(&journal), self.settings.project.clone()),
            settings: self.settings,
            prompter: self.prompter,
            hooks: Hooks::new(self.hooks),
            registry: RwLock::default(),
            warnings: Mutex::default(),
            sessions: Mutex::default(),
            batches: Mutex::default(),
            started: journal.clock.now(),
            asks: Asks::default(),
            journal,
            running: Mutex::default(),
        })
    }
}

/// A call on its way.
struct Run {
    id: CallId,
    caller: Caller,
    /// What the tool will get, as far as it is known.
    input: Value,
    within: Within,
    life: Life,
    sink: Arc<dyn Sink>,
    cancel: CancellationToken,
    repairs: Vec<String>,
    tool: Option<ToolName>,
    /// Who supplied the result when the tool did not run.
    supplied_by: Option<String>,
    /// The input as the caller wrote it.
    wish: Arc<Value>,
    /// What the model gets instead of a refusal's usual words.
    instead: Option<Box<Outcome>>,
    duration: Duration,
    /// A person wants the turn to stop.
    given_up: bool,
}

impl Kernel {
    pub fn builder(settings: Settings) -> Builder {
        Builder {
            settings,
            prompter: Arc::new(crate::Nobody),
            hooks: Vec::new(),
            store: None,
            durability: Durability::default(),
            clock: Clock::system(),
        }
    }

    /// A kernel without a store and without hooks.
    pub fn new(settings: Settings, prompter: Arc<dyn Prompter>) -> Result<Self, LimitError> {
        Self::builder(settings).prompter(prompter).build()
    }

    /// Runs one call to its end. Dropping the future cancels the call.
    pub async fn call(&self, request: CallRequest, sink: Arc<dyn Sink>) -> Report {
        self.call_with(request, sink, CancellationToken::new())
            .await
    }

    async fn call_with(
        &self,
        request: CallRequest,
        sink: Arc<dyn Sink>,
        cancel: CancellationToken,
    ) -> Report {
        let id = request.id.clone();
        let caller = request.caller.clone();
        let mut report = self.one(request, &sink, &cancel).await;
        // A result may name the call to make in its place. It is a call like any other, with a record of its own.
        for number in 1..=TAILS {
            let Ok(Outcome {
                tail: Some(tail), ..
            }) = &mut report.result
            else {
                break;
            };
            let tail = CallRequest {
                within: Within {
                    origin: Origin::Tail,
                    parent: Some(id.clone()),
                    ..Within::default()
                },
                ..CallRequest::new(
                    CallId(format!("{id}/tail-{number}")),
                    std::mem::take(&mut tail.tool),
                    std::mem::take(&mut tail.input),
                    caller.clone(),
                )
            };
            let follow = self.one(tail, &sink, &cancel).await;
            report.result = follow.result;
            report.duration += follow.duration;
        }
        report
    }

    async fn one(
        &self,
        request: CallRequest,
        sink: &Arc<dyn Sink>,
        cancel: &CancellationToken,
    ) -> Report {
        let mut run = self.begin(request, sink, cancel);
        let _place = match self.announce(&run) {
            Ok(place) => place,
            Err(error) => return run.report(Err(*error)),
        };
        let result = self.road(&mut run).await.map_err(|error| *error);
        run.life.end(&result, run.supplied_by.take(), run.duration);
        run.report(result)
    }

    async fn road(&self, run: &mut Run) -> Result<Outcome, Refusal> {
        run.life.step(Step::Picked).await?;
        let entry = self.find(run)?;
        self.enter(&entry, run).await?;
        self.guard(&entry, run)?;
        let input = std::mem::take(&mut run.input);
        let grant = match or_cancelled(&run.cancel.clone(), self.clear(&entry, input, run)).await? {
            Cleared::Run(grant) => grant,
            Cleared::Supplied { by, outcome } => return run.supplied(by, outcome),
        };
        let by = grant.by().to_owned();
        run.life.step(Step::Scheduled { by, wave: None }).await?;
        let _permit = or_cancelled(&run.cancel, self.admit(&entry, run)).await?;
        run.life.step(Step::Started).await?;
        run.life.intend().await?;
        let result = invoke(&entry, grant, run).await;
        let result = self.hear_after(&entry, result, run).await;
        entry.counters.record(run.duration, is_failure(&result));
        self.learn(&entry, run, result)
    }

    fn begin(&self, request: CallRequest, sink: &Arc<dyn Sink>, cancel: &CancellationToken) -> Run {
        let CallRequest {
            id,
            tool,
            input,
            caller,
            within,
        } = request;
        let wish = Arc::new(input.clone());
        let life = Life::begin(
            &self.journal,
            id.clone(),
            tool,
            Arc::clone(&wish),
            caller.clone(),
            &within,
        );
        let sink = CallSink::new(
            Arc::clone(&self.journal),
            id.clone(),
            caller.clone(),
            Arc::clone(sink),
            cancel.clone(),
        );
        Run {
            id,
            caller,
            input,
            within,
            life,
            sink: Arc::new(sink),
            cancel: cancel.clone(),
            repairs: Vec::new(),
            tool: None,
            supplied_by: None,
            wish,
            instead: None,
            duration: Duration::ZERO,
            given_up: false,
        }
    }

    /// From here on the call can be cancelled by its id.
    fn announce(&self, run: &Run) -> Result<Place<'_>, Refusal> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(&run.id) {
            let message = format!("a call with the id {} is running already", run.id);
            return Err(CallError::new(ErrorClass::InvalidInput, message)
                .code("duplicate_call_id")
                .into());
        }
        running.insert(run.id.clone(), run.cancel.clone());
        Ok(Place {
            kernel: self,
            id: run.id.clone(),
        })
    }

    fn find(&self, run: &mut Run) -> Result<Arc<Entry>, Refusal> {
        let registry = self.registry();
        let name = &run.life.record().name;
        let Some(entry) = registry.find(name) else {
            let error = CallError::new(
                ErrorClass::NotRegistered,
                registry.unknown(name).to_string(),
            );
            return Err(error.recommend("list the tools to see the names").into());
        };
        run.tool = Some(entry.name.clone());
        if !entry.enabled {
            let remedy = format!(
                "take `{}` out of the disabled tools in the configuration",
                entry.name
            );
            let denial = Denial {
                remedy: Some(remedy),
                ..Denial::new(
                    DenialCode::PolicyViolation,
                    format!("`{}` is disabled", entry.name),
                )
            };
            return Err(run.refused(denial).into());
        }
        Ok(Arc::clone(entry))
    }

    fn check(&self, entry: &Entry, input: Value, run: &mut Run) -> Result<Value, Refusal> {
        entry.schema.check(
            &entry.tool,
            input,
            self.settings.max_input_bytes,
            &mut run.repairs,
        )
    }

    async fn hear_after(
        &self,
        entry: &Arc<Entry>,
        result: Result<Outcome, Refusal>,
        run: &mut Run,
    ) -> Result<Outcome, Refusal> {
        if self.hooks.is_empty() {
            return result;
        }
        let outcome = result?;
        run.life.step(Step::PostProcessing).await?;
        let call = self.hook_call(entry, run);
        let (outcome, failures) = self.hooks.after(&call, outcome).await;
        for failure in &failures {
            run.warn(failure);
        }
        entry.schema.check_output(&entry.tool, &outcome)?;
        Ok(outcome)
    }

    /// Cancels a call wherever it is. False when no such call is on its way.
    pub fn cancel(&self, id: &CallId) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let token = running.get(id);
        token.inspect(|token| token.cancel()).is_some()
    }

    /// Answers a question that is waiting, from wherever a person was reached.
    pub fn answer(&self, call: &CallId, answered: Answered) -> Result<(), AnswerError> {
        self.asks.answer(call, answered)
    }

    /// The questions that are waiting now.
    pub fn pending(&self) -> Vec<Pending> {
        self.asks.pending()
    }

    /// Hears what happens. `after`: the number of the last event that was heard; None starts now.
    pub fn subscribe(
        &self,
        after: Option<u64>,
        channels: Option<Vec<toolhost_contract::bus::Channel>>,
    ) -> Subscription {
        Subscription::new(Arc::clone(&self.journal.bus), after, channels)
    }

    /// Tells the hooks that the messages of a session changed. What failed is returned for the log.
    pub async fn messages_changed(&self, session: &str, messages: &Value) -> Vec<String> {
        self.hooks.messages_changed(session, messages).await
    }

    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn mode_of(&self, run: &Run) -> Mode {
        run.within.mode.unwrap_or_else(|| self.policy().mode())
    }

    pub fn registry(&self) -> Arc<Snapshot> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn store(&self) -> Option<&Store> {
        self.journal.store.as_ref()
    }
}

impl Run {
    fn report(self, result: Result<Outcome, CallError>) -> Report {
        Report {
            id: self.id,
            tool: self.tool,
            allowed_by: self.life.record().allowed_by.clone(),
            result,
            duration: self.duration,
            repairs: self.repairs,
            stopped: self.cancel.is_cancelled() || self.given_up,
        }
    }

    fn call(&self, entry: &Entry) -> Call {
        Call {
            id: self.id.clone(),
            tool: entry.tool.name.clone(),
            input: self.input.clone(),
            caller: self.caller.clone(),
        }
    }

    fn supplied(&mut self, by: String, outcome: Box<Outcome>) -> Result<Outcome, Refusal> {
        self.supplied_by = Some(by);
        Ok(*outcome)
    }

    /// A refusal with its author in the record.
    fn refused(&mut self, denial: Denial) -> CallError {
        self.life.denied_by.clone_from(&denial.rule);
        denied(denial)
    }

    fn warn(&self, message: &str) {
        self.sink.event(Event::Log {
            level: Level::Warn,
            message: message.to_owned(),
        });
    }
}

/// The call can be cancelled as long as this is there.
struct Place<'a> {
    kernel: &'a Kernel,
    id: CallId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let running = &self.kernel.running;
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.id);
    }
}

async fn or_cancelled<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(stopped()),
        result = work => result,
    }
}

fn stopped() -> Refusal {
    CallError::new(ErrorClass::Cancelled, "the call was cancelled").into()
}

async fn invoke(entry: &Entry, grant: Grant, run: &mut Run) -> Result<Outcome, Refusal> {
    // The clock starts here and not earlier: what a person or other calls take is not the tool's time.
    let limit = grant.timeout();
    let call = run.call(entry);
    let sink = Arc::clone(&run.sink);
    let running = AssertUnwindSafe(async { entry.backend.invoke(call, grant, sink).await });
    let mut running = std::pin::pin!(timeout(limit + GRACE, running.catch_unwind()));
    let cancel = run.cancel.clone();
    let given_up = async {
        cancel.cancelled().await;
        // The guest hears of it and may stop in good order. One that does not is dropped where it stands.
        sleep(STOPPING).await;
    };
    let mut given_up = std::pin::pin!(given_up);
    let mut noted = false;
    let result = loop {
        tokio::select! {
            biased;
            result = &mut running => break result,
            () = &mut given_up => {
                run.duration = run.life.elapsed();
                return Err(stopped());
            }
            () = sleep(NOTED), if !noted => {
                noted = true;
                run.life.note();
            }
        }
    };
    run.duration = run.life.elapsed();
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
    let class = if denial.code == DenialCode::Cancelled {
        ErrorClass::Cancelled
    } else {
        ErrorClass::Denied
    };
    let error = CallError::new(class, format!("Permission denied: {}", denial.reason))
        .code(denial.code.as_str());
    denial.remedy.into_iter().fold(error, CallError::recommend)
}

#[cfg(test)]
#[expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]
mod tests;
