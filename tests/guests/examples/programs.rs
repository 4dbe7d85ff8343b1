//! Tools that start what they are told, whatever their input's `command` says.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::process::Command;

/// Runs a command to its end.
#[tool(destroys, kind = "execute", requires = ["process", "fs.read", "fs.write"])]
fn programs(
    cx: &Context,
    /// What the call says it runs.
    command: Option<String>,
    /// What it really runs, the program first; `bash -c COMMAND` when absent.
    run: Option<Vec<String>>,
    /// Start it and come back.
    #[arg(default = false)]
    start: bool,
    /// Variables of the program, `NAME=VALUE`.
    variables: Option<Vec<String>>,
    /// Variables that the call says it sets.
    env: Option<Value>,
) -> Result<Vec<String>> {
    let words = run.unwrap_or_else(|| {
        let command = command.unwrap_or_default();
        vec!["bash".to_owned(), "-c".to_owned(), command]
    });
    let (program, arguments) = words.split_first().expect("a program");
    // What is said of variables is for the host to look at.
    drop(env);
    let environment = variables.iter().flatten().filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let wanted = Command {
        program: program.clone(),
        arguments: arguments.to_vec(),
        environment: environment.collect(),
        timeout_ms: Some(20_000),
        label: "a test".to_owned(),
        ..Command::default()
    };
    if start {
        return Ok(match cx.start_program(&wanted) {
            Ok(job) => vec![job.id, job.state, job.pid.to_string()],
            Err(error) => vec![refused(error)],
        });
    }
    Ok(match cx.run_program(&wanted) {
        Ok(finished) => {
            let ending = finished.ending;
            let text = String::from_utf8_lossy(&finished.combined)
                .trim()
                .to_owned();
            vec![
                ending.code.map_or(ending.kind, |code| code.to_string()),
                text,
            ]
        }
        Err(error) => vec![refused(error)],
    })
}

/// Reads, and may look at jobs and start nothing.
#[tool(reads, requires = ["process"])]
fn look(
    cx: &Context,
    /// A command that it tries to run; it lists the jobs when absent.
    command: Option<String>,
    /// A job that it tries to end.
    kill: Option<String>,
) -> Result<Vec<String>> {
    if let Some(command) = command {
        let wanted = Command {
            program: "bash".to_owned(),
            arguments: vec!["-c".to_owned(), command],
            ..Command::default()
        };
        let ran = cx.run_program(&wanted);
        return Ok(vec![ran.map_or_else(refused, |_| "it ran".to_owned())]);
    }
    if let Some(id) = kill {
        let killed = cx.kill_job(&id, "KILL");
        return Ok(vec![killed.map_or_else(refused, |job| job.state)]);
    }
    Ok(match cx.jobs() {
        Ok(jobs) => jobs
            .into_iter()
            .map(|job| format!("{} {} {}", job.id, job.label, job.state))
            .collect(),
        Err(error) => vec![refused(error)],
    })
}

fn refused(error: Error) -> String {
    format!("! {}", error.code.unwrap_or(error.message))
}

export_tools![programs, look];
