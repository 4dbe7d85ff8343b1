//! One question: what would happen, why the user is asked, and the possible answers.

use maud::{Markup, html};
use serde_json::Value;
use toolhost_contract::policy::{ApprovalScope, PromptKind, QuestionBlock};
use toolhost_contract::{ChangeKind, ChangeSet, FileChange, FileKind, McpToolName, Question, text};

use crate::access::Session;
use crate::binary_view;
use crate::command_view;
use crate::diff_view::{self, DiffLayout};
use crate::form::form;
use crate::guest_text::{block, code, line, sentence};
use crate::inbox::PendingEntry;
use crate::state::AppState;
use crate::{relative_time, ticket};

/// Maximum number of shown rows of all diffs of a question.
const MAX_DIFF_ROWS: usize = 2_000;
/// Maximum number of shown changes.
const MAX_CHANGES: usize = 300;
/// Maximum length of shown texts, in characters.
const MAX_FACT: usize = 2_000;
const MAX_TEXT: usize = 20_000;
/// Maximum length of the description of a change, in characters. Longer than the paths and targets of links in it.
pub const MAX_DESCRIPTION: usize = 100_000;
/// Number of sessions that are searched for the client.
const MAX_SESSIONS: u32 = 100;
/// Maximum number of questions that are answered together.
const MAX_GROUP: usize = 20;

/// Returns what a call would do, in one line, unescaped.
pub fn title(question: &Question) -> String {
    let plugin = question.plugin.as_str();
    if let Some(set) = &question.changes {
        return match set.only_file() {
            Some(change) => format!(
                "{plugin} wants to {} {}",
                verb(change),
                file_name(&change.path)
            ),
            None => format!("{plugin} wants to make {} changes", set.changes.len()),
        };
    }
    let subject = &question.subject;
    match question.kind {
        PromptKind::Exec => match &subject.command {
            Some(command) => format!("{plugin} wants to run {}", text::head(command, 200)),
            None => format!("{plugin} wants to run {}", question.tool),
        },
        PromptKind::Mcp => {
            let name = McpToolName::parse(question.tool.as_str());
            let (server, tool) = name.map_or((plugin, question.tool.as_str()), |name| {
                (name.server, name.tool)
            });
            format!("{server} wants to run {tool}")
        }
        PromptKind::Edit | PromptKind::Info => {
            let path = subject
                .paths
                .iter()
                .find(|path| path.write)
                .or(subject.paths.first());
            match (subject.urls.first(), path) {
                (Some(url), _) => format!("{plugin} wants to access {}", text::head(url, 200)),
                (None, Some(path)) => {
                    let verb = if path.write { "change" } else { "read" };
                    format!("{plugin} wants to {verb} {}", file_name(&path.path))
                }
                (None, None) => format!("{plugin} wants to run {}", question.tool),
            }
        }
    }
}

fn verb(change: &FileChange) -> &'static str {
    match change.kind {
        ChangeKind::Created => "create",
        ChangeKind::Modified => "change",
        ChangeKind::Deleted => "delete",
        ChangeKind::Moved { .. } => "move",
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/')
        .find(|name| !name.is_empty())
        .unwrap_or(path)
}

/// Returns what an approval does.
fn consequence(question: &Question) -> &'static str {
    match (&question.changes, question.kind) {
        (Some(_), _) => "An approval applies exactly these changes.",
        (None, PromptKind::Exec) => {
            "An approval runs the command at once. Its changes are not shown first."
        }
        (None, PromptKind::Mcp) => "An approval lets the server run its tool with this input.",
        (None, PromptKind::Edit) => "An approval lets the tool run and change files at once.",
        (None, PromptKind::Info) => "An approval lets the tool run with this input.",
    }
}

/// Returns what the call concerns, where titles of two calls can be equal.
fn targets(question: &Question) -> String {
    if let Some(set) = &question.changes {
        return set.paths().join(", ");
    }
    let subject = &question.subject;
    let paths = subject.paths.iter().map(|path| path.path.as_str());
    let targets: Vec<&str> = paths
        .chain(subject.urls.iter().map(String::as_str))
        .collect();
    targets.join(", ")
}

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

