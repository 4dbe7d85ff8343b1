//! One call: input, result, steps, the decision, file changes with undo, and its position in the audit chain.

use std::sync::Arc;

use axum::extract::{Query, State};
use http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use toolhost_contract::units::{format_duration, format_size};
use toolhost_kernel::records;
use toolhost_store::{CallRow, CommitRow, CommitState, EventRow, StoreError, StoredTransition};

use crate::access::Session;
use crate::commit_view::CommitView;
use crate::decision_view;
use crate::error_page::ErrorPage;
use crate::form::form;
use crate::guest_text::{block, code, line};
use crate::history::Records;
use crate::layout::{self, NavPage};
use crate::links::{self, link};
use crate::outcome::Outcome;
use crate::state::AppState;
use crate::{record_pages, times};

/// Maximum number of shown steps, events, log lines and calls that this one made.
const MAX_STEPS: u32 = 500;
const MAX_EVENTS: u32 = 200;
const MAX_LINES: usize = 200;
/// Maximum length of shown texts, in characters.
const MAX_TEXT: usize = 20_000;
const MAX_FACT: usize = 2_000;

#[derive(Deserialize)]
pub struct CallQuery {
    #[serde(default)]
    pub id: String,
}

/// Everything that is recorded about a call.
pub struct CallDetails {
    pub row: CallRow,
    pub steps: Vec<StoredTransition>,
    pub events: Vec<(i64, EventRow)>,
    pub commits: Vec<CommitRow>,
}

impl CallDetails {
    /// `None` if there is no such call.
    pub fn read(records: &Records, id: &str) -> Result<Option<Self>, StoreError> {
        let history = &records.history;
        let Some((_, row)) = history.calls(&[id.to_owned()])?.pop() else {
            return Ok(None);
        };
        Ok(Some(Self {
            steps: history.steps(id, MAX_STEPS)?,
            events: history.events(id, 0, MAX_EVENTS)?,
            commits: history.commits(id)?,
            row,
        }))
    }

    /// Reads a call for a page, which explains what is missing.
    pub fn find(state: &AppState, id: &str) -> Result<Self, ErrorPage> {
        let Some(records) = &state.history.records else {
            return Err(
                ErrorPage::new(StatusCode::NOT_FOUND, "This host keeps no records")
                    .link("/", "Go to the inbox"),
            );
        };
        Self::read(records, id)
            .map_err(|error| record_pages::unreadable(&error))?
            .ok_or_else(|| {
                ErrorPage::new(StatusCode::NOT_FOUND, "There is no record of this call")
                    .because("It may have been deleted because of the retention settings.")
                    .link("/timeline", "Show all calls")
            })
    }

    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.row
            .record
            .pointer(pointer)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    }

    pub fn number(&self, pointer: &str) -> Option<u64> {
        self.row.record.pointer(pointer).and_then(Value::as_u64)
    }
}

pub async fn call(
    State(state): State<Arc<AppState>>,
    session: Session,
    Query(query): Query<CallQuery>,
) -> Result<Markup, ErrorPage> {
    record_pages::blocking(move || {
        let call = CallDetails::find(&state, &query.id)?;
        let content = html! {
            p { a class="back" href=(link("/timeline", [("session", call.row.session.as_str())])) { "← Session " (line(&call.row.session, 60)) } }
            (head(&call))
            (actions(&state, &session, &call))
            (facts(&call, Links::Shown))
            (decision_view::show(&state, &call))
            (input_and_result(&state, &call))
            (changes(&state, &call))
            (steps(&call))
            (events(&call))
            (log(&state, &call))
        };
        Ok(layout::page(&state, NavPage::Timeline, "Call", content))
    })
    .await
}

pub fn head(call: &CallDetails) -> Markup {
    let outcome = Outcome::of(&call.row);
    html! {
        div class="page-head" {
            h1 { (line(records::tool_name(&call.row), 100)) }
            p class="meta" {
                span class={ "outcome " (outcome.class()) } { (outcome.label()) }
                @if let Some(took) = records::duration(&call.row) { " in " (format_duration(took)) }
                " · " (times::time(call.row.created_ms))
            }
            @if let Some(target) = records::target(&call.row) { p class="target" { (code(&target, MAX_FACT)) } }
        }
    }
}

