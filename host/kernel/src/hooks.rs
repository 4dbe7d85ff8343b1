//! Hooks: whoever wants a say before a call runs, or after it ended.
//!
//! Hooks run in the order they were added. Before a call, the first one that denies or answers ends the round; asks and
//! allows are collected, and the policy weighs them. A hook that fails counts as a no when it is fail-closed and as
//! silence when it is fail-open.

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
use toolhost_contract::hook::{After, Before, Decision};
use toolhost_contract::{
    BoxFuture, Call, Descriptor, Digest, Failure, Outcome, PluginName, Reads, ToolName, UserId,
    text,
};

pub use cache::ReadCache;
pub(crate) use cache::weight;
pub use callback::CallbackHook;
pub use command::process;
pub use command::{CommandHook, HookEvent, HookEventError, STOP_CODE};
pub use matcher::{Matcher, MatcherError};

/// Longest time of one hook, unless it has one of its own.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// So often may hooks change the input of one call before they are taken for going in a circle.
pub const MAX_ROUNDS: usize = 8;

/// A call as hooks see it.
#[derive(Debug, Clone)]
pub struct HookCall {
    pub call: Call,
    /// The name callers use.
    pub name: ToolName,
    pub plugin: PluginName,
    pub tool: Arc<Descriptor>,
    /// Of the plugin's component.
    pub digest: Option<Digest>,
    pub mode: String,
    /// What it looked at; for a call that ran, and where a hook wants it.
    pub reads: Option<Arc<dyn Reads>>,
    /// The hook whose input this is, as it was before it was checked, which fills in defaults. Saying it again is no
    /// change.
    pub rewritten: Option<(String, Value)>,
}

/// Implemented by a callback, a component and a command.
pub trait Hook: Send + Sync {
    fn before<'a>(&'a self, _call: &'a HookCall) -> BoxFuture<'a, Result<Before, HookError>> {
        Box::pin(std::future::ready(Ok(Before::default())))
    }

    fn after<'a>(
        &'a self,
        _call: &'a HookCall,
        _outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<After, HookError>> {
        Box::pin(std::future::ready(Ok(After::Keep)))
    }

    /// Whether it asks what calls of this tool looked at.
    fn wants_reads(&self, _tool: &Descriptor) -> bool {
        false
    }

    /// The messages of a session changed. Told, not asked: there is no answer.
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

/// What a hook that fails means for the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The call goes on; the failure is a log message.
    Open,
    /// The call is denied.
    #[default]
    Closed,
}

/// A hook with the operator's word on when and how it is heard.
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

/// When a hook is heard before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// It has a say in whether the call may run.
    #[default]
    Judge,
    /// Only when the call may run, to answer in the tool's place: what was not allowed is not answered from memory.
    Supply,
}

/// What the hooks said together before a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// Nobody objects; `ask` and `allow` are for the policy to weigh.
    Go(Weights),
    /// The input to start over with, and who changed it.
    Changed {
        input: Value,
        by: String,
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
pub struct Weights {
    pub ask: Option<Ask>,
    /// The hook that allowed it.
    pub allow: Option<String>,
    /// Failures of fail-open hooks, for the log.
    pub failures: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    pub by: String,
    pub reason: Option<String>,
    pub meta: Option<Value>,
}

/// What the hooks left of an outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Revised {
    pub outcome: Outcome,
    /// The hooks that changed it.
    pub by: Vec<String>,
    /// Failures of fail-open hooks, for the log.
    pub failures: Vec<String>,
}

/// Hooks of so many calls of a user run at once: each may cost an instance or a process, and a turn may have hundreds
/// of calls.
pub const AT_ONCE: usize = 8;

/// All hooks of a kernel, in their order.
pub struct Hooks {
    entries: Vec<HookEntry>,
    slots: Slots,
}

/// [`AT_ONCE`] for each user: calls on which hooks take long do not delay those of other users.
#[derive(Default)]
struct Slots(Mutex<HashMap<UserId, Weak<Semaphore>>>);

impl Slots {
    fn of(&self, user: &UserId) -> Arc<Semaphore> {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slots) = users.get(user).and_then(Weak::upgrade) {
            return slots;
        }
        // Only users with a call at a hook stay in the map.
        users.retain(|_, slots| slots.strong_count() > 0);
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        users.insert(user.clone(), Arc::downgrade(&slots));
        slots
    }
}

impl Hooks {
    pub fn new(entries: Vec<HookEntry>) -> Self {
        Self {
            entries,
            slots: Slots::default(),
        }
    }

    /// Is there a hook that may have the answer of a call?
    pub fn supplies(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.stage == Stage::Supply)
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Does a hook ask what calls of this tool looked at?
    pub fn want_reads(&self, tool: &Descriptor) -> bool {
        let mut hooks = self.entries.iter();
        hooks.any(|entry| entry.hook.wants_reads(tool))
    }

