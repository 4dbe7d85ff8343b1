//! The kernel: builder, state, and the pipeline that every tool call runs through.

mod ask;
mod batch;
mod deferred;
mod edit;
mod halt;
mod judge;
mod order;
mod registration;
mod release;
mod remember;
mod request;
mod run;
mod seal;
mod services;
mod sessions;
mod turn;

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use futures::FutureExt;
use serde_json::Value;
use toolhost_contract::life::{Input, Millis, Origin, Step};
use toolhost_contract::policy::{AuthorizedCommand, HookSaid, Mode, Policy};
use toolhost_contract::variables::Variables;
use toolhost_contract::{
    CallError, CallId, Denial, DenialCode, ErrorClass, Failure, Outcome, QuotaKind, SessionKey,
    Sink,
};
use toolhost_store::Store;

use self::halt::Halt;
use self::judge::Cleared;
use self::release::Released;
use self::run::{Place, Run, invoke, is_failure};
use self::services::CallServices;
use self::sessions::Sessions;
use self::turn::Results;
use crate::approvals::Approvals;
use crate::asks::{AnswerError, Answered, Asks, Pending};
use crate::bus::{Bus, Subscription};
use crate::clock::Clock;
use crate::hooks::{HookEntry, Hooks, Revised};
use crate::journal::{Durability, Journal, Life};
use crate::quota::Meter;
use crate::schedule::{Canceller, LimitError, Pools};
use crate::services::{Agents, Resources, Without};
use crate::sink::CallSink;
use crate::{Entry, Prompter, Settings, Snapshot};

pub use self::batch::{BatchCall, BatchError, BatchRequest};
pub use self::deferred::{DeferredError, approve_deferred, deny_deferred};
pub use self::request::{CallRequest, Report, Within};
pub use self::seal::Sealed;
pub use self::sessions::OnSessionEnd;

/// Maximum number of tail calls that may follow one call.
const TAILS: usize = 8;

/// Boxed, because most calls succeed and should not carry space for an error through every step.
pub(crate) type Refusal = Box<CallError>;

/// The hooks of a kernel can no longer be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("hooks cannot be changed; set them once, before the first plugin is registered")]
pub struct HooksFixed;

/// Holds the registered tools and runs calls to them through one pipeline.
pub struct Kernel {
    settings: Settings,
    policy: RwLock<Arc<Policy>>,
    prompter: Arc<dyn Prompter>,
    /// Fixed by the first registered plugin: no call is made before that.
    hooks: OnceLock<Hooks>,
    registry: RwLock<Arc<Snapshot>>,
    /// Signals each new registry. Not sent over the bus, because a subscriber makes every call more expensive.
    registry_news: tokio::sync::watch::Sender<()>,
    warnings: Mutex<Vec<String>>,
    pools: Pools,
    sessions: Sessions,
    questions: Meter,
    staged_bytes: Meter,
    batches: Mutex<HashMap<String, Canceller>>,
    started: Millis,
    asks: Asks,
    approvals: Approvals,
    journal: Arc<Journal>,
    running: Mutex<HashMap<CallId, (SessionKey, Halt)>>,
    /// Held by the commit in progress.
    committing: Arc<tokio::sync::Mutex<()>>,
    agents: Arc<dyn Agents>,
    resources: Arc<dyn Resources>,
    /// Set by [`Kernel::share`], so that calls can make further calls.
    me: OnceLock<Weak<Kernel>>,
}

/// Builds a [`Kernel`]. Everything but the settings has a default: no prompter, no store, no hooks.
pub struct Builder {
    settings: Settings,
    prompter: Arc<dyn Prompter>,
    hooks: Vec<HookEntry>,
    store: Option<Store>,
    durability: Durability,
    clock: Clock,
    agents: Arc<dyn Agents>,
    resources: Arc<dyn Resources>,
    on_session_end: Option<OnSessionEnd>,
}

impl Builder {
    #[must_use]
    pub fn prompter(mut self, prompter: Arc<dyn Prompter>) -> Self {
        self.prompter = prompter;
        self
    }

