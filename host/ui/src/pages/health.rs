//! The health of a host: calls, latency, queue, sandboxes and the size of the records, as small charts.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use toolhost_contract::units::{format_duration, format_size};
use toolhost_kernel::records::{CallSummary, Usage};

use crate::access::Session;
use crate::charts::{Series, count, lines};
use crate::error_page::ErrorPage;
use crate::history::{Coverage, Sample};
use crate::layout::{self, NavPage};
use crate::pages::policy::coverage_note;
use crate::pages::timeline::count_of;
use crate::record_pages;
use crate::state::AppState;

/// Points of a chart over calls.
const POINTS: usize = 60;

/// The time that the charts over calls cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    name: &'static str,
    label: &'static str,
    millis: i64,
}

const RANGES: [Range; 3] = [
    Range {
        name: "1h",
        label: "Last hour",
        millis: 3_600_000,
    },
    Range {
        name: "24h",
        label: "Last 24 hours",
        millis: 86_400_000,
    },
    Range {
        name: "7d",
        label: "Last 7 days",
        millis: 7 * 86_400_000,
    },
];

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct HealthQuery {
    range: String,
}

pub async fn health(
    State(state): State<Arc<AppState>>,
    _session: Session,
    Query(query): Query<HealthQuery>,
) -> Result<Markup, ErrorPage> {
    record_pages::blocking(move || {
        let range = RANGES
            .into_iter()
            .find(|range| range.name == query.range)
            .unwrap_or(RANGES[0]);
        let coverage = state
            .history
            .update()
            .map_err(|error| record_pages::unreadable(&error))?;
        let content = html! {
            div class="page-head" data-refresh="5" {
                h1 { "Health" }
                p class="meta" { (now_line(&state)) }
            }
            (calls(&state, range, coverage))
            (load(&state))
        };
        Ok(layout::page(&state, NavPage::Health, "Health", content))
    })
    .await
}

fn now_line(state: &AppState) -> Markup {
    html! {
        @match &state.options.kernel {
            Some(kernel) => {
                @let load = kernel.load();
                (count_of(load.calls, "call")) " in progress, " (load.admitted) " running, " (load.queued) " in the queue, "
                (count_of(load.questions, "question")) " waiting"
            },
            None => "No host is running; the charts show records only.",
        }
    }
}

/// The charts over recorded calls.
fn calls(state: &AppState, range: Range, coverage: Coverage) -> Markup {
    let Some(records) = &state.history.records else {
        return record_pages::no_records();
    };
    let start = state.now().0 - range.millis;
    let step = range.millis / i64::try_from(POINTS).unwrap_or(1);
    let (parts, all) = records.log.read(|calls, _| {
        let recent = || calls.iter().filter(|call| call.created_ms >= start);
        (split(recent(), start, step), Usage::of(recent()))
    });
    let seconds = Duration::from_millis(u64::try_from(step).unwrap_or(1)).as_secs_f64();
    let rate = parts
        .iter()
        .map(|usage| Some(count(usage.calls as usize + usage.denied as usize) / seconds));
    let failures = parts
        .iter()
        .map(|usage| Some(count(usage.failures as usize + usage.denied as usize)));
    let percentile = |percent| {
        parts
            .iter()
            .map(|usage| Some(usage.duration(percent)?.as_secs_f64()))
            .collect()
    };
    let one = |values: Vec<Option<f64>>| {
        [Series {
            name: "",
            class: "one",
            values,
        }]
    };
    let latency = [(50, "p50", "three"), (95, "p95", "one"), (99, "p99", "two")];
    let latency = latency.map(|(percent, name, class)| Series {
        name,
        class,
        values: percentile(percent),
    });
    html! {
        section class="block" {
            div class="changes-head" {
                h2 { "Calls" }
                nav class="actions" aria-label="Time" {
                    @for other in RANGES {
                        a class="button" href={ "/health?range=" (other.name) } aria-current=[(other == range).then_some("true")] { (other.label) }
                    }
                }
            }
            (coverage_note(coverage))
            p class="meta" {
                (count_of(all.calls as usize, "call")) " ran, " (all.failures) " failed, " (all.denied) " denied"
                @if let (Some(half), Some(most)) = (all.duration(50), all.duration(95)) {
                    "; half took at most " (format_duration(half)) ", 95 % at most " (format_duration(most))
                }
            }
            div class="charts" {
                (lines("Calls per second", range.label, &one(rate.collect()), |value| format!("{value:.2}")))
                (lines("Duration", range.label, &latency, |value| format_duration(Duration::try_from_secs_f64(value).unwrap_or_default())))
                (lines("Failed and denied calls", range.label, &one(failures.collect()), |value| format!("{value:.0}")))
            }
        }
    }
}

/// The use in each part of the time.
fn split<'a>(calls: impl Iterator<Item = &'a CallSummary>, start: i64, step: i64) -> Vec<Usage> {
    let mut parts: Vec<Vec<&CallSummary>> = vec![Vec::new(); POINTS];
    for call in calls {
        let at = usize::try_from((call.created_ms - start) / step.max(1)).unwrap_or(0);
        parts[at.min(POINTS - 1)].push(call);
    }
    parts.into_iter().map(Usage::of).collect()
}

/// The charts over samples.
fn load(state: &AppState) -> Markup {
    let samples = state.history.samples.all();
    let values = |value: fn(&Sample) -> usize| {
        samples
            .iter()
            .map(|sample| Some(count(value(sample))))
            .collect()
    };
    let one = |values: Vec<Option<f64>>| {
        [Series {
            name: "",
            class: "one",
            values,
        }]
    };
    let number = |value: f64| format!("{value:.0}");
    let note = "since the page is served, at most one hour";
    let store = samples
        .iter()
        .map(|sample| sample.store_bytes.map(bytes))
        .collect();
    let sandboxes = state
        .options
        .kernel
        .as_ref()
        .map(|kernel| kernel.settings().pools.total());
    let sandbox_note = sandboxes.map_or_else(
        || note.to_owned(),
        |most| format!("at most {most} per user · {note}"),
    );
    html! {
        section class="block" {
            h2 { "Load and storage" }
            div class="charts" {
                @if state.options.kernel.is_some() {
                    (lines("Running sandboxes", &sandbox_note, &one(values(|sample| sample.load.admitted)), number))
                    (lines("Queue", note, &one(values(|sample| sample.load.queued)), number))
                    (lines("Waiting questions", note, &one(values(|sample| sample.load.questions)), number))
                }
                (lines("Size of the records", note, &one(store), size))
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a position in a chart")]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "was a number of bytes"
)]
fn size(value: f64) -> String {
    format_size(value as u64)
}
