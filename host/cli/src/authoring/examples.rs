//! Runs the examples of a plugin's tools in the sandbox and compares their results.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;
use toolhost::{Access, Answer, Builder, CallbackPrompter, Host, Mode, Report};
use toolhost_authoring::ExpectedCall;
use toolhost_contract::{ErrorClass, text};

use crate::exit::{CliError, Exit, OrExit as _};

/// Codes of errors of a call that lacks a grant or permission, or calls a tool of another plugin.
const NOT_AVAILABLE: [&str; 8] = [
    "capability_missing",
    "host_not_allowed",
    "no_user",
    "not_configured",
    "policy_violation",
    "program_not_allowed",
    "service_not_granted",
    "tool_not_registered",
];

/// Bounds of a workspace, which is copied for each example.
const MAX_FILES: usize = 1_000;
const MAX_BYTES: u64 = 64 << 20;
const MAX_DEPTH: usize = 16;

#[derive(Debug, Serialize)]
pub struct ExampleResult {
    pub tool: String,
    /// What the example shows, or its input.
    pub example: String,
    #[serde(flatten)]
    pub verdict: ExampleVerdict,
    #[serde(skip)]
    pub duration: Duration,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", content = "reason", rename_all = "lowercase")]
pub enum ExampleVerdict {
    Passed,
    Failed(String),
    /// It needs something that does not exist or is not granted here.
    Skipped(String),
}

/// Calls the tools of a plugin with their examples, and makes the expected calls. Nothing is granted but a temporary
/// directory, with a copy of `workspace` for each call.
pub async fn run_examples(
    plugin: &Path,
    workspace: Option<&Path>,
    expected: &[ExpectedCall],
) -> Result<Vec<ExampleResult>, CliError> {
    let directory = tempfile::tempdir().or_exit(Exit::Internal)?;
    let host = Builder::new()
        .plugins(plugin)
        .allow_path(directory.path(), Access::ReadWrite)
        .mode(Mode::Yolo)
        // The tool's own `confirm` is part of the example.
        .prompter(Arc::new(CallbackPrompter::new("test", |_, _| async {
            Answer::once()
        })))
        .compiler(crate::load::compiler()?)
        .build()
        .await?;
    if let Some(broken) = host.loaded().broken.first() {
        return Err(CliError::new(
            Exit::NoPlugin,
            text::escape_lines(&broken.reason, 4_000),
        ));
    }
    let mut results = Vec::new();
    for (description, call) in calls(&host, expected) {
        reset(&directory, workspace)?;
        let report = host.call(&call.tool, call.input.clone()).await;
        let example = description.unwrap_or_else(|| call.input.to_string());
        results.push(ExampleResult {
            tool: text::escape_line(&call.tool, 80),
            example: text::escape_line(&example, 200),
            verdict: verdict(&call, &report, workspace),
            duration: report.duration,
        });
    }
    host.shut_down().await?;
    Ok(results)
}

/// The examples of the tools with their expected results, and then the other expected calls.
fn calls(host: &Host, expected: &[ExpectedCall]) -> Vec<(Option<String>, ExpectedCall)> {
    let mut calls = Vec::new();
    let mut others: BTreeMap<usize, &ExpectedCall> = expected.iter().enumerate().collect();
    for tool in host.tools() {
        for example in &tool.examples {
            let found = others
                .iter()
                .find(|(_, call)| call.tool == tool.name.as_str() && call.input == example.input)
                .map(|(index, _)| *index);
            let known = found.and_then(|index| others.remove(&index)).cloned();
            let call = known.unwrap_or_else(|| ExpectedCall {
                tool: tool.name.to_string(),
                input: example.input.clone(),
                text: None,
                structured: None,
                error: None,
            });
            calls.push((Some(example.description.clone()), call));
        }
    }
    calls.extend(others.into_values().map(|call| (None, call.clone())));
    calls
}

fn verdict(call: &ExpectedCall, report: &Report, workspace: Option<&Path>) -> ExampleVerdict {
    let text;
    let outcome = match &report.result {
        Err(error) => Err(Failure {
            class: error.class,
            code: &error.code,
            message: &error.message,
        }),
        Ok(outcome) => match &outcome.error {
            None => {
                text = outcome.model_text();
                Ok((&*text, outcome.structured.as_ref()))
            }
            Some(failure) => Err(Failure {
                class: ErrorClass::Failed,
                code: failure.code.as_deref().unwrap_or_default(),
                message: &failure.message,
            }),
        },
    };
    judge(call, outcome, workspace)
}

#[derive(Clone, Copy)]
struct Failure<'a> {
    class: ErrorClass,
    code: &'a str,
    message: &'a str,
}

impl Failure<'_> {
    /// Whether it needs something that is not available to any example.
    fn is_unavailable(self) -> bool {
        // The tool of the call itself can be misspelled.
        self.class != ErrorClass::NotRegistered && NOT_AVAILABLE.contains(&self.code)
    }

    /// Whether it needs something that a workspace can contain.
    fn is_missing(self) -> bool {
        // The SDK reports a tool that the component does not contain.
        self.class == ErrorClass::NotFound && self.code != "tool_not_found"
            || self.code == "file_not_found"
    }
}

fn judge(
    call: &ExpectedCall,
    outcome: Result<(&str, Option<&Value>), Failure>,
    workspace: Option<&Path>,
) -> ExampleVerdict {
    let compared = outcome.map_err(|failure| (failure.code, failure.message));
    let Some(reason) = call.difference(compared) else {
        return ExampleVerdict::Passed;
    };
    match outcome {
        Err(failure) if failure.is_unavailable() => ExampleVerdict::Skipped(reason),
        Err(failure) if failure.is_missing() && workspace.is_none() && call.error.is_none() => {
            ExampleVerdict::Skipped(format!(
                "{reason}; put what it needs in tests/workspace of the project, or in a directory that you name with \
                 --workspace"
            ))
        }
        _ => ExampleVerdict::Failed(reason),
    }
}

