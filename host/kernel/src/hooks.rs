//! Hooks: callbacks, components and commands that run before and after tool calls.
//!
//! Hooks run in the order in which they were added. Before a call, the first hook that denies or answers ends the
//! round; asks and allows are collected for the policy. A hook that fails denies the call if it is fail-closed and is
//! ignored if it is fail-open.

mod cache;
mod callback;
mod command;
mod matcher;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use toolhost_contract::hook::{PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_contract::policy::is_high_risk;
use toolhost_contract::{
    BoxFuture, Call, Descriptor, Digest, Failure, Outcome, PluginName, ReadSet, ToolName, UserId,
    text,
};

use crate::ToolEntry;

pub use cache::ReadCache;
pub(crate) use cache::{display_size, outcome_size, result_size};
pub use callback::CallbackHook;
pub use command::process;
pub use command::{CommandHook, HookEvent, HookEventError, STOP_CODE};
pub use matcher::{Matcher, MatcherError};

/// Default timeout of one hook.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of times that hooks may change the input of one call. More indicate hooks that revert each other.
pub const MAX_ROUNDS: usize = 8;
/// Maximum length of the reason of one hook that asks, in characters.
const MAX_REASON: usize = 200;

/// A call as hooks see it.
#[derive(Debug, Clone)]
pub struct HookCall {
    pub call: Call,
    /// The name that callers use.
    pub name: ToolName,
    pub plugin: PluginName,
    pub tool: Arc<Descriptor>,
    /// Digest of the plugin's component.
    pub digest: Option<Digest>,
    pub mode: String,
    /// The call may do less than its caller otherwise may, for example only use some of the directories.
    pub is_narrowed: bool,
    /// What the call read. Present after the run, if a hook wants it.
    pub reads: Option<Arc<dyn ReadSet>>,
    /// The hook that produced this input, and the input before validation filled in defaults. The same input from the
    /// same hook is not a change.
    pub rewritten: Option<(String, Value)>,
}

/// The tool of a call as hooks see it.
#[derive(Clone, Copy)]
struct HookedTool<'a> {
    plugin: &'a PluginName,
    /// The name that callers use.
    name: &'a ToolName,
    tool: &'a Descriptor,
}

impl<'a> From<&'a HookCall> for HookedTool<'a> {
    fn from(call: &'a HookCall) -> Self {
        Self {
            plugin: &call.plugin,
            name: &call.name,
            tool: &call.tool,
        }
    }
}

impl<'a> From<&'a ToolEntry> for HookedTool<'a> {
    fn from(entry: &'a ToolEntry) -> Self {
        Self {
            plugin: &entry.plugin.name,
            name: &entry.name,
            tool: &entry.tool,
        }
    }
}

/// A hook: a callback, a component or a command.
pub trait Hook: Send + Sync {
    fn before<'a>(
        &'a self,
        _call: &'a HookCall,
    ) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(std::future::ready(Ok(PreHookResponse::default())))
    }

    fn after<'a>(
        &'a self,
        _call: &'a HookCall,
        _outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        Box::pin(std::future::ready(Ok(PostHookResponse::Keep)))
    }

    /// Whether the hook does something at this point of calls of a tool. If not, it is not called.
    fn runs(&self, _point: HookPoint, _plugin: &PluginName, _tool: &Descriptor) -> bool {
        true
    }

    /// Whether the hook needs the read sets of calls of this tool.
    fn wants_reads(&self, _tool: &Descriptor) -> bool {
        false
    }

    /// Notifies the hook that the messages of a session changed.
    fn messages_changed<'a>(
        &'a self,
        _session: &'a str,
        _messages: &'a Value,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HookError(pub String);

/// The effect of a failing hook on the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The call goes on; the failure is a log message.
    Open,
    /// The call is denied.
    #[default]
    Closed,
}

/// A hook with the operator's settings for it.
#[derive(Clone)]
pub struct HookEntry {
    /// For messages and the audit trail.
    pub name: String,
    pub hook: Arc<dyn Hook>,
    pub matcher: Matcher,
    pub on_failure: OnFailure,
    pub timeout: Duration,
    pub stage: Stage,
}

/// The stage of a call before the tool runs in which a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// The hook takes part in the decision whether the call may run.
    #[default]
    Decide,
    /// The hook runs only once the call may run, and can answer instead of the tool.
    Supply,
}

/// A point of a call at which hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookPoint {
    Before,
    After,
}

