//! Results of completed commands.

use std::fmt::Write as _;

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::process::{Command, ExitStatus, RunOutput};
use toolhost_sdk::text::escape;

use crate::output::{OutputText, RawOutput, share};
use crate::show::{field, omission_note};

/// Result of a command.
#[data]
pub struct CommandResult {
    /// Standard output as shown: no colours, repeated lines folded, cut.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// Exit code; absent if it was killed or is running.
    #[arg(rename = "exitCode")]
    pub exit_code: Option<i32>,
    /// Signal that ended it, such as `KILL`.
    pub signal: Option<String>,
    /// It was killed at a time limit.
    pub timed_out: bool,
    /// It was started in the background or moved there.
    pub background: bool,
    /// Id for shell_output, shell_input and shell_kill.
    pub task_id: Option<String>,
    /// Process id.
    pub pid: u32,
    /// Process group id.
    pub pgid: u32,
    /// `running` or `ended`.
    pub status: String,
    /// Duration in milliseconds.
    pub duration_ms: f64,
    /// Working directory.
    pub cwd: String,
    /// File with the complete output.
    pub output_file: Option<String>,
    /// The output was cut.
    pub truncated: bool,
}

/// The working directory of a command.
pub fn directory(cx: &Context, program: &Command) -> String {
    let first = || cx.roots().first().map(|root| root.path.clone());
    program.cwd.clone().or_else(first).unwrap_or_default()
}

pub fn answer(cx: &Context, finished: &RunOutput, program: &Command, most: usize) -> Outcome {
    let stdout = OutputText::of(RawOutput {
        bytes: &finished.stdout,
        total: finished.stdout_total,
    });
    let stderr = OutputText::of(RawOutput {
        bytes: &finished.stderr,
        total: finished.stderr_total,
    });
    // The file contains both streams interleaved; line numbers are meaningful only if there is just one.
    let alone = finished.stdout_total == 0 || finished.stderr_total == 0;
    let file = finished.output_file.as_deref();
    let (out, err) = share(most, stdout.characters(), stderr.characters());
    let stdout = stdout.fit(out, |left| omission_note(left, file, alone));
    let stderr = stderr.fit(err, |left| omission_note(left, file, alone));
    let ending = &finished.exit_status;
    let error = failure(ending, program);

    let mut text = field("Output", "stdout", &stdout.text);
    if !stderr.text.trim().is_empty() {
        text += &field("Error", "stderr", &stderr.text);
    }
    text += &how_it_ended(ending, error.as_ref());
    if finished.pid != 0 {
        _ = writeln!(text, "Process Group: {}", finished.pid);
    }
    text += &hints(&finished.hints);

    let answer = CommandResult {
        exit_code: code(ending),
        signal: ending.signal.clone(),
        timed_out: is_timeout(ending),
        background: false,
        task_id: None,
        pid: finished.pid,
        // The host makes each command the leader of its own process group.
        pgid: finished.pid,
        status: "ended".to_owned(),
        duration_ms: ending.duration_ms.round(),
        cwd: directory(cx, program),
        output_file: finished.output_file.clone(),
        truncated: stdout.cut || stderr.cut,
        stdout: stdout.text,
        stderr: stderr.text,
    };
    let mut outcome = Outcome::text(text).structured(&answer).summary(format!(
        "{}: {}",
        program.label,
        crate::show::ending(ending)
    ));
    if answer.truncated {
        let shown = answer.stdout.len() + answer.stderr.len();
        outcome = outcome.truncated(finished.stdout_total + finished.stderr_total, shown as u64);
        if let Some(truncated) = &mut outcome.truncated {
            truncated.saved_to.clone_from(&finished.output_file);
        }
    }
    outcome.error = error.or(outcome.error);
    outcome
}

/// A killed process has no exit code.
pub fn code(ending: &ExitStatus) -> Option<i32> {
    ending.code.filter(|_| ending.kind == "exited")
}

pub fn is_timeout(ending: &ExitStatus) -> bool {
    matches!(ending.kind.as_str(), "timed-out" | "idle-timeout")
}

/// The error of a command that ran and did not succeed.
pub fn failure(ending: &ExitStatus, program: &Command) -> Option<Error> {
    let limit = |limit: Option<u32>| limit.map_or(ending.duration_ms.round(), f64::from);
    Some(match (ending.kind.as_str(), ending.code) {
        ("exited", Some(0)) => return None,
        ("exited", Some(code)) => {
            Error::failed(format!("the command ended with exit code {code}")).code("command_failed")
        }
        ("timed-out", _) => Error::interrupted(format!(
            "timed out after {} ms; process killed",
            limit(program.timeout_ms)
        ))
        .code("timeout")
        .recommend("raise `timeout_ms`, up to 600000 and the operator's limit")
        .recommend("set `run_in_background` and read its output with shell_output"),
        ("idle-timeout", _) => Error::interrupted(format!(
            "no output for {} ms; process killed",
            limit(program.inactivity_timeout_ms)
        ))
        .code("inactivity_timeout")
        .recommend("if it waits for input, pass the input as an option or through a pipe")
        .recommend("if it is only slow, raise `inactivity_timeout_ms` or set `run_in_background`"),
        ("output-limit", _) => Error::failed("output exceeded the host's limit; process killed")
            .code("output_limit")
            .recommend(
                "write to a workspace file or reduce the output: `--quiet`, `| head`, `| grep`",
            ),
        ("cancelled", _) => {
            Error::interrupted("the call was cancelled; process killed").code("cancelled")
        }
        _ => Error::failed(format!(
            "the command did not exit: {}",
            crate::show::ending(ending)
        ))
        .code("command_killed"),
    })
}

/// The fields that state how the command ended; nothing on success.
pub fn how_it_ended(ending: &ExitStatus, error: Option<&Error>) -> String {
    let mut text = String::new();
    match (ending.kind.as_str(), code(ending)) {
        ("exited", Some(0)) => {}
        ("exited", Some(code)) => _ = writeln!(text, "Exit Code: {code}"),
        (_, _) => {
            let why = error.map(|error| &*error.message);
            _ = writeln!(text, "Ended: {}", why.unwrap_or(&ending.kind));
        }
    }
    if let Some(signal) = &ending.signal {
        _ = writeln!(text, "Signal: {}", escape(signal, 20));
    }
    text
}

/// What the sandbox probably blocked: the program's own error messages do not mention it.
pub fn hints(hints: &[String]) -> String {
    let mut text = String::new();
    let mut stopped = false;
    for hint in hints {
        if let Some(background) = hint.strip_prefix("background: ") {
            _ = writeln!(text, "Background: {background}");
        } else {
            stopped = true;
            _ = writeln!(text, "Sandbox: may have blocked this command. {hint}");
        }
    }
    if stopped {
        text += "To allow more: use request_permissions, or ask the user to configure the host.\n";
    }
    text
}
