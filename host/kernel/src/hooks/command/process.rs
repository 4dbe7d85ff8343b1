//! Running one child process with bounded output, and killing its process group at the end.

use std::io;
use std::os::fd::AsFd;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{SignalKind, signal};

/// Default limit for standard output, in bytes.
pub const MAX_STDOUT: usize = 64 << 10;
/// Number of bytes at the end of standard error that are kept.
pub(super) const MAX_STDERR: usize = 16 << 10;
const CHUNK: usize = 16 << 10;
/// Maximum number of chunks left in a pipe: it holds 1 MiB at most, unless an administrator raises the limit.
const MAX_DRAIN_CHUNKS: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("cannot be started: {0}; check that the program exists and is executable")]
    Start(io::Error),
    #[error(
        "wrote more than {0} bytes to standard output; write one JSON object, and log to standard error"
    )]
    TooMuch(usize),
    #[error("cannot be waited for: {0}")]
    Wait(io::Error),
    #[error("cannot be read from: {0}")]
    Read(io::Error),
}

#[derive(Debug)]
pub struct ProcessOutput {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// The end of standard error.
    pub stderr: Vec<u8>,
}

/// Writes the input and waits for the process to exit. Does not wait for its output to be closed, because a remaining
/// child may hold it open. Dropping the future kills the process group.
pub async fn run(
    mut command: Command,
    input: &[u8],
    max_stdout: usize,
) -> Result<ProcessOutput, ProcessError> {
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(ProcessError::Start)?;
    let mut running = RunningProcess::new(child);
    let stdin = running.child.stdin.take();
    let stdout = running.child.stdout.take().expect("it was piped");
    let stderr = running.child.stderr.take().expect("it was piped");
    let mut stdout = Pipe::new(stdout, max_stdout, Overflow::Reject);
    let mut stderr = Pipe::new(stderr, MAX_STDERR, Overflow::KeepTail);
    let pumps = async {
        match tokio::try_join!(write_input(stdin, input), stdout.pump(), stderr.pump()) {
            Ok(_) => std::future::pending().await,
            Err(error) => error,
        }
    };
    tokio::select! {
        ended = running.ended() => ended.map_err(ProcessError::Wait)?,
        error = pumps => return Err(error),
    }
    let status = running.reap().await.map_err(ProcessError::Wait)?;
    stdout.drain()?;
    stderr.drain()?;
    Ok(ProcessOutput {
        status,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
    })
}

/// Writes the input. A process may ignore it, so a broken pipe is not an error.
async fn write_input(stdin: Option<ChildStdin>, input: &[u8]) -> Result<(), ProcessError> {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
    }
    Ok(())
}

struct RunningProcess {
    child: Child,
    /// `None` once the group has been killed.
    group: Option<Pid>,
}

impl RunningProcess {
    fn new(child: Child) -> Self {
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        Self { child, group }
    }

    /// Waits until the process is dead without reaping it. Until it is reaped its id cannot be reused, so killing the
    /// group with that id is safe.
    async fn ended(&self) -> io::Result<()> {
        let Some(pid) = self.group else {
            return Ok(());
        };
        // Listen before checking, so that an exit between the two is not missed.
        let mut ends = signal(SignalKind::child())?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(pid), options)?.is_none() {
            ends.recv().await;
        }
        Ok(())
    }

    async fn reap(&mut self) -> io::Result<ExitStatus> {
        self.kill_group();
        self.child.wait().await
    }

    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            // Fails if no process is left in the group.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for RunningProcess {
    // Runs before `child` is dropped, and therefore before the process can be reaped.
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// How bytes over the limit are handled.
enum Overflow {
    Reject,
    KeepTail,
}

struct Pipe<R> {
    from: R,
    bytes: Vec<u8>,
    max: usize,
    beyond: Overflow,
}

impl<R: AsyncRead + AsFd + Unpin> Pipe<R> {
    fn new(from: R, max: usize, beyond: Overflow) -> Self {
        Self {
            from,
            bytes: Vec::new(),
            max,
            beyond,
        }
    }

    /// Reads until the other side closes. Cancel safe: bytes that were read are kept.
    async fn pump(&mut self) -> Result<(), ProcessError> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = self.from.read(&mut chunk).await;
            match count.map_err(ProcessError::Read)? {
                0 => return Ok(()),
                count => self.keep(&chunk[..count])?,
            }
        }
    }

    /// Reads what is in the pipe without waiting for more.
    fn drain(&mut self) -> Result<(), ProcessError> {
        let mut chunk = vec![0; CHUNK];
        for _ in 0..MAX_DRAIN_CHUNKS {
            match rustix::io::read(self.from.as_fd(), &mut chunk) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => break,
                Ok(count) => self.keep(&chunk[..count])?,
                Err(error) => return Err(ProcessError::Read(error.into())),
            }
        }
        Ok(())
    }

    fn keep(&mut self, chunk: &[u8]) -> Result<(), ProcessError> {
        self.bytes.extend_from_slice(chunk);
        let over = self.bytes.len().saturating_sub(self.max);
        match self.beyond {
            Overflow::Reject if over > 0 => return Err(ProcessError::TooMuch(self.max)),
            Overflow::Reject => {}
            Overflow::KeepTail => drop(self.bytes.drain(..over)),
        }
        Ok(())
    }
}
