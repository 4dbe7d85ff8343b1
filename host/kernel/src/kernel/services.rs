//! The host services of one running call, one file for each interface.

mod agents;
mod background_calls;
mod resources;
mod session;
mod session_store;
mod tools;
mod user;
mod wait_clock;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::json;
use toolhost_contract::policy::{Mode, Policy, Subject};
use toolhost_contract::{CallId, Failure, Principal, Services};

use super::authorization::policy_request;
use super::batch_order::OrderSlot;
use super::cancel_handle::CancelHandle;
use super::running_call::RunningCall;
use super::sessions::Session;
use super::{CallContext, Kernel};
use crate::ToolEntry;

pub(super) use self::background_calls::BackgroundCalls;
pub(super) use self::session_store::{PendingNotes, SessionStore};

use self::wait_clock::WaitClock;

/// Maximum number of calls of other tools per call.
const MAX_CALLS: usize = 64;

/// Created for each run of a call.
pub(crate) struct CallServices {
    /// `None` in a kernel that is not shared: then services that call back fail.
    kernel: Option<Weak<Kernel>>,
    session: Arc<Session>,
    entry: Arc<ToolEntry>,
    id: CallId,
    caller: Arc<Principal>,
    context: CallContext,
    /// The policy when the call was evaluated.
    policy: Arc<Policy>,
    cancel: CancelHandle,
    /// The changes of the call are evaluated after the run.
    staged: bool,
    notes: Mutex<PendingNotes>,
    counts: Arc<ServiceCounts>,
    waiting: WaitClock,
}

/// What a call has requested in all its runs.
#[derive(Default)]
pub(super) struct ServiceCounts {
    questions: AtomicUsize,
    /// Calls of other tools, and tasks of sub-agents.
    calls: AtomicUsize,
}

impl CallServices {
    pub(super) fn new(
        kernel: &Kernel,
        entry: &Arc<ToolEntry>,
        run: &RunningCall<'_>,
        held: bool,
    ) -> Self {
        Self {
            kernel: kernel.weak_self.get().cloned(),
            session: Arc::clone(&run.session),
            entry: Arc::clone(entry),
            id: run.id.clone(),
            caller: Arc::clone(&run.caller),
            context: run.context.clone(),
            policy: kernel.policy_for(&run.session),
            cancel: run.cancel.clone(),
            staged: held,
            notes: Mutex::default(),
            counts: Arc::clone(&run.service_counts),
            waiting: WaitClock::default(),
        }
    }

    /// Saves the notes of the call, because its result is final. Of the variables that affect programs, only those in
    /// `allowed` are saved.
    pub(super) fn commit_notes(&self, allowed: &[(String, String)], order: Option<&OrderSlot>) {
        let notes = std::mem::take(&mut *self.notes());
        if let Some(slot) = order
            && !notes.is_empty()
        {
            slot.record_session_change();
        }
        self.session.store().apply(notes, allowed);
    }

    /// Returns the variables that the call sets for the programs of its session and that can change what these run.
    pub(super) fn steering_variables(&self) -> Vec<(String, String)> {
        match self.notes().variables() {
            Some(variables) => self.session.store().steering_variables(&variables),
            None => Vec::new(),
        }
    }

    /// Returns the time of the run that does not count for the tool.
    pub(super) fn waited(&self) -> Duration {
        self.waiting.so_far()
    }

    fn notes(&self) -> MutexGuard<'_, PendingNotes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kernel(&self) -> Result<Arc<Kernel>, Failure> {
        let kernel = self.kernel.as_ref().and_then(Weak::upgrade);
        kernel.ok_or_else(|| Failure::new("not_configured", "this host provides no services"))
    }

    /// Returns the mode of the session, without the override of this call.
    fn mode_now(&self) -> Mode {
        let Ok(kernel) = self.kernel() else {
            return Mode::default();
        };
        let policy = kernel.policy();
        let chosen = self.session.mode();
        chosen
            .filter(|mode| policy.with_mode(*mode).is_ok())
            .unwrap_or_else(|| policy.mode())
    }
}

impl Services for CallServices {
    fn mode(&self) -> Mode {
        self.context.mode.unwrap_or_else(|| self.mode_now())
    }

    fn denied_url_reason(&self, url: &str) -> Option<String> {
        let input = json!({ "url": url });
        let subject = Subject::of(&self.entry.tool, &input);
        let request = policy_request(&self.entry, &input, &self.caller, &subject, &self.context);
        let denial = self.policy.find_denial(request)?;
        Some(denial.reason)
    }
}
