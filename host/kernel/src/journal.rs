//! The journal: writes each step of a call to its record, the event bus and the store.
//!
//! The order is significant. A question is on disk before the user sees it, and the intent of a call that can change
//! something is on disk before it runs. A call that only reads is written shortly afterwards, in a group with others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolhost_contract::bus::Happening;
use toolhost_contract::life::{self, CallState, Illegal, Input, Millis, Record, Snapshot, Step};
use toolhost_contract::{CallError, CallId, ErrorClass, Outcome, Principal};
use toolhost_store::{CallRow, EventRow, Store, TransitionRow, Write};

use crate::bus::{Bus, News};
use crate::clock::Clock;
use crate::kernel::{Refusal, Within};

/// When a step is written to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    pub bus: Arc<Bus>,
    pub store: Option<Store>,
    pub durability: Durability,
}

impl Journal {
    pub(crate) fn event_row(
        &self,
        caller: &Principal,
        call: Option<&CallId>,
        happening: &Happening,
    ) -> EventRow {
        EventRow {
            channel: happening.channel().as_str().to_owned(),
            session: caller.session.to_string(),
            call: call.map(|id| id.0.clone()),
            at_ms: self.clock.now().0,
            kind: happening.name().to_owned(),
            body: happening.data(),
        }
    }

    /// Queues a write, if there is a store.
    pub(crate) fn queue(&self, write: impl FnOnce() -> Write) {
        if let Some(store) = &self.store {
            let _ = store.queue(write());
        }
    }

    pub(crate) fn announce_of(
        &self,
        caller: &Arc<Principal>,
        call: &CallId,
        happening: Happening,
        snapshot: Snapshot,
    ) {
        self.bus.publish(|| News {
            at: self.clock.now(),
            caller,
            call: Some(call),
            happening,
            snapshot: Some(Arc::new(snapshot)),
        });
    }

    /// Publishes an event that does not belong to a call.
    pub(crate) fn announce(&self, caller: &Arc<Principal>, happening: Happening) {
        self.bus.publish(|| News {
            at: self.clock.now(),
            caller,
            call: None,
            happening,
            snapshot: None,
        });
    }
}

/// The record of one call from its first step to its last. Dropping it earlier records a cancellation.
pub(crate) struct Life {
    journal: Arc<Journal>,
    /// Shared with the snapshots of this state; the next step clones it.
    record: Arc<Record>,
    /// Number of audit trail lines that are written or queued.
    written: usize,
    /// The rule, hook or user that denied the call.
    pub(crate) denied_by: Option<String>,
    /// The note of the denial.
    pub(crate) denial_note: Option<String>,
    /// The time of the latest question, which identifies it.
    asked: Option<Millis>,
    /// When the tool was started.
    started: Option<Instant>,
    /// The caller has disconnected; the question stays on disk.
    deferred: bool,
    latest: Latest,
}

/// The last snapshot that was published for a call, for events that the call emits itself.
pub(crate) type Latest = Arc<Mutex<Option<Arc<Snapshot>>>>;

impl Life {
    pub(crate) fn begin(
        journal: &Arc<Journal>,
        id: CallId,
        name: String,
        input: Input,
        caller: Arc<Principal>,
        within: &Within,
    ) -> Self {
        let mut record = Record::new(id, name, input, caller, journal.clock.now());
        record.batch.clone_from(&within.batch);
        record.parent.clone_from(&within.parent);
        record.origin = within.origin;
        let life = Self {
            journal: Arc::clone(journal),
            record: Arc::new(record),
            written: 0,
            denied_by: None,
            denial_note: None,
            asked: None,
            started: None,
            deferred: false,
            latest: Latest::default(),
        };
        life.publish(Happening::CallCreated);
        life
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    pub(crate) fn latest(&self) -> Latest {
        Arc::clone(&self.latest)
    }

    /// Returns how long the tool has been running; zero before it starts.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |start| start.elapsed())
    }

    pub(crate) async fn step(&mut self, step: Step) -> Result<(), Refusal> {
        self.take(step)?;
        if self.journal.durability == Durability::EveryStep {
            self.commit().await?;
        }
        Ok(())
    }

    /// Records a question. It is on disk when this returns.
    pub(crate) async fn ask(
        &mut self,
        title: String,
        reason: String,
        rule: Option<String>,
        meta: Option<Value>,
        content: Value,
    ) -> Result<(), Refusal> {
        let summary = reason.clone();
        self.take(Step::Asked { reason, rule, meta })?;
        let happening = Happening::PermissionRequest {
            title,
            summary,
            content,
        };
        let event = self.event_row(&happening);
        self.commit_with(vec![Write::Event(event)]).await?;
        self.publish(happening);
        Ok(())
    }

