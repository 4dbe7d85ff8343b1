//! The timeline: sessions, turns and calls over time, with filters.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use toolhost_contract::text;
use toolhost_contract::units::format_duration;
use toolhost_kernel::records;
use toolhost_store::{CallRow, CommitState, HistoryFilter, StoredTransition};

use crate::access::Session;
use crate::error_page::ErrorPage;
use crate::flame::{self, Bar, Phase, Turn};
use crate::guest_text::{code, line};
use crate::history::Records;
use crate::layout::{self, NavPage};
use crate::links::{self, link};
use crate::outcome::Outcome;
use crate::state::AppState;
use crate::{record_pages, times};

/// Calls on one page.
const PAGE_SIZES: [u32; 3] = [100, 500, 2_000];
const DEFAULT_SIZE: u32 = 100;
/// Steps of one call that the chart uses.
const MAX_STEPS: u32 = 64;
/// Maximum length of shown texts, in characters.
const MAX_TARGET: usize = 160;
const MAX_PARAMETER: usize = 300;

/// The filter as it is in the address. Values are those of a form, so unset ones are empty.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default)]
pub struct TimelineQuery {
    q: String,
    tool: String,
    plugin: String,
    outcome: String,
    session: String,
    batch: String,
    agent: String,
    /// `1h`, `24h` or `7d`.
    since: String,
    /// A day in UTC.
    day: String,
    size: String,
    /// Position to continue before.
    before: String,
}

