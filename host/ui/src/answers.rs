//! Answers to questions.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Redirect;
use http::StatusCode;
use toolhost_contract::{Answer, UserEdit, text};
use toolhost_kernel::{AttributedAnswer, QuestionError};

use crate::access::Session;
use crate::edits::{editable, parse_input};
use crate::error_page::ErrorPage;
use crate::form::CheckedForm;
use crate::inbox::{EntryMissing, PendingEntry, Resolution};
use crate::state::AppState;
use crate::ticket::{self, TicketError};

/// Maximum length of a note, in characters. Notes are sent to the model.
const MAX_NOTE: usize = 2_000;

/// Why an answer has no effect.
#[derive(Debug, PartialEq, Eq)]
pub enum AnswerProblem {
    Missing(EntryMissing),
    Ticket(TicketError),
    Kernel(QuestionError),
    NoKernel,
}

pub async fn answer(
    State(state): State<Arc<AppState>>,
    Path(number): Path<u64>,
    form: CheckedForm,
) -> Result<Redirect, ErrorPage> {
    let entry = state.inbox().entry(number);
    let entry = entry.map_err(|missing| explain(&AnswerProblem::Missing(missing), number))?;
    let given = parse(&form, &entry)?;
    let ticket = form.get("ticket").unwrap_or_default();
    match give(&state, &form.session, number, ticket, given) {
        Ok(()) => Ok(Redirect::to(&format!("/?answered={number}"))),
        Err(problem) => Err(explain(&problem, number)),
    }
}

/// Answers the selected questions of a group. Each is checked by itself.
pub async fn answer_similar(
    State(state): State<Arc<AppState>>,
    form: CheckedForm,
) -> Result<Redirect, ErrorPage> {
    let answer = match form.get("answer") {
        Some("approve") => Answer::once(),
        Some("decline") => Answer::Deny { note: note(&form)? },
        _ => return Err(wrong_form()),
    };
    let mut last = None;
    let mut problems = Vec::new();
    for item in form.all("item") {
        let Some((number, ticket)) = item.split_once(':') else {
            return Err(wrong_form());
        };
        let number: u64 = number.parse().map_err(|_| wrong_form())?;
        match give(&state, &form.session, number, ticket, answer.clone()) {
            Ok(()) => last = Some(number),
            Err(problem) => problems.push((problem, number)),
        }
    }
    match (last, problems.first()) {
        (Some(number), None) => Ok(Redirect::to(&format!("/?answered={number}"))),
        (None, None) => Err(
            ErrorPage::new(StatusCode::BAD_REQUEST, "No question was selected")
                .link("/", "Go to the inbox"),
        ),
        (_, Some((problem, number))) => {
            let page = explain(problem, *number);
            Err(if problems.len() > 1 || last.is_some() {
                page.also(format!(
                    "{} of the selected questions were not answered.",
                    problems.len()
                ))
            } else {
                page
            })
        }
    }
}

/// Gives an answer if it belongs to what was shown and the question is still open.
pub fn give(
    state: &AppState,
    session: &Session,
    number: u64,
    ticket: &str,
    answer: Answer,
) -> Result<(), AnswerProblem> {
    let kernel = state
        .options
        .kernel
        .as_ref()
        .ok_or(AnswerProblem::NoKernel)?;
    let approves = matches!(
        answer,
        Answer::Allow { .. } | Answer::Edit { .. } | Answer::Modify { .. }
    );
    let outcome = crate::prompter::outcome(&answer).unwrap_or("answered");
    let by = state.approver();
    let answered = AttributedAnswer {
        answer,
        by: by.clone(),
    };
    let deliver = |entry: &PendingEntry| {
        let secret = &state.access.secret;
        ticket::check(secret, session, entry, ticket, state.now(), approves)
            .map_err(AnswerProblem::Ticket)?;
        kernel
            .answer(&entry.call.id, answered)
            .map_err(AnswerProblem::Kernel)
    };
    state
        .inbox()
        .answer(number, outcome, &by, deliver)
        .map_err(AnswerProblem::Missing)?
}

