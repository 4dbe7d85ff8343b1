//! Undo and redo: a preview of what would change, and the form that does it.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Redirect;
use http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use toolhost_contract::CommitRecovery;
use toolhost_kernel::undo::{self, UndoError};
use toolhost_store::{CommitRow, CommitState, EventRow, Store, Write};

use crate::access::Session;
use crate::commit_view::changes;
use crate::error_page::ErrorPage;
use crate::form::{CheckedForm, form};
use crate::guest_text::{code, line};
use crate::host_view::FileHistory;
use crate::layout::{self, NavPage};
use crate::links;
use crate::pages::call::is_undo;
use crate::record_pages;
use crate::state::AppState;

/// Maximum length of shown texts, in characters.
const MAX_FACT: usize = 2_000;

#[derive(Deserialize)]
pub struct UndoQuery {
    #[serde(default)]
    commit: String,
}

/// What an undo needs.
struct Target {
    commit: CommitRow,
    is_redo: bool,
    files: Arc<dyn FileHistory>,
    store: Store,
}

impl Target {
    fn find(state: &AppState, id: &str) -> Result<Self, ErrorPage> {
        let view = state.options.view.as_ref();
        let (Some(records), Some(files)) =
            (&state.history.records, view.and_then(|view| view.files()))
        else {
            return Err(ErrorPage::new(StatusCode::CONFLICT, "Nothing can be undone here")
                .because("Only a host that runs and keeps records can undo changes. Use `host undo`.")
                .link("/timeline", "Show all calls"));
        };
        let commit = records
            .store
            .commit_row(id)
            .map_err(|error| record_pages::unreadable(&error))?;
        let commit = commit.ok_or_else(|| {
            ErrorPage::new(StatusCode::NOT_FOUND, "There is no record of these changes")
                .because("It may have been deleted because of the retention settings.")
                .link("/timeline", "Show all calls")
        })?;
        let all = records
            .history
            .commits(&commit.call)
            .map_err(|error| record_pages::unreadable(&error))?;
        Ok(Self {
            is_redo: is_undo(&commit, &all),
            commit,
            files,
            store: records.store.clone(),
        })
    }

    /// Refuses what another page, the terminal or another process has undone since.
    fn check_done(&self) -> Result<(), ErrorPage> {
        if self.commit.state == CommitState::Done {
            return Ok(());
        }
        Err(ErrorPage::new(
            StatusCode::CONFLICT,
            "These changes are not in effect any more",
        )
        .because(format!(
            "They are {}. Nothing was changed.",
            self.commit.state
        ))
        .link(links::call(&self.commit.call), "Go to the call"))
    }

    fn verb(&self) -> &'static str {
        if self.is_redo { "Redo" } else { "Undo" }
    }

    /// Identifies what a preview showed.
    fn digest(&self) -> String {
        let text = format!(
            "{}\n{}\n{}",
            self.commit.id, self.commit.state, self.commit.body
        );
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }
}

pub async fn preview(
    State(state): State<Arc<AppState>>,
    session: Session,
    Query(query): Query<UndoQuery>,
) -> Result<Markup, ErrorPage> {
    record_pages::blocking(move || {
        let target = Target::find(&state, &query.commit)?;
        target.check_done()?;
        let preview = target.files.preview_undo(&target.commit.body);
        let preview = preview.map_err(|error| {
            ErrorPage::new(StatusCode::CONFLICT, "The changes cannot be shown")
                .because(format!("{}. Nothing was changed.", error.message))
                .link(links::call(&target.commit.call), "Go to the call")
        })?;
        let verb = target.verb();
        let content = html! {
            p { a class="back" href=(links::call(&target.commit.call)) { "← Call" } }
            div class="page-head" {
                h1 { (verb) " changes of " (line(&target.commit.tool, 80)) }
                p class="meta" { (code(&target.commit.id, 80)) }
            }
            @if preview.conflicts.is_empty() {
                p { "These changes would be made. Nothing was changed yet." }
                (changes(&preview.changes, "the preview"))
                (form(&state, &session, "/undo", "answers", html! {
                    input type="hidden" name="commit" value=(target.commit.id);
                    input type="hidden" name="digest" value=(target.digest());
                    div class="actions" {
                        button class="primary arm" { (verb) " these changes" }
                        a class="button" href=(links::call(&target.commit.call)) { "Cancel" }
                    }
                }))
                @if state.is_read_only() { p class="readonly" { "This page is read-only. Use `host undo`." } }
            } @else {
                section class="notice" {
                    h2 { "Files have changed since" }
                    p { "All changes are undone together or none. Revert these changes first, or keep them." }
                    ul { @for conflict in &preview.conflicts { li { (line(conflict, MAX_FACT)) } } }
                }
                (changes(&preview.changes, "the preview"))
            }
        };
        Ok(layout::page(&state, NavPage::Timeline, verb, content))
    })
    .await
}

pub async fn undo(
    State(state): State<Arc<AppState>>,
    form: CheckedForm,
) -> Result<Redirect, ErrorPage> {
    let id = form.text("commit").unwrap_or_default().to_owned();
    let digest = form.text("digest").unwrap_or_default().to_owned();
    let (worker, now) = (Arc::clone(&state), state.now());
    let target = record_pages::blocking(move || Target::find(&worker, &id)).await?;
    target.check_done()?;
    if target.digest() != digest {
        return Err(ErrorPage::new(
            StatusCode::CONFLICT,
            "The record of these changes is not the one that was shown",
        )
        .because("Nothing was changed. Look at the call again.")
        .link(links::call(&target.commit.call), "Go to the call"));
    }
    let files: Arc<dyn CommitRecovery> = Arc::<dyn FileHistory>::clone(&target.files);
    let undone = undo::undo(&target.store, &files, &target.commit, now).await;
    let new = undone.map_err(|error| refusal(&target, &error))?;
    let event = EventRow {
        channel: "monitor".to_owned(),
        session: target.commit.session.clone(),
        call: Some(target.commit.call.clone()),
        at_ms: now.0,
        kind: if target.is_redo {
            "changes.redone"
        } else {
            "changes.undone"
        }
        .to_owned(),
        body: json!({"commit": target.commit.id, "by": state.approver(), "as": new}),
    };
    // The undo has happened; its own record in the journal does not depend on this event.
    let _ = target.store.commit(Write::Event(event)).await;
    Ok(Redirect::to(&links::call(&target.commit.call)))
}

fn refusal(target: &Target, error: &UndoError) -> ErrorPage {
    let page = match error {
        UndoError::Conflict(paths) => {
            ErrorPage::new(StatusCode::CONFLICT, "Files have changed since").because(format!(
                "Nothing was changed: {}. Revert these changes first, or keep them.",
                toolhost_contract::text::escape_line(&paths.join("; "), MAX_FACT)
            ))
        }
        other => ErrorPage::new(StatusCode::CONFLICT, "The changes were not undone")
            .because(format!("{other}.")),
    };
    page.link(links::call(&target.commit.call), "Go to the call")
}
