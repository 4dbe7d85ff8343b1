//! Text of a question in an elicitation form: everything that an approval allows, escaped and bounded.
//!
//! Text from plugins and models is prefixed with `│`, so that it cannot imitate text of the host.

use std::fmt::Write as _;

use toolhost_contract::policy::QuestionBlock;
use toolhost_contract::{Call, ChangeSet, Question, QuestionForm, UserQuestion, text};

/// Maximum number of diff lines over all changes of a call.
const MAX_DIFF_LINES: usize = 400;
/// Length at which a line of a diff or of a tool's text is truncated, in characters. The truncation is marked.
pub(super) const MAX_LINE: usize = 2_000;
/// Maximum length of the value of a field, such as a path, in characters.
pub(super) const MAX_FIELD: usize = 1_000;

/// Returns the message of an approval form.
pub(super) fn approval_text(question: &Question, call: &Call, remark: Option<&str>) -> String {
    let mut out = String::new();
    if let Some(remark) = remark {
        let _ = writeln!(out, "{remark}\n");
    }
    let document = question.document(&call.input);
    let _ = writeln!(out, "{}", document.title);
    for block in &document.blocks {
        match block {
            // An approval covers exactly this value.
            QuestionBlock::Fact {
                label: label @ "variable",
                value,
                ..
            } => {
                let _ = writeln!(out, "{label}: {}", text::escape_line(value, usize::MAX));
            }
            QuestionBlock::Fact { label, value, .. } => write_field(&mut out, label, value),
            // An approval covers all of the command and the input, whose size is bounded.
            QuestionBlock::Command(command) => {
                out.push_str("command:\n");
                write_whole(&mut out, command);
            }
            QuestionBlock::ToolText(text) => {
                out.push_str("the tool shows:\n");
                write_quoted(&mut out, text, usize::MAX);
            }
            QuestionBlock::Changes(changes) => write_changes(&mut out, changes),
            // The input follows.
            QuestionBlock::ClaimedEdit(_) => {}
            QuestionBlock::Input(input) => {
                out.push_str("input:\n");
                write_whole(&mut out, &format!("{input:#}"));
            }
        }
    }
    out
}

/// Returns the message of a form for a question that a tool asks.
pub(super) fn query_text(interview: &QuestionForm, at: usize, query: &UserQuestion) -> String {
    let mut out = "A tool asks you".to_owned();
    let of = interview.questions.len();
    if of > 1 {
        let _ = write!(out, " ({} of {of})", at + 1);
    }
    out.push('\n');
    write_field(&mut out, "plugin", &interview.plugin);
    write_field(&mut out, "tool", &interview.tool);
    if let Some(agent) = &interview.agent {
        write_field(&mut out, "agent", &format!("{agent}, a sub-agent"));
    }
    if !query.header.is_empty() {
        write_field(&mut out, "about", &query.header);
    }
    write_whole(&mut out, &query.question);
    for option in &query.options {
        if option.description.is_empty() && option.preview.is_none() {
            continue;
        }
        write_field(&mut out, "option", &option.label);
        write_quoted(&mut out, &option.description, usize::MAX);
        if let Some(preview) = &option.preview {
            write_quoted(&mut out, preview, usize::MAX);
        }
    }
    out
}

fn write_field(out: &mut String, label: &str, value: &str) {
    let _ = writeln!(out, "{label}: {}", text::escape_line(value, MAX_FIELD));
}

fn write_whole(out: &mut String, value: &str) {
    for line in whole_lines(value) {
        let _ = writeln!(out, "  │ {line}");
    }
}

/// Returns all lines of a text that an approval covers and whose size is bounded. Long runs of blanks, which could hide the
/// text after them, are replaced by their number.
pub(super) fn whole_lines(value: &str) -> Vec<String> {
    let shown = text::decision_lines(value, usize::MAX);
    text::diff_lines(&shown).map(str::to_owned).collect()
}

fn write_quoted(out: &mut String, value: &str, lines: usize) {
    let mut all = text::diff_lines(value);
    for line in all.by_ref().take(lines) {
        let _ = writeln!(out, "  │ {}", text::escape_line(line, MAX_LINE));
    }
    let rest = all.count();
    if rest > 0 {
        let _ = writeln!(out, "  … {rest} more lines not shown");
    }
}

fn write_changes(out: &mut String, set: &ChangeSet) {
    let _ = writeln!(out, "Not applied yet. {set}");
    let mut lines = MAX_DIFF_LINES;
    for change in &set.changes {
        // Whole, because the end contains the target of a link. Paths and targets are bounded by the file system.
        let described = text::escape_line(&change.describe(), usize::MAX);
        let _ = writeln!(out, "{}: {described}", change.kind.verb());
        let Some(diff) = &change.diff else { continue };
        let body = diff.body();
        write_quoted(out, body, lines);
        lines = lines.saturating_sub(text::diff_lines(body).count());
    }
}
