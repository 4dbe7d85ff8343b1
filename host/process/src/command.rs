//! One program to run, what it may reach, and what became of it.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Dropped, JobOwner, Kept, OpenPath, ProcessError};

/// The kernel takes no single argument or variable above this (`MAX_ARG_STRLEN`).
const MAX_STRING: usize = (128 << 10) - 1;
const MAX_ARGUMENTS: usize = 1 << 20;

#[derive(Debug, Clone)]
pub struct Command {
    /// A name to look up in [`crate::Settings::path`], or an absolute path; either has to be allowed.
    pub program: String,
    pub arguments: Vec<String>,
    pub cwd: OpenPath,
    /// Laid over what [`crate::Environment`] lets through.
    pub env: Vec<(String, String)>,
    pub input: Input,
    pub timeout: Option<Duration>,
    /// Ends the program when it has written nothing for so long.
    pub inactivity: Option<Duration>,
    /// A terminal of its own instead of pipes; both outputs then arrive as [`Stream::Stdout`].
    pub tty: bool,
    pub fence: Fence,
    /// What a foreground program leaves running.
    pub leftovers: Leftovers,
    pub owner: JobOwner,
    /// What a list of jobs shows.
    pub label: String,
}

impl Command {
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
            fence: Fence::default(),
            leftovers: Leftovers::End,
            owner: JobOwner::default(),
            label: program.to_owned(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ProcessError> {
        let what = "an argument";
        let mut total = 0;
        for text in std::iter::once(&self.program).chain(&self.arguments) {
            if text.contains('\0') {
                let value = text.clone();
                return Err(ProcessError::Malformed { what, value });
            }
            if text.len() > MAX_STRING {
                let (size, most) = (text.len(), MAX_STRING);
                return Err(ProcessError::TooLarge { what, size, most });
            }
            total += text.len() + 1;
        }
        if total > MAX_ARGUMENTS {
            return Err(ProcessError::TooLarge {
                what: "all arguments together",
                size: total,
                most: MAX_ARGUMENTS,
            });
        }
        Ok(())
    }
}

/// What a confined program may reach beside the system's own programs, libraries and settings, which it may read.
///
/// Where one of them lies in another, the inner one decides. In a directory above something that may only be read the
/// program can change what is there, and can make nothing new right beside it.
#[derive(Debug, Clone, Default)]
pub struct Fence {
    /// Read, list and execute; files or directories.
    pub read: Vec<OpenPath>,
    /// All of that, and change.
    pub write: Vec<OpenPath>,
    /// None of that, although it lies in what is granted; without links. In a directory that holds such a path the
    /// program can change what is there and make nothing new right beside it.
    pub except: Vec<PathBuf>,
    /// Internet sockets, to anywhere.
    pub network: bool,
    /// Local sockets: whoever may connect to one may ask other programs of this user (a container engine, a key
    /// agent) to do what the fence forbids.
    pub local_sockets: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Reads nothing, at once.
    Closed,
    /// Reads these bytes and then the end.
    Bytes(Vec<u8>),
    /// Reads what [`crate::Processes::write`] sends.
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftovers {
    /// Ended after [`crate::Settings::linger`].
    End,
    /// They go on as a background job of the session.
    Keep,
}

/// What somebody may want of a program that runs in the foreground.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// SIGTERM, and SIGKILL when the grace is over.
    End,
    /// It goes on as a job of its session, without a limit of time.
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
pub enum Exit {
    Code(i32),
    Signal(i32),
    TimedOut,
    Inactive,
    Cancelled,
    /// It wrote more than [`crate::Settings::max_output`].
    Flooded,
    /// It started more processes than [`crate::Limits::processes`].
    Crowded,
    /// It has not ended: somebody sent it to the background, where it runs on as [`Finished::job`].
    Backgrounded,
    /// The warden was lost, and with it how the program ended.
    Lost,
}

/// What became of a program that was run in the foreground.
#[derive(Debug, Clone)]
pub struct Finished {
    pub exit: Exit,
    pub stdout: Kept,
    pub stderr: Kept,
    /// Both, in the order in which they arrived; while a line of one is unfinished, the other waits for its end, at
    /// most [`crate::Settings::line_wait`].
    pub combined: Kept,
    pub pid: i32,
    /// The program leads a process group and a session of its own.
    pub pgid: i32,
    pub duration: Duration,
    /// The beginning of the output, up to [`crate::Settings::keep_output`]; there until the session ends.
    pub output_file: Option<PathBuf>,
    /// What the fence has probably stopped.
    pub hints: Vec<String>,
    /// Variables that were asked for and not given.
    pub dropped: Vec<Dropped>,
    /// Processes that outlived the program: ended by now, or with [`Leftovers::Keep`] running on as [`Self::job`].
    pub left: Vec<i32>,
    pub job: Option<u64>,
    /// Whether the kernel said that nothing of it runs any more.
    pub confirmed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Then, after [`crate::Settings::kill_grace`], SIGKILL.
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
    fn a_signal_is_named_in_any_usual_way() {
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
    fn arguments_are_bounded_and_hold_no_nul() {
        let with = |argument: String| Command {
            arguments: vec![argument],
            ..Command::new("true", &[], OpenPath::open("/".as_ref()).unwrap())
        };
        assert!(with("a b".to_owned()).check().is_ok());
        assert!(matches!(
            with("a\0b".to_owned()).check(),
            Err(ProcessError::Malformed { .. })
        ));
        assert!(matches!(
            with("x".repeat(200_000)).check(),
            Err(ProcessError::TooLarge { .. })
        ));
        let many = Command {
            arguments: vec!["x".repeat(100_000); 11],
            ..with(String::new())
        };
        assert!(matches!(many.check(), Err(ProcessError::TooLarge { .. })));
    }
}