pub struct QuestionView<'a> {
    pub state: &'a AppState,
    pub session: &'a Session,
    pub entry: &'a PendingEntry,
    pub layout: DiffLayout,
}

impl QuestionView<'_> {
    pub fn render(&self) -> Markup {
        let entry = self.entry;
        let question = &entry.question;
        html! {
            article class="question" data-number=(entry.number) data-risk=(entry.risk.as_str()) aria-labelledby="question-title" {
                header {
                    p class="eyebrow" {
                        span class={ "risk " (entry.risk.as_str()) } { (entry.risk.label()) }
                        span { (entry.risk_reason) }
                    }
                    h2 id="question-title" tabindex="-1" { (line(&entry.title(), 300)) }
                    p class="meta" { (self.requester()) }
                }
                p class="why" {
                    strong { "Why you are asked: " } (sentence(&question.reason, MAX_FACT))
                    @if let Some(rule) = &question.rule { " (rule " (code(rule, 200)) ")" }
                }
                (self.blocks())
                (self.group())
                @if self.state.is_read_only() {
                    p class="readonly" { "This page is read-only. Answer at the terminal of the host." }
                } @else {
                    (self.answers())
                }
            }
        }
    }

    fn requester(&self) -> Markup {
        let caller = &self.entry.call.caller;
        html! {
            @if caller.parent_agent.is_some() { "sub-agent " } @else { "agent " }
            (line(&caller.agent, 80))
            " · session " span class="session" { (line(caller.session.as_str(), 80)) }
            @if let Some(client) = self.client() { " · client " (line(&client, 100)) }
            " · " (line(&caller.user.to_string(), 100))
            " · tool " (code(self.entry.question.tool.as_str(), 100))
            " (effect: " (self.entry.question.effect.as_str())
            @if self.entry.question.network { ", with network access" }
            ")"
            " · asked " (relative_time::since(self.entry.asked_at, self.state.now()))
        }
    }

    /// Returns the program that has the session, if it is one of the last sessions.
    fn client(&self) -> Option<String> {
        let sessions = self
            .state
            .options
            .store
            .as_ref()?
            .sessions(MAX_SESSIONS)
            .ok()?;
        let session = self.entry.call.caller.session.as_str();
        let mut sessions = sessions.into_iter();
        sessions.find(|row| row.id == session).map(|row| row.client)
    }

    fn blocks(&self) -> Markup {
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
                @if let QuestionBlock::Text { label, text } = part {
                    section class="block" {
                        h3 { (label) }
                        (block(text, MAX_TEXT))
                        (self.whole(text.chars().count() > MAX_TEXT))
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
                            (block(&shown, MAX_TEXT))
                            (self.whole(shown.chars().count() > MAX_TEXT))
                        }
                    },
                    QuestionBlock::Fact { .. } | QuestionBlock::Text { .. } => {},
                }
            }
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
                        span class="plus" { "+" (added) } " " span class="minus" { "−" (removed) }
                    }
                    a href={ "/?question=" (number) "&view=" (toggle.0) } { (toggle.1) }
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
        let markup = html! {
            section class="file" {
                h4 {
                    span class={ "change " (change.kind.as_str()) } { (change.kind.as_str()) }
                    (code(&change.describe(), MAX_DESCRIPTION))
                }
                @if change.file_kind == FileKind::Link { p class="note" { "A symbolic link: other programs follow it to another file." } }
                @if change.executable { p class="note" { "The file is executable after the change." } }
                @match (&change.binary, change.no_diff_reason) {
                    (Some(content), _) => (binary_view::show(content, &format!("/questions/{}/files/{index}", self.entry.number))),
                    (None, Some(reason)) => p class="warning-text" { "The content is not shown: it is " (reason) "." },
                    (None, None) => {},
                }
                @if let Some(diff) = &diff { (diff) }
                @if hidden > 0 { p class="note" { (hidden) " more lines" } }
            }
        };
        (markup, hidden)
    }

    /// Similar questions, which can be answered together.
    fn group(&self) -> Markup {
        let group = self.state.inbox().similar(self.entry, MAX_GROUP);
        if group.len() < 2 || self.state.is_read_only() {
            return html! {};
        }
        let items = group.iter().map(|entry| {
            let ticket = ticket::issue(
                &self.state.access.secret,
                self.session,
                entry,
                self.state.now(),
            );
            (entry, format!("{}:{ticket}", entry.number))
        });
        let content = html! {
            fieldset {
                legend { (group.len()) " similar questions" }
                ul class="group" {
                    @for (entry, value) in items {
                        li {
                            label {
                                input type="checkbox" name="item" value=(value);
                                (line(&entry.title(), 200))
                            }
                            " " (code(&targets(&entry.question), 600))
                            " " a href={ "/?question=" (entry.number) } { "Review" }
                            @if let Some(set) = &entry.question.changes { " " span class="meta" { (line(&set.to_string(), 80)) } }
                        }
                    }
                }
                div class="actions" {
                    button name="answer" value="approve" class="arm" { "Approve selected once" }
                    button name="answer" value="decline" { "Decline selected" }
                }
            }
        };
        form(
            self.state,
            self.session,
            "/questions/similar",
            "block",
            content,
        )
    }

    fn answers(&self) -> Markup {
        let entry = self.entry;
        let ticket = ticket::issue(
            &self.state.access.secret,
            self.session,
            entry,
            self.state.now(),
        );
        let offers = &entry.question.offers;
        let lasting: Vec<_> = offers
            .iter()
            .enumerate()
            .filter(|(_, offer)| offer.scope != ApprovalScope::Once)
            .collect();
        let content = html! {
            input type="hidden" name="ticket" value=(ticket);
            p class="consequence" { (consequence(&entry.question)) }
            div class="actions" {
                button name="answer" value="offer:0" class="primary arm" data-key="y" { "Approve once" kbd { "y" } }
                @if !lasting.is_empty() {
                    details class="menu" data-key="a" {
                        summary class="button" { "Approve and remember" kbd { "a" } }
                        ul {
                            @for (at, offer) in lasting {
                                li { button name="answer" value={ "offer:" (at) } class="arm" { (sentence(&offer.text, MAX_FACT)) } }
                            }
                        }
                    }
                }
                a class="button" data-key="e" href={ "/questions/" (entry.number) "/edit" } { "Edit" kbd { "e" } }
                details class="menu" data-key="n" {
                    summary class="button danger" { "Decline" kbd { "n" } }
                    div class="decline" {
                        label for="note" { "Message to the agent (optional): the reason, and what to do instead" }
                        textarea id="note" name="note" rows="3" maxlength="2000" {}
                        div class="actions" {
                            button name="answer" value="deny" class="danger" { "Decline" }
                            button name="answer" value="cancel" { "Decline and stop the turn" }
                        }
                    }
                }
            }
        };
        let action = format!("/questions/{}/answer", entry.number);
        form(self.state, self.session, &action, "answers", content)
    }
}

