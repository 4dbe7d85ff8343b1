//! The journal: writes each step of a call to its record, the event bus and the store.
//!
//! The order is significant. A question is on disk before the user sees it, and the intent of a call that can change
//! something is on disk before it runs. A call that only reads is written shortly afterwards, in a group with others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolhost_contract::bus::EventKind;
use toolhost_contract::lifecycle::{
    self, CallInput, CallRecord, CallState, CallUsage, InvalidTransition, Snapshot, Timestamp,
    Transition,
};
use toolhost_contract::policy::ApprovalScope;
use toolhost_contract::{
    CallError, CallId, ChangeSet, ErrorClass, FileDiff, Outcome, Principal, text,
};
use toolhost_store::{CallRow, EventRow, Store, TransitionRow, Write};

use crate::clock::Clock;
use crate::event_bus::{EventBus, NewEvent};
use crate::kernel::{CallContext, Refusal};

/// When a step is written to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Questions and the intent of calls that change something are awaited; other steps are written in groups.
    #[default]
    Effects,
    /// Every step is on disk before the next one begins.
    EveryStep,
}

/// Member of the record of a deferred call that contains the approval to save if the user approves.
pub const IN_ADVANCE: &str = "approvalInAdvance";

pub(crate) struct Journal {
    pub clock: Clock,
    pub bus: Arc<EventBus>,
    pub store: Option<Store>,
    pub durability: Durability,
}

impl Journal {
    pub(crate) fn event_row(
        &self,
        caller: &Principal,
        call: Option<&CallId>,
        event_kind: &EventKind,
    ) -> EventRow {
        EventRow {
            channel: event_kind.channel().as_str().to_owned(),
            session: caller.session.to_string(),
            call: call.map(|id| id.0.clone()),
            at_ms: self.clock.now().0,
            kind: event_kind.name().to_owned(),
            body: event_kind.data(),
        }
    }

    /// Queues a write, if there is a store. `Store::flush` reports it if it is lost.
    pub(crate) fn queue(&self, write: impl FnOnce() -> Write) {
        if let Some(store) = &self.store {
            let _ = store.queue(write());
        }
    }

    pub(crate) fn publish_for_call(
        &self,
        caller: &Arc<Principal>,
        call: &CallId,
        event_kind: EventKind,
        snapshot: Snapshot,
    ) {
        self.bus.publish(|| NewEvent {
            at: self.clock.now(),
            caller,
            call: Some(call),
            event_kind,
            snapshot: Some(Arc::new(snapshot)),
        });
    }

    /// Publishes an event that does not belong to a call.
    pub(crate) fn publish(&self, caller: &Arc<Principal>, event_kind: EventKind) {
        self.bus.publish(|| NewEvent {
            at: self.clock.now(),
            caller,
            call: None,
            event_kind,
            snapshot: None,
        });
    }
}

/// The record of one call from its first step to its last. Dropping it earlier records a cancellation.
pub(crate) struct CallJournal {
    journal: Arc<Journal>,
    /// Shared with the snapshots of this state; the next step clones it.
    record: Arc<CallRecord>,
    /// Number of audit trail lines that are written or queued.
    written: usize,
    /// The rule, hook or user that denied the call.
    pub(crate) denied_by: Option<String>,
    /// The note of the denial.
    pub(crate) denial_note: Option<String>,
    /// The time of the latest question, which identifies it.
    asked_at: Option<Timestamp>,
    /// When the tool was started.
    started: Option<Instant>,
    /// The caller has disconnected; the question stays on disk.
    deferred: bool,
    latest: LatestSnapshot,
    /// The diff of the only file that the call changed, for events.
    diff: Option<Arc<FileDiff>>,
}

/// The last snapshot that was published for a call, for events that the call emits itself.
pub(crate) type LatestSnapshot = Arc<Mutex<Option<Arc<Snapshot>>>>;

impl CallJournal {
    pub(crate) fn begin(
        journal: &Arc<Journal>,
        id: CallId,
        name: String,
        input: CallInput,
        caller: Arc<Principal>,
        context: &CallContext,
    ) -> Self {
        let mut record = CallRecord::new(id, name, input, caller, journal.clock.now());
        record.batch.clone_from(&context.batch);
        record.parent.clone_from(&context.parent);
        record.origin = context.origin;
        let known = context.restriction.iter();
        let known = known.flat_map(|restriction| restriction.only_paths());
        record.only_paths = known.chain(&context.only_paths).cloned().collect();
        let life = Self {
            journal: Arc::clone(journal),
            record: Arc::new(record),
            written: 0,
            denied_by: None,
            denial_note: None,
            asked_at: None,
            started: None,
            deferred: false,
            latest: LatestSnapshot::default(),
            diff: None,
        };
        life.publish(EventKind::CallCreated);
        life
    }