/// Exports, and stopping a call that runs.
fn actions(state: &AppState, session: &Session, call: &CallDetails) -> Markup {
    let id = call.row.id.as_str();
    let is_running = !call.row.finished && state.options.kernel.is_some();
    html! {
        div class="actions" {
            a class="button" href=(link("/call/export.json", [("id", id)])) download { "Export as JSON" }
            a class="button" href=(link("/call/export.html", [("id", id)])) download { "Export as HTML" }
            @if is_running {
                (form(state, session, "/call/cancel", "inline", html! {
                    input type="hidden" name="id" value=(id);
                    button class="danger" { "Stop this call" }
                }))
            }
        }
    }
}

/// Whether names link to other pages of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Shown,
    /// In a file that is read elsewhere.
    Omitted,
}

fn linked(links: Links, target: &str, name: &str) -> Markup {
    match links {
        Links::Shown => html! { a href=(target) { (line(name, 100)) } },
        Links::Omitted => line(name, 100),
    }
}

/// The facts about a call. Also in the exported page.
pub fn facts(call: &CallDetails, links: Links) -> Markup {
    let row = &call.row;
    let plugin = row.plugin.as_ref().map(|plugin| {
        format!("{plugin} {}", call.text("/toolVersion").unwrap_or_default())
            .trim_end()
            .to_owned()
    });
    let agent = call
        .text("/agentId")
        .map(|agent| match call.text("/parentAgentId") {
            Some(parent) => format!("{agent}, started by {parent}"),
            None => agent.to_owned(),
        });
    let error = call.text("/error/code").map(|error_code| {
        format!(
            "{error_code}: {}",
            call.text("/error/message").unwrap_or_default()
        )
    });
    let texts = [
        ("plugin", plugin),
        ("digest", call.text("/toolHash").map(str::to_owned)),
        ("declared effect", call.text("/effect").map(str::to_owned)),
        ("error", error),
        (
            "how to allow it",
            call.text("/error/remedy").map(str::to_owned),
        ),
        ("agent", agent),
        ("user", call.text("/userId").map(str::to_owned)),
        ("made by", call.text("/origin").map(str::to_owned)),
        ("mode", call.text("/mode").map(str::to_owned)),
        ("result from", call.text("/suppliedBy").map(str::to_owned)),
        (
            "background task",
            call.text("/backgroundTask").map(str::to_owned),
        ),
        ("memory", call.number("/memoryBytes").map(format_size)),
        (
            "size of the result",
            call.number("/outputBytes").map(format_size),
        ),
        (
            "runs",
            call.number("/attempts")
                .filter(|count| *count > 1)
                .map(|count| count.to_string()),
        ),
        ("id", Some(row.id.clone())),
    ];
    html! {
        dl class="facts" {
            @for (label, value) in texts {
                @if let Some(value) = value { div { dt { (label) } dd { (line(&value, MAX_FACT)) } } }
            }
            @if let Some(batch) = &row.batch {
                div { dt { "turn" } dd { (linked(links, &link("/timeline", [("batch", batch.as_str())]), batch)) } }
            }
            @if let Some(parent) = &row.parent {
                div { dt { "called by" } dd { (linked(links, &links::call(parent), parent)) } }
            }
        }
    }
}

fn input_and_result(state: &AppState, call: &CallDetails) -> Markup {
    let result = state.history.live.result(&call.row.id);
    html! {
        (input(call))
        section class="block" {
            h2 { "Result" }
            @match result {
                Some(Value::String(text)) => (block(&text, MAX_TEXT)),
                Some(value) => (block(&format!("{value:#}"), MAX_TEXT)),
                None => p class="meta" { "Results are not recorded. This page has those of the newest calls since the host started, shortened and without secrets." },
            }
        }
    }
}

pub fn input(call: &CallDetails) -> Markup {
    html! {
        section class="block" {
            h2 { "Input" }
            p class="meta" { "As recorded: secrets are masked and long texts are shortened." }
            @match call.row.record.get("inputPreview") {
                Some(input) => (block(&format!("{input:#}"), MAX_TEXT)),
                None => p { "None." },
            }
        }
    }
}

