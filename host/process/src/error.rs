//! Errors of starting a program or accessing a job.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error(
        "the program {} is not on the list of allowed programs; allowed: {allowed}",
        quoted(program)
    )]
    NotAllowed { program: String, allowed: String },
    #[error("program {} was not found in {searched}", quoted(program))]
    NotFound { program: String, searched: String },
    #[error("cannot use directory {}: {reason}", path.display())]
    Directory { path: PathBuf, reason: String },
    /// There is no fallback: without confinement a program only starts if the operator has disabled confinement.
    #[error(
        "the program was not started because it cannot be confined: {lacks}; only the operator can allow unconfined \
         programs on this machine"
    )]
    Unconfined { lacks: String },
    #[error("{subject} is {size} bytes; the limit is {most}")]
    TooLarge {
        subject: &'static str,
        size: usize,
        most: usize,
    },
    #[error("{subject} contains a NUL byte or a misplaced `=`: {}", quoted(value))]
    Malformed {
        subject: &'static str,
        value: String,
    },
    #[error(
        "variable {} makes programs load code and cannot be set by a call; remove it",
        quoted(name)
    )]
    LoadsCode { name: String },
    #[error("{running} processes of {scope} are running, the limit is {most}; end one first")]
    TooMany {
        /// The scope of the limit: the session, the user or all users.
        scope: &'static str,
        running: usize,
        most: u64,
    },
    #[error(
        "the outputs of running processes use all {most} bytes that are kept for a user; end a process first"
    )]
    OutputFull { most: u64 },
    #[error("the session of this call has ended")]
    SessionEnded,
    #[error("no job {id} in this session; jobs: {known}")]
    UnknownJob { id: u64, known: String },
    #[error("job {id} has its standard input closed and cannot be written to")]
    InputClosed { id: u64 },
    #[error("job {id} does not accept input: {reason}")]
    NoInput { id: u64, reason: &'static str },
    #[error(
        "job {id} did not read its input for {} s; {written} bytes were written", waited.as_secs()
    )]
    InputFull {
        id: u64,
        written: usize,
        waited: Duration,
    },
    #[error("cannot start {}: {reason}", quoted(program))]
    Start { program: String, reason: String },
    #[error("the launcher of {} failed: {reason}", quoted(program))]
    Launcher { program: String, reason: String },
    #[error("cannot use {}: {source}", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot create {subject}: {source}")]
    Io {
        subject: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the host is shutting down")]
    Closing,
}

/// Escapes and truncates text from a model for an error message.
pub fn quoted(text: &str) -> String {
    const MOST: usize = 120;
    let mut short: String = text.chars().take(MOST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("`{}`", short.escape_debug())
}
