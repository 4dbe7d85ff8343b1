//! File changes of past calls, with the differences that are still known.

use std::sync::Arc;

use maud::{Markup, html};
use toolhost_contract::{ChangeSet, FileChange};
use toolhost_store::CommitRow;

use crate::diff_view::{self, DiffLayout};
use crate::guest_text::{code, line};
use crate::host_view::FileHistory;
use crate::question_details::MAX_DESCRIPTION;
use crate::state::AppState;

/// Maximum number of shown changes, and of rows of all differences.
const MAX_CHANGES: usize = 100;
const MAX_ROWS: usize = 1_000;
const MAX_FACT: usize = 2_000;

/// Access to the changes of past calls, if the host has it.
pub struct CommitView(Option<Arc<dyn FileHistory>>);

impl CommitView {
    pub fn open(state: &AppState) -> Self {
        Self(state.options.view.as_ref().and_then(|view| view.files()))
    }

    pub fn can_undo(&self) -> bool {
        self.0.is_some()
    }

    /// Shows the changes of a commit. Reads files; blocking.
    pub fn describe(&self, commit: &CommitRow) -> Markup {
        match self
            .0
            .as_ref()
            .map(|files| files.describe_commit(&commit.body))
        {
            Some(Ok(set)) => changes(&set, &commit.id),
            Some(Err(error)) => {
                html! { p class="warning-text" { "The changes cannot be shown: " (line(&error.message, MAX_FACT)) } }
            }
            None => {
                let count = commit.body.as_array().map_or(0, Vec::len);
                html! { p { (count) " changes. They are shown by a running host." } }
            }
        }
    }
}

/// Shows changes with their differences. `name` tells the changes of several commits of a page apart.
pub fn changes(set: &ChangeSet, name: &str) -> Markup {
    let mut rows = MAX_ROWS;
    let files: Vec<Markup> = set
        .changes
        .iter()
        .take(MAX_CHANGES)
        .map(|change| file(change, name, &mut rows))
        .collect();
    let hidden = set.changes.len().saturating_sub(MAX_CHANGES);
    html! {
        @for file in &files { (file) }
        @if hidden > 0 { p class="note" { (hidden) " more changes" } }
    }
}

fn file(change: &FileChange, name: &str, rows: &mut usize) -> Markup {
    let shown = change.diff.as_ref().map(|diff| {
        // What a call wrote can contain secrets, and this page is about the past.
        let body = toolhost_contract::lifecycle::mask_diff(diff.body());
        let label = format!("{} in {name}", change.path);
        diff_view::show(&body, DiffLayout::Unified, rows, &label)
    });
    html! {
        section class="file" {
            p class="file-head" {
                span class={ "change " (change.kind.as_str()) } { (change.kind.as_str()) } " "
                (code(&change.describe(), MAX_DESCRIPTION))
            }
            @if let Some(reason) = change.no_diff_reason { p class="note" { "The content is not shown: " (reason) "." } }
            @if let Some((diff, hidden)) = &shown {
                (diff)
                @if *hidden > 0 { p class="note" { (hidden) " more lines" } }
            }
        }
    }
}
