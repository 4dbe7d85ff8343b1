//! Text of a question as shown at the terminal.

use std::fmt::Write as _;
use std::sync::Arc;

use toolhost_contract::policy::{QuestionBlock, Risk, TitlePlace};
use toolhost_contract::{Call, Question};

use super::changes::change_sections;
use super::choice::main_choices;
use super::claimed_diff;
use super::diff_rows::{LineNumbers, diff_rows};
use super::keys_text::{KEY_PROMPT, format_keys};
use super::leftover_input::{LeftoverInput, leftover_input};
use super::prompt_queue::{PendingPrompt, Requesters};
use super::question_draft::QuestionDraft;
use super::untrusted_text::{self, TerminalLayout, text_width};
use crate::terminal::count;
use crate::terminal::style::{Paint, Style};

/// Maximum rows of a question that can be reviewed at a terminal, without the rows of diffs that can be viewed.
const MAX_ROWS: usize = 1_000;
/// Maximum rows of diffs that can be viewed.
const MAX_VIEWED_ROWS: usize = 20_000;
/// Rows of diffs that a question shows at least, and at most.
const DIFF_ROWS: (usize, usize) = (6, 40);

/// A part of a question.
pub enum Section {
    /// Complete lines.
    Text(String),
    /// Rows of a diff, which can be left out.
    Diff(Vec<String>),
}

/// How much of the diffs is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// As much as fits into the window.
    Folded,
    Whole,
}

/// What a question shows beside the call itself.
#[derive(Debug, Default)]
pub struct QuestionContext {
    /// The position of this question and the number of all questions.
    pub position: (usize, usize),
    /// The number of calls that can be allowed together.
    pub alike: usize,
    /// The calls that are asked about next.
    pub next: Vec<String>,
    /// Paths below this directory are shown relative to it in the title.
    pub base: Option<String>,
    /// Whose calls have asked so far.
    pub requesters: Requesters,
}

/// The reason if the question cannot be asked at a terminal of this size.
pub fn layout_problem(question: &Question, call: &Call, look: TerminalLayout) -> Option<String> {
    if look.width < untrusted_text::MIN_WIDTH {
        return Some(format!(
            "the terminal has {} columns, too few to show the question; make it wider",
            look.width
        ));
    }
    let context = QuestionContext::default();
    let draft = QuestionDraft::new(question);
    let (shown, _) = format_body(&draft, call, &context, Extent::Folded, look);
    let rows = shown.lines().count();
    (rows > MAX_ROWS).then(|| {
        format!(
            "the question takes {rows} lines, too long to review at a terminal; start with --allow-tool {} to allow it \
             without review",
            question.tool
        )
    })
}

/// The question with its line of keys as one text, so that it is written at once, and the number of rows that it leaves
/// out.
pub fn format_question(
    draft: &QuestionDraft,
    call: &Call,
    context: &QuestionContext,
    look: TerminalLayout,
) -> (String, usize) {
    let (mut out, hidden) = format_body(draft, call, context, Extent::Folded, look);
    let rows = out.lines().count() + 1;
    if rows > look.height {
        // Next to the keys, because the rest may have scrolled off the screen.
        let remark = format!(
            "the question is {rows} lines long and the window {}; scroll up to read all of it",
            look.height
        );
        let remark = look.style.paint(Paint::Yellow, &remark);
        let _ = writeln!(out, "  {remark}");
    }
    out += &format_keys(&main_choices(draft, context.alike, hidden), look);
    (out, hidden)
}

