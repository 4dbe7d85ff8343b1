//! Confined, bounded child processes.
//!
//! Every child is sandboxed, its output is bounded, and all its descendants are killed when it ends.
//!
//! Two helper processes run between the host and a program. The *warden* ([`launch`] with the role `watch`) adopts the
//! processes that the program leaves behind and kills them on request or when the host exits for any reason. The
//! *launcher* (role `enter`) applies the resource limits, the file rules (Landlock) and the system call filter
//! (seccomp) to itself and then executes the program. Neither needs `unsafe`, because no code of this crate runs
//! between fork and exec.
//!
//! Read in this order: [`ProcessSettings`] and [`Command`] describe what to run, [`Processes`] runs it, `supervisor.rs`
//! follows one program from start to end, and `launcher/` is the code of the helper processes.
//!
//! ```no_run
//! # async fn example() -> Result<(), toolhost_process::ProcessError> {
//! use toolhost_process::{AllowedPrograms, Command, ExitReason, Launcher, OpenPath, Processes, ProcessSettings};
//!
//! // `main` of this program calls `toolhost_process::launch` when it sees `process-launcher`.
//! let launcher = Launcher::this_program(["process-launcher".into()]);
//! let mut settings = ProcessSettings::new(launcher, "/var/lib/host/outputs".into());
//! settings.programs = AllowedPrograms::Only(vec!["sh".to_owned()]);
//! let processes = Processes::new(settings)?;
//!
//! let project = OpenPath::directory("/home/me/project".as_ref())?;
//! let mut command = Command::new("sh", &["-c", "make test"], project.clone());
//! command.sandbox.write = vec![project];
//! let result = processes.run(command, &mut |_, bytes| print!("{bytes:?}"), std::future::pending()).await?;
//! assert_eq!(result.exit, ExitReason::Code(0));
//! # Ok(()) }
//! ```
//!
//! Known limitations:
//! - The number of processes is checked twice a second instead of being limited by the kernel, because `RLIMIT_NPROC`
//!   counts all processes of the user, including those outside the sandbox. A fork bomb can run for half a second.
//! - Before Linux 6.12 (Landlock ABI 6), a confined program can send signals to other processes of its user.
//! - Landlock filters neither `stat` nor changes of modes and times. A confined program can learn that a path exists
//!   and can change the mode of a file that its user owns outside the sandbox, but can neither read nor write the file.
//!   Changing owners and extended attributes is refused everywhere.
//! - Rules for system directories are resolved by path when the program starts. Rules for granted directories use the
//!   descriptors in [`SandboxPermissions`].
//! - Without `CAP_SYS_ADMIN` there is no private `/proc`. A confined program then sees almost only its first process
//!   there.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "toolhost-process confines programs with Linux's Landlock and seccomp and does not support this system; \
     build for Linux"
);

mod command;
mod confine;
mod environment;
mod error;
mod head_tail;
mod hints;
mod job;
mod launcher;
mod line_merger;
mod open_path;
mod output;
mod output_directory;
mod owner;
mod piped_process;
mod piped_sandbox;
mod processes;
mod program_reads;
mod programs;
mod run_piped;
mod sandbox_rules;
mod sessions;
mod settings;
mod signals;
mod spawn;
mod start;
mod supervisor;
mod wire;

pub use command::{
    Command, ExitReason, Input, LeftoverProcesses, RunResult, SandboxPermissions, Signal,
    StopAction, Stream,
};
pub use confine::missing_kernel_support;
pub use environment::{DropReason, DroppedVariable, Environment, loads_code};
pub use error::ProcessError;
pub use head_tail::CapturedOutput;
pub use job::{Chunk, Job, JobState};
pub use launcher::{ProgramAccess, launch};
pub use open_path::OpenPath;
pub use owner::{JobOwner, OwnerKey, SessionOwner};
pub use piped_process::{PipedCommand, PipedProcess, Pipes};
pub use piped_sandbox::{
    PipedNetwork, PipedSandbox, RefusedAccesses, certificate_reads, program_reads, proxy_variables,
};
pub use processes::Processes;
pub use programs::AllowedPrograms;
pub use run_piped::{PipedResult, PipedStream, run_piped};
pub use settings::{Confinement, JobQuota, Launcher, ProcessLimits, ProcessSettings};
pub use signals::reset_inherited_signals;
