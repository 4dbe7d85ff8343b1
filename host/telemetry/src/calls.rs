//! Converts the events of calls and batches to spans.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use toolhost_contract::bus::{BusEvent, Happening};
use toolhost_contract::life::Snapshot;
use toolhost_contract::{SessionKey, text};

use crate::kept::{Kept, Key};
use crate::meters::Meters;
use crate::seen::{Seen, moment};

/// Maximum number of tracked calls, batches and ended calls.
const CALLS: usize = 4_096;
const BATCHES: usize = 512;
const ENDED: usize = 1_024;

pub(crate) struct Calls {
    pub tracer: Option<SdkTracer>,
    pub meters: Option<Meters>,
    /// Whether spans contain the masked preview of an input.
    contents: bool,
    /// The trace context of the process that started the host.
    root: Context,
    open: Kept<Open>,
    batches: Kept<Option<Span>>,
    /// Ended calls, because a call can cause another one after its end.
    ended: Kept<SpanContext>,
    /// Time of the latest event.
    now: SystemTime,
}

struct Open {
    span: Option<Span>,
    last: Arc<Snapshot>,
}

impl Calls {
    pub(crate) fn new(
        tracer: Option<SdkTracer>,
        meters: Option<Meters>,
        contents: bool,
        root: Context,
    ) -> Self {
        Self {
            tracer,
            meters,
            contents,
            root,
            open: Kept::new(CALLS),
            batches: Kept::new(BATCHES),
            ended: Kept::new(ENDED),
            now: UNIX_EPOCH,
        }
    }

    pub(crate) fn hear(&mut self, event: &BusEvent) {
        self.now = self.now.max(moment(event.at.0));
        match &event.happening {
            Happening::CallCreated | Happening::CallState(_) => {
                if let (Some(key), Some(snapshot)) = (key(event), &event.snapshot) {
                    self.see(key, snapshot);
                }
            }
            Happening::CallCompleted { .. }
            | Happening::CallFailed
            | Happening::CallDenied
            | Happening::CallCancelled
            | Happening::CallSealed => {
                if let Some(key) = key(event) {
                    self.end_call(key, event.snapshot.as_ref());
                }
            }
            Happening::BatchCompleted { batch, calls } => {
                let key = (event.caller.session_key(), batch.clone());
                if let Some(Some(mut span)) = self.batches.remove(&key) {
                    let calls = i64::try_from(calls.len()).unwrap_or(i64::MAX);
                    span.set_attribute(KeyValue::new("toolhost.batch.calls", calls));
                    span.end_with_timestamp(moment(event.at.0));
                }
            }
            // Questions and answers are state changes of a call; the other events contain no call data to export.
            Happening::PermissionRequest { .. }
            | Happening::PermissionDecided { .. }
            | Happening::Call(_)
            | Happening::BatchSubmitted { .. }
            | Happening::RegistryChanged
            | Happening::PolicyUpdated => {}
        }
    }

    /// Missed events can include ends of calls. Their spans end when they are evicted or at shutdown.
    pub(crate) fn missed(&self, events: u64) {
        if let Some(meters) = &self.meters {
            meters.missed(events);
        }
    }

    /// Ends all open spans. No more events will follow.
    pub(crate) fn finish(&mut self) {
        while let Some(open) = self.open.pop() {
            self.lose(open);
        }
        while let Some(span) = self.batches.pop() {
            self.lose_batch(span);
        }
    }

    fn see(&mut self, key: Key, snapshot: &Arc<Snapshot>) {
        if let Some(open) = self.open.get_mut(&key) {
            open.last = Arc::clone(snapshot);
            return;
        }
        let open = Open {
            span: self.start(&key.0, &Seen::new(snapshot)),
            last: Arc::clone(snapshot),
        };
        if let Some(meters) = &self.meters {
            meters.began();
        }
        if let Some(lost) = self.open.insert(key, open) {
            self.lose(lost);
        }
    }

