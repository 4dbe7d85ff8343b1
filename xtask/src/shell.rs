//! Progress lines and child processes, with errors that name the failed command.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Prints a line about the step that starts.
pub fn progress(text: &str) {
    eprintln!("{text}");
}

/// Prints a line about a detail of a step.
pub fn note(text: &str) {
    eprintln!("      {text}");
}

/// Runs a command with inherited output.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| missing(command))?;
    if !status.success() {
        bail!(
            "`{}` failed ({status}), see its messages above",
            line(command)
        );
    }
    Ok(())
}

/// Runs a command and returns its output.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| missing(command))?;
    if !output.status.success() {
        bail!(
            "`{}` failed ({}), see its messages above",
            line(command),
            output.status
        );
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed no UTF-8", line(command)))
}

/// Runs a command silently for at most `limit`; the error contains the relevant line of its output.
pub fn run_within(limit: Duration, command: &mut Command) -> Result<()> {
    // A file instead of a pipe, which would have to be drained while waiting.
    let mut output = tempfile::tempfile().context("make a temporary file")?;
    command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?);
    let Some(status) = wait_within(limit, command)? else {
        bail!(
            "`{}` was stopped after {} s",
            line(command),
            limit.as_secs()
        );
    };
    if !status.success() {
        bail!(
            "`{}` failed: {}",
            line(command),
            relevant_line(&read_all(&mut output)?)
        );
    }
    Ok(())
}

/// Runs a command for at most `limit`, then kills it with the processes that it started and returns `None`.
pub fn wait_within(limit: Duration, command: &mut Command) -> Result<Option<ExitStatus>> {
    let mut child = command
        .process_group(0)
        .spawn()
        .with_context(|| missing(command))?;
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > limit {
            kill_group(&mut child)?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Kills a process group by its first process. The standard library can only kill that process.
fn kill_group(leader: &mut Child) -> Result<()> {
    let kill = format!("kill -s KILL -- -{}", leader.id());
    // It fails if the group has just ended.
    Command::new("sh")
        .args(["-c", &kill])
        .stderr(Stdio::null())
        .status()?;
    leader.wait()?;
    Ok(())
}

/// The command line, with the program's file name.
pub fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let arguments = std::iter::once(name).chain(command.get_args());
    arguments
        .map(|argument| argument.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn missing(command: &Command) -> String {
    format!("cannot start `{}`", command.get_program().display())
}

fn read_all(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The first line that contains an error, else the last line.
fn relevant_line(output: &str) -> &str {
    let mut lines = output
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    lines
        .clone()
        .find(|line| line.starts_with("error") || line.starts_with("E: "))
        .or_else(|| lines.next_back())
        .unwrap_or("no output")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, expected: &str) {
        assert_eq!(relevant_line(output), expected);
    }

    #[test]
    fn the_first_error_is_the_complaint() {
        check(
            "info: trying\nerror: no route\nerror: giving up\n",
            "error: no route",
        );
        check("Err:1 mirror\nE: not found\n", "E: not found");
    }

    #[test]
    fn without_an_error_the_last_line_is() {
        check("one\ntwo\n\n", "two");
        check("", "no output");
    }

    #[test]
    fn what_a_command_started_ends_with_it_at_the_limit() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo started; wait"]);
        command.stdout(writer);
        let started = Instant::now();
        let ended = wait_within(Duration::from_secs(1), &mut command).unwrap();
        assert!(ended.is_none());
        drop(command);
        // The pipe ends with the last process that has it.
        reader.read_to_end(&mut Vec::new()).unwrap();
        assert!(started.elapsed() < Duration::from_mins(5));
    }

    #[test]
    fn a_failing_command_is_named_with_its_words() {
        let error =
            run_within(Duration::from_mins(1), Command::new("false").arg("really")).unwrap_err();
        assert_eq!(error.to_string(), "`false really` failed: no output");
    }
}
