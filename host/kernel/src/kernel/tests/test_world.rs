//! A test kernel with a store in a temporary folder, a scripted backend, a scripted user and a counting clock.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;
use toolhost_contract::bus::{BusEvent, EventKind};
use toolhost_contract::lifecycle::{CallState, Timestamp};
use toolhost_contract::policy::{Decision, Policy, PolicySpec, RuleSpec};
use toolhost_contract::{
    Answer, Backend, BoxFuture, Call, CallId, Digest, NoSink, PluginName, Principal, Question,
};
use toolhost_store::{Store, TransitionFilter, Verification};

use super::super::{BatchCall, BatchRequest, CallContext, CallRequest, Kernel, Report};
use super::scripted_backend::{ScriptedBackend, tools};
use crate::hooks::HookEntry;
use crate::schedule::Strategy;
use crate::{Clock, Durability, KernelSettings, PluginInfo, Prompter, Subscription};

/// The user's answer to their first, second, … question. `None`: the user never answers.
pub(super) type AnswerFn = dyn Fn(usize, &Question, &Call) -> Option<Answer> + Send + Sync;

/// Builds a test world. Two worlds with one folder are two hosts with one state directory.
pub(super) struct TestWorldBuilder {
    pub settings: KernelSettings,
    pub durability: Durability,
    pub hooks: Vec<HookEntry>,
    pub says: Box<AnswerFn>,
    pub dir: Option<Arc<TempDir>>,
    pub stored: bool,
    pub subscribe: bool,
    /// Digest of the plugin.
    pub digest: u8,
    /// Changes of calls are staged until they are committed.
    pub holds: bool,
    /// `None`: a clock that advances by a millisecond with each reading.
    pub clock: Option<Clock>,
}

impl Default for TestWorldBuilder {
    fn default() -> Self {
        Self {
            settings: KernelSettings::default(),
            durability: Durability::default(),
            hooks: Vec::new(),
            says: Box::new(|_, _, _| Some(Answer::NoPrompter)),
            dir: None,
            stored: true,
            subscribe: true,
            digest: 1,
            holds: false,
            clock: None,
        }
    }
}

impl TestWorldBuilder {
    pub fn says(
        says: impl Fn(usize, &Question, &Call) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        Self {
            says: Box::new(says),
            ..Self::default()
        }
    }

    /// One answer per question; the last one is repeated.
    pub fn answers(answers: impl Into<Vec<Answer>>) -> Self {
        let answers = answers.into();
        Self::says(move |at, _, _| Some(answers[at.min(answers.len() - 1)].clone()))
    }

    pub fn rules(self, text: &str) -> Self {
        self.policy(|spec| spec.rules = rules(text))
    }

    pub fn policy(mut self, change: impl FnOnce(&mut PolicySpec)) -> Self {
        let mut spec = PolicySpec::default();
        change(&mut spec);
        self.settings.policy = Arc::new(Policy::new(spec).unwrap());
        self
    }

    /// Sets whether there is a store. Without one there is less to wait for.
    pub fn stored(mut self, stored: bool) -> Self {
        self.stored = stored;
        self
    }

    pub fn hook(mut self, name: &str, hook: impl crate::hooks::Hook + 'static) -> Self {
        self.hooks.push(HookEntry::new(name, Arc::new(hook)));
        self
    }

    pub fn build(self) -> TestWorld {
        TestWorld::new(self)
    }
}

/// Parses rules such as `allow write`, one per line.
pub(super) fn rules(text: &str) -> Vec<RuleSpec> {
    let rule = |line: &str| {
        let (decision, tool) = line.trim().split_once(' ').unwrap();
        RuleSpec::new(decision.parse::<Decision>().unwrap(), tool)
    };
    text.lines().map(rule).collect()
}

pub(super) struct TestWorld {
    pub kernel: Arc<Kernel>,
    pub stage: Arc<ScriptedBackend>,
    pub dir: Arc<TempDir>,
    /// `None`: there is no subscriber.
    subscription: Mutex<Option<Subscription>>,
}

struct ScriptedUser {
    says: Box<AnswerFn>,
    stage: Arc<ScriptedBackend>,
}

