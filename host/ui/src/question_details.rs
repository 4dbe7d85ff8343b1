//! What a user decides about: the changes with their diffs, the command, facts and the input.

use maud::{Markup, html};
use serde_json::Value;
use toolhost_contract::policy::{PromptKind, QuestionBlock};
use toolhost_contract::{ChangeSet, FileChange, FileKind, UndiffedContent, text};

use crate::binary_view;
use crate::command_view;
use crate::diff_view::{self, DiffLayout};
use crate::guest_text::{code, decision_block, line};
use crate::inbox::PendingEntry;

/// Maximum number of shown rows of all diffs of a question.
const MAX_DIFF_ROWS: usize = 2_000;
/// Maximum number of shown changes.
const MAX_CHANGES: usize = 300;
/// Maximum length of shown texts, in characters.
const MAX_FACT: usize = 2_000;
const MAX_TEXT: usize = 20_000;
/// Maximum length of the description of a change, in characters. Longer than the paths and targets of links in it.
pub const MAX_DESCRIPTION: usize = 100_000;

/// Whether an input says no more than the command: other members ask for nothing.
fn only_states(input: &Value, command: &str) -> bool {
    let Some(members) = input.as_object() else {
        return false;
    };
    members.values().all(|value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text == command,
        _ => false,
    })
}

/// The part of a question that is the same for every browser. Rendering a diff can take seconds.
pub struct QuestionDetails<'a> {
    pub entry: &'a PendingEntry,
    pub layout: DiffLayout,
}

