//! This crate exists so that a tool may start a program without anything of it outliving, outgrowing or outreaching
//! what it was started for: every child is confined, its output is bounded, and all it ever forked ends with it.
//!
//! Two small processes of our own stand between the host and a program. The *warden* ([`launch`] with the role
//! `watch`) adopts whatever the program leaves behind and kills all of it when it is told to, or when the host is
//! gone, however the host went. The *launcher* (role `enter`) puts the limits, the file fence (Landlock) and the
//! system call filter (seccomp) on itself and then becomes the program. Neither needs `unsafe`: nothing of ours runs
//! between fork and exec.
//!
//! Read in this order: [`Settings`] and [`Command`] say what is wanted, [`Processes`] runs it, `mind.rs` is one
//! program's life from start to end, `launcher/` is the other side.
//!
//! ```no_run
//! # async fn example() -> Result<(), toolhost_process::ProcessError> {
//! use toolhost_process::{Command, Exit, Launcher, OpenPath, Processes, Programs, Settings};
//!
//! // `main` of this program calls `toolhost_process::launch` when it sees `process-launcher`.
//! let launcher = Launcher::this_program(["process-launcher".into()]);
//! let mut settings = Settings::new(launcher, "/var/lib/host/outputs".into());
//! settings.programs = Programs::Only(vec!["sh".to_owned()]);
//! let processes = Processes::new(settings)?;
//!
//! let project = OpenPath::directory("/home/me/project".as_ref())?;
//! let mut command = Command::new("sh", &["-c", "make test"], project.clone());
//! command.fence.write = vec![project];
//! let finished = processes.run(command, &mut |_, bytes| print!("{bytes:?}"), std::future::pending()).await?;
//! assert_eq!(finished.exit, Exit::Code(0));
//! # Ok(()) }
//! ```
//!
//! Known limits, on purpose:
//! - The number of processes is looked at twice a second, not limited by the kernel: `RLIMIT_NPROC` counts every
//!   process of the user, also those of the person at the machine. A fork bomb has that half second.
//! - Before Linux 6.12 (Landlock ABI 6) a confined program can still send signals to other processes of its user.
//! - Landlock filters neither `stat` nor the changing of modes and times: a confined program can learn that a path
//!   exists, and can change the mode of a file of its user outside the fence, but neither read nor write it. Changing
//!   owners and extended attributes is refused everywhere.
//! - The rules of system directories are taken by path when the program starts. Those of granted directories are made
//!   of the descriptors in [`Fence`].
//! - Without `CAP_SYS_ADMIN` there is no private `/proc`: a confined program then sees no process in it but, mostly,
//!   its first one.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "toolhost-process confines programs with Linux's Landlock and seccomp, and has no fence for this system yet; \
     build for Linux"
);

mod bounded;
mod command;
mod confine;
mod environment;
mod error;
mod folder;
mod held;
mod hints;
mod job;
mod launcher;
mod lines;
mod mind;
mod output;
mod owner;
mod pipes;
mod processes;
mod programs;
mod run_piped;
mod sessions;
mod settings;
mod signals;
mod spawn;
mod start;
mod walls;
mod wire;

pub use bounded::Kept;
pub use command::{Command, Exit, Fence, Finished, Input, Leftovers, Signal, Stop, Stream};
pub use confine::lacking;
pub use environment::{Dropped, Environment, Reason};
pub use error::ProcessError;
pub use held::OpenPath;
pub use job::{Chunk, Job, State};
pub use launcher::launch;
pub use owner::{JobOwner, OwnerKey, SessionOwner};
pub use pipes::{Piped, PipedCommand, Pipes};
pub use processes::Processes;
pub use programs::Programs;
pub use run_piped::{PipedOutput, PipedRan, run_piped};
pub use settings::{Confinement, JobQuota, Launcher, Limits, Settings};
pub use signals::reset_inherited_signals;
