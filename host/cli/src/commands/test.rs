//! `host test`: runs the examples of a plugin in the sandbox.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::json;
use toolhost_authoring::ExpectedCall;
use toolhost_contract::units::format_duration;

use crate::authoring::{ExampleResult, ExampleVerdict, Target, run_examples};
use crate::exit::{CliError, Exit, OrExit as _};
use crate::json;
use crate::terminal::print;

pub const HELP: &str = "\
Calls each tool with the examples of its descriptor, and makes the calls of tests/examples.json, a list of
  {\"tool\": NAME, \"input\": {…}, \"structured\": …, \"text\": …, \"error\": CODE}
of which the last three are optional and compared. Nothing is granted but a temporary workspace, with a copy of
tests/workspace for each call. A call is skipped if it needs another grant or permission, or another plugin. Without a
workspace, a call that fails because something does not exist is skipped too.

The build command of a project runs with your privileges.";

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Plugin file, or directory of a project, which is built
    #[arg(value_name = "PLUGIN.wasm|PROJECT", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub plugin: PathBuf,

    /// File of expected results [default: tests/examples.json of the project]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub expected: Option<PathBuf>,

    /// Directory that calls get a copy of [default: tests/workspace of the project]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub workspace: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn test(args: TestArgs) -> Result<Exit, CliError> {
    let target = Target::open(&args.plugin).await?;
    let results = results(&target, args.expected, args.workspace).await?;
    let count = |wanted: fn(&ExampleVerdict) -> bool| {
        results.iter().filter(|one| wanted(&one.verdict)).count()
    };
    let passed = count(|verdict| matches!(verdict, ExampleVerdict::Passed));
    let failed = count(|verdict| matches!(verdict, ExampleVerdict::Failed(_)));
    let skipped = results.len() - passed - failed;
    let shown = if args.json {
        let shown =
            json!({"passed": passed, "failed": failed, "skipped": skipped, "examples": results});
        json::pretty(&shown).or_exit(Exit::Internal)?
    } else {
        let mut lines: Vec<String> = results.iter().map(line).collect();
        lines.push(format!(
            "{passed} passed, {failed} failed, {skipped} skipped"
        ));
        lines.join("\n")
    };
    print(&shown).or_exit(Exit::Internal)?;
    if results.is_empty() {
        let message = "there are no examples to run; add some to the descriptors of the tools";
        return Err(CliError::new(Exit::ToolFailed, message));
    }
    Ok(if failed == 0 {
        Exit::Ok
    } else {
        Exit::ToolFailed
    })
}

/// Runs the examples with the files of the arguments, or those of the project that exist.
pub async fn results(
    target: &Target,
    expected: Option<PathBuf>,
    workspace: Option<PathBuf>,
) -> Result<Vec<ExampleResult>, CliError> {
    let project = target.project.as_ref();
    if let Some(file) = expected.as_ref().filter(|file| !file.exists()) {
        return Err(CliError::new(
            Exit::Usage,
            format!("{}: no such file", file.display()),
        ));
    }
    let expected = expected.or_else(|| project.map(toolhost_authoring::Project::expected_results));
    let expected = expected.map_or(Ok(Vec::new()), |file| ExpectedCall::read(&file));
    let own = || {
        project
            .map(toolhost_authoring::Project::test_workspace)
            .filter(|own| own.is_dir())
    };
    let workspace = workspace.or_else(own);
    run_examples(
        &target.file,
        workspace.as_deref(),
        &expected.or_exit(Exit::Config)?,
    )
    .await
}

fn line(result: &ExampleResult) -> String {
    let ExampleResult {
        tool,
        example,
        duration,
        ..
    } = result;
    match &result.verdict {
        ExampleVerdict::Passed => {
            format!("ok    {tool}: {example} ({})", format_duration(*duration))
        }
        ExampleVerdict::Failed(reason) => format!("FAIL  {tool}: {example}\n      {reason}"),
        ExampleVerdict::Skipped(reason) => format!("skip  {tool}: {example}\n      {reason}"),
    }
}
