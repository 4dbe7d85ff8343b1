//! What the operator decides once, for every program that is started.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Environment, Programs};

#[derive(Debug, Clone)]
pub struct Settings {
    pub launcher: Launcher,
    pub confinement: Confinement,
    pub programs: Programs,
    /// Where programs are looked for, in this order; also the `PATH` of each child. Absolute, and readable to them.
    pub path: Vec<PathBuf>,
    pub environment: Environment,
    pub limits: Limits,
    /// Neither read nor changed by any program, whatever is granted: the host's own records and keys. What is recorded
    /// of outputs is among them always.
    pub hidden: Vec<PathBuf>,
    /// Not changed by any program, whatever is granted: the host's configuration and plugins. In a directory that holds
    /// such a path, or a hidden one, a program can change what is there, and can make nothing new right beside it.
    pub read_only: Vec<PathBuf>,
    /// Running processes of one session, in the foreground and in the background.
    pub max_jobs: usize,
    /// Running processes of the sessions of one user, and of all users.
    pub programs_at_once: JobQuota,
    /// Bytes of output in files, of the sessions of one user and of all users. The oldest outputs of ended jobs make
    /// room for new ones.
    pub kept_output: JobQuota,
    /// Outputs and private temporary directories are made below it, and removed at the end.
    pub output_dir: PathBuf,
    /// The beginning of each job's output that is kept in a file.
    pub keep_output: u64,
    /// The head, and again the tail, that is kept in memory of each of a job's streams.
    pub keep_text: usize,
    /// A program that writes more is ended.
    pub max_output: u64,
    /// So long the combined output waits for the end of a line that one stream has begun, before it shows what the
    /// other one wrote.
    pub line_wait: Duration,
    /// Between SIGTERM and SIGKILL.
    pub kill_grace: Duration,
    /// What a finished foreground program left running has this long to come to an end by itself.
    pub linger: Duration,
}

impl Settings {
    pub fn new(launcher: Launcher, output_dir: PathBuf) -> Settings {
        Settings {
            launcher,
            confinement: Confinement::Required,
            programs: Programs::Only(Vec::new()),
            path: ["/usr/local/bin", "/usr/bin", "/bin"]
                .map(PathBuf::from)
                .to_vec(),
            environment: Environment::default(),
            limits: Limits::default(),
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

/// The most of something that one user may hold, and that all users may hold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobQuota {
    pub user: u64,
    pub all: u64,
}

/// Leads to [`crate::launch`]: a program and the arguments after which a role is appended.
#[derive(Debug, Clone)]
pub struct Launcher {
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

impl Launcher {
    /// This same program, also when its file was replaced meanwhile.
    pub fn this_program(args: impl IntoIterator<Item = OsString>) -> Launcher {
        Launcher {
            program: PathBuf::from("/proc/self/exe"),
            args: args.into_iter().collect(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// What cannot be confined is not started.
    Required,
    /// The operator's explicit word: programs reach whatever the host's user reaches.
    Off,
}

/// Of each process, but for the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Of a program with all it started. Looked at twice a second, because the kernel's own limit would count every
    /// process of the user.
    pub processes: usize,
    pub open_files: u64,
    pub file_size: Option<u64>,
    pub memory: Option<u64>,
    pub cpu_seconds: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            processes: 1024,
            open_files: 4096,
            file_size: None,
            memory: None,
            cpu_seconds: None,
        }
    }
}