    pub(crate) fn decided(&mut self, decision: &'static str, by: &str, note: Option<&str>) {
        let happening = Happening::PermissionDecided {
            decision,
            by: by.to_owned(),
            note: note.map(ToOwned::to_owned),
        };
        self.journal
            .queue(|| Write::Event(self.event_row(&happening)));
        self.publish(happening);
    }

    /// Records the intent of a call that may change something. It is on disk when this returns.
    pub(crate) async fn intend(&mut self) -> Result<(), Refusal> {
        if self.record.is_effectful() {
            self.commit().await?;
        }
        Ok(())
    }

    /// Starts the clock of the tool. Called late, because time spent on disk writes does not count for the tool.
    pub(crate) fn start_clock(&mut self) {
        self.started = Some(Instant::now());
    }

    /// Records a long-running call, so that it is known if the host crashes.
    pub(crate) fn note(&mut self) {
        self.queue();
    }

    /// Records that the caller disconnects while the question stays, with the approval to save if the user approves.
    pub(crate) async fn defer(&mut self, in_advance: Option<Value>) -> Result<(), Refusal> {
        let Some(store) = &self.journal.store else {
            return Ok(());
        };
        let mut row = row(&self.record, true);
        if let (Value::Object(members), Some(approval)) = (&mut row.record, in_advance) {
            members.insert(IN_ADVANCE.to_owned(), approval);
        }
        // No step is taken: the question exists already, and only the recipient of the answer changes.
        let write = Write::Call {
            row: Box::new(row),
            transitions: transitions(&self.record, self.written),
        };
        store.commit(write).await.map_err(unwritable)?;
        self.written = self.record.trail.len();
        self.deferred = true;
        Ok(())
    }

    /// Records the call before anything else is done with it.
    pub(crate) async fn register(&mut self) -> Result<(), Refusal> {
        match self.journal.durability {
            Durability::Effects => Ok(()),
            Durability::EveryStep => self.commit().await,
        }
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
            Durability::Effects => self.record.is_effectful() && self.record.attempts > 0,
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
            Ok(outcome) => Step::Completed {
                is_error: outcome.is_error(),
                supplied_by,
                duration,
            },
            Err(error) => [
                cancelled(error, duration),
                (error.class == ErrorClass::Denied)
                    .then(|| denied_as(error, self.denied_by.clone(), self.denial_note.clone())),
                Some(Step::Failed {
                    code: error.code.clone(),
                    message: error.message.clone(),
                    duration,
                }),
                Some(denied_as(
                    error,
                    self.denied_by.clone(),
                    self.denial_note.clone(),
                )),
            ]
            .into_iter()
            .flatten()
            .find(|step| step.leads(state).is_some())
            .unwrap_or(Step::Cancelled {
                reason: error.message.clone(),
                duration,
            }),
        };
        if self.take_quietly(step).is_err() {
            return;
        }
        self.publish_with(|| match (&self.record.state, result) {
            (CallState::Completed, Ok(outcome)) => Happening::CallCompleted {
                title: self.record.name.clone(),
                summary: outcome.summary.clone(),
                result: Some(shown(outcome)),
            },
            (CallState::Denied, _) => Happening::CallDenied,
            (CallState::Cancelled, _) => Happening::CallCancelled,
            _ => Happening::CallFailed,
        });
        self.journal.bus.wake();
    }

    fn take(&mut self, step: Step) -> Result<(), Refusal> {
        let state = self
            .take_quietly(step)
            .map_err(|illegal| Refusal::from(CallError::internal(illegal)))?;
        self.publish(Happening::CallState(state));
        Ok(())
    }

    fn take_quietly(&mut self, step: Step) -> Result<CallState, Illegal> {
        let mut at = self.journal.clock.now();
        if let Step::Asked { .. } = step {
            // An answer identifies its question by this time, so two questions of a call must not have the same time:
            // otherwise the answer to the first would be taken for the second.
            if let Some(before) = self.asked {
                at = at.max(Millis(before.0.saturating_add(1)));
            }
            self.asked = Some(at);
        }
        let taken = Arc::make_mut(&mut self.record).take(step, at);
        debug_assert!(taken.is_ok(), "{taken:?}");
        taken
    }

    /// Publishes a step of the call. Subscribers are woken when the call waits.
    fn publish(&self, happening: Happening) {
        let aloud = !matches!(happening, Happening::CallCreated | Happening::CallState(_));
        self.publish_with(|| happening);
        if aloud {
            self.journal.bus.wake();
        }
    }

    fn publish_with(&self, happening: impl FnOnce() -> Happening) {
        self.journal.bus.publish_quietly(|| {
            let snapshot = Arc::new(Snapshot::of(Arc::clone(&self.record)));
            let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            *latest = Some(Arc::clone(&snapshot));
            News {
                at: self.record.updated_at,
                caller: &self.record.caller,
                call: Some(&self.record.id),
                happening: happening(),
                snapshot: Some(snapshot),
            }
        });
    }

    fn event_row(&self, happening: &Happening) -> EventRow {
        self.journal
            .event_row(&self.record.caller, Some(&self.record.id), happening)
    }

    /// Returns the part of the record that is not written yet.
    fn news(&mut self) -> Option<Write> {
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
        let weight = record.weight();
        let draft = move || write(&record, from, deferred);
        let queued = if weight > toolhost_store::MAX_ROW {
            // The snapshot may still be small when it is taken.
            store.queue(draft())
        } else {
            store.queue_draft(weight, draft)
        };
        // A failed store refuses calls with effects before they run. The next write includes everything.
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
        let seen = self.written;
        if let Some(write) = self.news() {
            others.insert(0, write);
        }
        if let Err(error) = store.commit(Write::Many(others)).await {
            self.written = seen;
            return Err(unwritable(error).into());
        }
        crate::crash::at(self.record.trail.last().map_or("", |line| line.kind));
        Ok(())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if self.record.state.is_terminal() || self.deferred {
            return;
        }
        let step = Step::Cancelled {
            reason: "the caller disconnected".to_owned(),
            duration: self.elapsed(),
        };
        if self.take_quietly(step).is_ok() {
            self.publish(Happening::CallCancelled);
            self.queue();
        }
    }
}

