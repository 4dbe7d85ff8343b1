//! Operator settings that apply to all programs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{AllowedPrograms, Environment};

#[derive(Debug, Clone)]
pub struct ProcessSettings {
    pub launcher: Launcher,
    pub confinement: Confinement,
    pub programs: AllowedPrograms,
    /// Search path for programs, in this order; also the `PATH` of each child. Absolute, and readable by programs.
    pub path: Vec<PathBuf>,
    pub environment: Environment,
    pub limits: ProcessLimits,
    /// Paths that no program can read or change, whatever is granted: the host's own records and keys. The recorded
    /// outputs are always hidden.
    pub hidden: Vec<PathBuf>,
    /// Paths that no program can change, whatever is granted: the host's configuration and plugins. In a directory that
    /// contains such a path or a hidden one, a program can change existing entries but cannot create entries directly
    /// in it.
    pub read_only: Vec<PathBuf>,
    /// Maximum number of running processes of one session, in the foreground and in the background.
    pub max_jobs: usize,
    /// Maximum number of running processes of all sessions of one user, and of all users.
    pub programs_at_once: JobQuota,
    /// Maximum bytes of output in files, per user and in total. The oldest outputs of ended jobs are deleted to make
    /// room.
    pub kept_output: JobQuota,
    /// Parent directory of outputs and private temporary directories, which are removed at the end.
    pub output_dir: PathBuf,
    /// How many bytes from the beginning of each job's output are kept in a file.
    pub keep_output: u64,
    /// How many bytes of the head, and of the tail, of each of a job's streams are kept in memory.
    pub keep_text: usize,
    /// A program that writes more bytes is terminated.
    pub max_output: u64,
    /// How long the combined output waits for the rest of a line of one stream before it includes what the other stream
    /// wrote.
    pub line_wait: Duration,
    /// Between SIGTERM and SIGKILL.
    pub kill_grace: Duration,
    /// How long processes that a finished foreground program left running may continue before they are terminated.
    pub linger: Duration,
}

impl ProcessSettings {
    pub fn new(launcher: Launcher, output_dir: PathBuf) -> ProcessSettings {
        ProcessSettings {
            launcher,
            confinement: Confinement::Required,
            programs: AllowedPrograms::Only(Vec::new()),
            path: ["/usr/local/bin", "/usr/bin", "/bin"]
                .map(PathBuf::from)
                .to_vec(),
            environment: Environment::default(),
            limits: ProcessLimits::default(),
            hidden: Vec::new(),
            read_only: Vec::new(),
            max_jobs: 16,
            programs_at_once: JobQuota { user: 32, all: 128 },
            kept_output: JobQuota {
                user: 1 << 30,
                all: 4 << 30,
            },
            output_dir,
            keep_output: 16 << 20,
            keep_text: 128 << 10,
            max_output: 1 << 30,
            line_wait: Duration::from_millis(250),
            kill_grace: Duration::from_secs(2),
            linger: Duration::from_millis(500),
        }
    }
}

/// The limit of a resource per user, and for all users together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobQuota {
    pub user: u64,
    pub all: u64,
}

/// How to start [`crate::launch`]: a program and the arguments to which the role is appended.
#[derive(Debug, Clone)]
pub struct Launcher {
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

impl Launcher {
    /// The running executable, even if its file was replaced in the meantime.
    pub fn this_program(args: impl IntoIterator<Item = OsString>) -> Launcher {
        Launcher {
            program: PathBuf::from("/proc/self/exe"),
            args: args.into_iter().collect(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// Programs that cannot be confined are not started.
    Required,
    /// Explicitly disabled by the operator: programs can access everything that the host's user can.
    Off,
}

/// Limits of each process, except for `processes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessLimits {
    /// Maximum number of processes of a program and its descendants. Checked twice a second, because the kernel's own
    /// limit counts all processes of the user.
    pub processes: usize,
    pub open_files: u64,
    pub file_size: Option<u64>,
    pub memory: Option<u64>,
    pub cpu_seconds: Option<u64>,
}

impl Default for ProcessLimits {
    fn default() -> ProcessLimits {
        ProcessLimits {
            processes: 1024,
            open_files: 4096,
            file_size: None,
            memory: None,
            cpu_seconds: None,
        }
    }
}