/// The question without its keys.
pub fn format_body(
    draft: &QuestionDraft,
    call: &Call,
    context: &QuestionContext,
    extent: Extent,
    look: TerminalLayout,
) -> (String, usize) {
    let sections = sections(draft, call, context, look);
    let (mut fixed, mut rows) = (0, 0);
    for section in &sections {
        match section {
            Section::Text(text) => fixed += text.lines().count(),
            Section::Diff(diff) => rows += diff.len(),
        }
    }
    // The line of keys takes a row, and so does the remark about rows that are left out.
    let fits = look.height.saturating_sub(fixed + 1);
    let fits = fits.clamp(DIFF_ROWS.0, DIFF_ROWS.1);
    let mut left = match extent {
        Extent::Whole => MAX_VIEWED_ROWS,
        Extent::Folded if rows <= fits => rows,
        Extent::Folded => fits - 1,
    };
    let (mut out, mut hidden) = (String::new(), 0);
    for section in &sections {
        match section {
            Section::Text(text) => out.push_str(text),
            Section::Diff(diff) => {
                let (shown, folded) = diff.split_at(diff.len().min(left));
                left -= shown.len();
                out.extend(shown.iter().map(String::as_str));
                if !folded.is_empty() {
                    hidden += folded.len();
                    let remark = format!("    … {}", count(folded.len(), "more line"));
                    let remark = untrusted_text::fit(&remark, look.width);
                    let _ = writeln!(out, "{}", look.style.paint(Paint::Yellow, &remark));
                }
            }
        }
    }
    (out, hidden)
}

fn sections(
    draft: &QuestionDraft,
    call: &Call,
    context: &QuestionContext,
    look: TerminalLayout,
) -> Vec<Section> {
    let question = &draft.question;
    let mut sections = vec![Section::Text(title(question, context, look))];
    let mut runs = 0;
    let document = question.document(&call.input);
    for block in &document.blocks {
        let text = match block {
            // In the title, or at the end.
            QuestionBlock::Fact {
                label: "plugin" | "tool" | "effect" | "reason" | "server" | "server tool",
                ..
            }
            | QuestionBlock::Input(_) => continue,
            QuestionBlock::Fact {
                label,
                value,
                is_warning,
            } => {
                runs += u32::from(*label == "runs");
                let label = if *label == "runs" && runs > 1 {
                    ""
                } else {
                    label
                };
                if *is_warning {
                    warning(label, value, look)
                } else {
                    untrusted_text::fact(label, value, look)
                }
            }
            // The title says that it is a command.
            QuestionBlock::Command(command) => untrusted_text::marked(command, look),
            QuestionBlock::ToolText(text) => {
                format!("    the tool shows\n{}", untrusted_text::marked(text, look))
            }
            // The user may have edited them.
            QuestionBlock::Changes(_) => {
                sections.extend(change_sections(draft, look));
                continue;
            }
            QuestionBlock::ClaimedEdit(input) => {
                if let Some(claim) = claimed_diff::claimed_diff(input) {
                    let about = "as claimed by the tool; the file was not read";
                    let about = untrusted_text::wrapped("  change", about, look);
                    sections.push(Section::Text(about));
                    let rows = diff_rows("", &claim, LineNumbers::Unknown, look);
                    sections.push(Section::Diff(rows));
                }
                continue;
            }
        };
        sections.push(Section::Text(text));
    }
    sections.push(Section::Text(end(question, call, context, look)));
    sections
}

/// What would happen.
fn title(question: &Question, context: &QuestionContext, look: TerminalLayout) -> String {
    let summary = question.title(TitlePlace::Question, context.base.as_deref());
    let (first, rest) = summary.split_once(' ').unwrap_or((&summary, ""));
    let mut suffixes = Vec::new();
    if let Some(changes) = &question.changes {
        let (added, removed) = changes.line_counts();
        suffixes.push(format!("  (+{added} −{removed})"));
        suffixes.push("  not applied yet".to_owned());
    }
    if context.position.1 > 1 {
        let (at, of) = context.position;
        suffixes.push(format!("  ({at} of {of} waiting)"));
    }
    let mut out = String::new();
    let mut used = 0;
    for row in untrusted_text::wrapped(first, rest, look).lines() {
        used = text_width(row);
        let _ = write!(out, "\n{}", look.style.paint(Paint::Bold, row));
    }
    for suffix in suffixes {
        used += text_width(&suffix);
        if used > look.width {
            used = text_width(&suffix);
            out.push('\n');
        }
        out += &suffix;
    }
    out.push('\n');
    out
}