pub(crate) fn unwritable(error: impl std::fmt::Display) -> CallError {
    let mut refusal = CallError::new(
        ErrorClass::Unavailable,
        "the host cannot write its records, so calls that may change something are refused",
    )
    .code("store_unavailable")
    .cause(error);
    refusal.retryable = true;
    refusal
}

fn cancelled(error: &CallError, duration: Duration) -> Option<Step> {
    (error.class == ErrorClass::Cancelled).then(|| Step::Cancelled {
        reason: error.message.clone(),
        duration,
    })
}

fn denied_as(error: &CallError, by: Option<String>, note: Option<String>) -> Step {
    Step::Denied {
        code: error.code.clone(),
        reason: error.message.clone(),
        by,
        note,
    }
}

/// Returns the description of a result in an event. Events mask and shorten it further.
fn shown(outcome: &Outcome) -> Value {
    match &outcome.structured {
        // Shortened here because a guest chooses the size and events are kept.
        Some(value) => toolhost_contract::life::masked(value),
        None => json!(toolhost_contract::text::head(&outcome.model_text(), 2_000)),
    }
}

fn row(record: &Record, deferred: bool) -> CallRow {
    let mut shown = life::draw(record);
    // Only while the call can be answered, because inputs may contain sensitive data.
    if record.state == CallState::AwaitingApproval {
        shown.insert("input".to_owned(), (*record.input).clone());
    }
    CallRow {
        id: record.id.0.clone(),
        session: record.caller.session.to_string(),
        batch: record.batch.clone(),
        parent: record.parent.as_ref().map(|id| id.0.clone()),
        tool: record.found.as_ref().map(|found| found.tool.clone()),
        plugin: record.found.as_ref().map(|found| found.plugin.clone()),
        state: record.state.as_str().to_owned(),
        finished: record.state.is_terminal(),
        deferred,
        effectful: record.is_effectful(),
        created_ms: record.created_at.0,
        updated_ms: record.updated_at.0,
        record: Value::Object(shown),
    }
}

fn write(record: &Record, from: usize, deferred: bool) -> Write {
    Write::Call {
        row: Box::new(row(record, deferred)),
        transitions: transitions(record, from),
    }
}

fn transitions(record: &Record, from: usize) -> Vec<TransitionRow> {
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
                .map(toolhost_contract::life::masked_text),
            detail: line.detail.clone().unwrap_or(Value::Null),
        })
        .collect()
}
