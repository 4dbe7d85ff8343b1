//! The kernel: builder, state, and the pipeline that every tool call runs through.

mod authorization;
mod batch;
mod batch_order;
mod cancel_handle;
mod deferred;
mod registration;
mod request;
mod running_call;
mod seal;
mod services;
mod session_state;
mod sessions;
mod staged_commit;
mod turn;
mod user_edits;
mod user_question;

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use futures::FutureExt;
use serde_json::Value;
use toolhost_contract::lifecycle::{CallInput, CallOrigin, Timestamp, Transition};
use toolhost_contract::policy::{AuthorizedCommand, HookDecisions, Mode, Policy};
use toolhost_contract::variables::Variables;
use toolhost_contract::{
    CallError, CallId, Denial, DenialCode, ErrorClass, Failure, Outcome, QuotaKind, SessionKey,
    Sink,
};
use toolhost_store::Store;

use self::authorization::Authorization;
use self::cancel_handle::CancelHandle;
use self::running_call::{RunningCall, RunningGuard, invoke, is_failure};
use self::services::CallServices;
use self::sessions::Sessions;
use self::staged_commit::CommitOutcome;
use self::turn::ResultBudget;
use crate::approvals::ApprovalCache;
use crate::clock::Clock;
use crate::event_bus::{EventBus, Subscription};
use crate::hooks::{HookEntry, Hooks, RevisedOutcome};
use crate::journal::{CallJournal, Durability, Journal};
use crate::pending_questions::{
    AttributedAnswer, PendingQuestion, PendingQuestions, QuestionError,
};
use crate::quota::QuotaMeter;
use crate::schedule::{Canceller, PoolLimitError, Pools};
use crate::services::{Agents, NoServices, Resources};
use crate::sink::CallSink;
use crate::{KernelSettings, Prompter, RegistrySnapshot, ToolEntry};

pub use self::batch::{BatchCall, BatchError, BatchRequest};
pub use self::deferred::{DeferredError, approve_deferred, deny_deferred};
pub use self::request::{CallContext, CallRequest, Report};
pub use self::seal::SealedCall;
pub use self::sessions::OnSessionEnd;

/// Maximum number of tail calls that may follow one call.
const MAX_TAILS: usize = 8;

/// Boxed, because most calls succeed and should not carry space for an error through every step.
pub(crate) type Refusal = Box<CallError>;

/// The hooks of a kernel can no longer be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("hooks cannot be changed; set them once, before the first plugin is registered")]
pub struct HooksAlreadySet;

/// Holds the registered tools and runs calls to them through one pipeline.
pub struct Kernel {
    settings: KernelSettings,
    policy: RwLock<Arc<Policy>>,
    prompter: Arc<dyn Prompter>,
    /// Fixed by the first registered plugin: no call is made before that.
    hooks: OnceLock<Hooks>,
    registry: RwLock<Arc<RegistrySnapshot>>,
    /// Signals each new registry. Not sent over the bus, because a subscriber makes every call more expensive.
    registry_changed: tokio::sync::watch::Sender<()>,
    warnings: Mutex<Vec<String>>,
    pools: Pools,
    sessions: Sessions,
    question_quota: QuotaMeter,
    staged_bytes: QuotaMeter,
    batches: Mutex<HashMap<String, Canceller>>,
    started: Timestamp,
    pending_questions: PendingQuestions,
    approvals: ApprovalCache,
    journal: Arc<Journal>,
    running: Mutex<HashMap<CallId, (SessionKey, CancelHandle)>>,
    /// Held by the commit in progress.
    committing: Arc<tokio::sync::Mutex<()>>,
    agents: Arc<dyn Agents>,
    resources: Arc<dyn Resources>,
    /// Set by [`Kernel::share`], so that calls can make further calls.
    weak_self: OnceLock<Weak<Kernel>>,
}

/// Builds a [`Kernel`]. Everything but the settings has a default: no prompter, no store, no hooks.
pub struct KernelBuilder {
    settings: KernelSettings,
    prompter: Arc<dyn Prompter>,
    hooks: Vec<HookEntry>,
    store: Option<Store>,
    durability: Durability,
    clock: Clock,
    agents: Arc<dyn Agents>,
    resources: Arc<dyn Resources>,
    on_session_end: Option<OnSessionEnd>,
}

