//! The kernel: builder, state, and the pipeline that every tool call runs through.

mod authorization;
mod batch;
mod batch_order;
mod cancel_handle;
mod deferred;
mod detach;
mod execution;
mod narrow_paths;
mod preview;
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

use serde_json::Value;
use toolhost_contract::lifecycle::{CallInput, CallOrigin};
use toolhost_contract::policy::{Diagnostic, Mode, Policy, RuleSpec};
use toolhost_contract::{
    BoxFuture, CallError, CallId, Denial, DenialCode, DetachSwitch, ErrorClass, Outcome, QuotaKind,
    SessionKey, Sink,
};
use toolhost_store::Store;

use self::cancel_handle::CancelHandle;
use self::running_call::{Attempt, BegunCall, ReportDraft, RunningCall, RunningGuard};
use self::sessions::Sessions;
use self::turn::ResultBudget;
use crate::approvals::ApprovalCache;
use crate::clock::Clock;
use crate::event_bus::{EventBus, Subscription};
use crate::hooks::{HookEntry, Hooks};
use crate::journal::{CallJournal, Durability, Journal};
use crate::pending_questions::{
    AttributedAnswer, PendingQuestion, PendingQuestions, QuestionError,
};
use crate::quota::QuotaMeter;
use crate::schedule::{Canceller, PoolLimitError, Pools};
use crate::services::{Agents, NoServices, Resources};
use crate::sink::CallSink;
use crate::{KernelLoad, KernelSettings, Prompter, RegistrySnapshot, ToolEntry};

pub use self::batch::{BatchCall, BatchError, BatchRequest};
pub use self::deferred::{DeferredError, approve_deferred, deny_deferred};
pub use self::detach::DetachError;
pub use self::request::{CallContext, CallRequest, Report};
pub use self::seal::SealedCall;
pub use self::sessions::OnSessionEnd;

/// Maximum number of tail calls that may follow one call.
const MAX_TAILS: usize = 8;

/// Boxed, because most calls succeed and should not carry space for an error through every step.
pub(crate) type Refusal = Box<CallError>;

/// Holds the registered tools and runs calls to them through one pipeline.
pub struct Kernel {
    settings: KernelSettings,
    policy: RwLock<Arc<Policy>>,
    prompter: Arc<dyn Prompter>,
    /// Replaced as a whole, so that a call keeps the hooks that it found with its tool.
    hooks: RwLock<Arc<Hooks>>,
    registry: RegistryHandle,
    /// Signals each new registry. Not sent over the bus, because a subscriber makes every call more expensive.
    registry_changed: tokio::sync::watch::Sender<()>,
    warnings: Mutex<Vec<String>>,
    pools: Pools,
    sessions: Sessions,
    question_quota: QuotaMeter,
    staged_bytes: QuotaMeter,
    batches: Mutex<HashMap<String, Canceller>>,
    pending_questions: PendingQuestions,
    approvals: ApprovalCache,
    journal: Arc<Journal>,
    running: Mutex<HashMap<CallId, RunningEntry>>,
    /// Held by the commit in progress.
    committing: Arc<tokio::sync::Mutex<()>>,
    agents: Arc<dyn Agents>,
    resources: Arc<dyn Resources>,
    /// Set by [`Kernel::share`], so that calls can make further calls.
    weak_self: OnceLock<Weak<Kernel>>,
}

/// How a running call is cancelled and its command detached.
struct RunningEntry {
    session: SessionKey,
    cancel: CancelHandle,
    detach: DetachSwitch,
}

/// Access to the current registry of a kernel.
#[derive(Clone, Default)]
pub struct RegistryHandle(Arc<RwLock<Arc<RegistrySnapshot>>>);

impl RegistryHandle {
    pub fn get(&self) -> Arc<RegistrySnapshot> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
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
            hooks: RwLock::new(Arc::new(Hooks::new(self.hooks))),
            registry: RegistryHandle::default(),
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

    /// Replaces all hooks. A call keeps the hooks that were set when its tool was found, so the hooks of a plugin have to
    /// be set before the plugin is registered, and removed after it is unregistered.
    pub fn set_hooks(&self, hooks: Vec<HookEntry>) {
        let mut current = self.hooks.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(current.with_entries(hooks));
    }

