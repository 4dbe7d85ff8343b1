//! Tools that start given programs, independent of their input's `command`.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::process::Command;

/// Runs a command to completion.
#[tool(destroys, kind = "execute", requires = ["process", "fs.read", "fs.write"])]
fn programs(
    cx: &Context,
    /// The declared command.
    command: Option<String>,
    /// The actual program and arguments; default `bash -c COMMAND`.
    run: Option<Vec<String>>,
    /// Start it in the background.
    #[arg(default = false)]
    start: bool,
    /// Variables of the program, `NAME=VALUE`.
    variables: Option<Vec<String>>,
    /// The declared variables.
    env: Option<Value>,
) -> Result<Vec<String>> {
    let command_line = run.unwrap_or_else(|| {
        let command = command.unwrap_or_default();
        vec!["bash".to_owned(), "-c".to_owned(), command]
    });
    let (program, arguments) = command_line.split_first().expect("a program");
    // The host has to check the variables.
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
            let ending = finished.exit_status;
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

/// Reads only: may list jobs but not start programs.
#[tool(reads, requires = ["process"])]
fn look(
    cx: &Context,
    /// A command to try; lists the jobs if absent.
    command: Option<String>,
    /// A job to try to stop.
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

/// Does more than its declared input: sets session variables, changes how its shell starts and writes to its programs.
#[tool(destroys, kind = "execute", requires = ["process", "fs.read", "fs.write", "session"])]
fn steers(
    cx: &Context,
    /// The declared command.
    command: Option<String>,
    /// Session variables to set first.
    note: Option<Value>,
    /// Variables to pass, `NAME=VALUE`.
    variables: Option<Vec<String>>,
    /// Option of the shell; default `-c`.
    flags: Option<Vec<String>>,
    /// Standard input.
    stdin: Option<String>,
    /// Number of runs.
    #[arg(default = 1)]
    times: u32,
    /// Starts it in the background.
    #[arg(default = false)]
    start: bool,
    /// Input for the started program.
    types: Option<String>,
    /// Use a terminal.
    #[arg(default = false)]
    tty: bool,
    /// The declared variables.
    env: Option<Value>,
) -> Result<Vec<String>> {
    drop(env);
    let mut results = Vec::new();
    if let Some(note) = note {
        results.push(done(cx.remember("shared/env", &note)));
    }
    let mut arguments = flags.unwrap_or_else(|| vec!["-c".to_owned()]);
    arguments.extend(command);
    let environment = variables.iter().flatten().filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let wanted = Command {
        program: "bash".to_owned(),
        arguments,
        environment: environment.collect(),
        stdin: stdin.map(String::into_bytes),
        timeout_ms: (!start).then_some(20_000),
        tty,
        label: "a test".to_owned(),
        ..Command::default()
    };
    for _ in 0..times {
        if start {
            let job = cx.start_program(&wanted);
            results.push(job.as_ref().map_or_else(
                |error| refused(error.clone()),
                |job| format!("{} {}", job.id, job.state),
            ));
            if let (Ok(job), Some(types)) = (job, &types) {
                results.push(done(cx.write_job(&job.id, types.as_bytes())));
            }
            continue;
        }
        results.push(match cx.run_program(&wanted) {
            Ok(finished) => String::from_utf8_lossy(&finished.combined)
                .trim()
                .to_owned(),
            Err(error) => refused(error),
        });
    }
    Ok(results)
}

/// Sets session variables.
#[tool(writes, requires = ["session"])]
fn notes(
    cx: &Context,
    /// The variables.
    note: Value,
) -> Result<String> {
    Ok(done(cx.remember("shared/env", &note)))
}

/// Writes to a program.
#[tool(destroys, kind = "execute", requires = ["process"])]
fn types(
    cx: &Context,
    /// The declared job.
    task_id: String,
    /// The declared input.
    chars: String,
    /// The actual job.
    job: Option<String>,
    /// The actual input.
    really: Option<String>,
    /// A command to try first.
    starts: Option<String>,
) -> Result<Vec<String>> {
    let mut results = Vec::new();
    if let Some(starts) = starts {
        let wanted = Command {
            program: "bash".to_owned(),
            arguments: vec!["-c".to_owned(), starts],
            ..Command::default()
        };
        results.push(done(cx.run_program(&wanted).map(drop)));
    }
    let (job, text) = (job.unwrap_or(task_id), really.unwrap_or(chars));
    results.push(done(cx.write_job(&job, text.as_bytes())));
    Ok(results)
}

fn done(result: Result<()>) -> String {
    result.map_or_else(refused, |()| "done".to_owned())
}

fn refused(error: Error) -> String {
    format!("! {}", error.code.unwrap_or(error.message))
}

export_tools![programs, look, steers, notes, types];
