//! Converts the events of calls and batches to spans.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use toolhost_contract::bus::{BusEvent, EventKind};
use toolhost_contract::lifecycle::Snapshot;
use toolhost_contract::{SessionKey, text};

use crate::bounded_map::{BoundedMap, SessionScopedKey};
use crate::call_attributes::{CallAttributes, system_time};
use crate::call_metrics::CallMetrics;

/// Maximum number of tracked calls, batches and ended calls.
const MAX_OPEN_CALLS: usize = 4_096;
const MAX_OPEN_BATCHES: usize = 512;
const MAX_ENDED_CALLS: usize = 1_024;

pub(crate) struct CallSpans {
    pub tracer: Option<SdkTracer>,
    pub meters: Option<CallMetrics>,
    /// Whether spans contain the masked preview of an input.
    include_contents: bool,
    /// The trace context of the process that started the host.
    root: Context,
    open: BoundedMap<OpenCall>,
    batches: BoundedMap<Option<Span>>,
    /// Ended calls, because a call can cause another one after its end.
    ended: BoundedMap<SpanContext>,
    /// Time of the latest event.
    now: SystemTime,
}

struct OpenCall {
    span: Option<Span>,
    last: Arc<Snapshot>,
}

impl CallSpans {
    pub(crate) fn new(
        tracer: Option<SdkTracer>,
        meters: Option<CallMetrics>,
        contents: bool,
        root: Context,
    ) -> Self {
        Self {
            tracer,
            meters,
            include_contents: contents,
            root,
            open: BoundedMap::new(MAX_OPEN_CALLS),
            batches: BoundedMap::new(MAX_OPEN_BATCHES),
            ended: BoundedMap::new(MAX_ENDED_CALLS),
            now: UNIX_EPOCH,
        }
    }

    pub(crate) fn on_event(&mut self, event: &BusEvent) {
        self.now = self.now.max(system_time(event.at.0));
        match &event.kind {
            EventKind::CallCreated | EventKind::CallState(_) => {
                if let (Some(key), Some(snapshot)) = (call_key(event), &event.snapshot) {
                    self.update_call(key, snapshot);
                }
            }
            EventKind::CallCompleted { .. }
            | EventKind::CallFailed
            | EventKind::CallDenied
            | EventKind::CallCancelled
            | EventKind::CallSealed => {
                if let Some(key) = call_key(event) {
                    self.end_call(key, event.snapshot.as_ref());
                }
            }
            EventKind::BatchCompleted { batch, calls } => {
                let key = (event.caller.session_key(), batch.clone());
                if let Some(Some(mut span)) = self.batches.remove(&key) {
                    let calls = i64::try_from(calls.len()).unwrap_or(i64::MAX);
                    span.set_attribute(KeyValue::new("toolhost.batch.calls", calls));
                    span.end_with_timestamp(system_time(event.at.0));
                }
            }
            // Questions and answers are state changes of a call; the other events contain no call data to export.
            EventKind::PermissionRequest { .. }
            | EventKind::PermissionDecided { .. }
            | EventKind::Call(_)
            | EventKind::BatchSubmitted { .. }
            | EventKind::RegistryChanged
            | EventKind::PolicyUpdated => {}
        }
    }

    /// Missed events can include ends of calls. Their spans end when they are evicted or at shutdown.
    pub(crate) fn on_missed(&self, events: u64) {
        if let Some(meters) = &self.meters {
            meters.events_missed(events);
        }
    }

    /// Ends all open spans. No more events will follow.
    pub(crate) fn finish(&mut self) {
        while let Some(open) = self.open.pop_oldest() {
            self.end_untracked(open);
        }
        while let Some(span) = self.batches.pop_oldest() {
            self.end_untracked_batch(span);
        }
    }

    fn update_call(&mut self, key: SessionScopedKey, snapshot: &Arc<Snapshot>) {
        if let Some(open) = self.open.get_mut(&key) {
            open.last = Arc::clone(snapshot);
            return;
        }
        let open = OpenCall {
            span: self.start_span(&key.0, &CallAttributes::new(snapshot)),
            last: Arc::clone(snapshot),
        };
        if let Some(meters) = &self.meters {
            meters.call_started();
        }
        if let Some(lost) = self.open.insert(key, open) {
            self.end_untracked(lost);
        }
    }