impl KernelBuilder {
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
    pub fn build(self) -> Result<Kernel, PoolLimitError> {
        let journal = Arc::new(Journal {
            clock: self.clock,
            bus: Arc::new(EventBus::default()),
            store: self.store,
            durability: self.durability,
        });
        let quotas = self.settings.quotas.clone();
        Ok(Kernel {
            policy: RwLock::new(Arc::clone(&self.settings.policy)),
            pools: Pools::new(self.settings.pools)?,
            approvals: ApprovalCache::new(Arc::clone(&journal), self.settings.project.clone()),
            settings: self.settings,
            prompter: self.prompter,
            hooks: match self.hooks {
                hooks if hooks.is_empty() => OnceLock::new(),
                hooks => OnceLock::from(Hooks::new(hooks)),
            },
            registry: RwLock::default(),
            registry_changed: tokio::sync::watch::Sender::default(),
            warnings: Mutex::default(),
            sessions: Sessions::new(
                quotas.sessions,
                QuotaMeter::new(QuotaKind::SessionBytes, quotas.session_bytes),
                self.on_session_end,
            ),
            question_quota: QuotaMeter::new(QuotaKind::Questions, quotas.questions),
            staged_bytes: QuotaMeter::new(QuotaKind::StagedBytes, quotas.staged_bytes),
            batches: Mutex::default(),
            started: journal.clock.now(),
            pending_questions: PendingQuestions::default(),
            journal,
            running: Mutex::default(),
            committing: Arc::default(),
            agents: self.agents,
            resources: self.resources,
            weak_self: OnceLock::new(),
        })
    }
}

impl Kernel {
    pub fn builder(settings: KernelSettings) -> KernelBuilder {
        KernelBuilder {
            settings,
            prompter: Arc::new(crate::NoPrompter),
            hooks: Vec::new(),
            store: None,
            durability: Durability::default(),
            clock: Clock::system(),
            agents: Arc::new(NoServices),
            resources: Arc::new(NoServices),
            on_session_end: None,
        }
    }

    /// Shares the kernel. Only the calls of a shared kernel can call other tools and ask the user.
    pub fn share(self) -> Arc<Self> {
        let kernel = Arc::new(self);
        let _ = kernel.weak_self.set(Arc::downgrade(&kernel));
        kernel
    }

    /// Adds hooks to a kernel that was built without any. Fails once a plugin is registered, because its calls must not
    /// run without them.
    pub fn set_hooks(&self, hooks: Vec<HookEntry>) -> Result<(), HooksAlreadySet> {
        self.hooks
            .set(Hooks::new(hooks))
            .map_err(|_| HooksAlreadySet)
    }

    fn hooks(&self) -> &Hooks {
        self.hooks.get_or_init(|| Hooks::new(Vec::new()))
    }

    /// Creates a kernel without a store and without hooks.
    pub fn new(
        settings: KernelSettings,
        prompter: Arc<dyn Prompter>,
    ) -> Result<Self, PoolLimitError> {
        Self::builder(settings).prompter(prompter).build()
    }

    /// Runs one call to completion. Dropping the future cancels the call.
    pub async fn call(&self, request: CallRequest, sink: Arc<dyn Sink>) -> Report {
        match self.begin(request, &sink, CancelHandle::new()) {
            Ok(run) => self.run_with_tails(run, &sink).await,
            Err(report) => *report,
        }
    }

