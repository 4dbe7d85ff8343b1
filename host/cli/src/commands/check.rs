//! `host check`: reviews a plugin.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::json;
use toolhost::HostPaths;
use toolhost_authoring::{Finding, ReviewedPlugin, Severity, review};
use toolhost_contract::text;

use crate::authoring::{ExampleVerdict, Target};
use crate::exit::{CliError, Exit, OrExit as _};
use crate::json;
use crate::load::runtime;
use crate::terminal::{count, print};

pub const HELP: &str = "\
Reports what a reviewer would: descriptions and schemas that models understand badly, needs that do not match what the
component imports, its size, and failing examples. The exit code is 1 if there is an error; warnings do not change it.

The build command of a project runs with your privileges.";

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Plugin file, or directory of a project, which is built
    #[arg(value_name = "PLUGIN.wasm|PROJECT", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub plugin: PathBuf,

    /// Directory that examples get a copy of [default: tests/workspace of the project]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub workspace: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn check(args: CheckArgs) -> Result<Exit, CliError> {
    let target = Target::open(&args.plugin).await?;
    let findings = findings(&target, args.workspace).await?;
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    let warnings = findings.len() - errors;
    let shown = if args.json {
        let shown = json!({"errors": errors, "warnings": warnings, "findings": findings});
        json::pretty(&shown).or_exit(Exit::Internal)?
    } else {
        let mut lines: Vec<String> = findings.iter().map(line).collect();
        lines.push(format!(
            "{}, {}",
            count(errors, "error"),
            count(warnings, "warning")
        ));
        lines.join("\n")
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(if errors == 0 {
        Exit::Ok
    } else {
        Exit::ToolFailed
    })
}

async fn findings(target: &Target, workspace: Option<PathBuf>) -> Result<Vec<Finding>, CliError> {
    let cache = HostPaths::from_env(|name| std::env::var(name).ok()).cache;
    let loaded = match runtime(cache, 1)?.load(&target.file).await {
        Ok(loaded) => loaded,
        Err(error) => {
            let reason = text::escape_lines(&error.to_string(), 4_000);
            return Ok(vec![Finding::error("load", reason)]);
        }
    };
    let mut findings = review(ReviewedPlugin {
        manifest: loaded.manifest(),
        tools: loaded.tools(),
        imports: loaded.imports(),
        size: loaded.size(),
    });
    match super::test::results(target, None, workspace).await {
        Ok(results) => findings.extend(results.into_iter().filter_map(|result| {
            match result.verdict {
                ExampleVerdict::Failed(reason) => Some(
                    Finding::error("example", format!("{}: {reason}", result.example))
                        .of_tool(&result.tool),
                ),
                ExampleVerdict::Passed | ExampleVerdict::Skipped(_) => None,
            }
        })),
        // For example, a schema that the kernel refuses.
        Err(error) => findings.push(Finding::error("load", error.to_string())),
    }
    // Errors first, otherwise in their order.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

fn line(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let tool = finding
        .tool
        .as_ref()
        .map(|tool| format!("{tool}: "))
        .unwrap_or_default();
    format!("{severity:<7} {tool}{} [{}]", finding.message, finding.code)
}
