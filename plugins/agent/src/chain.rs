//! `tool_chain`: runs several calls in order; later calls can use earlier results.

mod reference;
mod run;

use std::collections::{BTreeMap, BTreeSet};

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::inline;

use self::reference::Template;
use self::run::{Chain, ChainReport};

const NAME: &str = "tool_chain";

/// What to do after a failed step.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Skip the rest.
    Stop,
    /// Run steps that do not depend on it.
    Continue,
}

/// One call.
#[data]
pub struct Step {
    /// Name of the tool.
    #[arg(min_len = 1, max_len = 128, aliases = ["name"])]
    pub tool: String,
    /// Input. `${steps.N.text}`, `${steps.N.summary}` and `${steps.N.structured.PATH}` (N from 0) insert results of
    /// earlier steps: as a value if alone in a string, else as text. The text of read_file has line numbers;
    /// `${steps.N.structured.content}` has none.
    #[arg(aliases = ["arguments", "input", "params"])]
    pub args: Option<BTreeMap<String, Value>>,
    /// Parameter that receives the previous step's text.
    #[arg(min_len = 1, max_len = 128)]
    pub with: Option<String>,
}

/// Call several tools in order and get the last result with one line per step, when all steps are known in advance.
// `destroys`: each step is authorized separately, but the chain can contain a call of any tool.
#[tool(
    destroys,
    plain_text,
    requires = ["tools"],
    category = "agent",
    kind = "other",
    icon = "link",
    timeout = "600s",
    concurrency = "serial",
    aliases = ["toolchain"],
    tags = ["chain", "pipe", "batch", "compose"],
    output = ChainReport,
    example(
        description = "Find a file and read it",
        input = r#"{"steps": [{"tool": "glob", "args": {"pattern": "**/Cargo.toml"}}, {"tool": "read_file", "args": {"path": "${steps.0.structured.matches.0}"}}]}"#
    ),
    example(
        description = "A pipe",
        input = r#"{"steps": [{"tool": "http_get", "args": {"url": "https://example.org/data.json"}}, {"tool": "json_parse", "with": "text"}]}"#
    ),
)]
pub fn tool_chain(
    cx: &Context,
    /// Calls in order.
    #[arg(min_len = 1, max_len = 20)]
    steps: Vec<Step>,
    /// What to do after a failed step.
    #[arg(default = "stop")]
    on_error: OnError,
) -> Result<Outcome> {
    let plan = steps
        .into_iter()
        .enumerate()
        .map(|(position, step)| PlannedStep::of(position, step));
    let plan = plan.collect::<Result<Vec<_>>>()?;
    Chain {
        cx,
        on_error,
        done: Vec::new(),
    }
    .run(&plan)
}

/// Whether `tool` names this tool in any form. Nested chains would make the number of steps unbounded.
pub fn is_chain(tool: &str) -> bool {
    let name = tool.trim().to_lowercase();
    // `plugin/tool@version` and `plugin__tool` name the same tool.
    let short = name.split('@').next().unwrap_or_default();
    let short = short.rsplit('/').next().unwrap_or_default();
    let short = short.rsplit("__").next().unwrap_or_default();
    [NAME, "toolchain"].contains(&short)
}

/// A step whose references were checked before any step runs.
pub struct PlannedStep {
    tool: String,
    args: Template,
    with: Option<String>,
    /// The earlier steps it depends on.
    needs: BTreeSet<usize>,
}

impl PlannedStep {
    fn of(position: usize, Step { tool, args, with }: Step) -> Result<Self> {
        let refuse = |reason: String| {
            let message = format!("steps[{position}] ({}): {reason}", inline(&tool, 64));
            Err(Error::invalid_input(message).code("invalid_step"))
        };
        if is_chain(&tool) {
            return refuse("a chain cannot be a step of a chain; list its steps here".to_owned());
        }
        let members = args.unwrap_or_default();
        if let Some(with) = &with {
            if position == 0 {
                return refuse("`with` needs a previous step; the first step has none".to_owned());
            }
            if members.contains_key(with) {
                return refuse(format!(
                    "{:?} is set by both `with` and `args`; omit one",
                    inline(with, 64)
                ));
            }
        }
        let args = match Template::parse(&json!(members)) {
            Ok(args) => args,
            Err(reason) => return refuse(reason),
        };
        let mut needs = args.referenced_steps();
        if let Some(late) = needs.iter().find(|step| **step >= position) {
            return refuse(format!(
                "it refers to step {late}, which is not an earlier step; steps count from 0"
            ));
        }
        needs.extend(with.as_ref().map(|_| position - 1));
        Ok(Self {
            tool,
            args,
            with,
            needs,
        })
    }
}

#[cfg(test)]
mod tests;
