//! Text of a question as shown at the terminal, with its choices and help.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;
use toolhost_contract::policy::QuestionBlock;
use toolhost_contract::{Call, Question};

use super::choice::{Choice, available_choices};
use super::prompt_queue::PendingPrompt;
use super::question_draft::QuestionDraft;
use super::untrusted_text::{self, TerminalLayout};
use super::{changes, claimed_diff};
use crate::terminal::style::Paint;

/// Maximum rows of a question that can be reviewed at a terminal.
const MAX_ROWS: usize = 1_000;
/// Maximum rows of a claimed diff; the input below contains all of it.
const DIFF_ROWS: usize = 120;

pub const PROMPT: &str = "  answer: ";

/// The reason if the question cannot be asked at a terminal of this size.
pub fn layout_problem(question: &Question, call: &Call, look: TerminalLayout) -> Option<String> {
    if look.width < untrusted_text::MIN_WIDTH {
        return Some(format!(
            "the terminal has {} columns, too few to show the question; make it wider",
            look.width
        ));
    }
    let shown = format_question(&QuestionDraft::new(question), call, (1, 1), 1, look);
    let rows = shown.lines().count();
    (rows > MAX_ROWS).then(|| {
        format!(
            "the question takes {rows} rows, too long to review at a terminal; start with --allow-tool {} to allow it \
             without review",
            question.tool
        )
    })
}

/// The question with its choices as one text, so that it is written at once.
pub fn format_question(
    draft: &QuestionDraft,
    call: &Call,
    (at, of): (usize, usize),
    alike: usize,
    look: TerminalLayout,
) -> String {
    let question = &draft.question;
    let document = question.document(&call.input);
    let title = look.style.paint(Paint::Bold, document.title);
    let mut out = format!("\n  {title}");
    if of > 1 {
        let _ = write!(out, "  ({at} of {of} waiting)");
    }
    out.push('\n');
    let mut hidden = 0;
    let mut runs = 0;
    for block in &document.blocks {
        match block {
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
                let shown = untrusted_text::fact(label, value, look);
                if *is_warning {
                    for line in shown.lines() {
                        let _ = writeln!(out, "{}", look.style.paint(Paint::Red, line));
                    }
                } else {
                    out.push_str(&shown);
                }
            }
            QuestionBlock::Text { label, text } => {
                let _ = writeln!(out, "    {label}");
                out.push_str(&untrusted_text::marked(text, look));
            }
            // The user may have edited them.
            QuestionBlock::Changes(_) => hidden = changes::format_changes(draft, look, &mut out),
            QuestionBlock::ClaimedEdit(input) => add_claimed_edit(input, look, &mut out),
            QuestionBlock::Input(input) => {
                out.push_str("    input\n");
                let input = untrusted_text::format_json(input);
                out.push_str(&untrusted_text::marked(&input, look));
            }
        }
    }
    let offered = format_choices(draft, alike, look);
    let shown_rows = out.lines().count();
    // Next to the answer prompt, because the rest may have scrolled off the screen.
    let mut remark = |text: &str| {
        let text = look.style.paint(Paint::Yellow, text);
        let _ = writeln!(out, "  {text}");
    };
    if hidden > 0 {
        remark(&format!("{hidden} lines of the diffs are not shown"));
    }
    let rows = shown_rows + offered.lines().count();
    if rows > look.height {
        remark(&format!(
            "the question is {rows} rows long and the window {}; scroll up to read all of it",
            look.height
        ));
    }
    out.push_str(&offered);
    out
}

/// The choices and the answer prompt.
pub fn format_choices(draft: &QuestionDraft, alike: usize, look: TerminalLayout) -> String {
    let mut out = String::new();
    let mut always = Vec::new();
    let letter = |choice: Choice| {
        look.style
            .paint(Paint::Bold, &format!("[{}]", choice.letter()))
    };
    for choice in available_choices(draft, alike) {
        let description = match choice {
            Choice::Offer { letter, at } => {
                let Some(offer) = draft.question.offers.get(at) else {
                    continue;
                };
                let wider = if letter.is_ascii_uppercase() {
                    ", wider"
                } else {
                    ""
                };
                format!("{}{wider}: {}", offer.scope.as_str(), offer.text)
            }
            Choice::All { count } => format!(
                "once: Allow all {count} similar waiting calls (same plugin, tool and effect)"
            ),
            Choice::EditContent { files: 1 } => "edit the new file content, then decide".to_owned(),
            Choice::EditContent { files } => {
                format!("edit the new content of one of {files} files, then decide")
            }
            Choice::Deny => {
                always.push(format!("{} deny", letter(choice)));
                continue;
            }
            Choice::DenyWithMessage => {
                always.push(format!("{} deny with a message", letter(choice)));
                continue;
            }
            Choice::EditInput => {
                always.push(format!("{} edit input", letter(choice)));
                continue;
            }
            Choice::Cancel => {
                always.push(format!("{} cancel turn", letter(choice)));
                continue;
            }
            Choice::Help => {
                always.push(format!("{} help", letter(choice)));
                continue;
            }
        };
        // Painted after wrapping, because escape codes have no width.
        let line = untrusted_text::wrapped(&format!("[{}]", choice.letter()), &description, look);
        out.push_str(&line.replacen(&format!("[{}]", choice.letter()), &letter(choice), 1));
    }
    let _ = writeln!(out, "  {}", always.join("  "));
    out.push_str(PROMPT);
    out
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
        "  Allow these {} calls once each? [y] yes, anything else returns to the question: ",
        alike.len()
    );
    out
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

pub fn format_help(draft: &QuestionDraft, alike: usize, look: TerminalLayout) -> String {
    let mut out = String::from(
        "\n\
         \x20 Answers, of which only those listed below are available now:\n\
         \x20 y          allow this call\n\
         \x20 s p u      allow for this session, this project or every project, as described\n\
         \x20            next to the letter\n\
         \x20 S P U      the same with a wider scope\n\
         \x20 a          list similar waiting calls, then allow all of them at once\n\
         \x20 n          deny this call and continue the turn\n\
         \x20 t          deny with a message to the model: t, or t use the other directory\n\
         \x20 m          edit the new file content in $VISUAL or $EDITOR: m, or m 2 for the second\n\
         \x20            file; an approval then applies your version, and the model is told\n\
         \x20 e          edit the input in $VISUAL or $EDITOR, or inline: e path=other.txt, or\n\
         \x20            e {\"path\": …}; the call runs again, and you are asked about its new\n\
         \x20            effects\n\
         \x20 c          deny this call and all calls of this turn that have not run yet\n\
         \n",
    );
    out.push_str(&format_choices(draft, alike, look));
    out
}

fn add_claimed_edit(input: &Value, look: TerminalLayout, out: &mut String) {
    if let Some(claim) = claimed_diff::claimed_diff(input) {
        out.push_str("    change as claimed by the tool; the file was not read\n");
        let (mut rows, rest) = (DIFF_ROWS, "; see the input below");
        untrusted_text::marked_diff(&claim, &mut rows, rest, look, out);
    }
}
