//! One question: what would happen, why the user is asked, and the possible answers.

use maud::{Markup, html};
use toolhost_contract::Question;
use toolhost_contract::policy::{ApprovalScope, PromptKind, SAVED_APPROVAL_NOTE, TitlePlace};

use crate::access::Session;
use crate::form::form;
use crate::guest_text::{code, line, sentence};
use crate::inbox::PendingEntry;
use crate::state::AppState;
use crate::{relative_time, ticket};

/// Maximum length of shown texts, in characters.
const MAX_FACT: usize = 2_000;
/// Number of sessions that are searched for the client.
const MAX_SESSIONS: u32 = 100;
/// Maximum number of questions that are answered together.
const MAX_GROUP: usize = 20;

/// Returns what an approval of this call alone does.
fn consequence(question: &Question) -> &'static str {
    match (&question.changes, question.kind) {
        (Some(_), _) => "“Approve once” applies exactly these changes.",
        (None, PromptKind::Exec) => {
            "“Approve once” runs the command. Its changes are not shown first, and `host undo` cannot revert them."
        }
        (None, PromptKind::Mcp) => "“Approve once” lets the server run its tool with this input.",
        (None, PromptKind::Edit) => "“Approve once” lets the tool run and change files directly.",
        (None, PromptKind::Info) => "“Approve once” lets the tool run with this input.",
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

pub struct QuestionView<'a> {
    pub state: &'a AppState,
    pub session: &'a Session,
    pub entry: &'a PendingEntry,
    /// The rendered [`QuestionDetails`](crate::question_details::QuestionDetails).
    pub details: &'a Markup,
}

impl QuestionView<'_> {
    pub fn render(&self) -> Markup {
        let entry = self.entry;
        let question = &entry.question;
        let title = question.title(TitlePlace::Question, self.state.inbox().base.as_deref());
        html! {
            article class="question" data-number=(entry.number) data-risk=(entry.risk.as_str()) aria-labelledby="question-title" {
                header {
                    p class="eyebrow" {
                        span class={ "risk " (entry.risk.as_str()) } { (entry.risk.label()) }
                        span { (entry.risk_reason) }
                    }
                    h2 id="question-title" tabindex="-1" { (sentence(&title, MAX_FACT)) }
                    p class="meta" { (self.requester()) }
                }
                p class="why" {
                    strong { "Why you are asked: " } (sentence(&question.reason, MAX_FACT))
                    @if let Some(rule) = &question.rule { " (rule " (code(rule, 200)) ")" }
                }
                (self.details)
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
            " (" (self.entry.question.effect.description())
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
                legend { "Answer this question and " (group.len() - 1) " similar at once" }
                ul class="group" {
                    @for (entry, value) in items {
                        li {
                            label {
                                input type="checkbox" name="item" value=(value);
                                (sentence(&entry.title, 400))
                            }
                            " " (code(&targets(&entry.question), 600))
                            " " a href={ "/?question=" (entry.number) } { "Review" }
                            @if let Some(counts) = &entry.change_counts { " " span class="meta" { (counts) } }
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
            p class="consequence" { (sentence(consequence(&entry.question), MAX_FACT)) }
            div class="actions" {
                button name="answer" value="offer:0" class="primary arm" data-key="y" { "Approve once" kbd { "y" } }
                @if !lasting.is_empty() {
                    details class="menu" data-key="a" {
                        summary class="button" { "Save an approval" kbd { "a" } }
                        div class="scopes" {
                        p class="note" { (sentence(SAVED_APPROVAL_NOTE, MAX_FACT)) }
                        ul {
                            @for (at, offer) in lasting {
                                li { button name="answer" value={ "offer:" (at) } class="arm" { (sentence(&offer.text, MAX_FACT)) } }
                            }
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
