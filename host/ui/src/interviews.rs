//! Questions of running tools: the form, and the replies.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Redirect;
use http::StatusCode;
use maud::{Markup, html};
use toolhost_contract::{QuestionForm, UserAnswer, UserQuestion, UserQuestionKind};
use toolhost_kernel::AttributedReplies;

use crate::access::Session;
use crate::error_page::ErrorPage;
use crate::form::{CheckedForm, form};
use crate::guest_text::{decision_block, line, sentence};
use crate::inbox::PendingInterview;
use crate::relative_time;
use crate::state::AppState;
use crate::ticket::ARMING_MS;

/// Returns who asks what, in one line, unescaped.
pub fn title(interview: &PendingInterview) -> String {
    let first = interview.form.questions.first();
    let question = first.map_or("a question", |question| &question.question);
    format!(
        "Plugin `{}` asks: {}",
        interview.form.plugin,
        toolhost_contract::text::head(question, 200)
    )
}

pub fn show(state: &AppState, session: &Session, interview: &PendingInterview) -> Markup {
    let asks = &interview.form;
    let fields = html! {
        @for (at, question) in asks.questions.iter().enumerate() { (field(at, question)) }
        div class="actions" {
            button name="answer" value="reply" class="primary arm" { "Send answers" }
            button name="answer" value="dismiss" { "Dismiss" }
        }
    };
    html! {
        article class="question" data-number={ "i" (interview.number) } aria-labelledby="question-title" {
            header {
                @if asks_for_more(&interview.form) {
                    p class="eyebrow" { span class="risk high" { "High risk" } span { "An answer can allow further calls without a question" } }
                } @else {
                    p class="eyebrow" { span class="risk asks" { "Question" } span { "A tool waits for your answer" } }
                }
                h2 id="question-title" tabindex="-1" { (sentence(&title(interview), 300)) }
                p class="meta" {
                    "tool " (line(&asks.tool, 100))
                    @if let Some(agent) = &asks.agent { " · sub-agent " (line(agent, 80)) }
                    " · asked " (relative_time::since(interview.asked_at, state.now()))
                }
            }
            (form(state, session, &format!("/interviews/{}", interview.number), "interview", fields))
        }
    }
}

/// Whether the host asks for permissions or a mode in the name of a tool. A tool that copies these headers only makes its
/// question look riskier.
fn asks_for_more(form: &QuestionForm) -> bool {
    let mut questions = form.questions.iter();
    questions.any(|question| matches!(&*question.header, "permissions" | "mode"))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn field(at: usize, question: &UserQuestion) -> Markup {
    let name = format!("q{at}");
    let kind = if question.multi_select {
        "checkbox"
    } else {
        "radio"
    };
    let placeholder = question
        .placeholder
        .as_deref()
        .map(|text| toolhost_contract::text::escape_line(text, 300));
    html! {
        fieldset {
            legend { @if !question.header.is_empty() { (line(&question.header, 200)) ": " } (line(first_line(&question.question), 300)) }
            // The whole text: an answer can allow all that it names. The contract and the host bound it.
            @if first_line(&question.question).len() < question.question.len() || question.question.len() > 300 {
                (decision_block(&question.question, usize::MAX))
            }
            @match question.kind {
                UserQuestionKind::YesNo => {
                    label { input type="radio" name=(name) value="yes" required; "Yes" }
                    label { input type="radio" name=(name) value="no" required; "No" }
                },
                UserQuestionKind::Choice => {
                    @for (number, option) in question.options.iter().enumerate() {
                        label {
                            input type=(kind) name=(name) value=(number);
                            (line(&option.label, 1_000))
                            @if !option.description.is_empty() { " " span class="meta" { (line(&option.description, 2_000)) } }
                        }
                        @if let Some(preview) = &option.preview { (decision_block(preview, usize::MAX)) }
                    }
                    label for={ (name) "-text" } { "Another answer" }
                    input type="text" id={ (name) "-text" } name={ (name) "-text" } placeholder=[placeholder];
                },
                UserQuestionKind::Text => {
                    textarea aria-label="Answer" name={ (name) "-text" } rows="3" placeholder=[placeholder] {}
                },
            }
        }
    }
}

pub async fn reply(
    State(state): State<Arc<AppState>>,
    Path(number): Path<u64>,
    form: CheckedForm,
) -> Result<Redirect, ErrorPage> {
    let closed = || {
        ErrorPage::new(StatusCode::CONFLICT, "This question is not open any more")
            .because("It was answered elsewhere, or the call has ended. Your answer had no effect.")
            .link("/", "Go to the inbox")
    };
    let interview = state.inbox().interview(number).ok_or_else(closed)?;
    let age = state.now().0.saturating_sub(interview.asked_at.0);
    if form.get("answer") != Some("dismiss") && age < ARMING_MS {
        return Err(ErrorPage::new(StatusCode::TOO_EARLY, "That was too fast")
            .because(
                "A question can be answered half a second after it was asked. Nothing was sent.",
            )
            .link(format!("/?interview={number}"), "Show the questions again"));
    }
    let replies = match form.get("answer") {
        Some("dismiss") => None,
        _ => Some(parse(&interview.form.questions, &form).map_err(|at| {
            ErrorPage::new(StatusCode::BAD_REQUEST, "An answer is missing")
                .because(format!("Answer question {} too. Nothing was sent.", at + 1))
                .link(format!("/?interview={number}"), "Show the questions again")
        })?),
    };
    let by = state.approver();
    if interview.reply(AttributedReplies { replies, by }) {
        Ok(Redirect::to("/"))
    } else {
        Err(closed())
    }
}

/// Reads the answers. The error is the index of the question that has none.
fn parse(questions: &[UserQuestion], form: &CheckedForm) -> Result<Vec<UserAnswer>, usize> {
    let answer = |(at, question): (usize, &UserQuestion)| {
        let name = format!("q{at}");
        let free = form.text(&format!("{name}-text"));
        let free = free.map(|text| text.replace("\r\n", "\n"));
        let mut labels: Vec<String> = form
            .all(&name)
            .filter_map(|number| question.options.get(number.parse::<usize>().ok()?))
            .map(|option| option.label.clone())
            .collect();
        let answer = match question.kind {
            UserQuestionKind::YesNo => match form.get(&name) {
                Some("yes") => Some(UserAnswer::YesNo(true)),
                Some("no") => Some(UserAnswer::YesNo(false)),
                _ => None,
            },
            UserQuestionKind::Choice if question.multi_select => {
                labels.extend(free);
                (!labels.is_empty()).then_some(UserAnswer::Labels(labels))
            }
            UserQuestionKind::Choice | UserQuestionKind::Text => free
                .or_else(|| labels.into_iter().next())
                .map(UserAnswer::Text),
        };
        answer.filter(|answer| question.accepts(answer)).ok_or(at)
    };
    questions.iter().enumerate().map(answer).collect()
}
