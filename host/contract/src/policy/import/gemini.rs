//! Import of Gemini CLI policy files and of the tool lists in its settings.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::{Imported, MemberReader, rule};
use crate::policy::diagnostic::{Diagnostic, RuleSource};
use crate::policy::{Decision, RuleSpec, Tier};
use crate::{McpToolName, serde_errors};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    #[serde(default, rename = "rule")]
    rules: Vec<Spanned<PolicyTable>>,
    #[serde(default)]
    safety_checker: Vec<Spanned<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PolicyTable {
    #[serde(default)]
    tool_name: Option<OneOrMany>,
    #[serde(default)]
    mcp_name: Option<OneOrMany>,
    #[serde(default)]
    subagent: Option<String>,
    #[serde(default)]
    tool_annotations: BTreeMap<String, bool>,
    #[serde(default)]
    args_pattern: Option<String>,
    #[serde(default)]
    command_prefix: Option<OneOrMany>,
    #[serde(default)]
    command_regex: Option<String>,
    decision: String,
    priority: u16,
    #[serde(default, alias = "deny_message")]
    deny_message: Option<String>,
    #[serde(default)]
    modes: Vec<String>,
    #[serde(default)]
    interactive: Option<bool>,
    #[serde(default, alias = "allow_redirection")]
    allow_redirection: bool,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn all(texts: Option<Self>) -> Vec<String> {
        match texts {
            None => Vec::new(),
            Some(OneOrMany::One(text)) => vec![text],
            Some(OneOrMany::Many(texts)) => texts,
        }
    }
}

/// Imports a policy file: `[[rule]]` with Gemini CLI's keys.
pub fn gemini_policy(file: &str, text: &str, tier: Tier) -> Result<Imported, Diagnostic> {
    let parsed: PolicyFile = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or_else(
            || RuleSource::file(file),
            |span| RuleSource::at_offset(file, text, span.start),
        );
        Diagnostic::error(&at, serde_errors::describe_serde_error(error.message()))
    })?;
    if let Some(checker) = parsed.safety_checker.first() {
        let at = RuleSource::at_offset(file, text, checker.span().start);
        let message = "safety_checker is not supported; remove it and use a hook to inspect calls";
        return Err(Diagnostic::error(&at, message));
    }
    let mut rules = Vec::new();
    for table in parsed.rules {
        let source = RuleSource::at_offset(file, text, table.span().start);
        let wrong = |message: String| Diagnostic::error(&source, message);
        let table = table.into_inner();
        let shell = table.command_prefix.is_some() || table.command_regex.is_some();
        let names = OneOrMany::all(table.tool_name);
        let servers = OneOrMany::all(table.mcp_name);
        let tools = match (names.is_empty(), servers.is_empty()) {
            // A rule for commands needs no tool name, because only one tool runs them.
            (true, true) if shell => vec!["run_shell_command".to_owned()],
            (true, true) => vec!["*".to_owned()],
            (false, true) => names.into_iter().map(convert_form).collect(),
            (_, false) => McpToolName::forms(&servers, names),
        };
        let decision: Decision = table.decision.parse().map_err(wrong)?;
        let modes = table
            .modes
            .iter()
            .map(|mode| mode.parse())
            .collect::<Result<_, crate::policy::UnknownMode>>();
        rules.push(RuleSpec {
            tools,
            priority: table.priority,
            subagent: table.subagent,
            annotations: table.tool_annotations,
            args_regex: table.args_pattern,
            command_prefix: OneOrMany::all(table.command_prefix),
            command_regex: table.command_regex,
            deny_message: table.deny_message,
            modes: modes.map_err(|error| Diagnostic::error(&source, error.to_string()))?,
            interactive: table.interactive,
            allow_redirection: table.allow_redirection,
            ..rule(decision, String::new(), tier, &source)
        });
    }
    Ok(Imported {
        rules,
        ..Imported::default()
    })
}

/// Imports settings: `tools.core` lists the visible tools, `tools.exclude` hides and denies tools, `tools.allowed` and
/// `tools.confirmationRequired` become rules. Of equal rules an ask beats an allow, so the later list wins.
pub fn gemini_settings(
    value: &Value,
    tier: Tier,
    source: &RuleSource,
) -> Result<Imported, Diagnostic> {
    MemberReader::new(value, "", source)?;
    let mut imported = Imported::default();
    if let Some(tools) = value.get("tools") {
        let reader = MemberReader::new(tools, "tools.", source)?;
        let forms = |key: &str| {
            reader
                .list(key)
                .map(|list| list.into_iter().map(convert_form))
        };
        imported.visible_tools = tools
            .get("core")
            .map(|_| forms("core").map(Iterator::collect))
            .transpose()?;
        for excluded in reader.list("exclude")? {
            // With a command in parentheses only that command is excluded, and the tool stays visible.
            if !excluded.contains('(') {
                imported.hidden_tools.push(convert_form(excluded.clone()));
            }
            imported
                .rules
                .push(rule(Decision::Deny, convert_form(excluded), tier, source));
        }
        for (key, decision) in [
            ("allowed", Decision::Allow),
            ("confirmationRequired", Decision::Ask),
        ] {
            imported
                .rules
                .extend(forms(key)?.map(|form| rule(decision, form, tier, source)));
        }
    }
    if let Some(general) = value.get("general") {
        imported.mode =
            MemberReader::new(general, "general.", source)?.mode("defaultApprovalMode")?;
    }
    if let Some(security) = value.get("security") {
        let reader = MemberReader::new(security, "security.", source)?;
        imported.disable_yolo = reader.flag("disableYoloMode")?;
        imported.disable_always_allow = reader.flag("disableAlwaysAllow")?;
    }
    Ok(imported)
}

/// Converts a tool name. In Gemini CLI `run_shell_command(git)` matches every command that starts with `git`, and class
/// names are accepted for tools.
fn convert_form(text: String) -> String {
    let (name, rest) = text.split_at(text.find('(').unwrap_or(text.len()));
    let name = match name.trim() {
        "ShellTool" => "run_shell_command",
        "ReadFileTool" => "read_file",
        "ReadManyFilesTool" => "read_many_files",
        "WriteFileTool" => "write_file",
        "EditTool" => "replace",
        "GlobTool" => "glob",
        "GrepTool" | "SearchText" => "grep",
        "LSTool" => "list_directory",
        "WebFetchTool" => "web_fetch",
        "WebSearchTool" => "google_web_search",
        "MemoryTool" => "save_memory",
        name => name,
    };
    let command = rest
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    match command.map(str::trim) {
        Some(command)
            if name == "run_shell_command" && !command.is_empty() && !command.ends_with('*') =>
        {
            format!("{name}({command}:*)")
        }
        _ => format!("{name}{rest}"),
    }
}
