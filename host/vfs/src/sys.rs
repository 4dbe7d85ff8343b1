//! The one place that calls `openat2`, so that no path is ever opened without its resolve flags.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
    path::Arg,
};

use crate::Refusal;

/// Stay below the handle, never jump through `/proc`'s magic links, never enter another mount.
pub(crate) const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// A descriptor that names an inode without opening it: no permission needed, no side effect, no blocking.
pub(crate) const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The kernel answers `EAGAIN` when any rename on the machine overlapped a `..` in the path, so a few more tries
/// are worth it. A file under somebody's lease answers the same, for ever.
const TRIES: usize = 5;

pub(crate) fn open_beneath<P: Arg + Copy>(
    dir: BorrowedFd<'_>,
    path: P,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut tries = 1;
    loop {
        match rustix::fs::openat2(dir, path, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries < TRIES => tries += 1,
            answer => return answer,
        }
    }
}

/// The error of an open, in which `EXDEV` means "would leave the grant" and `ENXIO` and `ENODEV` mean a socket, a
/// FIFO without a reader, or a device.
pub(crate) fn open_refused(errno: Errno) -> Refusal {
    match errno {
        Errno::XDEV | Errno::NXIO | Errno::NODEV => Refusal::NotPermitted,
        other => other.into(),
    }
}

/// What every path must pass before the kernel sees it.
pub(crate) fn check_path(path: &str) -> Result<(), Refusal> {
    match path.as_bytes() {
        [] => Err(Refusal::NotFound),
        bytes if bytes.contains(&0) => Err(Refusal::Invalid),
        bytes if bytes.len() >= PATH_MAX => Err(Refusal::NameTooLong),
        [b'/', ..] => Err(Refusal::NotPermitted),
        _ => Ok(()),
    }
}

/// Linux's own limit, kept by our walker too so that both resolvers agree.
pub(crate) const PATH_MAX: usize = 4096;