    pub(crate) fn record(&self) -> &CallRecord {
        &self.record
    }

    pub(crate) fn latest(&self) -> LatestSnapshot {
        Arc::clone(&self.latest)
    }

    /// Returns how long the tool has been running; zero before it starts.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |start| start.elapsed())
    }

    pub(crate) async fn step(&mut self, step: Transition) -> Result<(), Refusal> {
        self.apply(step)?;
        if self.journal.durability == Durability::EveryStep {
            self.commit().await?;
        }
        Ok(())
    }

    /// Records a question, which is on disk when this returns. Returns the event to publish.
    pub(crate) async fn ask(
        &mut self,
        title: String,
        reason: String,
        rule: Option<String>,
        meta: Option<Value>,
        content: Value,
        changes: Option<Arc<ChangeSet>>,
    ) -> Result<EventKind, Refusal> {
        let summary = reason.clone();
        self.apply(Transition::ApprovalRequested { reason, rule, meta })?;
        let event_kind = EventKind::PermissionRequest {
            title,
            summary,
            content,
            changes,
        };
        let event = self.event_row(&event_kind);
        self.commit_with(vec![Write::Event(event)]).await?;
        Ok(event_kind)
    }

    /// Publishes the user's decision. `scope` is that of an approval.
    pub(crate) fn record_decision(
        &mut self,
        decision: &'static str,
        scope: Option<ApprovalScope>,
        by: &str,
        note: Option<&str>,
    ) {
        let event_kind = EventKind::PermissionDecided {
            decision,
            scope,
            by: by.to_owned(),
            note: note.map(ToOwned::to_owned),
        };
        self.journal
            .queue(|| Write::Event(self.event_row(&event_kind)));
        self.publish(event_kind);
    }

    /// Records the intent of a call that may change something. It is on disk when this returns.
    pub(crate) async fn record_intent(&mut self) -> Result<(), Refusal> {
        if self.record.may_have_effects() {
            self.commit().await?;
        }
        Ok(())
    }

    /// Keeps the committed changes for the event that ends the call.
    pub(crate) fn record_changes(&mut self, changes: &ChangeSet) {
        if self.journal.bus.has_subscribers() {
            let file = changes.only_file();
            self.diff = file.and_then(|file| file.diff.clone()).map(Arc::new);
        }
    }

    /// Starts the clock of the tool. Called late, because time spent on disk writes does not count for the tool.
    pub(crate) fn start_clock(&mut self) {
        self.started = Some(Instant::now());
    }

    /// Records a long-running call, so that it is known if the host crashes.
    pub(crate) fn record_progress(&mut self) {
        self.queue();
    }

    /// Records that the caller disconnects while the question stays, with the approval to save if the user approves.
    pub(crate) async fn defer(&mut self, in_advance: Option<Value>) -> Result<(), Refusal> {
        let Some(store) = &self.journal.store else {
            return Ok(());
        };
        let mut row = row(&self.record, true);
        if let (Value::Object(members), Some(approval)) = (&mut row.record, in_advance) {
            // The approval contains the input.
            members.remove("input");
            members.insert(IN_ADVANCE.to_owned(), approval);
        }
        // No step is taken: the question exists already, and only the recipient of the answer changes.
        let write = Write::Call {
            row: Box::new(row),
            transitions: transitions(&self.record, self.written),
        };
        store.commit(write).await.map_err(store_error)?;
        self.written = self.record.trail.len();
        self.deferred = true;
        Ok(())
    }

    /// Records the call before anything else is done with it. Fails if the store is known to fail: a call that only reads
    /// would otherwise run without a record.
    pub(crate) async fn register(&mut self) -> Result<(), Refusal> {
        match (&self.journal.store, self.journal.durability) {
            (None, _) => Ok(()),
            (Some(store), Durability::Effects) => Ok(store.health().map_err(store_error)?),
            (Some(_), Durability::EveryStep) => self.commit().await,
        }
    }

    /// Keeps what the tool used for the record of the end of the call.
    pub(crate) fn record_usage(&mut self, usage: CallUsage) {
        Arc::make_mut(&mut self.record).set_usage(usage);
    }

    /// Records the end of a call. For a call that may have changed something, the end is on disk when this returns:
    /// a call that was reported as successful must not be sealed later.
    pub(crate) async fn end(
        &mut self,
        result: &Result<Outcome, CallError>,
        supplied_by: Option<String>,
        duration: Duration,
    ) {
        self.close(result, supplied_by, duration);
        let waits = match self.journal.durability {
            Durability::Effects => self.record.may_have_effects() && self.record.attempts > 0,
            Durability::EveryStep => true,
        };
        if waits {
            // The effects cannot be undone if the record cannot be written. A store that fails here refuses the next
            // call.
            let _ = self.commit().await;
        } else {
            self.queue();
        }
    }

    /// Records the end of a call that never started.
    pub(crate) fn end_unstarted(&mut self, error: &CallError) {
        self.close(&Err(error.clone()), None, Duration::ZERO);
        self.queue();
    }

    fn close(
        &mut self,
        result: &Result<Outcome, CallError>,
        supplied_by: Option<String>,
        duration: Duration,
    ) {
        // Its end is recorded with the answer, possibly by another process.
        if self.deferred {
            return;
        }
        let state = self.record.state;
        let step = match result {
            Ok(outcome) => Transition::Completed {
                is_error: outcome.is_error(),
                supplied_by,
                duration,
            },
            Err(error) => [
                cancelled(error, duration),
                (error.class == ErrorClass::Denied)
                    .then(|| denied_as(error, self.denied_by.clone(), self.denial_note.clone())),
                Some(Transition::Failed {
                    code: error.code.clone(),
                    message: error.message.clone(),
                    duration,
                }),
                // A call that waits for an answer cannot fail.
                (error.class != ErrorClass::TimedOut)
                    .then(|| denied_as(error, self.denied_by.clone(), self.denial_note.clone())),
            ]
            .into_iter()
            .flatten()
            .find(|step| step.next_state(state).is_some())
            .unwrap_or(Transition::Cancelled {
                reason: error.message.clone(),
                duration,
            }),
        };
        if self.apply_unpublished(step).is_err() {
            return;
        }
        self.publish_with(|| match (&self.record.state, result) {
            (CallState::Completed, Ok(outcome)) => EventKind::CallCompleted {
                title: self.record.name.clone(),
                summary: outcome.summary.clone(),
                result: Some(shown(outcome)),
                diff: self.diff.clone(),
            },
            (CallState::Denied, _) => EventKind::CallDenied,
            (CallState::Cancelled, _) => EventKind::CallCancelled,
            _ => EventKind::CallFailed,
        });
        self.journal.bus.wake();
    }

    fn apply(&mut self, step: Transition) -> Result<(), Refusal> {
        let state = self
            .apply_unpublished(step)
            .map_err(|illegal| Refusal::from(CallError::internal(illegal)))?;
        self.publish(EventKind::CallState(state));
        Ok(())
    }

    fn apply_unpublished(&mut self, step: Transition) -> Result<CallState, InvalidTransition> {
        let mut at = self.journal.clock.now();
        if let Transition::ApprovalRequested { .. } = step {
            // An answer identifies its question by this time, so two questions of a call must not have the same time:
            // otherwise the answer to the first would be taken for the second.
            if let Some(before) = self.asked_at {
                at = at.max(Timestamp(before.0.saturating_add(1)));
            }
            self.asked_at = Some(at);
        }
        let kind = step.kind();
        let taken = Arc::make_mut(&mut self.record).apply(step, at);
        debug_assert!(taken.is_ok(), "{taken:?}");
        tracing::debug!(
            target: "toolhost::call",
            call = self.record.id.0.as_str(),
            tool = self.record.name.as_str(),
            state = self.record.state.as_str(),
            "{kind}"
        );
        taken
    }

    /// Publishes a step of the call. Subscribers are woken when the call waits.
    pub(crate) fn publish(&self, event_kind: EventKind) {
        let wakes = !matches!(event_kind, EventKind::CallCreated | EventKind::CallState(_));
        self.publish_with(|| event_kind);
        if wakes {
            self.journal.bus.wake();
        }
    }

    fn publish_with(&self, event_kind: impl FnOnce() -> EventKind) {
        self.journal.bus.publish_without_wake(|| {
            let snapshot = Arc::new(Snapshot::new(Arc::clone(&self.record)));
            let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            *latest = Some(Arc::clone(&snapshot));
            NewEvent {
                at: self.record.updated_at,
                caller: &self.record.caller,
                call: Some(&self.record.id),
                event_kind: event_kind(),
                snapshot: Some(snapshot),
            }
        });
    }

    fn event_row(&self, event_kind: &EventKind) -> EventRow {
        self.journal
            .event_row(&self.record.caller, Some(&self.record.id), event_kind)
    }

    /// Returns the part of the record that is not written yet.
    fn pending_write(&mut self) -> Option<Write> {
        let from = std::mem::replace(&mut self.written, self.record.trail.len());
        (from < self.written).then(|| write(&self.record, from, self.deferred))
    }

    fn queue(&mut self) {
        let Some(store) = &self.journal.store else {
            return;
        };
        let from = self.written;
        if from == self.record.trail.len() {
            return;
        }
        let (record, deferred) = (Arc::clone(&self.record), self.deferred);
        let weight = record.memory_size();
        let draft = move || write(&record, from, deferred);
        let queued = if weight > toolhost_store::MAX_ROW {
            // The snapshot may still be small when it is taken.
            store.queue(draft())
        } else {
            store.queue_draft(weight, draft)
        };
        // Otherwise the next write includes everything, or `Store::flush` reports the loss.
        if queued.is_ok() {
            self.written = self.record.trail.len();
        }
    }

    async fn commit(&mut self) -> Result<(), Refusal> {
        Box::pin(self.commit_with(Vec::new())).await
    }

    async fn commit_with(&mut self, mut others: Vec<Write>) -> Result<(), Refusal> {
        let Some(store) = self.journal.store.clone() else {
            return Ok(());
        };
        let previous = self.written;
        if let Some(write) = self.pending_write() {
            others.insert(0, write);
        }
        if let Err(error) = store.commit(Write::Many(others)).await {
            self.written = previous;
            return Err(store_error(error).into());
        }
        crate::crash_point::at(self.record.trail.last().map_or("", |line| line.kind));
        Ok(())
    }
}

