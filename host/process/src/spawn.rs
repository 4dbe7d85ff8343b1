//! Starts a warden, sends it the launch request, and holds the host's ends of the pipes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream as Socket;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::launcher::WATCH;
use crate::wire::{
    self, Descriptors, LaunchFailure, LaunchRequest, LaunchStage, WardenCommand, WardenReport,
};
use crate::{Command, Input, Launcher, OpenPath, ProcessError};

/// How long to wait for the first report of a launcher. One that takes longer is not a launcher of this crate.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(30);
const CHUNK_SIZE: usize = 64 << 10;

/// The standard streams of a program.
pub struct ProgramStdio {
    pub stdout: Reader,
    pub stderr: Option<Reader>,
    pub stdin: Option<Writer>,
    program_ends: [OwnedFd; 3],
    /// Path of the terminal, if the streams are one.
    pub tty: Option<PathBuf>,
}

impl ProgramStdio {
    pub fn create(command: &Command) -> Result<ProgramStdio, ProcessError> {
        let made = if command.tty {
            ProgramStdio::terminal()
        } else {
            ProgramStdio::pipes(&command.input)
        };
        made.map_err(|source| ProcessError::Io {
            subject: if command.tty { "a terminal" } else { "pipes" },
            source,
        })
    }

    fn pipes(input: &Input) -> io::Result<ProgramStdio> {
        let (stdout, their_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let (their_stdin, stdin) = match input {
            Input::Closed => (OwnedFd::from(File::open("/dev/null")?), None),
            Input::Bytes(_) | Input::Open => {
                let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
                (theirs, Some(Writer::new(ours)?))
            }
        };
        Ok(ProgramStdio {
            stdout: Reader::new(stdout)?,
            stderr: Some(Reader::new(stderr)?),
            stdin,
            program_ends: [their_stdin, their_stdout, their_stderr],
            tty: None,
        })
    }

    fn terminal() -> io::Result<ProgramStdio> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?.into_bytes();
        let name = PathBuf::from(std::ffi::OsString::from_vec(name));
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(&name, flags, rustix::fs::Mode::empty())?;
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&slave, size)?;
        let another = || fcntl_dupfd_cloexec(&slave, 3);
        Ok(ProgramStdio {
            stdin: Some(Writer::new(fcntl_dupfd_cloexec(&master, 3)?)?),
            stdout: Reader::new(master)?,
            stderr: None,
            program_ends: [another()?, another()?, slave],
            tty: Some(name),
        })
    }
}

pub struct Reader {
    pipe: pipe::Receiver,
    buffer: Box<[u8]>,
}

impl Reader {
    /// Takes a pipe or a terminal. Only the host's end becomes non-blocking: the program's end has a separate state.
    fn new(fd: OwnedFd) -> io::Result<Reader> {
        set_nonblocking(&fd)?;
        Ok(Reader {
            // Unchecked, because a terminal is read like a pipe but is not one.
            pipe: pipe::Receiver::from_owned_fd_unchecked(fd)?,
            buffer: vec![0; CHUNK_SIZE].into_boxed_slice(),
        })
    }

    pub fn into_pipe(self) -> pipe::Receiver {
        self.pipe
    }

    /// The next bytes; empty at the end. Cancel safe.
    pub async fn next(&mut self) -> &[u8] {
        let count = loop {
            if self.pipe.readable().await.is_err() {
                break 0;
            }
            match self.pipe.try_read(&mut self.buffer) {
                Ok(count) => break count,
                Err(error) if is_transient(&error) => {}
                // A terminal whose last user has closed it returns an error.
                Err(_) => break 0,
            }
        };
        &self.buffer[..count]
    }
}

pub struct Writer {
    pipe: pipe::Sender,
}

impl Writer {
    fn new(fd: OwnedFd) -> io::Result<Writer> {
        set_nonblocking(&fd)?;
        let pipe = pipe::Sender::from_owned_fd_unchecked(fd)?;
        Ok(Writer { pipe })
    }

    pub fn into_pipe(self) -> pipe::Sender {
        self.pipe
    }

    /// Returns how many bytes were written; an error if the reading end is closed.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.pipe.writable().await?;
            match self.pipe.try_write(bytes) {
                Err(error) if is_transient(&error) => {}
                outcome => return outcome,
            }
        }
    }

    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.write(bytes).await?;
            bytes = &bytes[count..];
        }
        Ok(())
    }
}

fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// The host's connection to a warden. Dropping it makes the warden kill all remaining processes.
pub struct WardenConnection {
    socket: UnixStream,
    buffer: Vec<u8>,
    /// Never killed from here, because the processes it has adopted would remain.
    warden: tokio::process::Child,
}