    pub async fn before(&self, call: &HookCall) -> Said {
        self.hear(call, Stage::Judge).await
    }

    /// For a call that may run: does somebody have its answer?
    pub async fn supply(&self, call: &HookCall) -> Said {
        self.hear(call, Stage::Supply).await
    }

    async fn hear(&self, call: &HookCall, stage: Stage) -> Said {
        let slots = self.slots.of(&call.call.caller.user);
        let _slot = slots.acquire().await;
        let mut weights = Weights::default();
        let heard = |entry: &&HookEntry| entry.stage == stage && entry.matcher.matches(call);
        for entry in self.entries.iter().filter(heard) {
            let said = match entry.run(entry.hook.before(call)).await {
                Ok(said) => said,
                Err(error) => match entry.failed(&error) {
                    Ok(words) => {
                        weights.failures.push(words);
                        continue;
                    }
                    Err(reason) => {
                        return Said::Denied {
                            by: entry.name.clone(),
                            reason: Some(reason),
                            outcome: None,
                        };
                    }
                },
            };
            let by = entry.name.clone();
            match said.decision {
                Decision::Deny { reason, outcome } => {
                    return Said::Denied {
                        by,
                        reason,
                        outcome: outcome.map(without_tail),
                    };
                }
                Decision::Result(outcome) => {
                    let outcome = without_tail(outcome);
                    return Said::Answered { by, outcome };
                }
                Decision::Continue => {}
                Decision::Allow { .. } => weights.allow = weights.allow.or(Some(by.clone())),
                // The first who wants a person is the one whose words the person reads.
                Decision::Ask { reason, meta } => {
                    weights.ask = weights.ask.or(Some(Ask {
                        by: by.clone(),
                        reason,
                        meta,
                    }));
                }
            }
            // Same input, no change: otherwise a hook that always says what it wants would never let a call go.
            if let Some(input) = said.updated_input
                && input != call.call.input
            {
                let said = (by, input);
                if call.rewritten.as_ref() != Some(&said) {
                    let (by, input) = said;
                    return Said::Changed { input, by };
                }
            }
        }
        Said::Go(weights)
    }

    /// Every matching hook in turn, each on what the one before it left.
    pub async fn after(&self, call: &HookCall, outcome: Outcome) -> Revised {
        let slots = self.slots.of(&call.call.caller.user);
        let _slot = slots.acquire().await;
        let mut revised = Revised {
            outcome,
            by: Vec::new(),
            failures: Vec::new(),
        };
        for entry in self
            .entries
            .iter()
            .filter(|entry| entry.matcher.matches(call))
        {
            let changed = match entry.run(entry.hook.after(call, &revised.outcome)).await {
                Ok(After::Keep) => continue,
                Ok(After::Replace(other)) => *without_tail(other),
                Ok(after) => after.apply(revised.outcome),
                Err(error) => match entry.failed(&error) {
                    Ok(words) => {
                        revised.failures.push(words);
                        continue;
                    }
                    // What the hook was there to hide or to cut must not get through because it crashed.
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
            let told = entry.run(entry.hook.messages_changed(session, messages));
            if let Err(error) = told.await {
                failures.push(entry.words(&error));
            }
        }
        failures
    }
}

/// A hook answers for a call; it does not make another one.
fn without_tail(mut outcome: Box<Outcome>) -> Box<Outcome> {
    outcome.tail = None;
    outcome
}

impl HookEntry {
    /// A hook by itself is for every call, closed on failure.
    pub fn new(name: impl Into<String>, hook: Arc<dyn Hook>) -> Self {
        Self {
            name: name.into(),
            hook,
            matcher: Matcher::everything(),
            on_failure: OnFailure::Closed,
            timeout: TIMEOUT,
            stage: Stage::Judge,
        }
    }

    async fn run<T>(
        &self,
        saying: impl Future<Output = Result<T, HookError>>,
    ) -> Result<T, HookError> {
        match timeout(self.timeout, AssertUnwindSafe(saying).catch_unwind()).await {
            Ok(Ok(said)) => said,
            Ok(Err(_panic)) => Err(HookError("it panicked".to_owned())),
            Err(_) => Err(HookError(format!(
                "no answer within {}ms",
                self.timeout.as_millis()
            ))),
        }
    }

    fn words(&self, error: &HookError) -> String {
        format!(
            "hook `{}` failed: {}",
            self.name,
            text::inline(&error.0, 500)
        )
    }

    /// Ok: the call goes on, and this is for the log. Err: it does not, and this is why.
    fn failed(&self, error: &HookError) -> Result<String, String> {
        match self.on_failure {
            OnFailure::Open => Ok(self.words(error)),
            OnFailure::Closed => Err(self.words(error)),
        }
    }
}

#[cfg(test)]
mod tests;