    fn hooks(&self) -> Arc<Hooks> {
        Arc::clone(&self.hooks.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a registry with hooks that guard all of its tools. The hooks of a plugin are set before its tools are
    /// registered and removed after them, so hooks that were read while the registry stayed the same include them.
    fn registry_and_hooks(&self) -> (Arc<RegistrySnapshot>, Arc<Hooks>) {
        loop {
            let registry = self.registry();
            let hooks = self.hooks();
            if Arc::ptr_eq(&registry, &self.registry()) {
                return (registry, hooks);
            }
        }
    }

    /// Creates a kernel without a store and without hooks.
    pub fn new(
        settings: KernelSettings,
        prompter: Arc<dyn Prompter>,
    ) -> Result<Self, PoolLimitError> {
        Self::builder(settings).prompter(prompter).build()
    }

    /// Runs one call to completion. Dropping the future cancels the call.
    ///
    /// Boxed, so that the pipeline is compiled once, with this crate, and not with every crate that makes calls.
    pub fn call(&self, request: CallRequest, sink: Arc<dyn Sink>) -> BoxFuture<'_, Report> {
        Box::pin(async move {
            match self.begin(request, &sink, CancelHandle::new()) {
                Ok(run) => self.run_with_tails(run, &sink).await,
                Err(report) => *report,
            }
        })
    }

    /// Runs a call, and then the tail calls that its result requests. Each tail call has its own record and is limited
    /// to what the first call may do.
    async fn run_with_tails(&self, mut run: Box<RunningCall<'_>>, sink: &Arc<dyn Sink>) -> Report {
        // Cancelling the call by its id also cancels its tail calls.
        let _guard = run.running_guard.take();
        let (id, caller, cancellation) =
            (run.id.clone(), Arc::clone(&run.caller), run.cancel.clone());
        let (context, order) = (run.context.clone(), run.order.clone());
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
                    tail_of: Some(context.first_origin()),
                    ..context.clone()
                },
                ..CallRequest::new(
                    CallId(format!("{id}/tail-{number}")),
                    std::mem::take(&mut tail.tool),
                    std::mem::take(&mut tail.input),
                    (*caller).clone(),
                )
            };
            let follow = match self.begin(tail, sink, cancellation.clone()) {
                Ok(mut run) => {
                    run.order.clone_from(&order);
                    Box::pin(self.run_one(run)).await
                }
                Err(report) => *report,
            };
            report.result = follow.result;
            report.rendering = follow.rendering;
            report.allowed_by = follow.allowed_by;
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

    async fn run_one(&self, mut run: Box<RunningCall<'_>>) -> Report {
        // Boxed, because the future is large and is moved several times before it is first polled.
        let execution = Box::pin(self.execute(&mut run));
        let result = self.wake_bus_while_pending(execution).await;
        let mut result = result.map_err(|error| *error);
        run.end(&mut result).await;
        run.into_report(result)
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

    /// Creates the record of the call and makes it cancellable. Fails without a record if another call has its id,
    /// because the record of that call must not be changed.
    fn begin(
        &self,
        request: CallRequest,
        sink: &Arc<dyn Sink>,
        cancellation: CancelHandle,
    ) -> BegunCall<'_> {
        let CallRequest {
            id,
            tool,
            input,
            caller,
            mut context,
        } = request;
        context.restriction = self.settings.with_inherited(context.restriction.take());
        let key = caller.session_key();
        let detach = DetachSwitch::default();
        let entry = RunningEntry {
            session: key.clone(),
            cancel: cancellation.clone(),
            detach: detach.clone(),
        };
        let Some(guard) = self.track_running(&id, entry) else {
            let shown = toolhost_contract::text::escape_line(&id.0, 80);
            let message = format!("a call with the id {shown} is already running");
            let error = CallError::new(ErrorClass::InvalidInput, message).code("duplicate_call_id");
            return Err(Box::new(Report::refused(id, error)));
        };
        // Checked before a record exists: when the quota is exhausted, refusals must not add records.
        let session = match self.session(&key) {
            Ok(session) => session,
            Err(full) => {
                drop(guard);
                return Err(Box::new(Report::refused(id, full.into())));
            }
        };
        let caller = Arc::new(caller);
        let wanted = CallInput::from(input.clone());
        let life = CallJournal::begin(
            &self.journal,
            id.clone(),
            tool,
            wanted.clone(),
            Arc::clone(&caller),
            &context,
        );
        let sink = CallSink::new(
            Arc::clone(&self.journal),
            id.clone(),
            Arc::clone(&caller),
            Arc::clone(sink),
            (cancellation.token().clone(), detach),
            life.latest(),
        );
        Ok(Box::new(RunningCall {
            running_guard: Some(guard),
            id,
            session,
            caller,
            input,
            input_before_hooks: None,
            context,
            journal: life,
            sink: Arc::new(sink),
            cancel: cancellation,
            original_input: wanted,
            results: ResultBudget::default(),
            order: None,
            service_counts: Arc::default(),
            hooks: self.hooks(),
            attempt: Attempt::default(),
            report: ReportDraft::default(),
        }))
    }

