//! Why a program could not be started or a job not be reached; one variant for each thing a caller might do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error(
        "the program {} is not on the list of allowed programs; allowed: {allowed}",
        shown(program)
    )]
    NotAllowed { program: String, allowed: String },
    #[error("the program {} is not found in {searched}", shown(program))]
    NotFound { program: String, searched: String },
    #[error("the directory {} cannot be used: {reason}", path.display())]
    Directory { path: PathBuf, reason: String },
    /// Never a silent fallback: without a fence nothing is started unless the operator says so.
    #[error(
        "the program was not started because it cannot be confined: {lacks}; to run programs unconfined on this \
         machine the operator has to say so"
    )]
    Unconfined { lacks: String },
    #[error("{what} is {size} bytes, the most is {most}")]
    TooLarge {
        what: &'static str,
        size: usize,
        most: usize,
    },
    #[error(
        "{what} holds a NUL byte or an `=` where none may be: {}",
        shown(value)
    )]
    Malformed { what: &'static str, value: String },
    #[error(
        "the variable {} makes programs load code, so no call sets it; leave it out",
        shown(name)
    )]
    LoadsCode { name: String },
    #[error("{running} processes of {scope} are running, the most is {most}; end one first")]
    TooMany {
        /// Whose limit was reached: the session's, the user's or the host's.
        scope: &'static str,
        running: usize,
        most: u64,
    },
    #[error(
        "the outputs of running processes take all of the {most} bytes that are kept for a user; end one first"
    )]
    OutputFull { most: u64 },
    #[error("the session of this call has ended")]
    SessionEnded,
    #[error("no job {id} in this session; jobs: {known}")]
    UnknownJob { id: u64, known: String },
    #[error("job {id} has its standard input closed, so nothing can be typed into it")]
    InputClosed { id: u64 },
    #[error("job {id} takes no input: {reason}")]
    NoInput { id: u64, reason: &'static str },
    #[error(
        "job {id} did not read its input for {} s; {written} bytes were taken", waited.as_secs()
    )]
    InputFull {
        id: u64,
        written: usize,
        waited: Duration,
    },
    #[error("cannot start {}: {reason}", shown(program))]
    Start { program: String, reason: String },
    #[error("the launcher of {} failed: {reason}", shown(program))]
    Launcher { program: String, reason: String },
    #[error("cannot use {}: {source}", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot make {what}: {source}")]
    Io {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the host is shutting down")]
    Closing,
}

/// What a model wrote, escaped and cut: an error is shown to a person.
pub fn shown(text: &str) -> String {
    const MOST: usize = 120;
    let mut short: String = text.chars().take(MOST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("`{}`", short.escape_debug())
}