impl Drop for CallJournal {
    fn drop(&mut self) {
        if self.record.state.is_terminal() || self.deferred {
            return;
        }
        let step = Transition::Cancelled {
            reason: "the caller disconnected".to_owned(),
            duration: self.elapsed(),
        };
        if self.apply_unpublished(step).is_ok() {
            self.publish(EventKind::CallCancelled);
            self.queue();
        }
    }
}

pub(crate) fn store_error(error: impl std::fmt::Display) -> CallError {
    let mut refusal = CallError::new(
        ErrorClass::Unavailable,
        "the host cannot write its records, so calls are refused",
    )
    .code("store_unavailable")
    .cause(error);
    refusal.retryable = true;
    refusal
}

fn cancelled(error: &CallError, duration: Duration) -> Option<Transition> {
    (error.class == ErrorClass::Cancelled).then(|| Transition::Cancelled {
        reason: error.message.clone(),
        duration,
    })
}

fn denied_as(error: &CallError, by: Option<String>, note: Option<String>) -> Transition {
    Transition::Denied {
        code: error.code.clone(),
        reason: error.message.clone(),
        by,
        note,
        remedy: (!error.recommendations.is_empty()).then(|| error.recommendations.join("; ")),
    }
}

/// Returns the description of a result in an event. Events mask and shorten it further.
fn shown(outcome: &Outcome) -> Value {
    match &outcome.structured {
        // Shortened here because a guest chooses the size and events are kept.
        Some(value) => toolhost_contract::lifecycle::mask_value(value),
        None => json!(text::head(&outcome.model_text(), 2_000)),
    }
}

