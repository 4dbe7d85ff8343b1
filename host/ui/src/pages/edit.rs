//! The page on which a user edits proposed files, or the input of a call that has not run.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};

use crate::access::Session;
use crate::answers::{AnswerProblem, explain};
use crate::edits::{editable, json_text};
use crate::error_page::ErrorPage;
use crate::form::form;
use crate::guest_text::{code, sentence};
use crate::inbox::PendingEntry;
use crate::layout::{self, NavPage};
use crate::state::AppState;
use crate::ticket;

pub async fn edit(
    State(state): State<Arc<AppState>>,
    session: Session,
    Path(number): Path<u64>,
) -> Result<Markup, ErrorPage> {
    if state.is_read_only() {
        return Err(ErrorPage::read_only());
    }
    let entry = state.inbox().entry(number);
    let entry = entry.map_err(|missing| explain(&AnswerProblem::Missing(missing), number))?;
    let ticket = ticket::issue(&state.access.secret, &session, &entry, state.now());
    let fields = html! {
        input type="hidden" name="ticket" value=(ticket);
        @match &entry.question.changes {
            Some(_) => (files(&entry)),
            None => (input(&entry)),
        }
    };
    let content = html! {
        div class="sheet" {
            a class="back always" href={ "/?question=" (number) } { "← Back to the question" }
            h1 { "Edit before approving" }
            p class="meta" { (sentence(&entry.title, 400)) }
            (form(&state, &session, &format!("/questions/{number}/answer"), "edit", fields))
        }
    };
    Ok(layout::page(&state, NavPage::Inbox, "Edit", content))
}

fn files(entry: &PendingEntry) -> Markup {
    let changes = entry.question.changes.iter().flat_map(|set| &set.changes);
    let files: Vec<_> = changes
        .enumerate()
        .map(|(index, change)| (change, editable(index, change)))
        .collect();
    let has_files = files.iter().any(|(_, file)| file.is_ok());
    html! {
        p { "The call is approved once, with the texts below instead of the proposed ones. The agent is told about your changes." }
        @for (change, file) in &files {
            @match file {
                Ok(file) => {
                    @let rows = file.text.lines().count().clamp(4, 30);
                    label for={ "file-" (file.index) } { (code(&change.path, 1_000)) }
                    // A line break at the start of the field is not part of its text.
                    textarea id={ "file-" (file.index) } name={ "file-" (file.index) } class="code" rows=(rows) spellcheck="false" dir="ltr" {
                        "\n" (file.text)
                    }
                },
                Err(reason) => p class="note" { (code(&change.path, 1_000)) " stays as proposed: " (reason) "." },
            }
        }
        div class="actions" {
            button name="answer" value="edit" class="primary arm" disabled[!has_files] { "Approve with these texts" }
            a class="button" href={ "/?question=" (entry.number) } { "Back" }
        }
    }
}

fn input(entry: &PendingEntry) -> Markup {
    let shown = json_text(&entry.call.input);
    let rows = shown.lines().count().clamp(6, 30);
    html! {
        p { "The call is evaluated again with this input. If it still needs an approval, it asks again." }
        label for="input" { "Input as JSON" }
        textarea id="input" name="input" class="code" rows=(rows) spellcheck="false" dir="ltr" { "\n" (shown) }
        div class="actions" {
            button name="answer" value="modify" class="primary arm" { "Use this input" }
            a class="button" href={ "/?question=" (entry.number) } { "Back" }
        }
    }
}