impl Prompter for ScriptedUser {
    fn ask<'a>(&'a self, question: &'a Question, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let at = {
                let mut questions = self.stage.questions.lock().unwrap();
                let agent = question.agent.as_deref().unwrap_or("-");
                questions.push(format!("{agent}: {} {}", question.tool, call.input));
                questions.len() - 1
            };
            match (self.says)(at, question, call) {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

impl TestWorld {
    fn new(setup: TestWorldBuilder) -> Self {
        let dir = setup
            .dir
            .unwrap_or_else(|| Arc::new(TempDir::new().unwrap()));
        let stage = Arc::new(ScriptedBackend {
            tools: tools(),
            holds: setup.holds,
            ..ScriptedBackend::default()
        });
        let person = ScriptedUser {
            says: setup.says,
            stage: Arc::clone(&stage),
        };
        let ticks = AtomicI64::new(1_000);
        let clock = setup
            .clock
            .unwrap_or_else(|| Clock::new(move || Timestamp(ticks.fetch_add(1, Relaxed))));
        let mut builder = Kernel::builder(setup.settings)
            .prompter(Arc::new(person))
            .clock(clock);
        for hook in setup.hooks {
            builder = builder.hook(hook);
        }
        if setup.stored {
            let store = Store::open(&dir.path().join("state")).unwrap();
            builder = builder.store(store, setup.durability);
        }
        let kernel = Arc::new(builder.build().unwrap());
        let plugin = PluginInfo {
            name: PluginName::parse("p").unwrap(),
            version: "1.0.0".to_owned(),
            digest: Some(Digest([setup.digest; 32])),
            timeout: None,
        };
        kernel
            .register(plugin, Arc::clone(&stage) as Arc<dyn Backend>)
            .unwrap();
        let subscription = setup.subscribe.then(|| kernel.subscribe(None, None));
        Self {
            kernel,
            stage,
            dir,
            subscription: Mutex::new(subscription),
        }
    }

    pub fn store(&self) -> &Store {
        self.kernel.store().unwrap()
    }

    pub async fn call(&self, id: &str, tool: &str, input: Value) -> Report {
        self.request(request(id, tool, input)).await
    }

    pub async fn request(&self, request: CallRequest) -> Report {
        Box::pin(self.kernel.call(request, Arc::new(NoSink))).await
    }

    /// Starts the call in a task, so that the test can do something in the meantime.
    pub fn start(&self, id: &str, tool: &str, input: Value) -> tokio::task::JoinHandle<Report> {
        let kernel = Arc::clone(&self.kernel);
        let request = request(id, tool, input);
        tokio::spawn(async move { kernel.call(request, Arc::new(NoSink)).await })
    }

    pub fn start_batch(&self, batch: BatchRequest) -> tokio::task::JoinHandle<Vec<Report>> {
        let kernel = Arc::clone(&self.kernel);
        tokio::spawn(async move { kernel.schedule(batch, Arc::new(NoSink)).await.unwrap() })
    }

    /// Waits until the bus reports the call in the state, without using the clock.
    pub async fn until(&self, id: &str, state: CallState) {
        self.until_it(id, |event_kind| match event_kind {
            EventKind::CallCreated => state == CallState::Pending,
            EventKind::CallState(now) => *now == state,
            _ => false,
        })
        .await;
    }

    /// Waits until the question of the call is on disk and published.
    pub async fn until_asked(&self, id: &str) {
        self.until_it(id, |event_kind| {
            matches!(event_kind, EventKind::PermissionRequest { .. })
        })
        .await;
    }

    async fn until_it(&self, id: &str, it: impl Fn(&EventKind) -> bool) {
        let mut subscription = self.kernel.subscribe(Some(0), None);
        loop {
            let event = subscription.next().await.unwrap();
            if event.call.as_ref().is_some_and(|call| call.0 == id) && it(&event.kind) {
                return;
            }
        }
    }

    /// Returns the events since the previous call.
    pub fn events(&self) -> Vec<Arc<BusEvent>> {
        let mut subscription = self.subscription.lock().unwrap();
        std::iter::from_fn(|| subscription.as_mut()?.try_next())
            .map(Result::unwrap)
            .collect()
    }

    /// Returns the events on the bus and the steps in the store, call by call in order of their start. Asserts that
    /// they agree and that every call has one end.
    pub async fn event_log(&self) -> String {
        self.event_log_of(&self.events()).await
    }

    pub async fn event_log_of(&self, events: &[Arc<BusEvent>]) -> String {
        let mut ids: Vec<&CallId> = Vec::new();
        for event in events {
            if let Some(id) = &event.call
                && !ids.contains(&id)
            {
                ids.push(id);
            }
        }
        let mut event_log = String::new();
        for id in ids {
            let call_events: Vec<&BusEvent> = events
                .iter()
                .map(Arc::as_ref)
                .filter(|event| event.call.as_ref() == Some(id))
                .collect();
            let steps: Vec<String> = call_events
                .iter()
                .map(|event| describe_event(event))
                .collect();
            let _ = writeln!(event_log, "{id}: {}", steps.join(", "));
            let ends = call_events.iter().filter(|event| event.kind.is_terminal());
            assert_eq!(ends.count(), 1, "ends of {id}: {steps:?}");
            assert!(call_events.last().unwrap().kind.is_terminal(), "{steps:?}");
            if self.kernel.store().is_some() {
                let _ = writeln!(
                    event_log,
                    "  on disk: {}",
                    self.on_disk(id, &call_events).await
                );
            }
        }
        event_log.trim_end().to_owned()
    }

    /// Returns the transitions of one call and asserts that the bus reported the same ones.
    async fn on_disk(&self, id: &CallId, events: &[&BusEvent]) -> String {
        self.store().flush().await.unwrap();
        let transitions = self.transitions(&id.0);
        let published: Vec<String> = events.iter().filter_map(|event| state(event)).collect();
        let stored: Vec<String> = transitions.iter().map(|(state, _)| state.clone()).collect();
        assert_eq!(
            published, stored,
            "the bus and the store disagree about {id}"
        );
        let row = self.store().call(&id.0).unwrap().unwrap();
        assert!(row.finished, "{id}");
        assert_eq!(Some(&row.state), stored.last(), "{id}");
        let verified = self.store().verify().unwrap();
        assert!(
            matches!(verified, Verification::Verified { .. }),
            "{verified:?}"
        );
        let kinds: Vec<String> = transitions.into_iter().map(|(_, kind)| kind).collect();
        kinds.join(", ")
    }

    /// Returns the state and kind of every step of a call in the store.
    pub fn transitions(&self, id: &str) -> Vec<(String, String)> {
        transitions(self.store(), id)
    }
}

pub(super) fn transitions(store: &Store, id: &str) -> Vec<(String, String)> {
    let filter = TransitionFilter {
        call: Some(id.to_owned()),
        ..TransitionFilter::default()
    };
    let found = store.transitions(&filter).unwrap();
    found
        .into_iter()
        .map(|found| (found.row.state, found.row.kind))
        .collect()
}

/// Returns the state that an event reports.
fn state(event: &BusEvent) -> Option<String> {
    let state = match &event.kind {
        EventKind::CallCreated => CallState::Pending,
        EventKind::CallState(state) => *state,
        EventKind::CallCompleted { .. } => CallState::Completed,
        EventKind::CallFailed => CallState::Failed,
        EventKind::CallDenied => CallState::Denied,
        EventKind::CallCancelled => CallState::Cancelled,
        EventKind::CallSealed => CallState::Sealed,
        _ => return None,
    };
    Some(state.as_str().to_owned())
}

fn describe_event(event: &BusEvent) -> String {
    match &event.kind {
        EventKind::CallState(state) => state.as_str().to_owned(),
        EventKind::PermissionDecided { decision, .. } => format!("[decided {decision}]"),
        event_kind if event_kind.is_terminal() => event_kind.name().to_uppercase(),
        event_kind => format!("[{}]", event_kind.name().trim_start_matches("call.")),
    }
}

pub(super) fn request(id: &str, tool: &str, input: Value) -> CallRequest {
    CallRequest::new(CallId(id.to_owned()), tool, input, Principal::default())
}

/// A turn of the model, with the id, tool and input of each call.
pub(super) fn batch<const N: usize>(id: &str, calls: [(&str, &str, Value); N]) -> BatchRequest {
    let call = |(id, tool, input): (&str, &str, Value)| BatchCall {
        id: CallId(id.to_owned()),
        tool: tool.to_owned(),
        only_paths: None,
        input,
    };
    BatchRequest {
        id: id.to_owned(),
        caller: Principal::default(),
        calls: calls.into_iter().map(call).collect(),
        strategy: Strategy::Waves,
        context: CallContext::default(),
    }
}

/// Formats the result for the model as one line, prefixed with its kind.
pub(super) fn shown(report: &Report) -> String {
    match &report.result {
        Ok(outcome) if outcome.is_error() => format!("no: {}", outcome.model_text()),
        Ok(outcome) => format!("ok: {}", outcome.model_text()),
        Err(error) => format!("{:?} [{}]: {}", error.class, error.code, error.message),
    }
}
