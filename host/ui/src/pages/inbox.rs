//! The inbox: pending questions, highest risk first, and the selected one.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, COOKIE, HeaderMap, SET_COOKIE};
use maud::{Markup, html};
use serde::Deserialize;

use crate::access::Session;
use crate::answers::{AnswerProblem, describe, explain};
use crate::binary_view::{content_of, parse_side, shown_image_type};
use crate::diff_view::DiffLayout;
use crate::error_page::ErrorPage;
use crate::guest_text::{line, sentence};
use crate::inbox::{EntryMissing, PendingEntry, PendingInterview};
use crate::interviews;
use crate::layout::{self, NavPage};
use crate::question_details::whole_text;
use crate::question_view::QuestionView;
use crate::record_pages;
use crate::relative_time;
use crate::state::AppState;

/// Questions on one page.
const PAGE_SIZE: usize = 50;
/// Answered questions below the list.
const RECENT: usize = 5;
/// Shown questions of running tools.
const MAX_INTERVIEWS: usize = 50;

#[derive(Deserialize, Default)]
pub struct InboxQuery {
    /// The selected question.
    question: Option<u64>,
    /// The selected question of a running tool.
    interview: Option<u64>,
    /// The question that was just answered.
    answered: Option<u64>,
    /// `split` or `unified`.
    view: Option<String>,
    #[serde(default)]
    page: usize,
}

pub async fn inbox(
    State(state): State<Arc<AppState>>,
    session: Session,
    Query(query): Query<InboxQuery>,
    headers: HeaderMap,
) -> Result<Response, ErrorPage> {
    let layout = match query.view.as_deref() {
        Some("split") => DiffLayout::SideBySide,
        Some(_) => DiffLayout::Unified,
        None => saved_layout(&headers),
    };
    let skip = query.page.min(1_000_000) * PAGE_SIZE;
    let entries = state.inbox().list(skip, PAGE_SIZE);
    let interviews = state.inbox().interviews(MAX_INTERVIEWS);
    let selected = Selected::find(&state, &query, &entries, &interviews);
    let question = match &selected {
        Selected::Question(entry) => Some((entry, state.rendered.details(entry, layout).await?)),
        Selected::Interview(_) | Selected::Closed(_) | Selected::Nothing => None,
    };
    let is_chosen = query.question.is_some() || query.interview.is_some();
    let list = List {
        state: &state,
        entries: &entries,
        interviews: &interviews,
        selected: &selected,
        page: query.page,
    };
    let content = html! {
        h1 class="visually-hidden" { "Inbox" }
        div class="inbox" data-chosen[is_chosen] {
            (list.render())
            section id="detail" class="detail" aria-label="Selected question" {
                @if let Some(answered) = query.answered { (receipt(&state, answered)) }
                @if !matches!(selected, Selected::Nothing) { a class="back" href="/" { "← All questions" } }
                @if let Some((entry, details)) = &question {
                    (QuestionView { state: &state, session: &session, entry, details }.render())
                }
                @match &selected {
                    Selected::Question(_) => {},
                    Selected::Interview(interview) => (interviews::show(&state, &session, interview)),
                    Selected::Closed(notice) => (notice),
                    Selected::Nothing => (empty(&state)),
                }
            }
        }
    };
    let page = layout::page(&state, NavPage::Inbox, "Inbox", content);
    Ok(match query.view {
        Some(_) => ([(SET_COOKIE, layout_cookie(layout))], page).into_response(),
        None => page.into_response(),
    })
}

/// What the right part of the page shows.
enum Selected {
    Question(Arc<PendingEntry>),
    Interview(Arc<PendingInterview>),
    Closed(Markup),
    Nothing,
}

impl Selected {
    fn find(
        state: &AppState,
        query: &InboxQuery,
        entries: &[Arc<PendingEntry>],
        interviews: &[Arc<PendingInterview>],
    ) -> Self {
        if let Some(number) = query.interview {
            return match state.inbox().interview(number) {
                Some(interview) => Self::Interview(interview),
                None => Self::Closed(closed(&EntryMissing::Unknown, number)),
            };
        }
        if let Some(number) = query.question {
            return match state.inbox().entry(number) {
                Ok(entry) => Self::Question(entry),
                Err(missing) => Self::Closed(closed(&missing, number)),
            };
        }
        match (entries.first(), interviews.first()) {
            (Some(entry), _) => Self::Question(Arc::clone(entry)),
            (None, Some(interview)) => Self::Interview(Arc::clone(interview)),
            (None, None) => Self::Nothing,
        }
    }

    fn is_question(&self, number: u64) -> bool {
        matches!(self, Self::Question(entry) if entry.number == number)
    }

    fn is_interview(&self, number: u64) -> bool {
        matches!(self, Self::Interview(interview) if interview.number == number)
    }
}

/// The left part of the page.
struct List<'a> {
    state: &'a AppState,
    entries: &'a [Arc<PendingEntry>],
    interviews: &'a [Arc<PendingInterview>],
    selected: &'a Selected,
    page: usize,
}

