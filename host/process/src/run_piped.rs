//! Runs a program to its end with given input and bounded output. Dropping the future kills it.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::{ExitReason, Launcher, PipedCommand, PipedProcess, Pipes, ProcessError};

/// How long to read after the program ended, because an unrelated process can hold its pipes open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

pub struct PipedResult {
    pub stdout: PipedStream,
    pub stderr: PipedStream,
    pub exit: ExitReason,
}

/// The beginning of an output stream.
#[derive(Default)]
pub struct PipedStream {
    pub bytes: Vec<u8>,
    pub is_truncated: bool,
}

impl PipedStream {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Runs `command` to its end. Dropping the future kills the program and its descendants.
pub async fn run_piped(
    launcher: &Launcher,
    command: &PipedCommand,
    input: &[u8],
    most: usize,
) -> Result<PipedResult, ProcessError> {
    let (mut child, pipes) = PipedProcess::start(launcher, command).await?;
    let Pipes {
        mut stdin,
        stdout,
        stderr,
        proxy: _,
        refused: _,
    } = pipes;
    let feed = async {
        // A program is not required to read its whole input.
        let _ = stdin.write_all(input).await;
        drop(stdin);
    };
    let mut output = (PipedStream::default(), PipedStream::default());
    let exit = {
        let reads = async {
            tokio::join!(
                read_bounded(stdout, &mut output.0, most),
                read_bounded(stderr, &mut output.1, most)
            )
        };
        let mut reads = std::pin::pin!(reads);
        let mut feed = std::pin::pin!(feed);
        let (mut fed, mut done) = (false, false);
        let exit = loop {
            tokio::select! {
                exit = child.wait() => break exit,
                () = &mut feed, if !fed => fed = true,
                _ = &mut reads, if !done => done = true,
            }
        };
        if !done {
            let _ = timeout(DRAIN_TIMEOUT, reads).await;
        }
        exit
    };
    drop(child);
    Ok(PipedResult {
        stdout: output.0,
        stderr: output.1,
        exit,
    })
}

/// Reads to the end, and keeps the first `most` bytes.
async fn read_bounded(mut stream: impl AsyncRead + Unpin, output: &mut PipedStream, most: usize) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        let room = most.saturating_sub(output.bytes.len()).min(count);
        output.bytes.extend_from_slice(&buffer[..room]);
        output.is_truncated |= room < count;
    }
}