    fn end_call(&mut self, key: Key, snapshot: Option<&Arc<Snapshot>>) {
        let open = self.open.remove(&key);
        let Some(snapshot) = snapshot else {
            if let Some(meters) = &self.meters {
                meters.sealed();
            }
            if let Some(open) = open {
                self.lose(open);
            }
            return;
        };
        if let (Some(_), Some(meters)) = (&open, &self.meters) {
            meters.gone();
        }
        let seen = Seen::new(snapshot);
        if let Some(meters) = &self.meters {
            meters.ended(&seen);
        }
        // If the start was missed, the snapshot contains everything needed.
        let span = match open {
            Some(open) => open.span,
            None => self.start(&key.0, &seen),
        };
        if let Some(span) = span {
            let context = span.span_context().clone();
            end(span, &seen, self.contents);
            drop(self.ended.insert(key, context));
        }
    }

    fn start(&mut self, session: &SessionKey, seen: &Seen) -> Option<Span> {
        let parent = self.parent(session, seen);
        let builder = SpanBuilder::from_name(seen.span_name())
            .with_kind(SpanKind::Internal)
            .with_start_time(seen.start())
            .with_attributes(seen.lasting());
        let tracer = self.tracer.as_ref()?;
        Some(tracer.build_with_context(builder, &parent))
    }

    /// The parent span: the calling call, else the batch, else the process that started the host.
    fn parent(&mut self, session: &SessionKey, seen: &Seen) -> Context {
        let cause = seen.parent().and_then(|id| {
            let key = (session.clone(), id.to_owned());
            let open = self.open.get(&key).and_then(|open| open.span.as_ref());
            open.map(|span| span.span_context().clone())
                .or_else(|| self.ended.get(&key).cloned())
        });
        let cause = cause.or_else(|| self.batch(session, seen));
        match cause {
            Some(context) => Context::new().with_remote_span_context(context),
            None => self.root.clone(),
        }
    }

    fn batch(&mut self, session: &SessionKey, seen: &Seen) -> Option<SpanContext> {
        let batch = seen.batch()?;
        let key = (session.clone(), batch.to_owned());
        if self.batches.get(&key).is_none() {
            let builder = SpanBuilder::from_name("toolhost.batch")
                .with_kind(SpanKind::Internal)
                .with_start_time(seen.start())
                .with_attributes([
                    KeyValue::new("toolhost.batch", text::inline(batch, 256)),
                    KeyValue::new(
                        "toolhost.session",
                        text::inline(session.session.as_str(), 256),
                    ),
                    KeyValue::new(
                        "gen_ai.conversation.id",
                        text::inline(session.session.as_str(), 256),
                    ),
                ]);
            let span = self
                .tracer
                .as_ref()
                .map(|tracer| tracer.build_with_context(builder, &self.root));
            if let Some(lost) = self.batches.insert(key.clone(), span) {
                self.lose_batch(lost);
            }
        }
        let span = self.batches.get(&key)?.as_ref()?;
        Some(span.span_context().clone())
    }

    /// Ends the span of a call whose end was missed, with its last known state.
    fn lose(&self, open: Open) {
        if let Some(meters) = &self.meters {
            meters.gone();
        }
        if let Some(span) = open.span {
            end(span, &Seen::new(&open.last), self.contents);
        }
    }

    fn lose_batch(&self, span: Option<Span>) {
        if let Some(mut span) = span {
            span.end_with_timestamp(self.now);
        }
    }
}

fn key(event: &BusEvent) -> Option<Key> {
    Some((event.caller.session_key(), event.call.as_ref()?.0.clone()))
}

fn end(mut span: Span, seen: &Seen, contents: bool) {
    span.update_name(seen.span_name());
    span.set_attributes(seen.outcome(contents));
    for turn in seen.turns() {
        let step = vec![KeyValue::new("toolhost.step", turn.step)];
        span.add_event_with_timestamp(turn.state, turn.at, step);
    }
    if let Some(error) = seen.error() {
        span.set_status(Status::error(error));
    }
    span.end_with_timestamp(seen.end());
}

#[cfg(test)]
mod tests;