impl TimelineQuery {
    fn parameters(&self) -> [(&'static str, &str); 10] {
        [
            ("q", &self.q),
            ("tool", &self.tool),
            ("plugin", &self.plugin),
            ("outcome", &self.outcome),
            ("session", &self.session),
            ("batch", &self.batch),
            ("agent", &self.agent),
            ("since", &self.since),
            ("day", &self.day),
            ("size", &self.size),
        ]
    }

    fn is_filtered(&self) -> bool {
        let mut parameters = self.parameters().into_iter();
        parameters.any(|(name, value)| name != "size" && !value.is_empty())
    }

    /// The address of the page that continues at a position.
    fn older(&self, position: i64) -> String {
        let position = position.to_string();
        let own = self.parameters().into_iter();
        link("/timeline", own.chain([("before", position.as_str())]))
    }

    fn with(&self, name: &str, value: &str) -> String {
        let own = self
            .parameters()
            .into_iter()
            .filter(|(other, _)| *other != name);
        link("/timeline", own.chain([(name, value)]))
    }

    fn size(&self) -> u32 {
        let size = self.size.parse().ok();
        size.filter(|size| PAGE_SIZES.contains(size))
            .unwrap_or(DEFAULT_SIZE)
    }

    fn to_filter(&self, now_ms: i64) -> Result<HistoryFilter, ErrorPage> {
        let wrong = |what: &str| {
            Err(record_pages::bad_request(format!(
                "The filter has no such {what}. Choose one of the form."
            )))
        };
        let some = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let since_ms = match self.since.as_str() {
            "" => None,
            "1h" => Some(now_ms - 3_600_000),
            "24h" => Some(now_ms - 86_400_000),
            "7d" => Some(now_ms - 7 * 86_400_000),
            _ => return wrong("time"),
        };
        let day = match self.day.as_str() {
            "" => None,
            text => match times::day(text) {
                Some(day) => Some(day),
                None => return wrong("day"),
            },
        };
        let outcome = match self.outcome.as_str() {
            "" => None,
            name => match Outcome::parse(name) {
                Some(outcome) => Some(outcome),
                None => return wrong("outcome"),
            },
        };
        let states = outcome.map_or(&[][..], Outcome::states);
        let before = match self.before.as_str() {
            "" => None,
            text => match text.parse() {
                Ok(position) => Some(position),
                Err(_) => return wrong("position"),
            },
        };
        let too_long = self
            .parameters()
            .into_iter()
            .any(|(_, value)| value.len() > MAX_PARAMETER);
        if too_long {
            return Err(record_pages::bad_request(format!(
                "A value of the filter is longer than {MAX_PARAMETER} bytes. Shorten it."
            )));
        }
        Ok(HistoryFilter {
            session: some(&self.session),
            batch: some(&self.batch),
            tool: some(&self.tool),
            plugin: some(&self.plugin),
            agent: some(&self.agent),
            states: states.iter().map(|state| (*state).to_owned()).collect(),
            is_error: outcome.map(|outcome| outcome == Outcome::Failed),
            text: some(&self.q),
            after_ms: since_ms.max(day.map(|(start, _)| start)),
            before_ms: day.map(|(_, end)| end),
            before,
            limit: self.size(),
        })
    }
}

pub async fn timeline(
    State(state): State<Arc<AppState>>,
    _session: Session,
    Query(query): Query<TimelineQuery>,
) -> Result<Markup, ErrorPage> {
    record_pages::blocking(move || {
        let filter = query.to_filter(state.now().0)?;
        let content = match &state.history.records {
            Some(records) => {
                show(records, &query, &filter).map_err(|error| record_pages::unreadable(&error))?
            }
            None => record_pages::no_records(),
        };
        Ok(layout::page(&state, NavPage::Timeline, "Timeline", content))
    })
    .await
}

fn show(
    records: &Records,
    query: &TimelineQuery,
    filter: &HistoryFilter,
) -> Result<Markup, toolhost_store::StoreError> {
    let page = records.history.page(filter)?;
    let calls: Vec<ShownCall> = page
        .rows
        .iter()
        .map(|(_, row)| ShownCall::read(records, row))
        .collect::<Result<_, _>>()?;
    let sessions = by_session(&calls);
    Ok(html! {
        // Older pages do not change.
        div class="page-head" data-refresh=[filter.before.is_none().then_some("5")] {
            h1 { "Timeline" }
            p class="meta" { (count_of(calls.len(), "call")) " of " (count_of(sessions.len(), "session")) ", newest first" }
        }
        (filters(query))
        @if calls.is_empty() { (nothing(query, page.next.is_some())) }
        @for (session, calls) in &sessions { (session_view(query, session, calls)) }
        nav class="pager" aria-label="Pages of calls" {
            @if filter.before.is_some() { a class="button" href=(query.with("before", "")) { "Newest" } }
            @if let Some(next) = page.next { a class="button" rel="next" href=(query.older(next)) { "Older" } }
        }
    })
}

fn nothing(query: &TimelineQuery, has_more: bool) -> Markup {
    html! {
        section class="empty" {
            h2 { "No calls" }
            p {
                @if has_more {
                    "None of the newest calls match. The search continues with “Older”."
                } @else if query.is_filtered() {
                    "No recorded call matches the filter."
                } @else {
                    "Calls appear here when a tool is called."
                }
            }
            @if query.is_filtered() { p { a class="button" href="/timeline" { "Show all calls" } } }
        }
    }
}

/// A call with what the chart needs.
struct ShownCall<'a> {
    row: &'a CallRow,
    steps: Vec<StoredTransition>,
    outcome: Outcome,
    is_undone: bool,
    changes: usize,
}

impl<'a> ShownCall<'a> {
    fn read(records: &Records, row: &'a CallRow) -> Result<Self, toolhost_store::StoreError> {
        // Only calls with effects can have changed files.
        let commits = if row.effectful {
            records.history.commit_states(&row.id)?
        } else {
            Vec::new()
        };
        Ok(Self {
            row,
            steps: records.history.steps(&row.id, MAX_STEPS)?,
            outcome: Outcome::of(row),
            // The undo itself is a commit too, so the first one decides.
            is_undone: commits.first() == Some(&CommitState::Undone),
            changes: commits.len(),
        })
    }

    fn retries(&self) -> usize {
        let starts = self.steps.iter().filter(|step| step.row.kind == "started");
        starts.count().saturating_sub(1)
    }