impl QuestionDetails<'_> {
    pub fn render(&self) -> Markup {
        let question = &self.entry.question;
        let document = question.document(&self.entry.call.input);
        let mut rows = MAX_DIFF_ROWS;
        let command = question.subject.command.as_deref();
        let commands = command
            .filter(|_| question.kind == PromptKind::Exec)
            .and_then(command_view::show);
        // The title and the line of the requester contain the others.
        let is_repeated = |label: &str| {
            matches!(
                label,
                "plugin" | "tool" | "effect" | "reason" | "agent" | "server" | "server tool"
            ) || commands.is_some() && command_view::REPLACED_FACTS.contains(&label)
        };
        let facts: Vec<_> = document
            .blocks
            .iter()
            .filter_map(|block| match block {
                QuestionBlock::Fact {
                    label,
                    value,
                    is_warning,
                } if !is_repeated(label) => Some((label, value, is_warning)),
                _ => None,
            })
            .collect();
        let adds_input = question.changes.is_none()
            && !command.is_some_and(|command| only_states(&self.entry.call.input, command));
        html! {
            @for part in &document.blocks {
                @if let QuestionBlock::Command(command) = part {
                    section class="block" {
                        h3 { "command" }
                        (self.text(command))
                    }
                }
            }
            @if let Some(commands) = &commands { (commands) }
            @if !facts.is_empty() {
                dl class="facts" {
                    @for (label, value, is_warning) in facts {
                        div class=[is_warning.then_some("warning")] { dt { (label) } dd { (line(value, MAX_FACT)) (self.whole(value.chars().count() > MAX_FACT)) } }
                    }
                }
            }
            @for part in &document.blocks {
                @match part {
                    QuestionBlock::Changes(set) => (self.changes(set, &mut rows)),
                    QuestionBlock::ClaimedEdit(_) => p class="note" { "The tool has not run yet: its input states what it will change." },
                    QuestionBlock::Input(input) => {
                        @let shown = format!("{input:#}");
                        details class="block" open[adds_input] {
                            summary { "Input" }
                            (self.text(&shown))
                        }
                    },
                    // Folded, because a long text would separate the changes from the input.
                    QuestionBlock::ToolText(text) => details class="block" {
                        summary { "The tool shows" }
                        (self.text(text))
                    },
                    QuestionBlock::Fact { .. } | QuestionBlock::Command(_) => {},
                }
            }
        }
    }

    fn text(&self, text: &str) -> Markup {
        html! {
            (decision_block(text, MAX_TEXT))
            (self.whole(text.chars().count() > MAX_TEXT))
        }
    }

    /// The link to everything, where something is not shown.
    fn whole(&self, is_needed: bool) -> Markup {
        html! {
            @if is_needed {
                p class="warning-text" {
                    "Not everything is shown. " a href={ "/questions/" (self.entry.number) "/text" } { "Show the whole question as text" }
                }
            }
        }
    }

    fn changes(&self, set: &ChangeSet, rows: &mut usize) -> Markup {
        let (added, removed) = set.line_counts();
        let mut hidden = set.changes.len().saturating_sub(MAX_CHANGES);
        let files: Vec<Markup> = set
            .changes
            .iter()
            .take(MAX_CHANGES)
            .enumerate()
            .map(|(index, change)| {
                let (markup, left) = self.change(index, change, rows);
                hidden += left;
                markup
            })
            .collect();
        let number = self.entry.number;
        let toggle = match self.layout {
            DiffLayout::Unified => ("split", "Side by side"),
            DiffLayout::SideBySide => ("unified", "Unified"),
        };
        html! {
            section class="changes" aria-label="Changes" {
                div class="changes-head" {
                    h3 {
                        (set.changes.len()) @if set.changes.len() == 1 { " change" } @else { " changes" } ", not applied yet "
                        @if added + removed > 0 { span class="plus" { "+" (added) } " " span class="minus" { "−" (removed) } }
                    }
                    @if added + removed > 0 { a href={ "/?question=" (number) "&view=" (toggle.0) } { (toggle.1) } }
                }
                @for file in &files { (file) }
                (self.whole(hidden > 0))
            }
        }
    }

    fn change(&self, index: usize, change: &FileChange, rows: &mut usize) -> (Markup, usize) {
        let (diff, hidden) = match &change.diff {
            Some(diff) => {
                let (markup, hidden) =
                    diff_view::show(diff.body(), self.layout, rows, &change.path);
                (Some(markup), hidden)
            }
            None => (None, 0),
        };
        let undiffed = change.content.as_ref().map(|content| match content {
            UndiffedContent::Binary(content) => {
                let address = format!("/questions/{}/files/{index}", self.entry.number);
                let (bytes, hidden) = binary_view::show(content, &address);
                let reason = "Not all bytes that differ are shown.";
                html! {
                    (bytes)
                    @if hidden > 0 { (self.downloads(index, change, reason)) }
                }
            }
            UndiffedContent::Large(_) => {
                let reason = change.no_diff_reason.unwrap_or_default();
                let reason = format!("The content is not shown: {reason}.");
                self.downloads(index, change, &reason)
            }
        });
        let markup = html! {
            section class="file" {
                h4 {
                    span class={ "change " (change.kind.as_str()) } { (change.kind.verb()) }
                    (code(&change.describe(), MAX_DESCRIPTION))
                }
                @if change.file_kind == FileKind::Link { p class="note" { "A symbolic link: other programs follow it to another file." } }
                @if change.executable { p class="note" { "The file is executable after the change." } }
                @match (undiffed, change.no_diff_reason) {
                    (Some(content), _) => (content),
                    (None, Some(reason)) => p class="warning-text" { "The content is not shown: " (reason) "." },
                    (None, None) => {},
                }
                @if let Some(diff) = &diff { (diff) }
                @if hidden > 0 { p class="note" { (hidden) " more lines" } }
            }
        };
        (markup, hidden)
    }

    /// Links to both sides of a file that is not shown completely.
    fn downloads(&self, index: usize, change: &FileChange, reason: &str) -> Markup {
        let address = format!("/questions/{}/contents/{index}", self.entry.number);
        html! {
            p class="warning-text" {
                (reason)
                @if change.sizes.0.is_some() { " " a href={ (address) "/before" } download { "Download the file before the change" } "." }
                @if change.sizes.1.is_some() { " " a href={ (address) "/after" } download { "Download the proposed file" } "." }
            }
        }
    }
}

/// Returns everything about a question as text.
pub fn whole_text(entry: &PendingEntry) -> String {
    use std::fmt::Write as _;
    let document = entry.question.document(&entry.call.input);
    let mut out = format!(
        "{}\n{}\n",
        document.title,
        text::escape_line(&entry.title, 400)
    );
    for part in &document.blocks {
        let _ = match part {
            QuestionBlock::Fact { label, value, .. } => {
                writeln!(out, "{label}: {}", text::escape_line(value, usize::MAX))
            }
            QuestionBlock::Command(command) => {
                writeln!(out, "command:\n{}", text::escape_lines(command, usize::MAX))
            }
            QuestionBlock::ToolText(text) => {
                writeln!(
                    out,
                    "the tool shows:\n{}",
                    text::escape_lines(text, usize::MAX)
                )
            }
            QuestionBlock::Input(input) => writeln!(
                out,
                "input:\n{}",
                text::escape_lines(&format!("{input:#}"), usize::MAX)
            ),
            QuestionBlock::ClaimedEdit(_) => Ok(()),
            QuestionBlock::Changes(set) => set.changes.iter().try_for_each(|change| {
                let described = text::escape_line(&change.describe(), usize::MAX);
                writeln!(out, "{}: {described}", change.kind.verb())?;
                match &change.diff {
                    Some(diff) => writeln!(out, "{}", text::escape_lines(diff.body(), usize::MAX)),
                    None => Ok(()),
                }
            }),
        };
    }
    out
}
