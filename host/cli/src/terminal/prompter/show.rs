//! What a person sees: a question as text, and the lines around it.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;
use toolhost_contract::policy::AskKind;
use toolhost_contract::units::show_size;
use toolhost_contract::{Call, Question, shell, text};

use super::choice::{Choice, choices};
use super::desk::Ask;
use super::draft::Draft;
use super::margin::{self, Look};
use super::{changes, claim};
use crate::terminal::style::Paint;

/// Nobody reads more than this before saying yes.
const MAX_INPUT: usize = 10 << 10;
/// A longer question is not asked, for the same reason.
const MAX_ROWS: usize = 1_000;
/// Rows of a difference; the input below it has all of it.
const DIFF_ROWS: usize = 120;

/// Changes of a call that has run. Nobody reads a longer list before saying yes to it.
const MAX_CHANGES: usize = 200;

pub const PROMPT: &str = "  answer: ";

/// Why the question cannot be asked at a terminal.
pub fn too_long(question: &Question, call: &Call) -> Option<String> {
    let size = call.input.to_string().len() + question.variable_bytes();
    let changes = question.changes.as_ref().map_or(0, |set| set.changes.len());
    if changes > MAX_CHANGES {
        return Some(format!(
            "it would make {changes} changes, too many to be judged at a terminal; start with --allow-tool {} to allow \
             it unseen",
            question.tool
        ));
    }
    (size > MAX_INPUT).then(|| {
        format!(
            "its input is {}, too long to be judged at a terminal; start with --allow-tool {} to allow it unseen",
            show_size(size as u64),
            question.tool
        )
    })
}

/// Why the question cannot be asked at a terminal of this size.
pub fn cannot_be_shown(asked: &Question, call: &Call, look: Look) -> Option<String> {
    if look.width < margin::MIN_WIDTH {
        return Some(format!(
            "the terminal has {} columns, too few to show what it would do; make it wider",
            look.width
        ));
    }
    let shown = question(&Draft::new(asked), call, (1, 1), 1, look);
    let rows = shown.lines().count();
    (rows > MAX_ROWS).then(|| {
        format!(
            "its question takes {rows} rows, too long to be judged at a terminal; start with --allow-tool {} to allow \
             it unseen",
            asked.tool
        )
    })
}

/// The question with its choices, as one text, so that it is written in one piece.
pub fn question(
    draft: &Draft,
    call: &Call,
    (at, of): (usize, usize),
    alike: usize,
    look: Look,
) -> String {
    let question = &draft.question;
    let title = match question.changes {
        Some(_) => "Make these changes?",
        None => "Allow this call?",
    };
    let title = look.style.paint(Paint::Bold, title);
    let mut out = format!("\n  {title}");
    if of > 1 {
        let _ = write!(out, "  ({at} of {of} waiting)");
    }
    out.push('\n');
    let network = if question.network {
        ", and reaches the network"
    } else {
        ""
    };
    let mut fact = |label: &str, words: &str| out.push_str(&margin::fact(label, words, look));
    fact("plugin", question.plugin.as_str());
    fact("tool", question.tool.as_str());
    fact("effect", &format!("{}{network}", question.effect.as_str()));
    fact("because", &question.reason);
    if let Some(agent) = &question.agent {
        fact("agent", &format!("{agent}, a sub-agent"));
    }
    if let Some(meta) = &question.meta {
        risk(meta, look, &mut out);
    }
    for (name, value) in &question.variables {
        out.push_str(&margin::fact("variable", &format!("{name}={value}"), look));
    }
    let mut hidden = 0;
    match question.kind {
        AskKind::Edit if question.changes.is_some() => {
            hidden = changes::changed(draft, look, &mut out);
        }
        AskKind::Exec => exec(question, look, &mut out),
        AskKind::Edit => edit(question, call, look, &mut out),
        AskKind::Mcp => mcp(question, look, &mut out),
        AskKind::Info => paths(question, look, &mut out),
    }
    out.push_str("    input\n");
    out.push_str(&margin::fenced(&margin::json(&call.input), look));
    let offered = offered(draft, alike, look);
    let shown_rows = out.lines().count();
    // Where the answer is typed, because the rest may have left the screen.
    let mut remark = |words: &str| {
        let words = look.style.paint(Paint::Yellow, words);
        let _ = writeln!(out, "  {words}");
    };
    if hidden > 0 {
        remark(&format!("{hidden} lines of the differences are not shown"));
    }
    let rows = shown_rows + offered.lines().count();
    if rows > look.height {
        remark(&format!(
            "the question has {rows} rows, and the window {}: scroll up to read all of it",
            look.height
        ));
    }
    out.push_str(&offered);
    out
}

