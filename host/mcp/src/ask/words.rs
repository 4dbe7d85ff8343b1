//! A question as text, for a form that some client shows: all that a yes would allow, escaped and bounded.
//!
//! What a plugin or a model wrote stands behind a mark, so that it cannot look like words of the host.

use std::fmt::Write as _;

use serde_json::Value;
use toolhost_contract::policy::AskKind;
use toolhost_contract::units::show_size;
use toolhost_contract::{Call, ChangeSet, Interview, Query, Question, shell, text};

/// Nobody reads more than this before saying yes.
const MAX_INPUT: usize = 10 << 10;
const MAX_CHANGES: usize = 200;
/// Lines of all the differences of a call that has run.
const DIFF_LINES: usize = 400;
/// Characters of one line; a longer one is cut, and says by how much.
const LINE: usize = 2_000;
/// Characters of one fact, such as a path.
const FACT: usize = 1_000;

/// Why the question cannot be put into a form.
pub(super) fn too_long(question: &Question, call: &Call) -> Option<String> {
    let tool = &question.tool;
    let changes = question.changes.as_ref().map_or(0, |set| set.changes.len());
    if changes > MAX_CHANGES {
        return Some(format!(
            "it would make {changes} changes, too many to be judged in a form; start with --allow-tool {tool} to \
             allow it unseen"
        ));
    }
    let size = call.input.to_string().len() + question.variable_bytes();
    (size > MAX_INPUT).then(|| {
        format!(
            "its input is {}, too long to be judged in a form; start with --allow-tool {tool} to allow it unseen",
            show_size(size as u64)
        )
    })
}

/// Everything above the place where the answer goes.
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
    fact(&mut out, "because", &question.reason);
    if let Some(agent) = &question.agent {
        fact(&mut out, "agent", &format!("{agent}, a sub-agent"));
    }
    if let Some(meta) = &question.meta {
        fact(&mut out, "a hook says", &meta.to_string());
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

/// One question of a tool, with who asks it above.
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
        let _ = writeln!(out, "  … {rest} more lines, which are not shown");
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
        // The command line has said it all.
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

/// `mcp__server__tool` is how tools of other servers are called here.
fn foreign(out: &mut String, question: &Question) {
    let name = question.tool.as_str();
    let (server, tool) = name
        .strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
        .unwrap_or((question.plugin.as_str(), name));
    fact(out, "server", server);
    fact(out, "its tool", tool);
}

fn touched(out: &mut String, question: &Question) {
    let subject = &question.subject;
    if question.changes.is_none() {
        for path in &subject.paths {
            fact(out, if path.write { "changes" } else { "path" }, &path.path);
        }
        if subject.unclear {
            fact(out, "paths", "more than can be told; see the input");
        }
    }
    for url in &subject.urls {
        fact(out, "address", url);
    }
}

fn changed(out: &mut String, set: &ChangeSet) {
    let _ = writeln!(
        out,
        "it has run, and nothing is real yet; a yes makes exactly this real: {set}"
    );
    let mut lines = DIFF_LINES;
    for change in &set.changes {
        fact(out, change.kind.as_str(), &change.described());
        let Some(diff) = &change.diff else { continue };
        let body = diff.body();
        fenced(out, body, lines);
        lines = lines.saturating_sub(body.lines().count());
    }
}
