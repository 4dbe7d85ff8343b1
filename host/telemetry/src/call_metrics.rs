//! Metrics: number, duration and waiting time of calls, active calls and missed events.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};
use toolhost_contract::lifecycle::CallState;

use crate::call_attributes::{CallAttributes, OTHER};

pub(crate) struct CallMetrics {
    calls: Counter<u64>,
    duration: Histogram<f64>,
    waiting: Histogram<f64>,
    active: UpDownCounter<i64>,
    missed: Counter<u64>,
    codes: Mutex<BTreeSet<String>>,
}

/// Maximum number of distinct error codes. Tools choose their codes, and a collector keeps a series for each.
const MAX_ERROR_CODES: usize = 100;

/// Histogram boundaries in seconds. Tools take milliseconds to minutes; users take longer.
const DURATION_BOUNDARIES: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 120.0, 600.0,
];
const WAITING_BOUNDARIES: [f64; 12] = [
    0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 86400.0,
];

impl CallMetrics {
    pub(crate) fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str, about: &'static str, boundaries: &[f64]| {
            meter
                .f64_histogram(name)
                .with_unit("s")
                .with_description(about)
                .with_boundaries(boundaries.to_vec())
                .build()
        };
        Self {
            calls: meter
                .u64_counter("toolhost.calls")
                .with_unit("{call}")
                .with_description("Ended calls, by tool and final state.")
                .build(),
            duration: seconds(
                "toolhost.call.duration",
                "Execution time of calls, without waiting.",
                &DURATION_BOUNDARIES,
            ),
            waiting: seconds(
                "toolhost.call.waiting",
                "Time that calls waited for approval or scheduling.",
                &WAITING_BOUNDARIES,
            ),
            active: meter
                .i64_up_down_counter("toolhost.calls.active")
                .with_unit("{call}")
                .with_description("Calls that have started and not ended.")
                .build(),
            missed: meter
                .u64_counter("toolhost.events.missed")
                .with_unit("{event}")
                .with_description("Events that telemetry missed because it fell behind.")
                .build(),
            codes: Mutex::default(),
        }
    }

    pub(crate) fn call_started(&self) {
        self.active.add(1, &[]);
    }

    /// A call ended or is no longer tracked.
    pub(crate) fn call_untracked(&self) {
        self.active.add(-1, &[]);
    }

    pub(crate) fn events_missed(&self, events: u64) {
        self.missed.add(events, &[]);
    }

    pub(crate) fn call_ended(&self, call: &CallAttributes) {
        let tool = call.tool().unwrap_or_else(|| OTHER.to_owned());
        let tool = KeyValue::new("gen_ai.tool.name", tool);
        let mut attributes = vec![
            tool.clone(),
            KeyValue::new("toolhost.state", call.state().to_owned()),
        ];
        let error = call.error().map(|error| self.bounded_code(error));
        attributes.extend(error.map(|error| KeyValue::new("error.type", error)));
        self.calls.add(1, &attributes);
        if let Some(duration) = call.duration() {
            self.duration.record(duration, &attributes);
        }
        for state in [CallState::AwaitingApproval, CallState::Scheduled] {
            if let Some(waited) = call.seconds_in(state) {
                let state = KeyValue::new("toolhost.state", state.as_str());
                self.waiting.record(waited, &[tool.clone(), state]);
            }
        }
    }

    fn bounded_code(&self, code: String) -> String {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if codes.contains(&code) || codes.len() < MAX_ERROR_CODES && codes.insert(code.clone()) {
            code
        } else {
            OTHER.to_owned()
        }
    }

    /// Counts a call of a crashed host, of which only the end is known.
    pub(crate) fn call_sealed(&self) {
        let attributes = [
            KeyValue::new("gen_ai.tool.name", OTHER),
            KeyValue::new("toolhost.state", CallState::Sealed.as_str()),
            KeyValue::new("error.type", CallState::Sealed.as_str()),
        ];
        self.calls.add(1, &attributes);
    }
}