fn parse(form: &CheckedForm, entry: &PendingEntry) -> Result<Answer, ErrorPage> {
    match form.get("answer") {
        Some("deny") => Ok(Answer::Deny { note: note(form)? }),
        Some("cancel") => Ok(Answer::Cancel),
        Some("edit") => Ok(Answer::Edit {
            edits: parse_edits(form, entry)?,
        }),
        Some("modify") => {
            let input = form.get("input").ok_or_else(wrong_form)?;
            let input = parse_input(input).map_err(|reason| wrong_edit(&reason, entry))?;
            Ok(Answer::Modify { input })
        }
        Some(offer) => {
            let offer = offer.strip_prefix("offer:").and_then(|at| at.parse().ok());
            let offers = entry.question.offers.len();
            let offer = offer
                .filter(|offer| *offer < offers)
                .ok_or_else(wrong_form)?;
            Ok(Answer::Allow { offer, note: None })
        }
        None => Err(wrong_form()),
    }
}

fn parse_edits(form: &CheckedForm, entry: &PendingEntry) -> Result<Vec<UserEdit>, ErrorPage> {
    let set = entry.question.changes.as_deref().ok_or_else(wrong_form)?;
    let mut edits = Vec::new();
    for (index, change) in set.changes.iter().enumerate() {
        if let Some(sent) = form.get(&format!("file-{index}")) {
            let file = editable(index, change).map_err(|reason| wrong_edit(reason, entry))?;
            edits.push(file.edit(sent));
        }
    }
    // Checked here too, because the kernel denies a call with an invalid edit.
    set.validate_edits(edits)
        .map_err(|error| wrong_edit(&error.to_string(), entry))
}

fn wrong_edit(reason: &str, entry: &PendingEntry) -> ErrorPage {
    ErrorPage::new(StatusCode::BAD_REQUEST, "The edited text cannot be used")
        .because(format!(
            "{}. Nothing was answered; your text is still in the form if you go back.",
            text::escape_line(reason, 500)
        ))
        .link(format!("/questions/{}/edit", entry.number), "Edit again")
}

fn note(form: &CheckedForm) -> Result<Option<String>, ErrorPage> {
    let note = form.text("note").map(|note| note.replace("\r\n", "\n"));
    match note {
        Some(note) if note.chars().count() > MAX_NOTE => Err(ErrorPage::new(
            StatusCode::BAD_REQUEST,
            "The message is too long",
        )
        .because(format!(
            "It has {} characters; the maximum is {MAX_NOTE}. Nothing was answered.",
            note.chars().count()
        ))
        .link("/", "Go to the inbox")),
        note => Ok(note),
    }
}

fn wrong_form() -> ErrorPage {
    ErrorPage::new(StatusCode::BAD_REQUEST, "This form is not complete")
        .because("Nothing was answered.")
        .link("/", "Go to the inbox")
}

/// Describes how a question ended.
pub fn describe(resolution: &Resolution) -> String {
    let title = text::escape_line(&resolution.title, 200);
    match &resolution.by {
        Some(by) => format!(
            "“{title}” was {} by {}.",
            resolution.outcome,
            text::escape_line(by, 100)
        ),
        None => format!("“{title}” was withdrawn: the call ended before there was an answer."),
    }
}

pub fn explain(problem: &AnswerProblem, number: u64) -> ErrorPage {
    let own = format!("/?question={number}");
    let conflict = |title| ErrorPage::new(StatusCode::CONFLICT, title).link("/", "Go to the inbox");
    match problem {
        AnswerProblem::Missing(EntryMissing::Resolved(resolution)) => conflict("This question is already closed")
            .because(format!("{} Your answer had no effect.", describe(resolution))),
        AnswerProblem::Missing(EntryMissing::Replaced(new)) => conflict("This question has changed")
            .because("The call asks something else now. Your answer had no effect.")
            .link(format!("/?question={new}"), "Show the new question"),
        AnswerProblem::Missing(EntryMissing::Unknown) => conflict("This question is not open any more")
            .because("It was answered or withdrawn some time ago, or it is from an earlier start of the host."),
        AnswerProblem::Ticket(TicketError::TooEarly) => {
            ErrorPage::new(StatusCode::TOO_EARLY, "That was too fast")
                .because("A question can be approved half a second after it is shown. Nothing was answered.")
                .link(own, "Show the question again")
        }
        AnswerProblem::Ticket(TicketError::Foreign) => conflict("This form does not belong to the question")
            .because("The question is not the one that this form has shown. Nothing was answered.")
            .link(own, "Show the question"),
        AnswerProblem::Kernel(QuestionError::AlreadyAnswered(_) | QuestionError::NotWaiting(_)) => {
            conflict("This question was just answered elsewhere").because("Your answer had no effect.")
        }
        AnswerProblem::NoKernel => ErrorPage::read_only(),
    }
}
