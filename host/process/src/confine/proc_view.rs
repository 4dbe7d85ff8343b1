//! Restricts what a confined program sees of other processes in `/proc`, because command lines can contain tokens.

use std::path::PathBuf;

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

/// The `/proc` of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcView {
    /// A private mount that shows only processes that the program may trace: with Landlock, those in its own sandbox.
    Private,
    /// The host's `/proc`, with all processes.
    Shared,
}

/// System-wide files that programs read.
const SYSTEM: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/pressure",
    "/proc/stat",
    "/proc/swaps",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
];

/// Mounts a private `/proc` if the kernel allows it, which requires `CAP_SYS_ADMIN`.
///
/// A user namespace would grant that capability to other users, but files of root are owned by the overflow user in it,
/// which `ssh` and other programs refuse, and mounting `/proc` there requires a PID namespace, whose first process
/// ignores signals.
pub fn mount_private_proc() -> ProcView {
    if unshare(CloneFlags::CLONE_NEWNS).is_err() {
        return ProcView::Shared;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // Mounts made here are not visible elsewhere.
    let recursive = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    let mounted = mount_change("/", recursive)
        .and_then(|()| mount("proc", "/proc", "proc", flags, c"hidepid=ptraceable"));
    match mounted {
        Ok(()) => ProcView::Private,
        Err(_) => ProcView::Shared,
    }
}

/// The readable paths of `/proc`. In a shared one, no directory of another process is readable, and of the program's
/// own only that of the first process, because Landlock rules are set before the others exist.
pub fn readable_paths(view: ProcView) -> Vec<PathBuf> {
    match view {
        ProcView::Private => vec![PathBuf::from("/proc")],
        ProcView::Shared => {
            let own = format!("/proc/{}", std::process::id());
            let system = SYSTEM.iter().map(PathBuf::from);
            system.chain([PathBuf::from(own)]).collect()
        }
    }
}