/// Returns everything about a question as text.
pub fn whole_text(entry: &PendingEntry) -> String {
    use std::fmt::Write as _;
    let document = entry.question.document(&entry.call.input);
    let mut out = format!(
        "{}\n{}\n",
        document.title,
        text::escape_line(&entry.title(), 400)
    );
    for part in &document.blocks {
        let _ = match part {
            QuestionBlock::Fact { label, value, .. } => {
                writeln!(out, "{label}: {}", text::escape_line(value, usize::MAX))
            }
            QuestionBlock::Text { label, text } => {
                writeln!(out, "{label}:\n{}", text::escape_lines(text, usize::MAX))
            }
            QuestionBlock::Input(input) => writeln!(
                out,
                "input:\n{}",
                text::escape_lines(&format!("{input:#}"), usize::MAX)
            ),
            QuestionBlock::ClaimedEdit(_) => Ok(()),
            QuestionBlock::Changes(set) => set.changes.iter().try_for_each(|change| {
                let described = text::escape_line(&change.describe(), usize::MAX);
                writeln!(out, "{}: {described}", change.kind.as_str())?;
                match &change.diff {
                    Some(diff) => writeln!(out, "{}", text::escape_lines(diff.body(), usize::MAX)),
                    None => Ok(()),
                }
            }),
        };
    }
    out
}
