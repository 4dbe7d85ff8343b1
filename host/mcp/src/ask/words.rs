//! Text of a question in an elicitation form: everything that an approval allows, escaped and bounded.
//!
//! Text from plugins and models is prefixed with `│`, so that it cannot imitate text of the host.

use std::fmt::Write as _;

use serde_json::Value;
use toolhost_contract::policy::AskKind;
use toolhost_contract::units::show_size;
use toolhost_contract::{Call, ChangeSet, Interview, Query, Question, shell, text};

/// Maximum size of the input of a call, in bytes. Users do not review more in a form.
const MAX_INPUT: usize = 10 << 10;
const MAX_CHANGES: usize = 200;
/// Maximum number of diff lines over all changes of a call.
const DIFF_LINES: usize = 400;
/// Length at which a line is truncated, in characters. The truncation is marked.
const LINE: usize = 2_000;
/// Maximum length of the value of a field, such as a path, in characters.
const FACT: usize = 1_000;

/// Returns why the question is too long for a form, or `None` if it fits.
pub(super) fn too_long(question: &Question, call: &Call) -> Option<String> {
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
            show_size(size as u64)
        )
    })
}

/// Returns the message of an approval form.
pub(super) fn question(question: &Question, call: &Call, remark: Option<&str>) -> String {
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
    fact(&mut out, "plugin", question.plugin.as_str());
    fact(&mut out, "tool", question.tool.as_str());
    let effect = question.effect.as_str();
    fact(&mut out, "effect", &format!("{effect}{network}"));
    fact(&mut out, "reason", &question.reason);
    if let Some(agent) = &question.agent {
        fact(&mut out, "agent", &format!("{agent}, a sub-agent"));
    }
    if let Some(meta) = &question.meta {
        fact(&mut out, "hook", &meta.to_string());
    }
    for (name, value) in &question.variables {
        let variable = text::inline(&format!("{name}={value}"), usize::MAX);
        let _ = writeln!(out, "variable: {variable}");
    }
    match (&question.changes, question.kind) {
        (Some(changes), _) => changed(&mut out, changes),
        (None, AskKind::Exec) => command(&mut out, question),
        (None, AskKind::Mcp) => foreign(&mut out, question),
        (None, AskKind::Edit | AskKind::Info) => {}
    }
    touched(&mut out, question);
    out.push_str("input:\n");
    fenced(&mut out, &pretty(&call.input), usize::MAX);
    out
}

/// Returns the message of a form for a question that a tool asks.
pub(super) fn query(interview: &Interview, at: usize, query: &Query) -> String {
    let mut out = "A tool asks you".to_owned();
    let of = interview.queries.len();
    if of > 1 {
        let _ = write!(out, " ({} of {of})", at + 1);
    }
    out.push('\n');
    fact(&mut out, "plugin", &interview.plugin);
    fact(&mut out, "tool", &interview.tool);
    if let Some(agent) = &interview.agent {
        fact(&mut out, "agent", &format!("{agent}, a sub-agent"));
    }
    if !query.header.is_empty() {
        fact(&mut out, "about", &query.header);
    }
    fenced(&mut out, &query.question, usize::MAX);
    for option in &query.options {
        if option.description.is_empty() && option.preview.is_none() {
            continue;
        }
        fact(&mut out, "option", &option.label);
        fenced(&mut out, &option.description, usize::MAX);
        if let Some(preview) = &option.preview {
            fenced(&mut out, preview, usize::MAX);
        }
    }
    out
}

fn fact(out: &mut String, label: &str, words: &str) {
    let _ = writeln!(out, "{label}: {}", text::inline(words, FACT));
}

fn fenced(out: &mut String, words: &str, lines: usize) {
    let mut all = words.lines();
    for line in all.by_ref().take(lines) {
        let _ = writeln!(out, "  │ {}", text::inline(line, LINE));
    }
    let rest = all.count();
    if rest > 0 {
        let _ = writeln!(out, "  … {rest} more lines not shown");
    }
}

fn pretty(input: &Value) -> String {
    serde_json::to_string_pretty(input).unwrap_or_else(|_| input.to_string())
}

fn command(out: &mut String, question: &Question) {
    let Some(command) = &question.subject.command else {
        return;
    };
    out.push_str("command:\n");
    fenced(out, command, usize::MAX);
    match shell::parse(command) {
        // The command line already shows everything.
        Ok(script) if script.is_single() && script.writes.is_empty() => {}
        Ok(script) => {
            for simple in &script.commands {
                fact(out, "runs", &simple.text());
            }
            for write in &script.writes {
                let path = match &write.path {
                    shell::Word::Literal(path) | shell::Word::Dynamic(path) => path,
                };
                fact(out, if write.append { "adds to" } else { "writes" }, path);
            }
        }
        Err(unparsed) => fact(out, "runs", &unparsed.to_string()),
    }
}

/// Writes server and tool of a name of the form `mcp__SERVER__TOOL`.
fn foreign(out: &mut String, question: &Question) {
    let name = question.tool.as_str();
    let (server, tool) = name
        .strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
        .unwrap_or((question.plugin.as_str(), name));
    fact(out, "server", server);
    fact(out, "server tool", tool);
}

fn touched(out: &mut String, question: &Question) {
    let subject = &question.subject;
    if question.changes.is_none() {
        for path in &subject.paths {
            fact(out, if path.write { "changes" } else { "path" }, &path.path);
        }
        if subject.unclear {
            fact(out, "paths", "cannot all be determined; see the input");
        }
    }
    for url in &subject.urls {
        fact(out, "url", url);
    }
}

fn changed(out: &mut String, set: &ChangeSet) {
    let _ = writeln!(out, "Not applied yet. {set}");
    let mut lines = DIFF_LINES;
    for change in &set.changes {
        fact(out, change.kind.as_str(), &change.described());
        let Some(diff) = &change.diff else { continue };
        let body = diff.body();
        fenced(out, body, lines);
        lines = lines.saturating_sub(body.lines().count());
    }
}
