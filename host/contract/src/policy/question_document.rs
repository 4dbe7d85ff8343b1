//! What a permission request shows to a user, as data. The terminal, MCP forms and every other front end render this
//! document: they choose layout, length and escaping, and add no facts.
//!
//! All values come from plugins, models and files, and have to be escaped when they are rendered.

use serde_json::Value;
use toolhost_shell_syntax as shell;

use super::{PromptKind, Question};
use crate::units::format_size;
use crate::{ChangeSet, Effect, McpToolName, text};

/// Maximum size of an input that a user can review, in bytes.
const MAX_INPUT: usize = 10 << 10;
/// Maximum number of changes that a user can review.
const MAX_CHANGES: usize = 200;

/// A permission request without its choices, which are [`Question::offers`].
#[derive(Debug)]
pub struct QuestionDocument<'a> {
    pub title: &'static str,
    /// In the order in which they are read.
    pub blocks: Vec<QuestionBlock<'a>>,
}

/// A part of a permission request.
#[derive(Debug)]
pub enum QuestionBlock<'a> {
    /// One line. A warning is a high risk.
    Fact {
        label: &'static str,
        value: String,
        is_warning: bool,
    },
    /// The command that would run.
    Command(&'a str),
    /// What the tool shows about the call, which the host cannot check.
    ToolText(String),
    /// The changes of a call that ran; they are not applied yet.
    Changes(&'a ChangeSet),
    /// The input of a call that states what it will change in a file. The file was not read.
    ClaimedEdit(&'a Value),
    /// The whole input.
    Input(&'a Value),
}

impl Question {
    /// Returns why a user cannot review this question, or `None`. `location` is where it would be shown.
    pub fn review_problem(&self, input: &Value, location: &str) -> Option<String> {
        let tool = &self.tool;
        let changes = self.changes.as_ref().map_or(0, |set| set.changes.len());
        if changes > MAX_CHANGES {
            return Some(format!(
                "{changes} changes are too many to review {location}; start with --allow-tool {tool} to allow them \
                 without review"
            ));
        }
        let size = input.to_string().len() + self.variable_bytes();
        (size > MAX_INPUT).then(|| {
            let size = format_size(size as u64);
            format!(
                "the input is {size}, too long to review {location}; start with --allow-tool {tool} to allow it \
                 without review"
            )
        })
    }

    /// Returns what the user decides about.
    pub fn document<'a>(&'a self, input: &'a Value) -> QuestionDocument<'a> {
        let mut blocks = Blocks(Vec::new());
        blocks.add_subject(self);
        match self.kind {
            PromptKind::Exec => blocks.add_command(self),
            PromptKind::Mcp => blocks.add_mcp_tool(self),
            PromptKind::Edit | PromptKind::Info => {}
        }
        match &self.changes {
            Some(changes) => {
                blocks.0.push(QuestionBlock::Changes(changes));
                if changes.deletes() {
                    blocks.fact("undo", undo_text(self));
                }
            }
            None if self.kind == PromptKind::Exec => {}
            None => {
                blocks.add_targets(self);
                if self.kind == PromptKind::Edit && self.effect == Effect::Destroys {
                    blocks.fact("undo", undo_text(self));
                }
            }
        }
        if self.kind == PromptKind::Edit && self.changes.is_none() {
            blocks.0.push(QuestionBlock::ClaimedEdit(input));
        }
        for block in &self.rendering {
            blocks.0.push(QuestionBlock::ToolText(block.plain_text()));
        }
        blocks.0.push(QuestionBlock::Input(input));
        QuestionDocument {
            title: match self.changes {
                Some(_) => "Make these changes?",
                None => "Allow this call?",
            },
            blocks: blocks.0,
        }
    }
}

/// States whether what a call deletes can be restored.
fn undo_text(question: &Question) -> &'static str {
    match (&question.changes, question.can_undo) {
        (Some(_), true) => "`host undo` can restore the deleted files",
        (Some(_), false) => {
            "`host undo` cannot restore the deleted files, because this host keeps no records"
        }
        (None, _) => {
            "`host undo` cannot restore the deleted files, because the tool changes files directly"
        }
    }
}

struct Blocks<'a>(Vec<QuestionBlock<'a>>);

impl<'a> Blocks<'a> {
    fn fact(&mut self, label: &'static str, value: impl Into<String>) {
        self.0.push(QuestionBlock::Fact {
            label,
            value: value.into(),
            is_warning: false,
        });
    }

    fn add_subject(&mut self, question: &Question) {
        self.fact("plugin", question.plugin.as_str());
        self.fact("tool", question.tool.as_str());
        let network = if question.network {
            ", with network access"
        } else {
            ""
        };
        self.fact(
            "effect",
            format!("{}{network}", question.effect.description()),
        );
        self.fact("reason", &question.reason);
        if let Some(description) = &question.description {
            self.fact("the tool says", description);
        }
        for destination in &question.subject.destinations {
            self.fact("destination", destination);
        }
        if question.subject.has_unknown_destinations {
            self.fact("destination", "cannot be determined; see the input");
        }
        if let Some(agent) = &question.agent {
            self.fact("agent", format!("{agent}, a sub-agent"));
        }
        if let Some(meta) = &question.meta {
            self.0.push(risk(meta));
        }
        for list in &question.only_paths {
            self.fact("only in", list.to_string());
        }
        for (name, value) in &question.variables {
            self.fact("variable", format!("{name}={value}"));
        }
    }

    fn add_command(&mut self, question: &'a Question) {
        let Some(command) = &question.subject.command else {
            return;
        };
        self.0.push(QuestionBlock::Command(command));
        let script = match shell::parse(command) {
            // A single command needs no breakdown.
            Ok(script) if script.is_single() && script.writes.is_empty() => return,
            Ok(script) => script,
            Err(unparsed) => return self.fact("runs", unparsed.to_string()),
        };
        for simple in &script.commands {
            let via = match simple.via.as_slice() {
                [] => String::new(),
                via => format!("   (in {})", via.join(", in ")),
            };
            self.fact("runs", format!("{}{via}", simple.text()));
        }
        for write in &script.writes {
            let (shell::Word::Literal(path) | shell::Word::Dynamic(path)) = &write.path;
            self.fact(if write.append { "appends" } else { "writes" }, path);
        }
    }

    /// Adds server and tool of a name of the form `mcp__SERVER__TOOL`.
    fn add_mcp_tool(&mut self, question: &Question) {
        let name = McpToolName::parse(question.tool.as_str()).unwrap_or(McpToolName {
            server: question.plugin.as_str(),
            tool: question.tool.as_str(),
        });
        self.fact("server", name.server);
        self.fact("server tool", name.tool);
    }

    fn add_targets(&mut self, question: &Question) {
        let subject = &question.subject;
        for path in &subject.paths {
            let line = path.line.map(|line| format!(", line {line}"));
            let value = format!("{}{}", path.path, line.unwrap_or_default());
            self.fact(if path.write { "changes" } else { "reads" }, value);
        }
        if subject.has_unknown_paths {
            self.fact("paths", "cannot be fully determined; see the input");
        }
        for url in &subject.urls {
            self.fact("URL", url);
        }
    }
}

/// Returns the risk or the note that a hook reported.
fn risk(meta: &Value) -> QuestionBlock<'static> {
    let text = |name: &str| meta.get(name).and_then(Value::as_str);
    let is_known = meta.as_object().is_some_and(|members| {
        let mut members = members.iter();
        members.all(|(name, value)| matches!(name.as_str(), "risk" | "reason") && value.is_string())
    });
    let value = match (text("risk"), text("reason")) {
        (Some(risk), Some(reason)) if is_known => format!("{risk}: {reason}"),
        (Some(only), None) | (None, Some(only)) if is_known => only.to_owned(),
        _ => text::escape_line(&meta.to_string(), 500),
    };
    let risk = text("risk");
    QuestionBlock::Fact {
        label: if risk.is_some() { "risk" } else { "note" },
        value,
        is_warning: risk.is_some_and(|risk| !matches!(risk, "none" | "low" | "medium")),
    }
}