/// The combined decision of the hooks before a call.
#[derive(Debug, Clone, PartialEq)]
pub enum HookDecision {
    /// No hook objects; `ask` and `allow` are inputs to the policy.
    Proceed(HookHints),
    /// The input to start over with, the hook that changed it, and its demand for approval, which stays.
    Changed {
        input: Value,
        by: String,
        ask: Option<AskHint>,
    },
    Denied {
        by: String,
        reason: Option<String>,
        outcome: Option<Box<Outcome>>,
    },
    Answered {
        by: String,
        outcome: Box<Outcome>,
    },
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct HookHints {
    pub ask: Option<AskHint>,
    /// The hook that allowed it.
    pub allow: Option<String>,
    /// Failures of fail-open hooks, for the log.
    pub failures: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AskHint {
    pub by: String,
    pub reason: Option<String>,
    pub meta: Option<Value>,
}

impl HookHints {
    pub(crate) fn add_ask(&mut self, ask: Option<AskHint>) {
        self.ask = AskHint::of_both(self.ask.take(), ask);
    }
}

impl AskHint {
    /// Joins two demands for approval. The user sees both reasons, first that of a high risk, which no saved approval
    /// answers.
    pub(crate) fn of_both(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(first), Some(second)) if second.is_high_risk() && !first.is_high_risk() => {
                Some(second.and(&first))
            }
            (Some(first), Some(second)) => Some(first.and(&second)),
            (first, second) => first.or(second),
        }
    }

    fn is_high_risk(&self) -> bool {
        is_high_risk(self.meta.as_ref())
    }

    pub(crate) fn reason(&self) -> String {
        let reason = self.reason.clone();
        reason.unwrap_or_else(|| format!("hook `{}`", self.by))
    }

    fn and(self, other: &Self) -> Self {
        let (own, other) = (self.reason(), other.reason());
        let reason = if own == other {
            own
        } else {
            format!("{own}; {other}")
        };
        Self {
            reason: Some(reason),
            ..self
        }
    }
}

/// An outcome after the hooks have processed it.
#[derive(Debug, Clone, PartialEq)]
pub struct RevisedOutcome {
    pub outcome: Outcome,
    /// The hooks that changed it.
    pub by: Vec<String>,
    /// Failures of fail-open hooks, for the log.
    pub failures: Vec<String>,
}

/// Maximum number of calls per user whose hooks run concurrently: each hook may need an instance or a process, and a
/// turn can have hundreds of calls.
pub const MAX_HOOKED_CALLS: usize = 8;

/// All hooks of a kernel, in order.
pub struct Hooks {
    entries: Vec<HookEntry>,
    slots: Arc<UserSlots>,
}

/// [`MAX_HOOKED_CALLS`] slots for each user, so that slow hooks of one user do not delay the calls of others.
#[derive(Default)]
struct UserSlots(Mutex<HashMap<UserId, Weak<Semaphore>>>);

impl UserSlots {
    fn of(&self, user: &UserId) -> Arc<Semaphore> {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slots) = users.get(user).and_then(Weak::upgrade) {
            return slots;
        }
        // Only users with calls in hooks stay in the map.
        users.retain(|_, slots| slots.strong_count() > 0);
        let slots = Arc::new(Semaphore::new(MAX_HOOKED_CALLS));
        users.insert(user.clone(), Arc::downgrade(&slots));
        slots
    }
}

impl Hooks {
    pub fn new(entries: Vec<HookEntry>) -> Self {
        Self {
            entries,
            slots: Arc::default(),
        }
    }

    /// Other hooks with the same limit of concurrent calls.
    pub(crate) fn with_entries(&self, entries: Vec<HookEntry>) -> Self {
        Self {
            entries,
            slots: Arc::clone(&self.slots),
        }
    }

