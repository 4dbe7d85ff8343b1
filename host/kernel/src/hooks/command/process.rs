//! Runs one process to its end: bounded in what it may say, and gone with all its children when it is done or dropped.

use std::io;
use std::os::fd::AsFd;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{SignalKind, signal};

/// An answer is short; whoever has more to say has lost its way.
pub const MAX_STDOUT: usize = 64 << 10;
/// So many of the last bytes are kept.
pub(super) const MAX_STDERR: usize = 16 << 10;
const CHUNK: usize = 16 << 10;
/// A pipe holds 1 MiB at most, unless an administrator allows more.
const MAX_LEFT_OVER: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("cannot be started: {0}; check that the program is there and executable")]
    Start(io::Error),
    #[error(
        "wrote more than {0} bytes to its standard output; write one JSON object, and notes to standard error"
    )]
    TooMuch(usize),
    #[error("cannot be waited for: {0}")]
    Wait(io::Error),
    #[error("cannot be read from: {0}")]
    Read(io::Error),
}

#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// The end of it.
    pub stderr: Vec<u8>,
}

/// Feeds the process its input and waits for its end, not for that of its output: a child that it left behind may
/// hold that open for ever. Dropping the future kills the process and its group.
pub async fn run(
    mut command: Command,
    input: &[u8],
    max_stdout: usize,
) -> Result<Ran, ProcessError> {
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(ProcessError::Start)?;
    let mut running = Running::new(child);
    let stdin = running.child.stdin.take();
    let stdout = running.child.stdout.take().expect("it was piped");
    let stderr = running.child.stderr.take().expect("it was piped");
    let mut stdout = Pipe::new(stdout, max_stdout, Beyond::Refused);
    let mut stderr = Pipe::new(stderr, MAX_STDERR, Beyond::KeepsTail);
    let pumps = async {
        match tokio::try_join!(feed(stdin, input), stdout.pump(), stderr.pump()) {
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
    Ok(Ran {
        status,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
    })
}

/// Nobody has to read what he is told: a broken pipe is no failure.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) -> Result<(), ProcessError> {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
    }
    Ok(())
}

struct Running {
    child: Child,
    /// None once it was killed.
    group: Option<Pid>,
}

impl Running {
    fn new(child: Child) -> Self {
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        Self { child, group }
    }

    /// Returns when the process is dead. It is not reaped here: as long as it is not, its id belongs to nobody else,
    /// and killing the group of that id hits no stranger.
    async fn ended(&self) -> io::Result<()> {
        let Some(pid) = self.group else {
            return Ok(());
        };
        // Listens before it looks, lest an end between the two goes unheard.
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
            // Fails when nobody is left, which is what it is for.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Running {
    // Runs before the child itself is dropped, and so before anybody could reap it.
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// What happens to bytes beyond the bound.
enum Beyond {
    Refused,
    KeepsTail,
}

struct Pipe<R> {
    from: R,
    bytes: Vec<u8>,
    max: usize,
    beyond: Beyond,
}

impl<R: AsyncRead + AsFd + Unpin> Pipe<R> {
    fn new(from: R, max: usize, beyond: Beyond) -> Self {
        Self {
            from,
            bytes: Vec::new(),
            max,
            beyond,
        }
    }

    /// Reads until the other side closes. May be dropped at any time: what was read is kept.
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

    /// Takes what is in the pipe and does not wait for more.
    fn drain(&mut self) -> Result<(), ProcessError> {
        let mut chunk = vec![0; CHUNK];
        for _ in 0..MAX_LEFT_OVER {
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
            Beyond::Refused if over > 0 => return Err(ProcessError::TooMuch(self.max)),
            Beyond::Refused => {}
            Beyond::KeepsTail => drop(self.bytes.drain(..over)),
        }
        Ok(())
    }
}