    fn track_running(&self, id: &CallId, entry: RunningEntry) -> Option<RunningGuard<'_>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(id) {
            return None;
        }
        running.insert(id.clone(), entry);
        Some(RunningGuard {
            kernel: self,
            id: id.clone(),
        })
    }

    fn find_tool(&self, run: &mut RunningCall<'_>) -> Result<Arc<ToolEntry>, Refusal> {
        let (registry, hooks) = self.registry_and_hooks();
        run.hooks = hooks;
        let name = &run.journal.record().name;
        let Some(entry) = registry.route(name, &run.caller, &run.id) else {
            let error = CallError::new(
                ErrorClass::NotRegistered,
                registry.unknown(name).to_string(),
            );
            return Err(error.recommend("list the tools to see the names").into());
        };
        run.report.tool = Some(entry.name.clone());
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
            &mut run.report.repairs,
        )
    }

    /// Cancels a call in any phase. Returns false if no such call is running.
    pub fn cancel(&self, id: &CallId) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(id).is_some_and(|call| call.cancel.cancel())
    }

    /// Stops a call that exceeded a time limit of its caller.
    fn time_out(&self, id: &CallId, limit: Duration) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = running.get(id) {
            call.cancel.time_out(limit);
        }
    }

    /// Answers a pending question.
    pub fn answer(&self, call: &CallId, answered: AttributedAnswer) -> Result<(), QuestionError> {
        self.pending_questions.answer(call, answered)
    }

    /// Returns what the kernel is doing now.
    pub fn load(&self) -> KernelLoad {
        let (admitted, queued) = self.pools.counts();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        KernelLoad {
            calls: running.len(),
            admitted,
            queued,
            questions: self.pending_questions.count(),
        }
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

    /// Adds a rule until the host exits. Calls that were decided before are not decided again.
    pub fn add_rule(&self, rule: RuleSpec) -> Result<(), Diagnostic> {
        let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        *policy = Arc::new(policy.with_rule(rule)?);
        Ok(())
    }

    /// Returns whether models can call this tool. A tool that a rule denies for every input is hidden from them.
    pub fn is_visible(&self, entry: &ToolEntry) -> bool {
        entry.enabled && !entry.is_forbidden(&self.policy())
    }

    /// Returns whether the list of tools for models contains this tool. `tool_search` finds the other visible tools.
    pub fn is_listed(&self, entry: &ToolEntry) -> bool {
        let (plugin, tool) = (entry.plugin.name.as_str(), entry.tool.name.as_str());
        self.settings.listed_tools.contains(plugin, tool) && self.is_visible(entry)
    }

    fn mode_of(&self, run: &RunningCall<'_>) -> Mode {
        let session = || self.policy_for(&run.session).mode();
        run.context.mode.unwrap_or_else(session)
    }

    pub fn registry(&self) -> Arc<RegistrySnapshot> {
        self.registry.get()
    }

    /// Returns access to the current registry for subscribers, which do not keep the kernel alive.
    pub fn registry_handle(&self) -> RegistryHandle {
        self.registry.clone()
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

#[cfg(test)]
#[expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]
mod tests;
