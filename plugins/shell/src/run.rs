//! `shell`: runs a shell command in the host's sandbox.

use std::collections::BTreeMap;
use std::time::Duration;

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::process::Command;

use crate::background::{Origin, answer_background, moved_job};
use crate::command_result::{CommandResult, answer};
use crate::output_reader::bounded;
use crate::show::label;

/// The kernel's limit of an argument.
const MOST_COMMAND_BYTES: usize = (128 << 10) - 1;
const MOST_VARIABLES: usize = 64;
/// In order of preference; both interpret nearly all commands the same way.
const SHELLS: [&str; 2] = ["bash", "sh"];

/// Run a shell command (bash, else sh) in a sandbox: only workspace files are writable, and usually there is no
/// network. `cd` and variables do not persist; there is no input, so pass options such as `-y`. Long output is cut in
/// the middle and saved to a file. Prefer read_file, grep, glob and edit_file to cat, grep, find and sed.
#[tool(
    destroys,
    background,
    streams,
    plain_text,
    requires = ["process", "fs.read", "fs.write", "session"],
    category = "system",
    kind = "execute",
    icon = "terminal",
    timeout = "10m",
    aliases = ["bash", "run_shell_command", "bash_run", "shell_exec", "exec_command"],
    tags = ["command", "terminal", "program", "run", "build", "test", "git"],
    output = CommandResult,
    example(description = "Run the tests with a limit of five minutes", input = r#"{"command": "cargo test --quiet", "timeout_ms": 300000, "description": "Run the tests"}"#),
    example(description = "Start a server and read its first second of output", input = r#"{"command": "npm run dev", "cwd": "web", "run_in_background": true, "delay_ms": 1000}"#),
)]
pub fn shell(
    cx: &Context,
    /// Quote paths with spaces.
    #[arg(min_len = 1, max_len = 131_071, aliases = ["cmd"])]
    command: String,
    /// Purpose in 5 to 10 words, for the user.
    #[arg(max_len = 1000)]
    description: Option<String>,
    /// Default: the first workspace directory.
    #[arg(min_len = 1, max_len = 4096, aliases = ["dir_path", "workdir", "directory"])]
    cwd: Option<String>,
    /// Time limit; none in the background.
    #[arg(default = 120_000, min = 1, max = 600_000, aliases = ["timeout"])]
    timeout_ms: u32,
    /// Longest time without output; none in the background.
    #[arg(default = 300_000, min = 1, max = 600_000)]
    inactivity_timeout_ms: u32,
    /// For servers, watchers and long builds: returns a `task_id` for shell_output, shell_input and shell_kill. Ends
    /// with the session.
    #[arg(default = false, aliases = ["background", "is_background"])]
    run_in_background: bool,
    /// In the background: wait for output, 200 ms by default.
    #[arg(max = 60_000)]
    delay_ms: Option<u32>,
    /// Variables for this command, in addition to set_env.
    env: Option<BTreeMap<String, String>>,
    /// Run in a terminal, with stdout and stderr combined; needed for shell_input.
    #[arg(default = false)]
    tty: bool,
    /// Read profile files.
    #[arg(default = false)]
    login: bool,
    /// Maximum output.
    #[arg(default = 30_000, min = 1000, max = 100_000)]
    max_output_chars: usize,
    /// Reason, for the user.
    #[arg(max_len = 2000)]
    justification: Option<String>,
) -> Result<Outcome> {
    // Only for the user; the host shows them with the input.
    drop((description, justification));
    let env = env.unwrap_or_default();
    check(&command, cwd.as_deref(), &env)?;
    let mut program = Command {
        arguments: vec![
            (if login { "-lc" } else { "-c" }).to_owned(),
            command.clone(),
        ],
        // The host adds the session's variables as of authorization.
        environment: env.into_iter().collect(),
        tty,
        label: label(&command),
        cwd,
        ..Command::default()
    };
    if run_in_background {
        let job = with_a_shell(&mut program, |program| cx.start_program(program))?;
        let delay_ms = delay_ms.unwrap_or(200);
        let origin = Origin::Started { delay_ms };
        return answer_background(cx, job, origin, &program, max_output_chars);
    }
    // Must end before the host's timeout of the call, which would discard the output.
    let timeout = bounded(cx, timeout_ms).max(Duration::from_millis(1));
    let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(timeout_ms);
    program.timeout_ms = Some(timeout_ms);
    program.inactivity_timeout_ms = Some(inactivity_timeout_ms);
    let finished = with_a_shell(&mut program, |program| cx.run_program(program))?;
    if let Some(job) = moved_job(cx, &finished)? {
        return answer_background(cx, job, Origin::Moved, &program, max_output_chars);
    }
    Ok(answer(cx, &finished, &program, max_output_chars))
}

fn check(command: &str, cwd: Option<&str>, env: &BTreeMap<String, String>) -> Result<()> {
    if command.trim().is_empty() {
        let message = "`command` is blank; pass the command to run";
        return Err(Error::invalid_input(message).code("invalid_command"));
    }
    if let Some(at) = command.find('\0') {
        let message = format!(
            "`command` has a NUL at byte {at}, where a shell would stop; write `\\0` for printf"
        );
        return Err(Error::invalid_input(message).code("invalid_command"));
    }
    if command.len() > MOST_COMMAND_BYTES {
        let message = format!(
            "`command` has {} bytes; the limit is {MOST_COMMAND_BYTES}",
            command.len()
        );
        return Err(Error::invalid_input(message)
            .code("invalid_command")
            .recommend("write the text to a file with write_file and run that"));
    }
    if cwd.is_some_and(|cwd| cwd.trim().is_empty()) {
        let message = "`cwd` is empty; omit it to run in the first workspace directory";
        return Err(Error::invalid_input(message).code("invalid_path"));
    }
    if env.len() > MOST_VARIABLES {
        let message = format!(
            "`env` has {} variables; the limit is {MOST_VARIABLES}, write the others to a file",
            env.len()
        );
        return Err(Error::invalid_input(message).code("invalid_environment"));
    }
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let message = format!(
                "{name:?} is not a valid variable of `env`: a name must not contain `=`, and neither name nor value NUL"
            );
            return Err(Error::invalid_input(message).code("invalid_environment"));
        }
    }
    Ok(())
}

/// Runs the command with the first available shell. Only the shell's name changes between attempts, never the command
/// that the user has seen.
fn with_a_shell<T>(
    program: &mut Command,
    mut start: impl FnMut(&Command) -> Result<T>,
) -> Result<T> {
    let mut refusals = Vec::new();
    for shell in SHELLS {
        shell.clone_into(&mut program.program);
        match start(program) {
            Err(error) if is_missing(&error) => refusals.push(error),
            result => return result,
        }
    }
    let first = refusals.swap_remove(0);
    Err(Error {
        recommendations: vec![
            "ask the user to allow the program `bash` or `sh` for this host".to_owned(),
            "read, search and change files with read_file, grep, glob and edit_file, which need no program"
                .to_owned(),
        ],
        message: format!("neither bash nor sh can be run here: {}", first.message),
        ..first
    })
}

fn is_missing(error: &Error) -> bool {
    matches!(
        error.code.as_deref(),
        Some("program_not_allowed" | "program_not_found")
    )
}

#[cfg(test)]
mod tests;
