//! Examples in rules: calls that a rule must or must not match, checked when the policy is compiled.

use std::str::FromStr;

use serde::Deserialize;
use serde_json::{Value, json};

use super::call_analysis::CallAnalysis;
use super::protected::ProtectedPaths;
use super::rule::Rule;
use super::tool_names::{NamePattern, ToolFamily};
use super::{Decision, PathContext, PolicyRequest, Subject};
use crate::{Annotations, Descriptor, Limits, PluginName, Principal, ToolName, text};

/// `Bash(git status)`, or a tool and its input.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleExample {
    shown: String,
    tool: String,
    /// One input, or several if the form has more than one interpretation.
    inputs: Vec<Value>,
}

/// An example as written in a file.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a form such as `Bash(git *)` or a table with `tool` and `input`"
)]
pub(super) enum ExampleText {
    Form(String),
    Call(ExampleCall),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExampleCall {
    tool: String,
    #[serde(default)]
    input: Value,
}

impl RuleExample {
    pub fn call(tool: impl Into<String>, input: Value) -> Self {
        let tool = tool.into();
        Self {
            shown: text::escape_line(&format!("{tool} {input}"), 200),
            tool,
            inputs: vec![input],
        }
    }
}

impl From<ExampleCall> for RuleExample {
    fn from(call: ExampleCall) -> Self {
        Self::call(call.tool, call.input)
    }
}

impl FromStr for RuleExample {
    type Err = String;

    fn from_str(form: &str) -> Result<Self, String> {
        let shown = text::escape_line(form, 200);
        let (tool, specifier) = match form.split_once('(') {
            None => (form, None),
            Some((tool, rest)) => {
                let specifier = rest
                    .strip_suffix(')')
                    .ok_or_else(|| format!("example `{shown}` is missing its closing `)`"))?;
                (tool, Some(specifier))
            }
        };
        let inputs = match (NamePattern::parse(tool)?.family(), specifier) {
            (_, None) => vec![json!({})],
            (Some(ToolFamily::Bash), Some(specifier)) => vec![json!({"command": specifier})],
            (Some(ToolFamily::Read | ToolFamily::Edit), Some(specifier)) => {
                vec![json!({"path": specifier})]
            }
            (_, Some(specifier)) if specifier.contains("://") => vec![json!({"url": specifier})],
            (_, Some(specifier)) if specifier.starts_with("domain:") => {
                vec![json!({"url": format!("https://{}/", &specifier["domain:".len()..])})]
            }
            (_, Some(specifier)) => {
                let mut inputs = vec![
                    json!({"path": specifier}),
                    json!({"command": specifier}),
                    json!({"name": specifier}),
                ];
                if let Some((name, value)) = specifier.split_once(':') {
                    inputs.push(json!({name: value}));
                }
                inputs
            }
        };
        Ok(Self {
            shown,
            tool: tool.to_owned(),
            inputs,
        })
    }
}

pub(super) fn check_examples(
    rule: &Rule,
    matches: &[RuleExample],
    not_matches: &[RuleExample],
    path_context: &PathContext,
) -> Result<(), String> {
    for (examples, expected) in [(matches, true), (not_matches, false)] {
        for example in examples {
            if matches_example(rule, example, path_context)? != expected {
                let verb = if expected {
                    "does not match"
                } else {
                    "matches"
                };
                return Err(format!(
                    "the rule {} `{}` {verb} its example `{}`",
                    rule.decision(),
                    rule.tools(),
                    example.shown
                ));
            }
        }
    }
    Ok(())
}

/// Whether the rule matches the example: an allow must cover all accesses, a deny or ask any of them.
fn matches_example(
    rule: &Rule,
    example: &RuleExample,
    path_context: &PathContext,
) -> Result<bool, String> {
    let (plugin, tool) = example_tool(&example.tool)?;
    let protected = ProtectedPaths::new([], path_context)?;
    for input in &example.inputs {
        let subject = Subject::of(&tool, input);
        let caller = Principal::default();
        let request = PolicyRequest {
            plugin: &plugin,
            name: &tool.name,
            tool: &tool,
            aliases: &[],
            // An example shows the intent of a rule, independent of a specific tool.
            runs_commands: true,
            shell: None,
            variables: &crate::variables::NO_VARIABLES,
            background_job: None,
            delegates: false,
            digest: None,
            definition: None,
            input,
            subject: &subject,
            timeout: Limits::DEFAULT_TIMEOUT,
            caller: &caller,
            mode: None,
            restriction: None,
            is_tail_call: false,
            effects_known: false,
        };
        let analysis = CallAnalysis::analyze(request, path_context, &protected);
        let mut parts = analysis.accesses.iter();
        let covers = match rule.decision() {
            Decision::Allow => parts.all(|part| rule.covers(part, &analysis)),
            Decision::Ask | Decision::Deny => parts.any(|part| rule.covers(part, &analysis)),
        };
        if covers && rule.matches_input(&analysis) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A tool descriptor that fits the example's name.
fn example_tool(form: &str) -> Result<(PluginName, Descriptor), String> {
    let (plugin, name) = form.split_once('/').unwrap_or(("example", form));
    let plugin = PluginName::parse(plugin).map_err(|error| error.to_string())?;
    let lower = name.trim().to_ascii_lowercase().replace('-', "_");
    let name = ToolName::parse(&lower).map_err(|error| error.to_string())?;
    let family = NamePattern::parse(form)?.family();
    let mut tool = Descriptor::new(name, "an example");
    let (kind, read_only) = match family {
        Some(ToolFamily::Read) => ("read", true),
        Some(ToolFamily::Edit) => ("edit", false),
        Some(ToolFamily::Bash) => ("execute", false),
        Some(ToolFamily::Fetch) => ("fetch", true),
        None => ("other", false),
    };
    kind.clone_into(&mut tool.kind);
    tool.annotations = Annotations {
        read_only: Some(read_only),
        destructive: Some(false),
        open_world: Some(family == Some(ToolFamily::Fetch)),
        ..Annotations::default()
    };
    Ok((plugin, tool))
}