/// The choices, and the place where the answer is typed.
pub fn offered(draft: &Draft, alike: usize, look: Look) -> String {
    let mut out = String::new();
    let mut always = Vec::new();
    let letter = |choice: Choice| {
        look.style
            .paint(Paint::Bold, &format!("[{}]", choice.letter()))
    };
    for choice in choices(draft, alike) {
        let words = match choice {
            Choice::Offer { letter, at } => {
                let Some(offer) = draft.question.offers.get(at) else {
                    continue;
                };
                let wider = if letter.is_ascii_uppercase() {
                    ", wider"
                } else {
                    ""
                };
                format!("{}{wider}: {}", offer.scope.as_str(), offer.words)
            }
            Choice::All { count } => format!(
                "yes, once, to all {count} that wait now and look alike (same plugin, tool and effect)"
            ),
            Choice::Content { files: 1 } => {
                "edit the file that it would write, then be asked again".to_owned()
            }
            Choice::Content { files } => {
                format!("edit one of the {files} files that it would write, then be asked again")
            }
            Choice::No => {
                always.push(format!("{} no", letter(choice)));
                continue;
            }
            Choice::Tell => {
                always.push(format!("{} no, and tell it why", letter(choice)));
                continue;
            }
            Choice::Edit => {
                always.push(format!("{} edit the input", letter(choice)));
                continue;
            }
            Choice::Cancel => {
                always.push(format!("{} cancel the turn", letter(choice)));
                continue;
            }
            Choice::Help => {
                always.push(format!("{} help", letter(choice)));
                continue;
            }
        };
        // Painted after it was broken: codes have no width.
        let line = margin::broken(&format!("[{}]", choice.letter()), &words, look);
        out.push_str(&line.replacen(&format!("[{}]", choice.letter()), &letter(choice), 1));
    }
    let _ = writeln!(out, "  {}", always.join("  "));
    out.push_str(PROMPT);
    out
}

/// What one yes would cover, each with what it touches.
pub fn group(alike: &[Arc<Ask>], look: Look) -> String {
    let mut out = String::new();
    for (at, ask) in alike.iter().enumerate() {
        let label = format!("{}.", at + 1);
        out.push_str(&margin::fact(&label, &target(ask), look));
    }
    let _ = write!(
        out,
        "  These {} and no other, once each? [y] yes, anything else: back to the question: ",
        alike.len()
    );
    out
}

/// What the call touches, on one line.
fn target(ask: &Ask) -> String {
    let Ask { question, call, .. } = ask;
    let subject = &question.subject;
    let mut parts: Vec<String> = Vec::new();
    parts.extend(subject.command.clone());
    parts.extend(subject.paths.iter().map(|path| path.path.clone()));
    parts.extend(subject.urls.iter().cloned());
    if let Some(changes) = &question.changes {
        let paths = changes.paths().join("  ");
        return format!("{paths}  ({changes})");
    }
    let claim = claim::claim(&call.input);
    if parts.is_empty() {
        parts.push(call.input.to_string());
    } else if let Some(claim) = claim {
        let (added, removed) = claim::count(&claim);
        parts.push(format!("(+{added} −{removed} lines)"));
    }
    parts.join("  ")
}

