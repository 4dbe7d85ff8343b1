//! Test fixture that feeds events to the exporter and prints what it would send.

use std::fmt::Write as _;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::{SpanId, TracerProvider as _};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ScopeMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::{Value, json};
use toolhost_contract::CallId;
use toolhost_contract::lifecycle::{CallRecord, CallState, Timestamp, Transition};

use super::super::*;

pub(super) struct SpanFixture {
    pub(super) calls: CallSpans,
    spans: InMemorySpanExporter,
    metrics: InMemoryMetricExporter,
    meters: SdkMeterProvider,
    /// Advances by one millisecond with each step.
    pub(super) clock: i64,
}

impl SpanFixture {
    pub(super) fn new(contents: bool) -> Self {
        let spans = InMemorySpanExporter::default();
        let tracers = SdkTracerProvider::builder()
            .with_simple_exporter(spans.clone())
            .build();
        let metrics = InMemoryMetricExporter::default();
        let meters = SdkMeterProvider::builder()
            .with_periodic_exporter(metrics.clone())
            .build();
        let calls = CallSpans::new(
            Some(tracers.tracer("test")),
            Some(CallMetrics::new(&meters.meter("test"))),
            contents,
            Context::new(),
        );
        Self {
            calls,
            spans,
            metrics,
            meters,
            clock: 0,
        }
    }

    pub(super) fn begin(&mut self, id: &str, tool: &str, input: Value) -> CallRecord {
        CallRecord::new(
            CallId(id.to_owned()),
            tool.to_owned(),
            input.into(),
            Arc::default(),
            Timestamp(self.clock),
        )
    }

    pub(super) fn event(&mut self, record: &CallRecord, event_kind: EventKind) -> BusEvent {
        BusEvent {
            seq: 0,
            at: Timestamp(self.clock),
            caller: Arc::clone(&record.caller),
            call: Some(record.id.clone()),
            kind: event_kind,
            snapshot: Some(Arc::new(Snapshot::new(Arc::new(record.clone())))),
        }
    }

    pub(super) fn send(&mut self, record: &CallRecord, event_kind: EventKind) {
        let event = self.event(record, event_kind);
        self.calls.on_event(&event);
    }

    /// Runs the call from its first event through these steps.
    pub(super) fn run(
        &mut self,
        mut record: CallRecord,
        steps: impl IntoIterator<Item = Transition>,
    ) {
        self.send(&record, EventKind::CallCreated);
        for step in steps {
            self.clock += 1;
            let state = record.apply(step, Timestamp(self.clock)).unwrap();
            let event_kind = end_of(state).unwrap_or(EventKind::CallState(state));
            self.send(&record, event_kind);
        }
    }

    pub(super) fn ended(&self) -> Vec<SpanData> {
        self.spans.get_finished_spans().unwrap()
    }

    /// `whole` includes attributes and state changes.
    pub(super) fn format_spans(&self, whole: bool) -> String {
        let spans = self.ended();
        let name = |id: SpanId| {
            let found = spans.iter().find(|span| span.span_context.span_id() == id);
            found.map_or("none", |span| span.name.as_ref())
        };
        let mut out = String::new();
        for span in &spans {
            let since = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap().as_millis();
            let (start, end) = (since(span.start_time), since(span.end_time));
            let parent = name(span.parent_span_id);
            let status = &span.status;
            let _ = writeln!(out, "{} {start}..{end} of {parent}, {status:?}", span.name);
            if !whole {
                continue;
            }
            let mut attributes: Vec<String> = span
                .attributes
                .iter()
                .map(|one| format!("{}={}", one.key, one.value))
                .collect();
            attributes.sort();
            let names = span.attributes.iter().map(|one| &one.key);
            let names: std::collections::HashSet<_> = names.collect();
            assert_eq!(
                names.len(),
                attributes.len(),
                "each name once: {attributes:?}"
            );
            for attribute in attributes {
                let _ = writeln!(out, "  {attribute}");
            }
            for event in &span.events.events {
                let at = since(event.timestamp);
                let step = &event.attributes[0].value;
                let _ = writeln!(out, "  {at}: {} ({step})", event.name);
            }
        }
        out
    }

    pub(super) fn format_metrics(&self) -> String {
        self.meters.force_flush().unwrap();
        let mut lines = Vec::new();
        let metrics = self.metrics.get_finished_metrics().unwrap();
        let last = metrics.last().unwrap();
        for metric in last.scope_metrics().flat_map(ScopeMetrics::metrics) {
            let mut line = |attributes: Vec<&KeyValue>, value: String| {
                let mut pairs: Vec<String> = attributes
                    .into_iter()
                    .map(|one| format!("{}={}", one.key, one.value))
                    .collect();
                pairs.sort();
                lines.push(format!("{} {} {value}", metric.name(), pairs.join(" ")));
            };
            match metric.data() {
                AggregatedMetrics::U64(MetricData::Sum(sum)) => sum.data_points().for_each(|at| {
                    line(at.attributes().collect(), at.value().to_string());
                }),
                AggregatedMetrics::I64(MetricData::Sum(sum)) => sum.data_points().for_each(|at| {
                    line(at.attributes().collect(), at.value().to_string());
                }),
                AggregatedMetrics::F64(MetricData::Histogram(all)) => {
                    all.data_points().for_each(|at| {
                        let value = format!("{} in {:.3}s", at.count(), at.sum());
                        line(at.attributes().collect(), value);
                    });
                }
                other => panic!("{other:?}"),
            }
        }
        lines.sort();
        lines.join("\n")
    }
}

pub(super) fn end_of(state: CallState) -> Option<EventKind> {
    use CallState as S;
    Some(match state {
        S::Completed => EventKind::CallCompleted {
            title: "the title".to_owned(),
            summary: Some("the summary".to_owned()),
            result: Some(json!("the result")),
            diff: None,
        },
        S::Failed => EventKind::CallFailed,
        S::Denied => EventKind::CallDenied,
        S::Cancelled => EventKind::CallCancelled,
        S::Sealed => EventKind::CallSealed,
        S::Pending
        | S::Validating
        | S::AwaitingApproval
        | S::Approved
        | S::Scheduled
        | S::Executing => return None,
    })
}