fn changes(state: &AppState, call: &CallDetails) -> Markup {
    let view = CommitView::open(state);
    html! {
        @if !call.commits.is_empty() {
            section class="block" {
                h2 { "File changes" }
                @for commit in &call.commits {
                    h3 { (describe_commit(commit, &call.commits)) }
                    p class="meta" { (code(&commit.id, 80)) " · " (times::time(commit.at_ms)) }
                    (view.describe(commit))
                    @if commit.state == CommitState::Done && !state.is_read_only() && view.can_undo() {
                        p { a class="button" href=(link("/undo", [("commit", commit.id.as_str())])) {
                            @if is_undo(commit, &call.commits) { "Redo…" } @else { "Undo…" }
                        } }
                    }
                }
            }
        }
    }
}

/// Whether a commit reverts changes of the call. One that reverts such a commit is a redo.
pub fn is_undo(commit: &CommitRow, all: &[CommitRow]) -> bool {
    let mut undo = false;
    let mut at = commit.of.as_deref();
    // Bounded, because the journal could contain a cycle.
    for _ in 0..all.len() {
        let Some(of) = at else { break };
        undo = !undo;
        at = all
            .iter()
            .find(|row| row.id == of)
            .and_then(|row| row.of.as_deref());
    }
    undo
}

pub fn describe_commit(commit: &CommitRow, all: &[CommitRow]) -> &'static str {
    match (commit.state, commit.of.is_some(), is_undo(commit, all)) {
        (CommitState::Begun, ..) => "Changes that are being applied",
        (CommitState::Reverted, ..) => "Changes that failed and were rolled back",
        (CommitState::Undone, false, _) => "Changes, undone",
        (CommitState::Undone, true, true) => "Undo, reverted by a redo",
        (CommitState::Undone, true, false) => "Redo, undone",
        (CommitState::Done, false, _) => "Changes",
        (CommitState::Done, true, true) => "Undo",
        (CommitState::Done, true, false) => "Redo",
    }
}

/// The steps with their positions in the audit chain. Also in the exported page.
pub fn steps(call: &CallDetails) -> Markup {
    let start = call.steps.first().map_or(0, |step| step.row.at_ms);
    html! {
        section class="block" {
            h2 { "Steps" }
            div class="table-scroll" tabindex="0" role="region" aria-label="Steps" {
                table {
                    thead { tr { th scope="col" { "Step" } th scope="col" { "After" } th scope="col" { "What happened" } th scope="col" { "State" } th scope="col" { "Note" } } }
                    tbody {
                        @for step in &call.steps {
                            tr {
                                th scope="row" class="number" { (step.seq) }
                                td class="number" { (step.row.at_ms.saturating_sub(start)) " ms" }
                                td { (line(&step.row.kind.replace('_', " "), 60)) }
                                td { (line(&step.row.state.replace('_', " "), 60)) }
                                td { (line(step.row.note.as_deref().unwrap_or_default(), MAX_FACT)) }
                            }
                        }
                    }
                }
            }
            @if let (Some(first), Some(last)) = (call.steps.first(), call.steps.last()) {
                p class="meta" {
                    "Steps " (first.seq) " to " (last.seq) " of the audit chain. Hash of step " (last.seq) ": "
                    code class="hash" { (hex(&last.hash)) }
                }
            }
        }
    }
}

/// What the tool and the kernel stored beside the steps. Also in the exported page.
pub fn events(call: &CallDetails) -> Markup {
    html! {
        @if !call.events.is_empty() {
            section class="block" {
                h2 { "Events" }
                @for (seq, event) in &call.events {
                    details {
                        summary { (line(&event.kind, 100)) " " span class="meta" { "event " (seq) " · " (times::time(event.at_ms)) } }
                        (block(&format!("{:#}", event.body), MAX_TEXT))
                    }
                }
                @if call.events.len() >= MAX_EVENTS as usize { p class="note" { "Only the first " (MAX_EVENTS) " events are shown." } }
            }
        }
    }
}

fn log(state: &AppState, call: &CallDetails) -> Markup {
    let lines = state
        .history
        .live
        .lines(MAX_LINES, |line| line.call == call.row.id);
    html! {
        @if !lines.is_empty() {
            section class="block" {
                h2 { "Output and messages" }
                p class="meta" { "The newest " (lines.len()) " lines since the host started. They are not recorded." }
                (crate::log_view::lines(&lines))
            }
        }
    }
}

pub fn hex(hash: &[u8; 32]) -> String {
    hash.iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            use std::fmt::Write as _;
            let _ = write!(text, "{byte:02x}");
            text
        })
}