pub fn help(draft: &Draft, alike: usize, look: Look) -> String {
    let mut out = String::from(
        "\n\
         \x20 y          yes, to this call\n\
         \x20 s p u      yes, for this session, this project, every project; what it covers\n\
         \x20            stands behind the letter\n\
         \x20 S P U      the same, for more\n\
         \x20 a          list the calls that wait and look alike, then one yes for all\n\
         \x20 n          no: it does not run, and the turn goes on\n\
         \x20 t          no, with a word to the model: t, or t use the other folder\n\
         \x20 m          edit what it would write, in $VISUAL or $EDITOR: m, or m 2 for the second\n\
         \x20            file; a yes is then for what you saved, and the model is told\n\
         \x20 e          another input, in $VISUAL or $EDITOR, or right here:\n\
         \x20            e path=other.txt, or e {\"path\": …}; it runs again, and you are asked about\n\
         \x20            what it does then\n\
         \x20 c          no, to this call and to all of this turn that has not run yet\n\
         \n",
    );
    out.push_str(&offered(draft, alike, look));
    out
}

fn risk(meta: &Value, look: Look, out: &mut String) {
    let text = |name: &str| meta.get(name).and_then(Value::as_str);
    let known = meta.as_object().is_some_and(|members| {
        let mut names = members.iter();
        names.all(|(name, value)| matches!(name.as_str(), "risk" | "reason") && value.is_string())
    });
    let words = match (text("risk"), text("reason")) {
        (Some(risk), Some(reason)) if known => format!("{risk}: {reason}"),
        (Some(risk), None) if known => risk.to_owned(),
        (None, Some(reason)) if known => reason.to_owned(),
        _ => text::inline(&meta.to_string(), 500),
    };
    let label = if text("risk").is_some() {
        "risk"
    } else {
        "note"
    };
    let shown = margin::fact(label, &words, look);
    let high = text("risk").is_some_and(|risk| !matches!(risk, "none" | "low" | "medium"));
    if high {
        for line in shown.lines() {
            let _ = writeln!(out, "{}", look.style.paint(Paint::Red, line));
        }
    } else {
        out.push_str(&shown);
    }
}

fn exec(question: &Question, look: Look, out: &mut String) {
    let Some(command) = &question.subject.command else {
        return;
    };
    out.push_str("    command\n");
    out.push_str(&margin::fenced(command, look));
    match shell::parse(command) {
        // The command line has said it all.
        Ok(script) if script.is_single() && script.writes.is_empty() => {}
        Ok(script) => {
            for (at, simple) in script.commands.iter().enumerate() {
                let via = match simple.via.as_slice() {
                    [] => String::new(),
                    via => format!("   (in {})", via.join(", in ")),
                };
                let label = if at == 0 { "runs" } else { "" };
                out.push_str(&margin::fact(
                    label,
                    &format!("{}{via}", simple.text()),
                    look,
                ));
            }
            for write in &script.writes {
                let path = match &write.path {
                    shell::Word::Literal(path) | shell::Word::Dynamic(path) => path,
                };
                let label = if write.append { "adds to" } else { "writes" };
                out.push_str(&margin::fact(label, path, look));
            }
        }
        Err(unparsed) => out.push_str(&margin::fact("runs", &unparsed.to_string(), look)),
    }
}

fn edit(question: &Question, call: &Call, look: Look, out: &mut String) {
    paths(question, look, out);
    if let Some(claim) = claim::claim(&call.input) {
        out.push_str("    change, by the tool's own word; the file has not been looked at\n");
        let (mut rows, rest) = (DIFF_ROWS, "; all of it is in the input below");
        margin::fenced_diff(&claim, &mut rows, rest, look, out);
    }
}

/// `mcp__server__tool` is how tools of other servers are called here.
fn mcp(question: &Question, look: Look, out: &mut String) {
    let name = question.tool.as_str();
    let (server, tool) = name
        .strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
        .unwrap_or((question.plugin.as_str(), name));
    out.push_str(&margin::fact("server", server, look));
    out.push_str(&margin::fact("its tool", tool, look));
    paths(question, look, out);
}

fn paths(question: &Question, look: Look, out: &mut String) {
    let subject = &question.subject;
    for path in &subject.paths {
        let label = if path.write { "changes" } else { "path" };
        out.push_str(&margin::fact(label, &path.path, look));
    }
    if subject.unclear {
        out.push_str(&margin::fact(
            "paths",
            "more than can be told; see the input",
            look,
        ));
    }
    for url in &subject.urls {
        out.push_str(&margin::fact("address", url, look));
    }
}
