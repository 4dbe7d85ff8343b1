//! What a confined program sees of other processes in `/proc`: their command lines can hold tokens.

use std::path::PathBuf;

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

/// Which `/proc` a program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// One that shows only processes that the program may trace: with Landlock, those of its own fence.
    Private,
    /// That of the host, with all processes.
    Shared,
}

/// What programs read of the whole machine.
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

/// Mounts a private view, where the kernel allows it: that takes `CAP_SYS_ADMIN`.
///
/// A user namespace would give that capability to others, but in it files of root belong to nobody, which `ssh` and
/// others refuse, and mounting `/proc` there takes a process namespace whose first process ignores signals.
pub fn private_view() -> View {
    if unshare(CloneFlags::CLONE_NEWNS).is_err() {
        return View::Shared;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // Mounts that are made here are seen nowhere else.
    let recursive = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    let mounted = mount_change("/", recursive)
        .and_then(|()| mount("proc", "/proc", "proc", flags, c"hidepid=ptraceable"));
    match mounted {
        Ok(()) => View::Private,
        Err(_) => View::Shared,
    }
}

/// What may be read of `/proc`. Of a shared one: nothing of other processes, and of its own ones the directory of the
/// first process, because Landlock takes rules before the others exist.
pub fn readable(view: View) -> Vec<PathBuf> {
    match view {
        View::Private => vec![PathBuf::from("/proc")],
        View::Shared => {
            let own = format!("/proc/{}", std::process::id());
            let system = SYSTEM.iter().map(PathBuf::from);
            system.chain([PathBuf::from(own)]).collect()
        }
    }
}
