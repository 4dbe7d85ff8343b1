//! A program, and what became of it. The members are those of `process` in the WIT.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Name of a program that the operator allows.
    pub program: String,
    pub arguments: Vec<String>,
    /// A folder of the call; the first one when absent.
    pub cwd: Option<String>,
    /// Added to the environment that the host chooses.
    pub environment: Vec<(String, String)>,
    /// Standard input; closed when absent.
    pub stdin: Option<Vec<u8>>,
    pub timeout_ms: Option<u32>,
    /// Without output for so long, it is stopped.
    pub inactivity_timeout_ms: Option<u32>,
    /// Give it a terminal instead of pipes.
    pub tty: bool,
    /// What to call it in lists.
    pub label: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// `exited` (code), `signalled` (signal), `timed-out`, `inactive`, `cancelled` or `killed`.
    pub kind: String,
    pub code: Option<i32>,
    pub signal: Option<String>,
    pub duration_ms: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Beginning and end of what it wrote, within the host's bounds.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Both, as they came.
    pub combined: Vec<u8>,
    pub stdout_total: u64,
    pub stderr_total: u64,
    pub pid: u32,
    pub ending: Ending,
    /// Where the host keeps all of it.
    pub output_file: Option<String>,
    /// What the confinement has probably stopped.
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
    pub ending: Option<Ending>,
    pub output_file: Option<String>,
    pub hints: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    pub bytes: Vec<u8>,
    /// Where to go on.
    pub next: u64,
    /// Bytes that are no longer kept and were left out before these.
    pub dropped: u64,
    pub job: Job,
}