impl WardenConnection {
    /// Returns the next report, or `None` if the warden is gone. Cancel safe.
    pub async fn next(&mut self) -> Option<WardenReport> {
        loop {
            match wire::take_frame(&mut self.buffer) {
                Ok(Some(report)) => return Some(report),
                Ok(None) => {}
                Err(_) => return None,
            }
            if !matches!(self.socket.read_buf(&mut self.buffer).await, Ok(1..)) {
                return None;
            }
        }
    }

    /// Waits for the warden to exit, which happens right after its last report. The runtime reaps one that takes
    /// longer.
    pub async fn close(mut self) {
        const MOMENT: Duration = Duration::from_secs(1);
        drop(self.socket);
        let _ = tokio::time::timeout(MOMENT, self.warden.wait()).await;
    }

    /// Sends a command. Errors are ignored: [`WardenConnection::next`] then returns `None`.
    pub async fn send(&mut self, demand: WardenCommand) {
        if let Ok(frame) = wire::encode_frame(&demand) {
            let _ = self.socket.write_all(&frame).await;
        }
    }
}

/// Starts the program and returns its process ID once it runs. Takes the program's ends out of `ends`.
pub async fn spawn(
    launcher: &Launcher,
    request: &LaunchRequest,
    (cwd, held): (&OpenPath, Vec<Arc<OwnedFd>>),
    ends: ProgramStdio,
) -> Result<
    (
        WardenConnection,
        i32,
        Reader,
        Option<Reader>,
        Option<Writer>,
    ),
    ProcessError,
> {
    let failed = |reason: String| ProcessError::Launcher {
        program: request.name.clone(),
        reason,
    };
    let ProgramStdio {
        stdout,
        stderr,
        stdin,
        program_ends: [their_stdin, their_stdout, their_stderr],
        tty: _,
    } = ends;
    let started = async {
        let (ours, theirs) = Socket::pair()?;
        let warden = tokio::process::Command::new(&launcher.program)
            .args(&launcher.args)
            .arg(WATCH)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(their_stdout))
            .stderr(Stdio::from(their_stderr))
            // An interrupt typed at the user's terminal is handled by the host, which ends its programs gracefully.
            .process_group(0)
            .spawn()?;
        let descriptors = Descriptors {
            stdin: their_stdin.as_fd(),
            cwd: cwd.as_fd(),
            held: held.iter().map(|fd| fd.as_fd()).collect(),
        };
        wire::send_descriptors(&ours, &descriptors)?;
        drop(their_stdin);
        ours.set_nonblocking(true)?;
        let mut line = WardenConnection {
            socket: UnixStream::from_std(ours)?,
            buffer: Vec::new(),
            warden,
        };
        line.socket.write_all(&wire::encode_frame(request)?).await?;
        io::Result::Ok((line.next().await, line))
    };
    let (report, line) = tokio::time::timeout(LAUNCH_TIMEOUT, started)
        .await
        .map_err(|_| {
            failed(format!(
                "it sent nothing for {} s",
                LAUNCH_TIMEOUT.as_secs()
            ))
        })?
        .map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::PIPE) => failed("it exited before it read the launch request".to_owned()),
            _ => failed(error.to_string()),
        })?;
    match report {
        Some(WardenReport::Started { pid }) => Ok((line, pid, stdout, stderr, stdin)),
        Some(WardenReport::Failed(failure)) => Err(launch_error(failure, request)),
        Some(other) => Err(failed(format!(
            "it sent {other:?} before it started the program"
        ))),
        None => Err(failed("it exited before it started the program".to_owned())),
    }
}

fn launch_error(failure: LaunchFailure, request: &LaunchRequest) -> ProcessError {
    let program = request.name.clone();
    let reason = failure.reason;
    match failure.stage {
        LaunchStage::Launch => ProcessError::Launcher { program, reason },
        LaunchStage::Confine => ProcessError::Unconfined { lacks: reason },
        LaunchStage::Directory => ProcessError::Directory {
            path: PathBuf::from("."),
            reason,
        },
        LaunchStage::Start => ProcessError::Start { program, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launch_failures_state_the_remedy() {
        let request = LaunchRequest {
            program: PathBuf::from("/bin/tool"),
            name: "tool".to_owned(),
            arguments: Vec::new(),
            variables: Vec::new(),
            limits: crate::ProcessLimits::default(),
            tty: false,
            sandbox_rules: None,
            sockets: wire::LaunchSockets::default(),
            launcher: Vec::new(),
        };
        for (stage, text) in [
            (LaunchStage::Launch, "the launcher of `tool` failed: why"),
            (LaunchStage::Directory, "cannot use directory .: why"),
            (
                LaunchStage::Confine,
                "the program was not started because it cannot be confined: why; only the operator can allow \
                 unconfined programs on this machine",
            ),
            (LaunchStage::Start, "cannot start `tool`: why"),
        ] {
            let reason = "why".to_owned();
            assert_eq!(
                launch_error(LaunchFailure { stage, reason }, &request).to_string(),
                text
            );
        }
    }
}
