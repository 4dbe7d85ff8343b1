//! What a running call says, on its way to its caller, the bus and the store.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use toolhost_contract::bus::Happening;
use toolhost_contract::{CallId, Event, Principal, Reads, Services, Sink};
use toolhost_store::Write;

use crate::bus::{News, weight_of};
use crate::journal::{Journal, Latest};

/// Custom events of one call that the store keeps. The bus has them all.
const KEPT: usize = 1_000;

pub(crate) struct CallSink {
    journal: Arc<Journal>,
    id: CallId,
    caller: Arc<Principal>,
    /// Whoever called.
    to: Arc<dyn Sink>,
    cancel: CancellationToken,
    latest: Latest,
    kept: AtomicUsize,
    /// The call has ended, or is about to: nothing may follow its end.
    closed: AtomicBool,
    /// What its caller may not hear yet.
    held: Mutex<Option<HeldBack>>,
    watched: AtomicBool,
    reads: Mutex<Option<Arc<dyn Reads>>>,
    services: Mutex<Option<Arc<dyn Services>>>,
    /// No read set tells what the result depends on.
    more: AtomicBool,
}

/// Said by a call that may yet be refused.
#[derive(Default)]
struct HeldBack {
    events: Vec<Event>,
    bytes: usize,
    dropped: u64,
}

/// What is held back of one call.
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

    /// From here on it is written down what the call looks at.
    pub(crate) fn watch(&self) {
        self.watched.store(true, Relaxed);
        self.more.store(false, Relaxed);
        *self.looked() = None;
    }

    /// What the run that begins now may ask for.
    pub(crate) fn serve(&self, services: Arc<dyn Services>) {
        *self.served() = Some(services);
    }

    fn served(&self) -> MutexGuard<'_, Option<Arc<dyn Services>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the last run looked at; None where there is no telling.
    pub(crate) fn read_set(&self) -> Option<Arc<dyn Reads>> {
        if self.more.load(Relaxed) {
            return None;
        }
        self.looked().clone()
    }

    fn looked(&self) -> MutexGuard<'_, Option<Arc<dyn Reads>>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A backend may keep its sink for longer than its call lasts; from here on nobody hears it.
    pub(crate) fn close(&self) {
        self.closed.store(true, Relaxed);
        *self.served() = None;
    }

    /// From here on the caller hears nothing before it is let through.
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
            // An event that finds no room is an event less; the call does not wait for it.
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