    /// Whether a hook runs in this stage before calls of a tool.
    pub(crate) fn run_before(&self, stage: Stage, tool: &ToolEntry) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.stage == stage && entry.runs(HookPoint::Before, tool.into()))
    }

    /// Whether a hook runs after calls of a tool.
    pub(crate) fn run_after(&self, tool: &ToolEntry) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.runs(HookPoint::After, tool.into()))
    }

    /// Whether a hook needs the read sets of calls of this tool.
    pub fn want_reads(&self, tool: &Descriptor) -> bool {
        let mut hooks = self.entries.iter();
        hooks.any(|entry| entry.hook.wants_reads(tool))
    }

    pub async fn before(&self, call: &HookCall) -> HookDecision {
        self.run_hooks(call, Stage::Decide).await
    }

    /// Asks the supplying hooks for the outcome of a call that may run.
    pub async fn supply(&self, call: &HookCall) -> HookDecision {
        self.run_hooks(call, Stage::Supply).await
    }

    async fn run_hooks(&self, call: &HookCall, stage: Stage) -> HookDecision {
        let slots = self.slots.of(&call.call.caller.user);
        let _slot = slots.acquire().await;
        let mut hints = HookHints::default();
        let runs =
            |entry: &&HookEntry| entry.stage == stage && entry.runs(HookPoint::Before, call.into());
        for entry in self.entries.iter().filter(runs) {
            let response = match entry.run(entry.hook.before(call)).await {
                Ok(response) => response,
                Err(error) => match entry.apply_on_failure(&error) {
                    Ok(failure) => {
                        hints.failures.push(failure);
                        continue;
                    }
                    Err(reason) => {
                        return HookDecision::Denied {
                            by: entry.name.clone(),
                            reason: Some(reason),
                            outcome: None,
                        };
                    }
                },
            };
            let by = entry.name.clone();
            let mut own_ask = None;
            match response.decision {
                PreHookDecision::Deny { reason, outcome } => {
                    return HookDecision::Denied {
                        by,
                        reason,
                        outcome: outcome.map(without_tail),
                    };
                }
                PreHookDecision::Result(outcome) => {
                    let outcome = without_tail(outcome);
                    return HookDecision::Answered { by, outcome };
                }
                PreHookDecision::Continue => {}
                PreHookDecision::Allow { .. } => hints.allow = hints.allow.or(Some(by.clone())),
                PreHookDecision::Ask { reason, meta } => {
                    own_ask = Some(AskHint {
                        by: by.clone(),
                        reason: reason.map(|reason| text::escape_line(&reason, MAX_REASON)),
                        meta,
                    });
                }
            }
            // An unchanged input is not a change; otherwise a hook that always sets the input would loop forever.
            if let Some(input) = response.updated_input
                && input != call.call.input
            {
                let rewritten = (by, input);
                if call.rewritten.as_ref() != Some(&rewritten) {
                    let (by, input) = rewritten;
                    let ask = own_ask;
                    return HookDecision::Changed { input, by, ask };
                }
            }
            hints.add_ask(own_ask);
        }
        HookDecision::Proceed(hints)
    }

    /// Runs every matching hook in order. Each one sees the outcome that the previous one left.
    pub async fn after(&self, call: &HookCall, outcome: Outcome) -> RevisedOutcome {
        let slots = self.slots.of(&call.call.caller.user);
        let _slot = slots.acquire().await;
        let mut revised = RevisedOutcome {
            outcome,
            by: Vec::new(),
            failures: Vec::new(),
        };
        for entry in self
            .entries
            .iter()
            .filter(|entry| entry.runs(HookPoint::After, call.into()))
        {
            let changed = match entry.run(entry.hook.after(call, &revised.outcome)).await {
                Ok(PostHookResponse::Keep) => continue,
                Ok(PostHookResponse::Replace(other)) => *without_tail(other),
                Ok(after) => after.apply(revised.outcome),
                Err(error) => match entry.apply_on_failure(&error) {
                    Ok(failure) => {
                        revised.failures.push(failure);
                        continue;
                    }
                    // The result may contain what the hook would have removed, so it is withheld.
                    Err(reason) => Outcome {
                        error: Some(Failure::new("hook_failed", reason)),
                        ..Outcome::default()
                    },
                },
            };
            revised.outcome = changed;
            revised.by.push(entry.name.clone());
        }
        revised
    }

    pub async fn messages_changed(&self, session: &str, messages: &Value) -> Vec<String> {
        let mut failures = Vec::new();
        for entry in &self.entries {
            let notification = entry.run(entry.hook.messages_changed(session, messages));
            if let Err(error) = notification.await {
                failures.push(entry.failure_message(&error));
            }
        }
        failures
    }
}

/// Removes the tail call from an outcome, because hooks cannot make calls.
fn without_tail(mut outcome: Box<Outcome>) -> Box<Outcome> {
    outcome.tail = None;
    outcome
}

impl HookEntry {
    /// Creates an entry that matches every call and is fail-closed.
    pub fn new(name: impl Into<String>, hook: Arc<dyn Hook>) -> Self {
        Self {
            name: name.into(),
            hook,
            matcher: Matcher::everything(),
            on_failure: OnFailure::Closed,
            timeout: DEFAULT_TIMEOUT,
            stage: Stage::Decide,
        }
    }

    fn runs(&self, point: HookPoint, tool: HookedTool<'_>) -> bool {
        let HookedTool { plugin, name, tool } = tool;
        self.hook.runs(point, plugin, tool) && self.matcher.matches_tool(plugin, name, tool)
    }

    async fn run<T>(
        &self,
        future: impl Future<Output = Result<T, HookError>>,
    ) -> Result<T, HookError> {
        match timeout(self.timeout, AssertUnwindSafe(future).catch_unwind()).await {
            Ok(Ok(response)) => response,
            Ok(Err(_panic)) => Err(HookError("panicked".to_owned())),
            Err(_) => Err(HookError(format!(
                "no answer within {} ms",
                self.timeout.as_millis()
            ))),
        }
    }

    fn failure_message(&self, error: &HookError) -> String {
        format!(
            "hook `{}` failed: {}",
            self.name,
            text::escape_line(&error.0, 500)
        )
    }

    /// Returns the message to log if the call continues, or the reason for denying it.
    fn apply_on_failure(&self, error: &HookError) -> Result<String, String> {
        match self.on_failure {
            OnFailure::Open => Ok(self.failure_message(error)),
            OnFailure::Closed => Err(self.failure_message(error)),
        }
    }
}

#[cfg(test)]
mod tests;