    fn agent(&self) -> &str {
        self.row
            .record
            .get("agentId")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Time spent in a phase, in milliseconds.
    fn time_in(&self, phase: Phase) -> i64 {
        let phases = self.phases();
        phases
            .iter()
            .filter(|(one, _, _)| *one == phase)
            .map(|(_, start, end)| end - start)
            .sum()
    }

    fn phases(&self) -> Vec<(Phase, i64, i64)> {
        let next = self.steps.iter().skip(1).map(|step| step.row.at_ms);
        let ends = next.chain([self.row.updated_ms]);
        let steps = self.steps.iter().zip(ends);
        let running = steps.filter(|(step, end)| *end > step.row.at_ms);
        running
            .map(|(step, end)| (Phase::of_state(&step.row.state), step.row.at_ms, end))
            .collect()
    }

    fn bar(&self, positions: &HashMap<&str, usize>) -> Bar {
        let tool = records::tool_name(self.row);
        let took = records::duration(self.row).map(format_duration);
        let waits = self.waits();
        let mut title = format!("{tool}: {}", self.outcome.label());
        for part in took.into_iter().chain(waits) {
            title = format!("{title}, {part}");
        }
        Bar {
            parent: self
                .row
                .parent
                .as_deref()
                .and_then(|parent| positions.get(parent).copied()),
            start: self.row.created_ms,
            end: self.row.updated_ms,
            phases: self.phases(),
            label: tool.to_owned(),
            title,
            link: links::call(&self.row.id),
            outcome: self.outcome.class(),
            retries: self.retries(),
            is_undone: self.is_undone,
        }
    }

    /// What happened beside the run itself, in words.
    fn waits(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (phase, what) in [
            (Phase::Ask, "waited for an answer"),
            (Phase::Queue, "waited for other calls"),
        ] {
            let millis = self.time_in(phase);
            if millis >= 10 {
                let millis = Duration::from_millis(u64::try_from(millis).unwrap_or_default());
                notes.push(format!("{} {what}", format_duration(millis)));
            }
        }
        match self.retries() {
            0 => {}
            1 => notes.push("ran again once".to_owned()),
            count => notes.push(format!("ran again {count} times")),
        }
        if self.is_undone {
            notes.push("undone".to_owned());
        }
        notes
    }
}

/// The calls of each session, oldest first; the session with the newest call first.
fn by_session<'a, 'b>(calls: &'b [ShownCall<'a>]) -> Vec<(&'a str, Vec<&'b ShownCall<'a>>)> {
    let mut sessions: Vec<(&str, Vec<&ShownCall>)> = Vec::new();
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for call in calls {
        let session = call.row.session.as_str();
        let at = *positions.entry(session).or_insert_with(|| {
            sessions.push((session, Vec::new()));
            sessions.len() - 1
        });
        sessions[at].1.push(call);
    }
    for (_, calls) in &mut sessions {
        calls.reverse();
    }
    sessions
}