    /// Adds a hook. Hooks run in the order in which they were added.
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

    /// Sets the provider of the sub-agents to which tools delegate tasks.
    #[must_use]
    pub fn agents(mut self, agents: Arc<dyn Agents>) -> Self {
        self.agents = agents;
        self
    }

    #[must_use]
    pub fn resources(mut self, resources: Arc<dyn Resources>) -> Self {
        self.resources = resources;
        self
    }

    /// Sets a callback for the end of each session, for state that is kept outside of the kernel.
    #[must_use]
    pub fn on_session_end(mut self, on_end: OnSessionEnd) -> Self {
        self.on_session_end = Some(on_end);
        self
    }

    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns an error if a limit of the pools is 0.
    pub fn build(self) -> Result<Kernel, LimitError> {
        let journal = Arc::new(Journal {
            clock: self.clock,
            bus: Arc::new(Bus::default()),
            store: self.store,
            durability: self.durability,
        });
        let quotas = self.settings.quotas.clone();
        Ok(Kernel {
            policy: RwLock::new(Arc::clone(&self.settings.policy)),
            pools: Pools::new(self.settings.pools)?,
            approvals: Approvals::new(Arc::clone(&journal), self.settings.project.clone()),
            settings: self.settings,
            prompter: self.prompter,
            hooks: match self.hooks {
                hooks if hooks.is_empty() => OnceLock::new(),
                hooks => OnceLock::from(Hooks::new(hooks)),
            },
            registry: RwLock::default(),
            registry_news: tokio::sync::watch::Sender::default(),
            warnings: Mutex::default(),
            sessions: Sessions::new(
                quotas.sessions,
                Meter::new(QuotaKind::SessionBytes, quotas.session_bytes),
                self.on_session_end,
            ),
            questions: Meter::new(QuotaKind::Questions, quotas.questions),
            staged_bytes: Meter::new(QuotaKind::StagedBytes, quotas.staged_bytes),
            batches: Mutex::default(),
            started: journal.clock.now(),
            asks: Asks::default(),
            journal,
            running: Mutex::default(),
            committing: Arc::default(),
            agents: self.agents,
            resources: self.resources,
            me: OnceLock::new(),
        })
    }
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
            agents: Arc::new(Without),
            resources: Arc::new(Without),
            on_session_end: None,
        }
    }

    /// Shares the kernel. Only the calls of a shared kernel can call other tools and ask the user.
    pub fn share(self) -> Arc<Self> {
        let kernel = Arc::new(self);
        let _ = kernel.me.set(Arc::downgrade(&kernel));
        kernel
    }

    /// Adds hooks to a kernel that was built without any. Fails once a plugin is registered, because its calls must not
    /// run without them.
    pub fn set_hooks(&self, hooks: Vec<HookEntry>) -> Result<(), HooksFixed> {
        self.hooks.set(Hooks::new(hooks)).map_err(|_| HooksFixed)
    }

    fn hooks(&self) -> &Hooks {
        self.hooks.get_or_init(|| Hooks::new(Vec::new()))
    }

    /// Creates a kernel without a store and without hooks.
    pub fn new(settings: Settings, prompter: Arc<dyn Prompter>) -> Result<Self, LimitError> {
        Self::builder(settings).prompter(prompter).build()
    }

    /// Runs one call to completion. Dropping the future cancels the call.
    pub async fn call(&self, request: CallRequest, sink: Arc<dyn Sink>) -> Report {
        match self.begin(request, &sink, Halt::alone()) {
            Ok(run) => self.follow(run, &sink).await,
            Err(report) => *report,
        }
    }

    /// Runs a call, and then the tail calls that its result requests. Each tail call has its own record and is limited
    /// to what the first call may do.
    async fn follow(&self, mut run: Run<'_>, sink: &Arc<dyn Sink>) -> Report {
        // Cancelling the call by its id also cancels its tail calls.
        let _place = run.place.take();
        let (id, caller, halt) = (run.id.clone(), Arc::clone(&run.caller), run.halt.clone());
        let (within, order) = (run.within.clone(), run.order.clone());
        let mut report = self.one(run).await;
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
                    below: within.is_below(),
                    ..within.clone()
                },
                ..CallRequest::new(
                    CallId(format!("{id}/tail-{number}")),
                    std::mem::take(&mut tail.tool),
                    std::mem::take(&mut tail.input),
                    (*caller).clone(),
                )
            };
            let follow = match self.begin(tail, sink, halt.clone()) {
                Ok(mut run) => {
                    run.order.clone_from(&order);
                    Box::pin(self.one(run)).await
                }
                Err(report) => *report,
            };
            report.result = follow.result;
            report.duration += follow.duration;
            report.repairs.extend(follow.repairs);
            report.stopped |= follow.stopped;
            report.commits.extend(follow.commits);
        }
        if let Ok(Outcome { tail: Some(_), .. }) = &report.result {
            let message = format!("too many tail calls: the limit for one call is {TAILS}");
            let error = CallError::new(ErrorClass::Failed, message).code("too_many_tails");
            report.result = Err(error.recommend("call the last tool directly"));
        }
        report
    }

    async fn one(&self, mut run: Run<'_>) -> Report {
        // Boxed, because the future is large and is moved several times before it is first polled.
        let road = Box::pin(self.road(&mut run));
        let result = self.heard(road).await;
        run.finish(result.map_err(|error| *error)).await
    }

    /// Wakes the bus subscribers only while the call waits and at its end: waking costs more than most steps.
    async fn heard<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            if polled.is_pending() {
                self.journal.bus.wake();
            }
            polled
        })
        .await
    }

    async fn road(&self, run: &mut Run<'_>) -> Result<Outcome, Refusal> {
        run.life.register().await?;
        run.halt.check()?;
        run.life.step(Step::Picked).await?;
        let entry = self.find(run)?;
        self.enter(&entry, run).await?;
        Self::guard(&entry, run)?;
        let mut input = std::mem::take(&mut run.input);
        let mut rounds = 0;
        // A call that is not staged keeps its permit while post hooks look at its result.
        let (result, _permit) = loop {
            run.known = false;
            let halt = run.halt.clone();
            let grant = match halt.or(self.clear(&entry, input, run)).await? {
                Cleared::Run(grant) => grant,
                Cleared::Supplied { by, outcome } => {
                    // A hook may answer with text alone; structured data is checked against the schema of the tool.
                    if outcome.structured.is_some() {
                        entry.schema.check_output(&entry.tool, &outcome)?;
                    }
                    run.supplied_by = Some(by);
                    return Ok(*outcome);
                }
            };
            let (by, held) = (grant.by().to_owned(), grant.is_held());
            let command = grant
                .command()
                .filter(|_| entry.backend.executes() && !held)
                .map(AuthorizedCommand::recorded);
            let scheduled = Step::Scheduled {
                by,
                wave: None,
                command,
            };
            run.life.step(scheduled).await?;
            let permit = halt.or(self.admit(&entry, run)).await?;
            run.results.check()?;
            run.life.step(Step::Started).await?;
            if !held {
                run.life.intend().await?;
            }
            halt.check()?;
            if held && !run.may_speak {
                run.sink.hold_back();
            }
            if run.order.is_some() || self.hooks().want_reads(&entry.tool) {
                run.sink.watch();
            }
            if let Some(slot) = &run.order {
                slot.start();
            }
            run.life.start_clock();
            let services = Arc::new(CallServices::new(self, &entry, run, held));
            run.sink.serve(Arc::<CallServices>::clone(&services));
            let ran = invoke(&entry, grant, &services, run).await;
            let mut permit = permit;
            if run.order.is_some() {
                // A call earlier in the order may need the permit to run again.
                permit = None;
                if let Some(again) = self.keep_order(run).await? {
                    input = again;
                    continue;
                }
            }
            if !held {
                if ran.as_ref().is_ok_and(|ran| !ran.outcome.is_error()) {
                    services.keep(&[]);
                }
                break (ran.map(|ran| ran.outcome), permit);
            }
            run.sets = services.steering();
            match Box::pin(self.release(&entry, ran, permit, run)).await {
                Ok(Released::Through(outcome)) => {
                    if !outcome.is_error() {
                        services.keep(&run.sets);
                    }
                    break (Ok(*outcome), None);
                }
                Ok(Released::Again(again)) => {
                    rounds += 1;
                    again.may_run(rounds)?;
                    input = again.input;
                }
                Err(error) => break (Err(error), None),
            }
        };
        let result = if self.hooks().is_empty() {
            result
        } else {
            Box::pin(self.hear_after(&entry, result, run)).await
        };
        entry.counters.record(run.duration, is_failure(&result));
        Self::learn(&entry, run, result)
    }

    /// Waits for the calls before this one. Returns the input to run again with if one of them changed what it read.
    async fn keep_order(&self, run: &mut Run<'_>) -> Result<Option<Value>, Refusal> {
        let Some(slot) = run.order.clone() else {
            return Ok(None);
        };
        let turn = slot.turn().map(Ok);
        run.halt.clone().after_run(turn).await?;
        let reads = run.sink.read_set();
        if !slot.is_stale(reads.as_deref()) {
            return Ok(None);
        }
        run.life.step(Step::Picked).await?;
        Ok(Some(run.input.clone()))
    }

    /// Creates the record of the call and makes it cancellable. Fails without a record if another call has its id,
    /// because the record of that call must not be changed.
    fn begin(
        &self,
        request: CallRequest,
        sink: &Arc<dyn Sink>,
        halt: Halt,
    ) -> Result<Run<'_>, Box<Report>> {
        let CallRequest {
            id,
            tool,
            input,
            caller,
            within,
        } = request;
        let key = caller.session_key();
        let Some(place) = self.announce(&id, &key, &halt) else {
            let shown = toolhost_contract::text::inline(&id.0, 80);
            let message = format!("a call with the id {shown} is already running");
            let error = CallError::new(ErrorClass::InvalidInput, message).code("duplicate_call_id");
            return Err(Box::new(Report::refused(id, error)));
        };
        // Checked before a record exists: when the quota is exhausted, refusals must not add records.
        let session = match self.session(&key) {
            Ok(session) => session,
            Err(full) => {
                drop(place);
                return Err(Box::new(Report::refused(id, full.into())));
            }
        };
        let caller = Arc::new(caller);
        let wish = Input::from(input.clone());
        let life = Life::begin(
            &self.journal,
            id.clone(),
            tool,
            wish.clone(),
            Arc::clone(&caller),
            &within,
        );
        let sink = CallSink::new(
            Arc::clone(&self.journal),
            id.clone(),
            Arc::clone(&caller),
            Arc::clone(sink),
            halt.token().clone(),
            life.latest(),
        );
        Ok(Run {
            place: Some(place),
            id,
            session,
            caller,
            input,
            within,
            life,
            sink: Arc::new(sink),
            halt,
            repairs: Vec::new(),
            tool: None,
            supplied_by: None,
            wish,
            instead: None,
            duration: Duration::ZERO,
            given_up: false,
            rewritten: None,
            results: Results::default(),
            said: HookSaid::default(),
            variables: Variables::new(),
            job: None,
            sets: Vec::new(),
            known: false,
            edits: Vec::new(),
            commits: Vec::new(),
            may_speak: true,
            order: None,
        })
    }

    fn announce(&self, id: &CallId, session: &SessionKey, halt: &Halt) -> Option<Place<'_>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(id) {
            return None;
        }
        running.insert(id.clone(), (session.clone(), halt.clone()));
        Some(Place {
            kernel: self,
            id: id.clone(),
        })
    }

    fn find(&self, run: &mut Run<'_>) -> Result<Arc<Entry>, Refusal> {
        let registry = self.registry();
        let name = &run.life.record().name;
        let Some(entry) = registry.choose(name, &run.caller, &run.id) else {
            let error = CallError::new(
                ErrorClass::NotRegistered,
                registry.unknown(name).to_string(),
            );
            return Err(error.recommend("list the tools to see the names").into());
        };
        run.tool = Some(entry.name.clone());
        if !entry.enabled {
            let remedy = format!(
                "remove `{}` from the disabled tools in the configuration",
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

    fn check(&self, entry: &Entry, input: Value, run: &mut Run<'_>) -> Result<Value, Refusal> {
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
        run: &mut Run<'_>,
    ) -> Result<Outcome, Refusal> {
        // No hook has seen what the tool returned before it stopped.
        if run.halt.is_set() {
            return Err(run.halt.error(true).into());
        }
        // An error message is tool output too: a hook that hides secrets has to see it.
        let (outcome, error) = match result {
            Ok(outcome) => (outcome, None),
            Err(error) => (said(&error), Some(error)),
        };
        run.life.step(Step::PostProcessing).await?;
        let call = self.hook_call(entry, run);
        let before = outcome.clone();
        let heard = self.hooks().after(&call, outcome).map(Ok);
        let Revised {
            outcome,
            by,
            failures,
        } = run.halt.after_run(heard).await?;
        for failure in &failures {
            run.warn(failure);
        }
        if !by.is_empty() {
            let by: Vec<String> = by.iter().map(|name| format!("hook:{name}")).collect();
            let by = by.join(", ");
            run.life.step(Step::OutcomeChanged { by }).await?;
        }
        match error {
            None => {
                entry.schema.check_output(&entry.tool, &outcome)?;
                Ok(outcome)
            }
            Some(error) if outcome == before => Err(error),
            Some(error) => Err(CallError::new(error.class, outcome.model_text())
                .code(error.code.as_str())
                .into()),
        }
    }

    /// Cancels a call in any phase. Returns false if no such call is running.
    pub fn cancel(&self, id: &CallId) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(id).is_some_and(|(_, halt)| halt.cancel())
    }

    /// Answers a pending question.
    pub fn answer(&self, call: &CallId, answered: Answered) -> Result<(), AnswerError> {
        self.asks.answer(call, answered)
    }

    /// Returns the pending questions.
    pub fn pending(&self) -> Vec<Pending> {
        self.asks.pending()
    }

    /// Subscribes to events after the event number `after`. `None` starts with the next event.
    pub fn subscribe(
        &self,
        after: Option<u64>,
        channels: Option<Vec<toolhost_contract::bus::Channel>>,
    ) -> Subscription {
        Subscription::new(Arc::clone(&self.journal.bus), after, channels)
    }

    /// Notifies the hooks that the messages of a session changed. Returns the failures for the log.
    pub async fn messages_changed(&self, session: &str, messages: &Value) -> Vec<String> {
        self.hooks().messages_changed(session, messages).await
    }

    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether models see this tool. A tool that a rule denies for every input is not listed.
    pub fn lists(&self, entry: &Entry) -> bool {
        entry.enabled && !entry.is_forbidden(&self.policy())
    }

    fn mode_of(&self, run: &Run<'_>) -> Mode {
        let session = || self.policy_of(&run.session).mode();
        run.within.mode.unwrap_or_else(session)
    }

    pub fn registry(&self) -> Arc<Snapshot> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Signals each time tools are added, removed, enabled or disabled.
    pub fn registry_changes(&self) -> tokio::sync::watch::Receiver<()> {
        self.registry_news.subscribe()
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn store(&self) -> Option<&Store> {
        self.journal.store.as_ref()
    }
}

/// Converts an error to the outcome that hooks see.
fn said(error: &CallError) -> Outcome {
    Outcome {
        error: Some(Failure {
            recommendations: error.recommendations.clone(),
            retryable: error.retryable,
            cause: error.cause.clone(),
            ..Failure::new(&error.code, &error.message)
        }),
        ..Outcome::text(error.for_model())
    }
}

#[cfg(test)]
#[expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]
mod tests;