/// Makes the directory a copy of the workspace again.
fn reset(directory: &TempDir, workspace: Option<&Path>) -> Result<(), CliError> {
    let clear = || {
        for entry in fs::read_dir(directory.path())? {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        Ok::<_, std::io::Error>(())
    };
    clear().or_exit(Exit::Internal)?;
    let Some(workspace) = workspace else {
        return Ok(());
    };
    let mut left = CopyLimits {
        files: MAX_FILES,
        bytes: MAX_BYTES,
    };
    copy(workspace, directory.path(), MAX_DEPTH, &mut left).map_err(|reason| {
        let message = format!(
            "cannot copy the workspace {}: {reason}",
            workspace.display()
        );
        CliError::new(Exit::Config, message)
    })
}

struct CopyLimits {
    files: usize,
    bytes: u64,
}

/// Copies regular files and directories. Anything else is refused, because a link could lead out of the workspace.
fn copy(from: &Path, to: &Path, depth: usize, left: &mut CopyLimits) -> Result<(), String> {
    let fail = |error: std::io::Error| error.to_string();
    for entry in fs::read_dir(from).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let shown = text::escape_line(&path.to_string_lossy(), 400);
        left.files = left
            .files
            .checked_sub(1)
            .ok_or_else(|| format!("more than {MAX_FILES} files"))?;
        let kind = entry.file_type().map_err(fail)?;
        if kind.is_dir() {
            let depth = depth
                .checked_sub(1)
                .ok_or_else(|| format!("{shown} is nested too deep"))?;
            fs::create_dir(&target).map_err(fail)?;
            copy(&path, &target, depth, left)?;
        } else if kind.is_file() {
            let bytes = toolhost_hostfiles::read_regular(&path, left.bytes)
                .map_err(|error| format!("{shown}: {error}"))?;
            left.bytes -= bytes.len() as u64;
            fs::write(&target, bytes).map_err(fail)?;
        } else {
            return Err(format!("{shown} is neither a regular file nor a directory"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn examples_that_need_what_is_not_there_are_skipped() {
        let shown = |class, code, expected: Option<&str>, workspace: Option<&str>| {
            let call = ExpectedCall {
                tool: "a".to_owned(),
                input: json!({}),
                text: None,
                structured: None,
                error: expected.map(str::to_owned),
            };
            let failure = Failure {
                class,
                code,
                message: "x",
            };
            match judge(&call, Err(failure), workspace.map(Path::new)) {
                ExampleVerdict::Passed => "passed",
                ExampleVerdict::Failed(_) => "failed",
                ExampleVerdict::Skipped(reason) if reason.ends_with("--workspace") => {
                    "no workspace"
                }
                ExampleVerdict::Skipped(_) => "skipped",
            }
        };
        let (failed, missing) = (ErrorClass::Failed, ErrorClass::NotFound);
        for (class, code, expected, workspace, verdict) in [
            (
                ErrorClass::Denied,
                "host_not_allowed",
                None,
                Some("w"),
                "skipped",
            ),
            (
                ErrorClass::Denied,
                "policy_violation",
                None,
                None,
                "skipped",
            ),
            (failed, "tool_not_registered", None, None, "skipped"),
            (
                ErrorClass::NotRegistered,
                "tool_not_registered",
                None,
                None,
                "failed",
            ),
            (failed, "file_not_found", None, None, "no workspace"),
            (missing, "not_found", None, None, "no workspace"),
            (missing, "skill_not_found", None, None, "no workspace"),
            (missing, "file_not_found", None, Some("w"), "failed"),
            (missing, "file_not_found", Some("other"), None, "failed"),
            (
                missing,
                "file_not_found",
                Some("file_not_found"),
                None,
                "passed",
            ),
            (missing, "tool_not_found", None, None, "failed"),
            (failed, "symbol_not_found", None, None, "failed"),
            (ErrorClass::Trapped, "trap", None, None, "failed"),
        ] {
            assert_eq!(shown(class, code, expected, workspace), verdict, "{code}");
        }
    }

    #[test]
    fn a_workspace_is_copied_and_special_files_are_refused() {
        let source = tempfile::tempdir().unwrap();
        fs::create_dir(source.path().join("a")).unwrap();
        fs::write(source.path().join("a/b.txt"), "b").unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("old"), "").unwrap();
        reset(&directory, Some(source.path())).unwrap();
        assert_eq!(
            fs::read_to_string(directory.path().join("a/b.txt")).unwrap(),
            "b"
        );
        assert!(!directory.path().join("old").exists());
        std::os::unix::fs::symlink("/etc", source.path().join("a/link")).unwrap();
        let error = reset(&directory, Some(source.path())).unwrap_err();
        assert!(
            error
                .error
                .to_string()
                .contains("link is neither a regular file nor a directory"),
            "{error:?}"
        );
        assert!(directory.path().join("a").is_dir());
        reset(&directory, None).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_size_of_a_workspace_is_bounded() {
        let source = tempfile::tempdir().unwrap();
        fs::write(source.path().join("big"), [0; 10]).unwrap();
        let target = tempfile::tempdir().unwrap();
        let error = copy(
            source.path(),
            target.path(),
            4,
            &mut CopyLimits { files: 4, bytes: 9 },
        )
        .unwrap_err();
        assert!(error.contains("longer than 9 bytes"), "{error}");
        let error = copy(
            source.path(),
            target.path(),
            4,
            &mut CopyLimits { files: 0, bytes: 9 },
        )
        .unwrap_err();
        assert!(error.contains("files"), "{error}");
    }
}