    /// Runs a call, and then the tail calls that its result requests. Each tail call has its own record and is limited
    /// to what the first call may do.
    async fn run_with_tails(&self, mut run: RunningCall<'_>, sink: &Arc<dyn Sink>) -> Report {
        // Cancelling the call by its id also cancels its tail calls.
        let _place = run.running_guard.take();
        let (id, caller, halt) = (run.id.clone(), Arc::clone(&run.caller), run.cancel.clone());
        let (within, order) = (run.context.clone(), run.order.clone());
        let mut report = self.run_one(run).await;
        for number in 1..=MAX_TAILS {
            let Ok(Outcome {
                tail: Some(tail), ..
            }) = &mut report.result
            else {
                break;
            };
            let tail = CallRequest {
                context: CallContext {
                    origin: CallOrigin::Tail,
                    parent: Some(id.clone()),
                    tail_of_nested: within.is_nested(),
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
                    Box::pin(self.run_one(run)).await
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
            let message = format!("too many tail calls: the limit for one call is {MAX_TAILS}");
            let error = CallError::new(ErrorClass::Failed, message).code("too_many_tails");
            report.result = Err(error.recommend("call the last tool directly"));
        }
        report
    }

    async fn run_one(&self, mut run: RunningCall<'_>) -> Report {
        // Boxed, because the future is large and is moved several times before it is first polled.
        let road = Box::pin(self.execute(&mut run));
        let result = self.wake_bus_while_pending(road).await;
        run.finish(result.map_err(|error| *error)).await
    }

    /// Wakes the bus subscribers only while the call waits and at its end: waking costs more than most steps.
    async fn wake_bus_while_pending<T>(&self, work: impl Future<Output = T>) -> T {
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

    async fn execute(&self, run: &mut RunningCall<'_>) -> Result<Outcome, Refusal> {
        run.journal.register().await?;
        run.cancel.check()?;
        run.journal.step(Transition::ValidationStarted).await?;
        let entry = self.find_tool(run)?;
        self.record_tool(&entry, run).await?;
        Self::check_repetition(&entry, run)?;
        let mut input = std::mem::take(&mut run.input);
        let mut rounds = 0;
        // A call that is not staged keeps its permit while post hooks look at its result.
        let (result, _permit) = loop {
            run.changes_known = false;
            let halt = run.cancel.clone();
            let grant = match halt
                .unless_cancelled(self.authorize(&entry, input, run))
                .await?
            {
                Authorization::Granted(grant) => grant,
                Authorization::Supplied { by, outcome } => {
                    // A hook may answer with text alone; structured data is checked against the schema of the tool.
                    if outcome.structured.is_some() {
                        entry.schema.check_output(&entry.tool, &outcome)?;
                    }
                    run.supplied_by = Some(by);
                    return Ok(*outcome);
                }
            };
            let (by, held) = (grant.authorizer().to_owned(), grant.is_staged());
            let command = grant
                .command()
                .filter(|_| entry.backend.runs_commands() && !held)
                .map(AuthorizedCommand::to_record);
            let scheduled = Transition::Scheduled {
                by,
                wave: None,
                command,
            };
            run.journal.step(scheduled).await?;
            let permit = halt.unless_cancelled(self.admit(&entry, run)).await?;
            run.results.check()?;
            run.journal.step(Transition::Started).await?;
            if !held {
                run.journal.record_intent().await?;
            }
            halt.check()?;
            if held && !run.may_stream {
                run.sink.hold();
            }
            if run.order.is_some() || self.hooks().want_reads(&entry.tool) {
                run.sink.record_reads();
            }
            if let Some(slot) = &run.order {
                slot.start();
            }
            run.journal.start_clock();
            let services = Arc::new(CallServices::new(self, &entry, run, held));
            run.sink.set_services(Arc::<CallServices>::clone(&services));
            let ran = invoke(&entry, grant, &services, run).await;
            let mut permit = permit;
            if run.order.is_some() {
                // A call earlier in the order may need the permit to run again.
                permit = None;
                if let Some(again) = self.wait_for_turn(run).await? {
                    input = again;
                    continue;
                }
            }
            if !held {
                if ran.as_ref().is_ok_and(|ran| !ran.outcome.is_error()) {
                    services.commit_notes(&[]);
                }
                break (ran.map(|ran| ran.outcome), permit);
            }
            run.new_variables = services.steering_variables();
            match Box::pin(self.commit_staged(&entry, ran, permit, run)).await {
                Ok(CommitOutcome::Committed(outcome)) => {
                    if !outcome.is_error() {
                        services.commit_notes(&run.new_variables);
                    }
                    break (Ok(*outcome), None);
                }
                Ok(CommitOutcome::Rerun(again)) => {
                    rounds += 1;
                    again.check_limit(rounds)?;
                    input = again.input;
                }
                Err(error) => break (Err(error), None),
            }
        };
        let result = if self.hooks().is_empty() {
            result
        } else {
            Box::pin(self.run_post_hooks(&entry, result, run)).await
        };
        entry.counters.record(run.duration, is_failure(&result));
        Self::record_outcome(&entry, run, result)
    }

    /// Waits for the calls before this one. Returns the input to run again with if one of them changed what it read.
    async fn wait_for_turn(&self, run: &mut RunningCall<'_>) -> Result<Option<Value>, Refusal> {
        let Some(slot) = run.order.clone() else {
            return Ok(None);
        };
        let turn = slot.wait_turn().map(Ok);
        run.cancel.clone().unless_cancelled_after_run(turn).await?;
        let reads = run.sink.read_set();
        if !slot.is_stale(reads.as_deref()) {
            return Ok(None);
        }
        run.journal.step(Transition::ValidationStarted).await?;
        Ok(Some(run.input.clone()))
    }

    /// Creates the record of the call and makes it cancellable. Fails without a record if another call has its id,
    /// because the record of that call must not be changed.
    fn begin(
        &self,
        request: CallRequest,
        sink: &Arc<dyn Sink>,
        halt: CancelHandle,
    ) -> Result<RunningCall<'_>, Box<Report>> {
        let CallRequest {
            id,
            tool,
            input,
            caller,
            context: within,
        } = request;
        let key = caller.session_key();
        let Some(place) = self.track_running(&id, &key, &halt) else {
            let shown = toolhost_contract::text::escape_line(&id.0, 80);
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
        let wish = CallInput::from(input.clone());
        let life = CallJournal::begin(
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
        Ok(RunningCall {
            running_guard: Some(place),
            id,
            session,
            caller,
            input,
            context: within,
            journal: life,
            sink: Arc::new(sink),
            cancel: halt,
            repairs: Vec::new(),
            tool: None,
            supplied_by: None,
            original_input: wish,
            replacement: None,
            duration: Duration::ZERO,
            stop_turn: false,
            rewritten: None,
            results: ResultBudget::default(),
            hook_decision: HookDecisions::default(),
            variables: Variables::new(),
            job: None,
            new_variables: Vec::new(),
            changes_known: false,
            edits: Vec::new(),
            commits: Vec::new(),
            may_stream: true,
            order: None,
        })
    }

    fn track_running(
        &self,
        id: &CallId,
        session: &SessionKey,
        halt: &CancelHandle,
    ) -> Option<RunningGuard<'_>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(id) {
            return None;
        }
        running.insert(id.clone(), (session.clone(), halt.clone()));
        Some(RunningGuard {
            kernel: self,
            id: id.clone(),
        })
    }

    fn find_tool(&self, run: &mut RunningCall<'_>) -> Result<Arc<ToolEntry>, Refusal> {
        let registry = self.registry();
        let name = &run.journal.record().name;
        let Some(entry) = registry.route(name, &run.caller, &run.id) else {
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
            return Err(run.deny(denial).into());
        }
        Ok(Arc::clone(entry))
    }

    fn validate_input(
        &self,
        entry: &ToolEntry,
        input: Value,
        run: &mut RunningCall<'_>,
    ) -> Result<Value, Refusal> {
        entry.schema.check(
            &entry.tool,
            input,
            self.settings.max_input_bytes,
            &mut run.repairs,
        )
    }

    async fn run_post_hooks(
        &self,
        entry: &Arc<ToolEntry>,
        result: Result<Outcome, Refusal>,
        run: &mut RunningCall<'_>,
    ) -> Result<Outcome, Refusal> {
        // No hook has seen what the tool returned before it stopped.
        if run.cancel.is_cancelled() {
            return Err(run.cancel.error(true).into());
        }
        // An error message is tool output too: a hook that hides secrets has to see it.
        let (outcome, error) = match result {
            Ok(outcome) => (outcome, None),
            Err(error) => (failure_outcome(&error), Some(error)),
        };
        run.journal.step(Transition::PostProcessing).await?;
        let call = self.hook_call(entry, run);
        let before = outcome.clone();
        let heard = self.hooks().after(&call, outcome).map(Ok);
        let RevisedOutcome {
            outcome,
            by,
            failures,
        } = run.cancel.unless_cancelled_after_run(heard).await?;
        for failure in &failures {
            run.warn(failure);
        }
        if !by.is_empty() {
            let by: Vec<String> = by.iter().map(|name| format!("hook:{name}")).collect();
            let by = by.join(", ");
            run.journal.step(Transition::OutcomeChanged { by }).await?;
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
    pub fn answer(&self, call: &CallId, answered: AttributedAnswer) -> Result<(), QuestionError> {
        self.pending_questions.answer(call, answered)
    }

    /// Returns the pending questions.
    pub fn pending(&self) -> Vec<PendingQuestion> {
        self.pending_questions.pending()
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
    pub fn is_listed(&self, entry: &ToolEntry) -> bool {
        entry.enabled && !entry.is_forbidden(&self.policy())
    }

    fn mode_of(&self, run: &RunningCall<'_>) -> Mode {
        let session = || self.policy_for(&run.session).mode();
        run.context.mode.unwrap_or_else(session)
    }

    pub fn registry(&self) -> Arc<RegistrySnapshot> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Signals each time tools are added, removed, enabled or disabled.
    pub fn registry_changes(&self) -> tokio::sync::watch::Receiver<()> {
        self.registry_changed.subscribe()
    }

    pub fn settings(&self) -> &KernelSettings {
        &self.settings
    }

    pub fn store(&self) -> Option<&Store> {
        self.journal.store.as_ref()
    }
}

/// Converts an error to the outcome that hooks see.
fn failure_outcome(error: &CallError) -> Outcome {
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
