//! A command to run, what it may access, and its result.

use std::path::PathBuf;
use std::time::Duration;

use crate::{CapturedOutput, DroppedVariable, JobOwner, OpenPath, ProcessError};

/// The kernel's maximum size of a single argument or variable (`MAX_ARG_STRLEN`).
const MAX_STRING: usize = (128 << 10) - 1;
const MAX_ARGUMENTS: usize = 1 << 20;

#[derive(Debug, Clone)]
pub struct Command {
    /// A name to look up in [`crate::ProcessSettings::path`], or an absolute path. Either must be allowed.
    pub program: String,
    pub arguments: Vec<String>,
    pub cwd: OpenPath,
    /// Variables that are added to those from [`crate::Environment`], and override them.
    pub env: Vec<(String, String)>,
    pub input: Input,
    pub timeout: Option<Duration>,
    /// Ends the program when it has written nothing for this long.
    pub inactivity: Option<Duration>,
    /// Whether to run on a new terminal instead of pipes. Both outputs then arrive as [`Stream::Stdout`].
    pub tty: bool,
    pub sandbox: SandboxPermissions,
    /// What to do with processes that a foreground program leaves running.
    pub leftovers: LeftoverProcesses,
    pub owner: JobOwner,
    /// Label in the list of jobs.
    pub label: String,
}

impl Command {
    /// Returns the program and its arguments.
    pub(crate) fn command_line(&self) -> Vec<String> {
        std::iter::once(&self.program)
            .chain(&self.arguments)
            .cloned()
            .collect()
    }

