//! File changes of past calls, with the differences that are still known.

use std::sync::Arc;

use maud::{Markup, html};
use toolhost_contract::{ChangeSet, FileChange, text};
use toolhost_store::CommitRow;

use crate::diff_view::{self, DiffLayout};
use crate::guest_text::{code, line};
use crate::host_view::FileHistory;
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
            Some(Ok(set)) => changes(&set),
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

/// Shows changes with their differences.
pub fn changes(set: &ChangeSet) -> Markup {
    let mut rows = MAX_ROWS;
    let files: Vec<Markup> = set
        .changes
        .iter()
        .take(MAX_CHANGES)
        .map(|change| file(change, &mut rows))
        .collect();
    let hidden = set.changes.len().saturating_sub(MAX_CHANGES);
    html! {
        @for file in &files { (file) }
        @if hidden > 0 { p class="note" { (hidden) " more changes" } }
    }
}

fn file(change: &FileChange, rows: &mut usize) -> Markup {
    let shown = change.diff.as_ref().map(|diff| {
        // What a call wrote can contain secrets, and this page is about the past.
        let body = toolhost_contract::lifecycle::mask_text(diff.body());
        diff_view::show(&body, DiffLayout::Unified, rows, &change.path)
    });
    html! {
        section class="file" {
            h4 {
                span class={ "change " (change.kind.as_str()) } { (change.kind.as_str()) } " "
                (code(&text::escape_line(&change.describe(), MAX_FACT), MAX_FACT))
            }
            @if let Some(reason) = change.no_diff_reason { p class="note" { "The content is not shown: " (reason) "." } }
            @if let Some((diff, hidden)) = &shown {
                (diff)
                @if *hidden > 0 { p class="note" { (hidden) " more lines" } }
            }
        }
    }
}