fn row(record: &CallRecord, deferred: bool) -> CallRow {
    let mut shown = lifecycle::record_json(record);
    // Only while the call can be answered, because inputs may contain sensitive data.
    if record.state == CallState::AwaitingApproval {
        shown.insert("input".to_owned(), (*record.input).clone());
    }
    CallRow {
        id: record.id.0.clone(),
        session: record.caller.session.to_string(),
        batch: record.batch.clone(),
        parent: record.parent.as_ref().map(|id| id.0.clone()),
        tool: record
            .resolved_tool
            .as_ref()
            .map(|found| found.tool.clone()),
        plugin: record
            .resolved_tool
            .as_ref()
            .map(|found| found.plugin.clone()),
        state: record.state.as_str().to_owned(),
        finished: record.state.is_terminal(),
        deferred,
        effectful: record.may_have_effects(),
        created_ms: record.created_at.0,
        updated_ms: record.updated_at.0,
        record: Value::Object(shown),
    }
}

fn write(record: &CallRecord, from: usize, deferred: bool) -> Write {
    Write::Call {
        row: Box::new(row(record, deferred)),
        transitions: transitions(record, from),
    }
}

fn transitions(record: &CallRecord, from: usize) -> Vec<TransitionRow> {
    record.trail[from..]
        .iter()
        .map(|line| TransitionRow {
            call: record.id.0.clone(),
            session: record.caller.session.to_string(),
            at_ms: line.at.0,
            state: line.state.as_str().to_owned(),
            kind: line.kind.to_owned(),
            note: line
                .note
                .as_deref()
                .map(toolhost_contract::lifecycle::mask_text),
            detail: line.detail.clone().unwrap_or(Value::Null),
        })
        .collect()
}