    pub fn new(program: &str, arguments: &[&str], cwd: OpenPath) -> Command {
        Command {
            program: program.to_owned(),
            arguments: arguments.iter().map(|&text| text.to_owned()).collect(),
            cwd,
            env: Vec::new(),
            input: Input::Closed,
            timeout: None,
            inactivity: None,
            tty: false,
            sandbox: SandboxPermissions::default(),
            leftovers: LeftoverProcesses::End,
            owner: JobOwner::default(),
            label: program.to_owned(),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ProcessError> {
        let subject = "an argument";
        let mut total = 0;
        for text in std::iter::once(&self.program).chain(&self.arguments) {
            if text.contains('\0') {
                let value = text.clone();
                return Err(ProcessError::Malformed { subject, value });
            }
            if text.len() > MAX_STRING {
                let (size, most) = (text.len(), MAX_STRING);
                return Err(ProcessError::TooLarge {
                    subject,
                    size,
                    most,
                });
            }
            total += text.len() + 1;
        }
        if total > MAX_ARGUMENTS {
            return Err(ProcessError::TooLarge {
                subject: "all arguments together",
                size: total,
                most: MAX_ARGUMENTS,
            });
        }
        Ok(())
    }
}

/// What a confined program may access in addition to the system's programs, libraries and settings, which are readable.
///
/// If one path contains another, the rule of the inner one applies. In a directory that contains a read-only path, the
/// program can change existing entries but cannot create entries directly in it.
#[derive(Debug, Clone, Default)]
pub struct SandboxPermissions {
    /// Files or directories that can be read, listed and executed.
    pub read: Vec<OpenPath>,
    /// Files or directories that can also be changed.
    pub write: Vec<OpenPath>,
    /// Paths inside granted directories that are not granted; without symbolic links. In a directory that contains such
    /// a path, the program can change existing entries but cannot create entries directly in it.
    pub except: Vec<PathBuf>,
    /// Internet sockets, to any address.
    pub network: bool,
    /// Local sockets. A program that can connect to one can ask other programs of this user (a container engine, a key
    /// agent) to do what the sandbox forbids.
    pub local_sockets: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Standard input is empty.
    Closed,
    /// Standard input contains these bytes.
    Bytes(Vec<u8>),
    /// Standard input receives what [`crate::Processes::write`] sends.
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftoverProcesses {
    /// Terminate them after [`crate::ProcessSettings::linger`].
    End,
    /// Let them continue as a background job of the session.
    Keep,
}

/// How to stop waiting for a program that runs in the foreground.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopAction {
    /// SIGTERM, then SIGKILL after the grace period.
    End,
    /// Let the program continue as a job of its session, without a timeout.
    Background,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub(crate) fn other(self) -> Stream {
        match self {
            Stream::Stdout => Stream::Stderr,
            Stream::Stderr => Stream::Stdout,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    Code(i32),
    Signal(i32),
    TimedOut,
    Inactive,
    Cancelled,
    /// The program wrote more than [`crate::ProcessSettings::max_output`].
    TooMuchOutput,
    /// The program started more processes than [`crate::ProcessLimits::processes`].
    TooManyProcesses,
    /// The program is still running: it was sent to the background, as [`Finished::job`].
    Backgrounded,
    /// The warden was lost, so it is unknown how the program ended.
    Lost,
}

/// The result of a program that ran in the foreground.
#[derive(Debug, Clone)]
pub struct RunResult {
    pub exit: ExitReason,
    pub stdout: CapturedOutput,
    pub stderr: CapturedOutput,
    /// Both streams in order of arrival. While a line of one stream is unfinished, the other one waits for its end, at
    /// most [`crate::ProcessSettings::line_wait`].
    pub combined: CapturedOutput,
    pub pid: i32,
    /// The program leads its own process group and session.
    pub pgid: i32,
    pub duration: Duration,
    /// A file with the beginning of the output, up to [`crate::ProcessSettings::keep_output`] bytes. It exists until
    /// the session ends.
    pub output_file: Option<PathBuf>,
    /// Hints about what the sandbox has probably blocked.
    pub hints: Vec<String>,
    /// Variables that were requested but not passed.
    pub dropped: Vec<DroppedVariable>,
    /// Processes that outlived the program. They have been ended, or with [`LeftoverProcesses::Keep`] continue as
    /// [`Self::job`].
    pub leftover_pids: Vec<i32>,
    pub job: Option<u64>,
    /// Whether the warden confirmed that no process of the program is running.
    pub is_confirmed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, then SIGKILL after [`crate::ProcessSettings::kill_grace`].
    Term,
    Kill,
    Int,
    Hup,
    Quit,
    Usr1,
    Usr2,
    Stop,
    Cont,
}

impl Signal {
    const ALL: [(&'static str, Signal, i32); 9] = [
        ("TERM", Signal::Term, libc::SIGTERM),
        ("KILL", Signal::Kill, libc::SIGKILL),
        ("INT", Signal::Int, libc::SIGINT),
        ("HUP", Signal::Hup, libc::SIGHUP),
        ("QUIT", Signal::Quit, libc::SIGQUIT),
        ("USR1", Signal::Usr1, libc::SIGUSR1),
        ("USR2", Signal::Usr2, libc::SIGUSR2),
        ("STOP", Signal::Stop, libc::SIGSTOP),
        ("CONT", Signal::Cont, libc::SIGCONT),
    ];

    /// `TERM`, `SIGTERM`, `sigterm` or `15`.
    pub fn parse(text: &str) -> Option<Signal> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        Signal::ALL
            .iter()
            .find(|(known, _, number)| *known == name || number.to_string() == name)
            .map(|&(_, signal, _)| signal)
    }

    pub(crate) fn number(self) -> i32 {
        let found = Signal::ALL.iter().find(|(_, signal, _)| *signal == self);
        found.map_or(libc::SIGTERM, |&(_, _, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_parsed_by_name_and_number() {
        for (text, signal) in [
            ("TERM", Some(Signal::Term)),
            ("SIGKILL", Some(Signal::Kill)),
            ("sigint", Some(Signal::Int)),
            ("1", Some(Signal::Hup)),
            ("SEGV", None),
            ("", None),
            ("0", None),
        ] {
            assert_eq!(Signal::parse(text), signal, "{text}");
        }
        assert_eq!(Signal::Usr1.number(), libc::SIGUSR1);
    }

    #[test]
    fn arguments_are_bounded_and_contain_no_nul() {
        let with = |argument: String| Command {
            arguments: vec![argument],
            ..Command::new("true", &[], OpenPath::open("/".as_ref()).unwrap())
        };
        assert!(with("a b".to_owned()).validate().is_ok());
        assert!(matches!(
            with("a\0b".to_owned()).validate(),
            Err(ProcessError::Malformed { .. })
        ));
        assert!(matches!(
            with("x".repeat(200_000)).validate(),
            Err(ProcessError::TooLarge { .. })
        ));
        let many = Command {
            arguments: vec!["x".repeat(100_000); 11],
            ..with(String::new())
        };
        assert!(matches!(
            many.validate(),
            Err(ProcessError::TooLarge { .. })
        ));
    }
}
