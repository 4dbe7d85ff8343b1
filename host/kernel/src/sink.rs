//! The sink of a running call, which forwards its events to the caller, the bus and the store.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use toolhost_contract::bus::Happening;
use toolhost_contract::{CallId, Event, Principal, Reads, Services, Sink};
use toolhost_store::Write;

use crate::bus::{News, weight_of};
use crate::journal::{Journal, Latest};

/// Maximum number of custom events per call in the store. The bus gets all of them.
const KEPT: usize = 1_000;

pub(crate) struct CallSink {
    journal: Arc<Journal>,
    id: CallId,
    caller: Arc<Principal>,
    /// The sink of the caller.
    to: Arc<dyn Sink>,
    cancel: CancellationToken,
    latest: Latest,
    kept: AtomicUsize,
    /// The call has ended or is about to; later events are dropped.
    closed: AtomicBool,
    /// Events that are held until the call is authorized.
    held: Mutex<Option<HeldBack>>,
    watched: AtomicBool,
    reads: Mutex<Option<Arc<dyn Reads>>>,
    services: Mutex<Option<Arc<dyn Services>>>,
    /// The result depends on more than files, so the read set is incomplete.
    more: AtomicBool,
}

/// Events of a call that may still be refused.
#[derive(Default)]
struct HeldBack {
    events: Vec<Event>,
    bytes: usize,
    dropped: u64,
}

/// Maximum number of held events per call.
const HELD: usize = 1_000;
const HELD_BYTES: usize = 2 << 20;

impl CallSink {
    pub(crate) fn new(
        journal: Arc<Journal>,
        id: CallId,
        caller: Arc<Principal>,
        to: Arc<dyn Sink>,
        cancel: CancellationToken,
        latest: Latest,
    ) -> Self {
        Self {
            journal,
            id,
            caller,
            to,
            cancel,
            latest,
            kept: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            held: Mutex::default(),
            watched: AtomicBool::new(false),
            reads: Mutex::default(),
            services: Mutex::default(),
            more: AtomicBool::new(false),
        }
    }

    /// Starts recording what the call reads.
    pub(crate) fn watch(&self) {
        self.watched.store(true, Relaxed);
        self.more.store(false, Relaxed);
        *self.looked() = None;
    }

    /// Sets the services for the run that begins.
    pub(crate) fn serve(&self, services: Arc<dyn Services>) {
        *self.served() = Some(services);
    }

    fn served(&self) -> MutexGuard<'_, Option<Arc<dyn Services>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the read set of the last run, or `None` if it is unknown or incomplete.
    pub(crate) fn read_set(&self) -> Option<Arc<dyn Reads>> {
        if self.more.load(Relaxed) {
            return None;
        }
        self.looked().clone()
    }

    fn looked(&self) -> MutexGuard<'_, Option<Arc<dyn Reads>>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops all later events. A backend may keep the sink for longer than its call.
    pub(crate) fn close(&self) {
        self.closed.store(true, Relaxed);
        *self.served() = None;
    }

    /// Holds events for the caller until [`CallSink::release`].
    pub(crate) fn hold_back(&self) {
        *self.held() = Some(HeldBack::default());
    }

    pub(crate) fn let_through(&self) {
        let Some(held) = self.held().take() else {
            return;
        };
        for event in held.events {
            self.to.event(event);
        }
        if held.dropped > 0 {
            let count = held.dropped;
            self.to.event(Event::Dropped { count });
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<HeldBack>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, event: &Event) {
        let Some(store) = &self.journal.store else {
            return;
        };
        if matches!(event, Event::Custom { .. }) && self.kept.fetch_add(1, Relaxed) < KEPT {
            let happening = Happening::Call(event.clone());
            let row = self
                .journal
                .event_row(&self.caller, Some(&self.id), &happening);
            // A full queue drops the event; the call does not wait.
            let _ = store.offer(Write::Event(row));
        }
    }
}

impl Sink for CallSink {
    fn event(&self, event: Event) {
        if self.closed.load(Relaxed) {
            return;
        }
        self.keep(&event);
        self.journal.bus.publish(|| News {
            at: self.journal.clock.now(),
            caller: &self.caller,
            call: Some(&self.id),
            happening: Happening::Call(event.clone()),
            snapshot: self
                .latest
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        });
        let mut held = self.held();
        let Some(held) = &mut *held else {
            drop(held);
            self.to.event(event);
            return;
        };
        let bytes = weight_of(&event);
        if held.events.len() < HELD && held.bytes + bytes <= HELD_BYTES {
            held.bytes += bytes;
            held.events.push(event);
        } else {
            held.dropped += 1;
        }
    }

    fn cancelled(&self) -> bool {
        self.cancel.is_cancelled() || self.to.cancelled()
    }

    fn wants_reads(&self) -> bool {
        self.watched.load(Relaxed)
    }

    fn reads(&self, reads: Arc<dyn Reads>) {
        *self.looked() = Some(reads);
    }

    fn depends_on_more(&self) {
        self.more.store(true, Relaxed);
    }

    fn services(&self) -> Option<Arc<dyn Services>> {
        if self.closed.load(Relaxed) {
            return None;
        }
        self.served().clone()
    }
}
