//! The event bus: all events in one order, with cursors for reconnecting subscribers.
//!
//! A slow subscriber does not block others: the bus keeps the last events in a ring buffer, and a subscriber that falls
//! behind is notified of the events it missed. Until the first subscription, publishing an event costs one atomic load.

use std::collections::VecDeque;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use toolhost_contract::bus::{BusEvent, Channel, EventKind};
use toolhost_contract::lifecycle::{self, Snapshot, Timestamp};
use toolhost_contract::{CallEvent, CallId, Principal};

/// Maximum number of events that are kept.
const EVENTS: usize = 4_096;
/// Maximum size of the kept events in memory, in bytes.
const BYTES: usize = 64 << 20;

#[derive(Default)]
pub(crate) struct EventBus {
    has_subscribers: AtomicBool,
    /// Events have been published since the last wake-up.
    wake_pending: AtomicBool,
    ring: Mutex<Ring>,
    notify: Notify,
}

#[derive(Default)]
struct Ring {
    /// Each event with its approximate size in bytes.
    events: VecDeque<(Arc<BusEvent>, usize)>,
    bytes: usize,
    /// Number of the newest event; 0 if there is none.
    last: u64,
}

/// An event before it gets its number.
pub(crate) struct NewEvent<'a> {
    pub at: Timestamp,
    pub caller: &'a Arc<Principal>,
    pub call: Option<&'a CallId>,
    pub event_kind: EventKind,
    pub snapshot: Option<Arc<Snapshot>>,
}

impl EventBus {
    /// Publishes an event and wakes the subscribers. `new_event` is only called if there can be a subscriber.
    pub(crate) fn publish<'a>(&self, new_event: impl FnOnce() -> NewEvent<'a>) {
        self.publish_without_wake(new_event);
        self.wake();
    }

    /// Publishes without waking subscribers. The caller must call [`Bus::wake`] before it waits.
    pub(crate) fn publish_without_wake<'a>(&self, new_event: impl FnOnce() -> NewEvent<'a>) {
        if !self.has_subscribers() {
            return;
        }
        let NewEvent {
            at,
            caller,
            call,
            event_kind,
            snapshot,
        } = new_event();
        let mut ring = self.ring();
        ring.last += 1;
        let event = BusEvent {
            seq: ring.last,
            at,
            caller: Arc::clone(caller),
            call: call.cloned(),
            kind: event_kind,
            snapshot,
        };
        let weight = event_size(&event);
        ring.bytes += weight;
        ring.events.push_back((Arc::new(event), weight));
        while ring.events.len() > EVENTS || ring.bytes > BYTES && ring.events.len() > 1 {
            if let Some((_, weight)) = ring.events.pop_front() {
                ring.bytes -= weight;
            }
        }
        drop(ring);
        self.wake_pending.store(true, Release);
    }

    pub(crate) fn wake(&self) {
        if self.wake_pending.load(Relaxed) && self.wake_pending.swap(false, Acquire) {
            self.notify.notify_waiters();
        }
    }

    pub(crate) fn has_subscribers(&self) -> bool {
        self.has_subscribers.load(Relaxed)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the approximate size of an event in memory, most of which a guest can choose.
fn event_size(event: &BusEvent) -> usize {
    let own = match &event.kind {
        EventKind::Call(event) => payload_size(event),
        EventKind::CallCompleted { result, diff, .. } => {
            let diff = diff.as_ref().map_or(0, |diff| diff.memory_size());
            result.as_ref().map_or(0, lifecycle::memory_size) + diff
        }
        EventKind::PermissionRequest {
            content, changes, ..
        } => {
            let diffs = changes.as_ref().map_or(0, |changes| changes.diff_bytes());
            lifecycle::memory_size(content) + diffs
        }
        EventKind::BatchCompleted { calls, .. } | EventKind::BatchSubmitted { calls } => {
            calls.iter().map(|id| id.0.len() + 32).sum()
        }
        EventKind::CallCreated
        | EventKind::CallState(_)
        | EventKind::PermissionDecided { .. }
        | EventKind::CallFailed
        | EventKind::CallDenied
        | EventKind::CallCancelled
        | EventKind::CallSealed
        | EventKind::RegistryChanged
        | EventKind::PolicyUpdated => 0,
    };
    let snapshot = event.snapshot.as_ref();
    256 + own + snapshot.map_or(0, |snapshot| snapshot.memory_size())
}

/// Returns the size of the part that a guest can choose.
pub(crate) fn payload_size(event: &CallEvent) -> usize {
    match event {
        CallEvent::Output { stream, bytes } => stream.len() + bytes.len(),
        CallEvent::Log { message, .. } => message.len(),
        CallEvent::Progress { message, .. } => message.as_ref().map_or(0, String::len),
        CallEvent::Custom { event, data } => event.len() + lifecycle::memory_size(data),
        CallEvent::Dropped { .. } => 0,
    }
}

/// Receives every event after its cursor, in order and once.
pub struct Subscription {
    bus: Arc<EventBus>,
    cursor: u64,
    /// `None` subscribes to all channels.
    channels: Option<Vec<Channel>>,
}

/// The requested events are no longer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "events {from} to {to} are no longer available: the subscriber was too slow or reconnected too late"
)]
pub struct MissedEvents {
    pub from: u64,
    pub to: u64,
}

