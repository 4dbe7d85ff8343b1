//! The only calls of `openat2`, so that every path is opened with resolve flags.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
    path::Arg,
};

use crate::PathError;

/// Stay below the handle, do not follow magic links, do not cross mounts.
pub(crate) const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// `O_PATH` flags: name an inode without opening it, so without permission checks, side effects or blocking.
pub(crate) const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The kernel returns `EAGAIN` if any rename on the machine overlapped a `..` in the path, so the call is retried.
/// A leased file returns it every time, so retries are bounded.
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

/// Returns why this kernel cannot open paths safely, if so. A container can also refuse the system call.
pub fn missing_kernel_support() -> Option<String> {
    let root = rustix::fs::CWD;
    let opened = open_beneath(root, ".", NAME_ONLY, Mode::empty(), BENEATH);
    opened
        .err()
        .map(|error| format!("the system call openat2 failed: {error}"))
}

/// Maps the error of an open: `EXDEV` means "would leave the grant"; `ENXIO` and `ENODEV` mean a socket, a FIFO
/// without a reader, or a device.
pub(crate) fn open_error(errno: Errno) -> PathError {
    match errno {
        Errno::XDEV | Errno::NXIO | Errno::NODEV => PathError::NotPermitted,
        other => other.into(),
    }
}

/// Checks that every path must pass before it reaches the kernel.
pub(crate) fn check_path(path: &str) -> Result<(), PathError> {
    match path.as_bytes() {
        [] => Err(PathError::NotFound),
        bytes if bytes.contains(&0) => Err(PathError::Invalid),
        bytes if bytes.len() >= PATH_MAX => Err(PathError::NameTooLong),
        [b'/', ..] => Err(PathError::NotPermitted),
        _ => Ok(()),
    }
}

/// Linux's limit, also enforced by the walk so that both resolvers agree.
pub(crate) const PATH_MAX: usize = 4096;