fn session_view(query: &TimelineQuery, session: &str, calls: &[&ShownCall<'_>]) -> Markup {
    let ids = calls
        .iter()
        .enumerate()
        .map(|(at, call)| (call.row.id.as_str(), at));
    let positions: HashMap<&str, usize> = ids.collect();
    let bars: Vec<Bar> = calls.iter().map(|call| call.bar(&positions)).collect();
    let failed = calls.iter().filter(|call| call.outcome.is_bad()).count();
    let start = calls.first().map_or(0, |call| call.row.created_ms);
    html! {
        section class="session-view" {
            header {
                h2 { "Session " a href=(query.with("session", session)) { (line(session, 80)) } }
                p class="meta" {
                    "from " (times::time(start)) " · " (count_of(calls.len(), "call"))
                    @if failed > 0 { ", " span class="bad-text" { (failed) " not successful" } }
                }
            }
            (flame::chart(&bars, &turns(calls)))
            (list(query, session, calls))
        }
    }
}

fn turns(calls: &[&ShownCall<'_>]) -> Vec<Turn> {
    let mut turns: Vec<(&str, Turn, usize)> = Vec::new();
    for call in calls {
        let (Some(batch), start, end) = (&call.row.batch, call.row.created_ms, call.row.updated_ms)
        else {
            continue;
        };
        match turns.iter_mut().rev().find(|(id, _, _)| id == batch) {
            Some((_, turn, count)) => {
                turn.end = turn.end.max(end);
                *count += 1;
            }
            None => turns.push((
                batch,
                Turn {
                    start,
                    end,
                    label: String::new(),
                },
                1,
            )),
        }
    }
    let labelled = turns.into_iter().map(|(id, turn, count)| Turn {
        label: format!("turn {id}: {}", count_of(count, "call")),
        ..turn
    });
    labelled.collect()
}

/// The calls, newest first.
fn list(query: &TimelineQuery, session: &str, calls: &[&ShownCall<'_>]) -> Markup {
    let label = format!("Calls of session {}", text::escape_line(session, 80));
    html! {
        div class="table-scroll" tabindex="0" role="region" aria-label=(label) {
            table class="calls" {
                thead { tr { th scope="col" { "Call" } th scope="col" { "What" } th scope="col" { "Outcome" } th scope="col" { "Time" } th scope="col" { "Started" } } }
                tbody {
                    @for call in calls.iter().rev() {
                        tr {
                            th scope="row" {
                                a href=(links::call(&call.row.id)) { (line(records::tool_name(call.row), 80)) }
                                @if let Some(plugin) = &call.row.plugin { " " span class="meta" { (line(plugin, 60)) } }
                            }
                            td class="target" {
                                @if let Some(target) = records::target(call.row) { (code(&target, MAX_TARGET)) }
                                @if let Some(batch) = &call.row.batch {
                                    " " a class="meta" href=(query.with("batch", batch)) { "turn " (line(batch, 24)) }
                                }
                                @if call.agent() != "main" && !call.agent().is_empty() {
                                    " " a class="meta" href=(query.with("agent", call.agent())) { "agent " (line(call.agent(), 40)) }
                                }
                            }
                            td {
                                span class={ "outcome " (call.outcome.class()) } { (call.outcome.label()) }
                                @if call.is_undone { " " span class="meta" { "undone" } }
                                @else if call.changes > 0 { " " span class="meta" { "changed files" } }
                            }
                            td class="number" {
                                @if let Some(took) = records::duration(call.row) { (format_duration(took)) }
                                @for note in call.waits().iter().filter(|note| *note != "undone") { br; span class="meta" { (note) } }
                            }
                            td { (times::time(call.row.created_ms)) }
                        }
                    }
                }
            }
        }
    }
}

fn filters(query: &TimelineQuery) -> Markup {
    let field = |name: &str, label: &str, value: &str| {
        html! {
            label { (label) input type="text" name=(name) value=(value) maxlength=(MAX_PARAMETER) autocomplete="off"; }
        }
    };
    html! {
        form class="filters" method="get" action="/timeline" role="search" aria-label="Filter calls" {
            label class="wide" {
                "Path, command or text"
                input type="search" name="q" value=(query.q) maxlength=(MAX_PARAMETER) autocomplete="off";
            }
            label {
                "Outcome"
                select name="outcome" {
                    option value="" { "Any" }
                    @for outcome in Outcome::ALL {
                        option value=(outcome.class()) selected[query.outcome == outcome.class()] { (outcome.label()) }
                    }
                }
            }
            label {
                "Time"
                select name="since" {
                    @for (value, label) in [("", "Any"), ("1h", "Last hour"), ("24h", "Last 24 hours"), ("7d", "Last 7 days")] {
                        option value=(value) selected[query.since == value] { (label) }
                    }
                }
            }
            (field("tool", "Tool", &query.tool))
            (field("plugin", "Plugin", &query.plugin))
            (field("session", "Session", &query.session))
            (field("agent", "Agent", &query.agent))
            label { "Day (UTC)" input type="date" name="day" value=(query.day); }
            label {
                "Calls per page"
                select name="size" {
                    @for size in PAGE_SIZES { option value=(size) selected[query.size() == size] { (size) } }
                }
            }
            @if !query.batch.is_empty() { input type="hidden" name="batch" value=(query.batch); }
            div class="actions" {
                button class="primary" { "Filter" }
                @if query.is_filtered() { a class="button" href="/timeline" { "Clear" } }
            }
        }
    }
}

pub fn count_of(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
