//! The sink of a running call, which forwards its events to the caller, the bus and the store.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use toolhost_contract::bus::EventKind;
use toolhost_contract::{CallEvent, CallId, DetachSwitch, Principal, ReadSet, Services, Sink};
use toolhost_store::Write;

use crate::event_bus::{NewEvent, payload_size};
use crate::journal::{Journal, LatestSnapshot};

/// Maximum number of custom events per call in the store, and their total size in bytes. The bus gets all of them. A
/// tool that could store more would displace records of other calls, because the size of the store is limited.
const MAX_STORED_EVENTS: usize = 1_000;
const MAX_STORED_BYTES: usize = 256 << 10;

pub(crate) struct CallSink {
    journal: Arc<Journal>,
    id: CallId,
    caller: Arc<Principal>,
    /// The sink of the caller.
    to: Arc<dyn Sink>,
    cancel: CancellationToken,
    detach: DetachSwitch,
    /// The tool can run in the background.
    can_detach: AtomicBool,
    latest: LatestSnapshot,
    stored: AtomicUsize,
    stored_bytes: AtomicUsize,
    /// The largest memory of a sandbox of the call in bytes; 0 if unknown.
    memory: AtomicU64,
    /// The call has ended or is about to; later events are dropped.
    closed: AtomicBool,
    /// Events that are held until the call is authorized.
    held: Mutex<Option<HeldEvents>>,
    watched: AtomicBool,
    reads: Mutex<Option<Arc<dyn ReadSet>>>,
    services: Mutex<Option<Arc<dyn Services>>>,
    /// The result depends on more than files, so the read set is incomplete.
    depends_on_more: AtomicBool,
}

/// Events of a call that may still be refused.
#[derive(Default)]
struct HeldEvents {
    events: Vec<CallEvent>,
    bytes: usize,
    dropped: u64,
}

/// Maximum number of held events per call.
const MAX_HELD_EVENTS: usize = 1_000;
const MAX_HELD_BYTES: usize = 2 << 20;

impl CallSink {
    pub(crate) fn new(
        journal: Arc<Journal>,
        id: CallId,
        caller: Arc<Principal>,
        to: Arc<dyn Sink>,
        (cancel, detach): (CancellationToken, DetachSwitch),
        latest: LatestSnapshot,
    ) -> Self {
        Self {
            journal,
            id,
            caller,
            to,
            cancel,
            detach,
            can_detach: AtomicBool::new(false),
            latest,
            stored: AtomicUsize::new(0),
            stored_bytes: AtomicUsize::new(0),
            memory: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            held: Mutex::default(),
            watched: AtomicBool::new(false),
            reads: Mutex::default(),
            services: Mutex::default(),
            depends_on_more: AtomicBool::new(false),
        }
    }

    /// Starts recording what the call reads.
    pub(crate) fn record_reads(&self) {
        self.watched.store(true, Relaxed);
        self.depends_on_more.store(false, Relaxed);
        *self.reads_slot() = None;
    }

    /// Lets the caller detach a command of the call.
    pub(crate) fn allow_detaching(&self) {
        self.can_detach.store(true, Relaxed);
    }

    /// Sets the services for the run that begins.
    pub(crate) fn set_services(&self, services: Arc<dyn Services>) {
        *self.services_slot() = Some(services);
    }

    fn services_slot(&self) -> MutexGuard<'_, Option<Arc<dyn Services>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the read set of the last run, or `None` if it is unknown or incomplete.
    pub(crate) fn read_set(&self) -> Option<Arc<dyn ReadSet>> {
        if self.depends_on_more.load(Relaxed) {
            return None;
        }
        self.reads_slot().clone()
    }

    fn reads_slot(&self) -> MutexGuard<'_, Option<Arc<dyn ReadSet>>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes of memory that the call used, if its backend measured them.
    pub(crate) fn memory(&self) -> Option<u64> {
        Some(self.memory.load(Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// Drops all later events. A backend may keep the sink for longer than its call.
    pub(crate) fn close(&self) {
        self.closed.store(true, Relaxed);
        *self.services_slot() = None;
    }

    /// Holds events until [`CallSink::release`]: the user may deny what the call read.
    pub(crate) fn hold(&self) {
        *self.held() = Some(HeldEvents::default());
    }

    pub(crate) fn release(&self) {
        let Some(held) = self.held().take() else {
            return;
        };
        for event in held.events {
            self.deliver(event);
        }
        if held.dropped > 0 {
            let count = held.dropped;
            self.to.event(CallEvent::Dropped { count });
        }
    }

    fn deliver(&self, event: CallEvent) {
        self.keep(&event);
        self.journal.bus.publish(|| NewEvent {
            at: self.journal.clock.now(),
            caller: &self.caller,
            call: Some(&self.id),
            event_kind: EventKind::Call(event.clone()),
            snapshot: self
                .latest
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        });
        self.to.event(event);
    }

    fn held(&self) -> MutexGuard<'_, Option<HeldEvents>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, event: &CallEvent) {
        let Some(store) = &self.journal.store else {
            return;
        };
        if !matches!(event, CallEvent::Custom { .. }) {
            return;
        }
        let bytes = payload_size(event);
        if self.stored.fetch_add(1, Relaxed) < MAX_STORED_EVENTS
            && self.stored_bytes.fetch_add(bytes, Relaxed) + bytes <= MAX_STORED_BYTES
        {
            let event_kind = EventKind::Call(event.clone());
            let row = self
                .journal
                .event_row(&self.caller, Some(&self.id), &event_kind);
            // A full queue drops the event; the call does not wait.
            let _ = store.offer(Write::Event(row));
        }
    }
}

impl Sink for CallSink {
    fn event(&self, event: CallEvent) {
        if self.closed.load(Relaxed) {
            return;
        }
        let mut held = self.held();
        let Some(held) = &mut *held else {
            drop(held);
            self.deliver(event);
            return;
        };
        let bytes = payload_size(&event);
        if held.events.len() < MAX_HELD_EVENTS && held.bytes + bytes <= MAX_HELD_BYTES {
            held.bytes += bytes;
            held.events.push(event);
        } else {
            held.dropped += 1;
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() || self.to.is_cancelled()
    }

    fn detach_switch(&self) -> Option<DetachSwitch> {
        let is_open = self.can_detach.load(Relaxed) && !self.closed.load(Relaxed);
        is_open.then(|| self.detach.clone())
    }

    fn wants_read_set(&self) -> bool {
        self.watched.load(Relaxed)
    }

    fn set_read_set(&self, reads: Arc<dyn ReadSet>) {
        *self.reads_slot() = Some(reads);
    }

    fn mark_untracked_dependency(&self) {
        self.depends_on_more.store(true, Relaxed);
    }

    fn record_memory(&self, bytes: u64) {
        self.memory.fetch_max(bytes, Relaxed);
    }

    fn services(&self) -> Option<Arc<dyn Services>> {
        if self.closed.load(Relaxed) {
            return None;
        }
        self.services_slot().clone()
    }
}