impl Subscription {
    /// `after` is the number of the last received event; `None` starts with the next event.
    pub(crate) fn new(
        bus: Arc<EventBus>,
        after: Option<u64>,
        channels: Option<Vec<Channel>>,
    ) -> Self {
        bus.has_subscribers.store(true, Relaxed);
        let cursor = after.unwrap_or_else(|| bus.ring().last);
        Self {
            bus,
            cursor,
            channels,
        }
    }

    /// Returns the number of the last returned event, for resuming.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Waits for the next event. Cancel safe.
    pub async fn next(&mut self) -> Result<Arc<BusEvent>, MissedEvents> {
        let bus = Arc::clone(&self.bus);
        loop {
            // Registered before checking, so that an event between the two is not missed.
            let mut new_event = std::pin::pin!(bus.notify.notified());
            new_event.as_mut().enable();
            if let Some(event) = self.try_next() {
                return event;
            }
            new_event.await;
        }
    }

    /// Returns the next event if it has already been published.
    pub fn try_next(&mut self) -> Option<Result<Arc<BusEvent>, MissedEvents>> {
        let ring = self.bus.ring();
        loop {
            if self.cursor >= ring.last {
                return None;
            }
            let first = ring
                .events
                .front()
                .map_or(ring.last + 1, |(event, _)| event.seq);
            if self.cursor + 1 < first {
                let missed = MissedEvents {
                    from: self.cursor + 1,
                    to: first - 1,
                };
                self.cursor = missed.to;
                return Some(Err(missed));
            }
            let index = usize::try_from(self.cursor + 1 - first).ok()?;
            let (event, _) = ring.events.get(index)?;
            self.cursor = event.seq;
            let channel = event.kind.channel();
            if self
                .channels
                .as_ref()
                .is_none_or(|wanted| wanted.contains(&channel))
            {
                return Some(Ok(Arc::clone(event)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(bus: &EventBus, event_kind: EventKind) {
        let caller = Arc::new(Principal::default());
        bus.publish(|| NewEvent {
            at: Timestamp(0),
            caller: &caller,
            call: None,
            event_kind,
            snapshot: None,
        });
    }

    fn received(subscription: &mut Subscription) -> Vec<String> {
        std::iter::from_fn(|| subscription.try_next())
            .map(|event| match event {
                Ok(event) => format!("{} {}", event.seq, event.kind.name()),
                Err(missed) => missed.to_string(),
            })
            .collect()
    }

    fn output(size: usize) -> EventKind {
        EventKind::Call(CallEvent::Output {
            stream: "stdout".to_owned(),
            bytes: vec![0; size],
        })
    }

    #[test]
    fn a_subscriber_receives_every_event_once_and_resumes_with_its_cursor() {
        let bus = Arc::new(EventBus::default());
        publish(&bus, EventKind::RegistryChanged);
        let mut all = Subscription::new(Arc::clone(&bus), None, None);
        let mut control = Subscription::new(Arc::clone(&bus), None, Some(vec![Channel::Control]));
        publish(&bus, EventKind::PolicyUpdated);
        publish(
            &bus,
            EventKind::PermissionDecided {
                decision: "allow",
                scope: None,
                by: "user".to_owned(),
                note: None,
            },
        );
        assert_eq!(received(&mut control), ["2 call.permission_decided"]);
        assert_eq!(
            received(&mut all),
            ["1 policy.updated", "2 call.permission_decided"]
        );
        let cursor = all.cursor();
        drop(all);
        publish(&bus, EventKind::CallFailed);
        let mut back = Subscription::new(bus, Some(cursor), None);
        assert_eq!(received(&mut back), ["3 call.failed"]);
    }

    #[test]
    fn a_slow_subscriber_gets_the_range_of_missed_events_and_memory_stays_bounded() {
        let bus = Arc::new(EventBus::default());
        let mut slow = Subscription::new(Arc::clone(&bus), None, None);
        for _ in 0..EVENTS + 10 {
            publish(&bus, EventKind::RegistryChanged);
        }
        let messages = received(&mut slow);
        assert_eq!(messages.len(), EVENTS + 1);
        assert!(
            messages[0].starts_with("events 1 to 10 are no longer available"),
            "{}",
            messages[0]
        );
        for _ in 0..80 {
            publish(&bus, output(1 << 20));
        }
        assert!(bus.ring().bytes <= BYTES);
        let lists = serde_json::json!(vec![serde_json::json!([]); 100_000]);
        for _ in 0..40 {
            let data = lists.clone();
            let event = "x".to_owned();
            publish(&bus, EventKind::Call(CallEvent::Custom { event, data }));
        }
        assert!(bus.ring().events.len() < 30);
        publish(&bus, output(BYTES * 2));
        assert_eq!(bus.ring().events.len(), 1);
    }

    #[tokio::test]
    async fn no_wake_up_is_lost() {
        let bus = Arc::new(EventBus::default());
        let mut listener = Subscription::new(Arc::clone(&bus), None, None);
        let listening = tokio::spawn(async move {
            for seq in 1..=1_000 {
                assert_eq!(listener.next().await.unwrap().seq, seq);
            }
        });
        for _ in 0..1_000 {
            publish(&bus, EventKind::RegistryChanged);
            tokio::task::yield_now().await;
        }
        listening.await.unwrap();
    }
}