/// The call with what only its input states, the reason for the question, and the calls that follow.
fn end(
    question: &Question,
    call: &Call,
    context: &QuestionContext,
    look: TerminalLayout,
) -> String {
    let network = if question.network {
        ", with network access"
    } else {
        ""
    };
    let mut line = format!(
        "{} ({}{network})",
        question.tool,
        question.effect.description()
    );
    let mut block = String::new();
    match leftover_input(question, &call.input) {
        LeftoverInput::Inline(members) if members.is_empty() => {}
        LeftoverInput::Inline(members) => line = format!("{line}  {members}"),
        LeftoverInput::Block(input) => {
            let input = untrusted_text::format_json(&input);
            block = format!("    input\n{}", untrusted_text::marked(&input, look));
        }
    }
    let mut out = untrusted_text::fact("call", &line, look);
    out += &block;
    out += &untrusted_text::fact("reason", &question.reason, look);
    // The risk that a hook reported is above.
    if let (Risk::High, risk) = question.risk()
        && question.meta.is_none()
        && !question.reason.contains(risk)
    {
        out += &warning("risk", &format!("high: {risk}"), look);
    }
    out += &requester(question, call, context, look);
    for (at, next) in context.next.iter().enumerate() {
        let label = if at == 0 { "next" } else { "" };
        out += &untrusted_text::short_fact(label, next, look);
    }
    let others = context.position.1.saturating_sub(context.position.0);
    if let more @ 1.. = others.saturating_sub(context.next.len())
        && !context.next.is_empty()
    {
        out += &untrusted_text::short_fact("", &format!("… {more} more"), look);
    }
    out
}

/// Who asks, as far as the user has to tell several apart.
fn requester(
    question: &Question,
    call: &Call,
    context: &QuestionContext,
    look: TerminalLayout,
) -> String {
    let mut out = String::new();
    // The agent of a question is a sub-agent and stands above.
    if context.requesters.has_several_agents && question.agent.is_none() {
        out += &untrusted_text::short_fact("agent", &call.caller.agent, look);
    }
    if context.requesters.has_several_sessions {
        out += &untrusted_text::short_fact("session", call.caller.session.as_str(), look);
    }
    out
}

fn warning(label: &str, value: &str, look: TerminalLayout) -> String {
    let plain = TerminalLayout {
        style: Style::PLAIN,
        ..look
    };
    let rows = untrusted_text::fact(label, value, plain);
    let rows = rows
        .lines()
        .map(|row| look.style.paint(Paint::Red, row) + "\n");
    rows.collect()
}

/// The whole input, for reference.
pub fn format_input(call: &Call, look: TerminalLayout) -> String {
    let input = untrusted_text::format_json(&call.input);
    format!("\n    input\n{}", untrusted_text::marked(&input, look))
}

/// The list of calls that would be allowed together, each with its target.
pub fn format_group(alike: &[Arc<PendingPrompt>], look: TerminalLayout) -> String {
    let mut out = String::new();
    for (at, ask) in alike.iter().enumerate() {
        let label = format!("{}.", at + 1);
        out.push_str(&untrusted_text::fact(&label, &describe_target(ask), look));
    }
    let _ = write!(
        out,
        "  Allow these {} calls once each? y yes, anything else returns to the question {KEY_PROMPT}",
        alike.len()
    );
    out
}

/// The tool and the target of a call on one line.
pub fn describe_call(ask: &PendingPrompt) -> String {
    format!("{}  {}", ask.question.tool, describe_target(ask))
}

/// The target of the call on one line.
fn describe_target(ask: &PendingPrompt) -> String {
    let PendingPrompt { question, call, .. } = ask;
    let subject = &question.subject;
    let mut parts: Vec<String> = Vec::new();
    parts.extend(subject.command.clone());
    parts.extend(subject.paths.iter().map(|path| path.path.clone()));
    parts.extend(subject.urls.iter().cloned());
    if let Some(changes) = &question.changes {
        let paths = changes.paths().join("  ");
        return format!("{paths}  ({changes})");
    }
    let claim = claimed_diff::claimed_diff(&call.input);
    if parts.is_empty() {
        parts.push(call.input.to_string());
    } else if let Some(claim) = claim {
        let (added, removed) = claimed_diff::count_lines(&claim);
        parts.push(format!("(+{added} −{removed} lines)"));
    }
    parts.join("  ")
}