impl List<'_> {
    fn render(&self) -> Markup {
        let counts = self.state.inbox().counts();
        let now = self.state.now();
        html! {
            section id="list" class="list" aria-label="Waiting questions" {
                div class="list-head" {
                    p class="list-title" aria-hidden="true" { "Inbox" }
                    p class="meta" {
                        @match counts.total() { 0 => "Nothing waits for an answer", 1 => "1 question waits", total => { (total) " questions wait" } }
                        @if counts.high > 0 { ", " strong class="high-text" { (counts.high) " of high risk" } }
                    }
                    button id="notify" type="button" hidden { "Notify me" }
                }
                ol class="rows" {
                    @for entry in self.entries {
                        li {
                            a class="row" href={ "/?question=" (entry.number) @if self.page > 0 { "&page=" (self.page) } }
                                aria-current=[self.selected.is_question(entry.number).then_some("true")] {
                                span class="row-title" { (sentence(&entry.title, 400)) }
                                span class="row-meta" {
                                    span class={ "risk " (entry.risk.as_str()) } { (entry.risk.label()) }
                                    span { (line(&entry.call.caller.agent, 40)) }
                                    span { (relative_time::since(entry.asked_at, now)) }
                                }
                            }
                        }
                    }
                    @for one in self.interviews {
                        li {
                            a class="row" href={ "/?interview=" (one.number) } aria-current=[self.selected.is_interview(one.number).then_some("true")] {
                                span class="row-title" { (sentence(&interviews::title(one), 160)) }
                                span class="row-meta" { span class="risk asks" { "Question" } span { (relative_time::since(one.asked_at, now)) } }
                            }
                        }
                    }
                }
                (self.pager(counts.questions()))
                (recent(self.state))
            }
        }
    }

    fn pager(&self, questions: usize) -> Markup {
        let pages = questions.div_ceil(PAGE_SIZE).max(1);
        let page = self.page;
        html! {
            @if pages > 1 {
                nav class="pager" aria-label="Pages of questions" {
                    @if page > 0 { a class="button" href={ "/?page=" (page - 1) } { "Previous" } }
                    span { "Page " (page.saturating_add(1)) " of " (pages) }
                    @if page < pages - 1 { a class="button" href={ "/?page=" (page + 1) } { "Next" } }
                }
            }
        }
    }
}

fn recent(state: &AppState) -> Markup {
    let resolved = state.inbox().resolved(RECENT);
    html! {
        @if !resolved.is_empty() {
            h2 class="recent-head" { "Recently closed" }
            ul class="recent" {
                @for one in &resolved {
                    li {
                        span { (sentence(&one.title, 400)) }
                        span class="meta" {
                            (one.outcome)
                            @if let Some(by) = &one.by { " by " (line(by, 60)) }
                            " · " (relative_time::since(one.at, state.now()))
                        }
                    }
                }
            }
        }
    }
}

/// What became of the question that was just answered.
fn receipt(state: &AppState, number: u64) -> Markup {
    let text = match state.inbox().entry(number) {
        Err(EntryMissing::Resolved(resolution)) => describe(&resolution),
        Err(EntryMissing::Replaced(_)) => {
            "Answered. The call asks another question now.".to_owned()
        }
        Err(EntryMissing::Unknown) | Ok(_) => return html! {},
    };
    html! { p class="receipt" role="status" { bdi { (text) } } }
}

fn closed(missing: &EntryMissing, number: u64) -> Markup {
    explain(&AnswerProblem::Missing(missing.clone()), number).content()
}

fn empty(state: &AppState) -> Markup {
    html! {
        div class="empty" {
            h2 { "No questions" }
            p {
                @if state.options.kernel.is_some() {
                    "Questions of tools appear here as soon as a call needs an approval. This page updates by itself."
                } @else {
                    "No host runs that this page could answer for. The history is still available."
                }
            }
            p class="meta" { "Keys: " kbd { "j" } " " kbd { "k" } " next and previous, " kbd { "y" } " approve once, " kbd { "n" } " decline, " kbd { "?" } " all keys" }
        }
    }
}

/// Returns the whole question as text, also where the page shows only a part.
pub async fn whole_text_page(
    State(state): State<Arc<AppState>>,
    _session: Session,
    Path(number): Path<u64>,
) -> Result<Response, ErrorPage> {
    let entry = state.inbox().entry(number);
    let entry = entry.map_err(|missing| explain(&AnswerProblem::Missing(missing), number))?;
    let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
    let text = record_pages::blocking(move || Ok(whole_text(&entry))).await?;
    Ok((StatusCode::OK, headers, text).into_response())
}

/// Serves a side of a changed image. Nothing else is served, because a browser could run it.
pub async fn image(
    State(state): State<Arc<AppState>>,
    _session: Session,
    Path((number, index, side)): Path<(u64, usize, String)>,
) -> Result<Response, ErrorPage> {
    let entry = state.inbox().entry(number).ok();
    let changes = entry
        .as_ref()
        .and_then(|entry| entry.question.changes.as_deref());
    let content = changes.and_then(|set| set.changes.get(index)?.binary());
    let bytes = parse_side(&side).and_then(|side| content_of(content?, side));
    let bytes = bytes.ok_or_else(ErrorPage::not_found)?;
    let kind = shown_image_type(bytes).ok_or_else(ErrorPage::not_found)?;
    Ok(([(CONTENT_TYPE, kind)], bytes.to_vec()).into_response())
}

const LAYOUT_COOKIE: &str = "toolhost_diff";

fn layout_cookie(layout: DiffLayout) -> String {
    let name = match layout {
        DiffLayout::SideBySide => "split",
        DiffLayout::Unified => "unified",
    };
    format!("{LAYOUT_COOKIE}={name}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000")
}

fn saved_layout(headers: &HeaderMap) -> DiffLayout {
    let cookies = headers.get_all(COOKIE).into_iter();
    let mut cookies = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    let is_split = cookies.any(|cookie| cookie.trim() == "toolhost_diff=split");
    if is_split {
        DiffLayout::SideBySide
    } else {
        DiffLayout::Unified
    }
}