    fn end_call(&mut self, key: SessionScopedKey, snapshot: Option<&Arc<Snapshot>>) {
        let open = self.open.remove(&key);
        let Some(snapshot) = snapshot else {
            if let Some(meters) = &self.meters {
                meters.call_sealed();
            }
            if let Some(open) = open {
                self.end_untracked(open);
            }
            return;
        };
        if let (Some(_), Some(meters)) = (&open, &self.meters) {
            meters.call_untracked();
        }
        let attributes = CallAttributes::new(snapshot);
        if let Some(meters) = &self.meters {
            meters.call_ended(&attributes);
        }
        // If the start was missed, the snapshot contains everything needed.
        let span = match open {
            Some(open) => open.span,
            None => self.start_span(&key.0, &attributes),
        };
        if let Some(span) = span {
            let context = span.span_context().clone();
            end_span(span, &attributes, self.include_contents);
            drop(self.ended.insert(key, context));
        }
    }

    fn start_span(&mut self, session: &SessionKey, attributes: &CallAttributes) -> Option<Span> {
        let parent = self.parent_context(session, attributes);
        let builder = SpanBuilder::from_name(attributes.span_name())
            .with_kind(SpanKind::Internal)
            .with_start_time(attributes.start())
            .with_attributes(attributes.start_attributes());
        let tracer = self.tracer.as_ref()?;
        Some(tracer.build_with_context(builder, &parent))
    }

    /// The parent span: the calling call, else the batch, else the process that started the host.
    fn parent_context(&mut self, session: &SessionKey, attributes: &CallAttributes) -> Context {
        let cause = attributes.parent().and_then(|id| {
            let key = (session.clone(), id.to_owned());
            let open = self.open.get(&key).and_then(|open| open.span.as_ref());
            open.map(|span| span.span_context().clone())
                .or_else(|| self.ended.get(&key).cloned())
        });
        let cause = cause.or_else(|| self.batch_context(session, attributes));
        match cause {
            Some(context) => Context::new().with_remote_span_context(context),
            None => self.root.clone(),
        }
    }

    fn batch_context(
        &mut self,
        session: &SessionKey,
        attributes: &CallAttributes,
    ) -> Option<SpanContext> {
        let batch = attributes.batch()?;
        let key = (session.clone(), batch.to_owned());
        if self.batches.get(&key).is_none() {
            let builder = SpanBuilder::from_name("toolhost.batch")
                .with_kind(SpanKind::Internal)
                .with_start_time(attributes.start())
                .with_attributes([
                    KeyValue::new("toolhost.batch", text::escape_line(batch, 256)),
                    KeyValue::new(
                        "toolhost.session",
                        text::escape_line(session.session.as_str(), 256),
                    ),
                    KeyValue::new(
                        "gen_ai.conversation.id",
                        text::escape_line(session.session.as_str(), 256),
                    ),
                ]);
            let span = self
                .tracer
                .as_ref()
                .map(|tracer| tracer.build_with_context(builder, &self.root));
            if let Some(lost) = self.batches.insert(key.clone(), span) {
                self.end_untracked_batch(lost);
            }
        }
        let span = self.batches.get(&key)?.as_ref()?;
        Some(span.span_context().clone())
    }

    /// Ends the span of a call whose end was missed, with its last known state.
    fn end_untracked(&self, open: OpenCall) {
        if let Some(meters) = &self.meters {
            meters.call_untracked();
        }
        if let Some(span) = open.span {
            end_span(
                span,
                &CallAttributes::new(&open.last),
                self.include_contents,
            );
        }
    }

    fn end_untracked_batch(&self, span: Option<Span>) {
        if let Some(mut span) = span {
            span.end_with_timestamp(self.now);
        }
    }
}

fn call_key(event: &BusEvent) -> Option<SessionScopedKey> {
    Some((event.caller.session_key(), event.call.as_ref()?.0.clone()))
}

fn end_span(mut span: Span, attributes: &CallAttributes, contents: bool) {
    span.update_name(attributes.span_name());
    span.set_attributes(attributes.end_attributes(contents));
    for turn in attributes.state_changes() {
        let step = vec![KeyValue::new("toolhost.step", turn.step)];
        span.add_event_with_timestamp(turn.state, turn.at, step);
    }
    if let Some(error) = attributes.error() {
        span.set_status(Status::error(error));
    }
    span.end_with_timestamp(attributes.end());
}

#[cfg(test)]
mod tests;
