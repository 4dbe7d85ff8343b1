//! Programs and their results, as in `process` of the WIT.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Name of a program that the operator allows.
    pub program: String,
    pub arguments: Vec<String>,
    /// A directory of the call; by default the first.
    pub cwd: Option<String>,
    /// Added to the host's environment.
    pub environment: Vec<(String, String)>,
    /// Standard input; closed when absent.
    pub stdin: Option<Vec<u8>>,
    pub timeout_ms: Option<u32>,
    /// Limit of time without output.
    pub inactivity_timeout_ms: Option<u32>,
    /// Use a terminal instead of pipes.
    pub tty: bool,
    /// Label in lists; by default the program.
    pub label: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExitStatus {
    /// `exited` (code), `signalled` (signal), `timed-out`, `idle-timeout`, `output-limit`, `process-limit`, `cancelled`,
    /// `killed` or `backgrounded`.
    pub kind: String,
    pub code: Option<i32>,
    pub signal: Option<String>,
    pub duration_ms: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOutput {
    /// Beginning and end of the output, within the host's limits.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Both streams, interleaved.
    pub combined: Vec<u8>,
    pub stdout_total: u64,
    pub stderr_total: u64,
    pub pid: u32,
    pub exit_status: ExitStatus,
    /// The host's file with the complete output.
    pub output_file: Option<String>,
    /// What the sandbox probably blocked.
    pub hints: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub id: String,
    pub pid: u32,
    pub label: String,
    /// `running` or `ended`.
    pub state: String,
    /// Milliseconds since 1970.
    pub started_ms: f64,
    /// Bytes written so far.
    pub output_bytes: u64,
    pub exit_status: Option<ExitStatus>,
    pub output_file: Option<String>,
    pub hints: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    pub bytes: Vec<u8>,
    /// Offset to continue from.
    pub next: u64,
    /// Bytes before this chunk that are no longer kept.
    pub dropped: u64,
    pub job: Job,
}
