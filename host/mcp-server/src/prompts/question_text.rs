//! Text of a question in an elicitation form: everything that an approval allows, escaped and bounded.
//!
//! Text from plugins and models is prefixed with `│`, so that it cannot imitate text of the host.

use std::fmt::Write as _;

use serde_json::Value;
use toolhost_contract::policy::PromptKind;
use toolhost_contract::units::format_size;
use toolhost_contract::{Call, ChangeSet, Question, QuestionForm, UserQuestion, text};
use toolhost_shell_syntax as shell;

/// Maximum size of the input of a call, in bytes. Users do not review more in a form.
const MAX_INPUT: usize = 10 << 10;
const MAX_CHANGES: usize = 200;
/// Maximum number of diff lines over all changes of a call.
const MAX_DIFF_LINES: usize = 400;
/// Length at which a line is truncated, in characters. The truncation is marked.
const MAX_LINE: usize = 2_000;
/// Maximum length of the value of a field, such as a path, in characters.
const MAX_FIELD: usize = 1_000;

/// Returns why the question is too long for a form, or `None` if it fits.
pub(super) fn length_error(question: &Question, call: &Call) -> Option<String> {
    let tool = &question.tool;
    let changes = question.changes.as_ref().map_or(0, |set| set.changes.len());
    if changes > MAX_CHANGES {
        return Some(format!(
            "the call makes {changes} changes, too many to review in a form; start with --allow-tool {tool} to \
             allow it without review"
        ));
    }
    let size = call.input.to_string().len() + question.variable_bytes();
    (size > MAX_INPUT).then(|| {
        format!(
            "the input is {}, too long to review in a form; start with --allow-tool {tool} to allow it without review",
            format_size(size as u64)
        )
    })
}

/// Returns the message of an approval form.
pub(super) fn approval_text(question: &Question, call: &Call, remark: Option<&str>) -> String {
    let mut out = String::new();
    if let Some(remark) = remark {
        let _ = writeln!(out, "{remark}\n");
    }
    out.push_str(match question.changes {
        Some(_) => "Make these changes?\n",
        None => "Allow this call?\n",
    });
    let network = if question.network {
        ", and reaches the network"
    } else {
        ""
    };
    write_field(&mut out, "plugin", question.plugin.as_str());
    write_field(&mut out, "tool", question.tool.as_str());
    let effect = question.effect.as_str();
    write_field(&mut out, "effect", &format!("{effect}{network}"));
    write_field(&mut out, "reason", &question.reason);
    if let Some(agent) = &question.agent {
        write_field(&mut out, "agent", &format!("{agent}, a sub-agent"));
    }
    if let Some(meta) = &question.meta {
        write_field(&mut out, "hook", &meta.to_string());
    }
    for (name, value) in &question.variables {
        let variable = text::escape_line(&format!("{name}={value}"), usize::MAX);
        let _ = writeln!(out, "variable: {variable}");
    }
    match (&question.changes, question.kind) {
        (Some(changes), _) => write_changes(&mut out, changes),
        (None, PromptKind::Exec) => write_command(&mut out, question),
        (None, PromptKind::Mcp) => write_mcp_tool(&mut out, question),
        (None, PromptKind::Edit | PromptKind::Info) => {}
    }
    write_targets(&mut out, question);
    out.push_str("input:\n");
    write_quoted(&mut out, &pretty(&call.input), usize::MAX);
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
    write_quoted(&mut out, &query.question, usize::MAX);
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

fn write_field(out: &mut String, label: &str, words: &str) {
    let _ = writeln!(out, "{label}: {}", text::escape_line(words, MAX_FIELD));
}

fn write_quoted(out: &mut String, words: &str, lines: usize) {
    let mut all = words.lines();
    for line in all.by_ref().take(lines) {
        let _ = writeln!(out, "  │ {}", text::escape_line(line, MAX_LINE));
    }
    let rest = all.count();
    if rest > 0 {
        let _ = writeln!(out, "  … {rest} more lines not shown");
    }
}

fn pretty(input: &Value) -> String {
    serde_json::to_string_pretty(input).unwrap_or_else(|_| input.to_string())
}

fn write_command(out: &mut String, question: &Question) {
    let Some(command) = &question.subject.command else {
        return;
    };
    out.push_str("command:\n");
    write_quoted(out, command, usize::MAX);
    match shell::parse(command) {
        // The command line already shows everything.
        Ok(script) if script.is_single() && script.writes.is_empty() => {}
        Ok(script) => {
            for simple in &script.commands {
                write_field(out, "runs", &simple.text());
            }
            for write in &script.writes {
                let path = match &write.path {
                    shell::Word::Literal(path) | shell::Word::Dynamic(path) => path,
                };
                write_field(out, if write.append { "adds to" } else { "writes" }, path);
            }
        }
        Err(unparsed) => write_field(out, "runs", &unparsed.to_string()),
    }
}

/// Writes server and tool of a name of the form `mcp__SERVER__TOOL`.
fn write_mcp_tool(out: &mut String, question: &Question) {
    let name = question.tool.as_str();
    let (server, tool) = name
        .strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
        .unwrap_or((question.plugin.as_str(), name));
    write_field(out, "server", server);
    write_field(out, "server tool", tool);
}

fn write_targets(out: &mut String, question: &Question) {
    let subject = &question.subject;
    if question.changes.is_none() {
        for path in &subject.paths {
            write_field(out, if path.write { "changes" } else { "path" }, &path.path);
        }
        if subject.has_unknown_paths {
            write_field(out, "paths", "cannot all be determined; see the input");
        }
    }
    for url in &subject.urls {
        write_field(out, "url", url);
    }
}

fn write_changes(out: &mut String, set: &ChangeSet) {
    let _ = writeln!(out, "Not applied yet. {set}");
    let mut lines = MAX_DIFF_LINES;
    for change in &set.changes {
        write_field(out, change.kind.as_str(), &change.describe());
        let Some(diff) = &change.diff else { continue };
        let body = diff.body();
        write_quoted(out, body, lines);
        lines = lines.saturating_sub(body.lines().count());
    }
}
