//! The system calls that Landlock or the private network can refuse, and what they access.

use std::fs::{self, File};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use libc::c_long;
use nix::sys::ptrace;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// An access of a program that its sandbox has refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramAccess {
    Read(PathBuf),
    Write(PathBuf),
    /// An address with a port.
    Connect(String),
}

/// What a call does with a path.
#[derive(Debug, Clone, Copy)]
enum Use {
    Read,
    Write,
    /// Depends on the flags in this argument.
    Open(usize),
}

/// A call with a path: the index of the argument with its directory, and the index of the path.
type PathCall = (c_long, Option<usize>, usize, Use);

/// A call with two paths occurs twice.
const PATH_CALLS: &[PathCall] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, None, 0, Use::Open(1)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, None, 0, Use::Write),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, None, 0, Use::Write),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rmdir, None, 0, Use::Write),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, None, 0, Use::Write),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, None, 0, Use::Write),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, None, 1, Use::Write),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_symlink, None, 1, Use::Write),
    (libc::SYS_openat, Some(0), 1, Use::Open(2)),
    (libc::SYS_mkdirat, Some(0), 1, Use::Write),
    (libc::SYS_unlinkat, Some(0), 1, Use::Write),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_renameat, Some(0), 1, Use::Write),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_renameat, Some(2), 3, Use::Write),
    (libc::SYS_renameat2, Some(0), 1, Use::Write),
    (libc::SYS_renameat2, Some(2), 3, Use::Write),
    (libc::SYS_symlinkat, Some(1), 2, Use::Write),
    (libc::SYS_truncate, None, 0, Use::Write),
    (libc::SYS_execve, None, 0, Use::Read),
];

/// The numbers of all calls at which an observed program stops.
pub fn numbers() -> impl Iterator<Item = c_long> {
    let paths = PATH_CALLS.iter().map(|(number, ..)| *number);
    paths.chain([libc::SYS_connect])
}

/// A call that has started and not yet returned.
pub struct PendingCall {
    accesses: Vec<ProgramAccess>,
}

impl PendingCall {
    /// Reads the call at which this thread has stopped. `None`: it is of no interest.
    pub fn read(pid: Pid) -> Option<PendingCall> {
        let (number, arguments) = entry(pid)?;
        let accesses: Vec<_> = if number == libc::SYS_connect {
            connection(pid, arguments[1], arguments[2])
                .into_iter()
                .collect()
        } else {
            let calls = PATH_CALLS.iter().filter(|(known, ..)| *known == number);
            calls
                .filter_map(|call| path_access(pid, call, arguments))
                .collect()
        };
        (!accesses.is_empty()).then_some(PendingCall { accesses })
    }

    /// The accesses, if the call was refused.
    pub fn refused(self, pid: Pid) -> Vec<ProgramAccess> {
        let Some(result) = result(pid) else {
            return Vec::new();
        };
        let errors = [libc::EACCES, libc::EPERM, libc::EXDEV, libc::ENETUNREACH];
        if errors.iter().any(|error| result == -i64::from(*error)) {
            self.accesses
        } else {
            Vec::new()
        }
    }
}

fn path_access(pid: Pid, call: &PathCall, arguments: [u64; 6]) -> Option<ProgramAccess> {
    let &(_, directory, path, usage) = call;
    let path = PathBuf::from(read_text(pid, arguments[path])?);
    let path = if path.is_absolute() {
        path
    } else {
        // The kernel uses the lower half of the register.
        let low = |index: usize| u32::try_from(arguments[index] & u64::from(u32::MAX)).ok();
        let fd = directory.and_then(low).map(u32::cast_signed);
        directory_of(pid, fd)?.join(path)
    };
    let writes = match usage {
        Use::Read => false,
        Use::Write => true,
        Use::Open(flags) => {
            let writing = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
            arguments[flags] & u64::from(writing.cast_unsigned()) != 0
        }
    };
    Some(if writes {
        ProgramAccess::Write(path)
    } else {
        ProgramAccess::Read(path)
    })
}

fn directory_of(pid: Pid, fd: Option<i32>) -> Option<PathBuf> {
    let link = match fd {
        None | Some(libc::AT_FDCWD) => format!("/proc/{pid}/cwd"),
        Some(fd) => format!("/proc/{pid}/fd/{fd}"),
    };
    fs::read_link(link).ok()
}

fn connection(pid: Pid, address: u64, length: u64) -> Option<ProgramAccess> {
    const LARGEST: u64 = 28;
    let mut bytes = vec![0; usize::try_from(length.min(LARGEST)).ok()?];
    memory(pid)?.read_exact_at(&mut bytes, address).ok()?;
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let address: SocketAddr = match family {
        libc::AF_INET => {
            let ip: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            (Ipv4Addr::from(ip), port).into()
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            (Ipv6Addr::from(ip), port).into()
        }
        _ => return None,
    };
    Some(ProgramAccess::Connect(address.to_string()))
}

/// A text that ends with zero; `None` above the limit of the kernel.
fn read_text(pid: Pid, address: u64) -> Option<String> {
    const PAGE: u64 = 4096;
    let memory = memory(pid)?;
    let mut text = Vec::new();
    while text.len() < libc::PATH_MAX as usize {
        // The next page can be absent.
        let at = address.checked_add(text.len() as u64)?;
        let mut part = vec![0; usize::try_from(PAGE - at % PAGE).ok()?];
        let count = memory
            .read_at(&mut part, at)
            .ok()
            .filter(|count| *count > 0)?;
        if let Some(end) = part[..count].iter().position(|&byte| byte == 0) {
            text.extend_from_slice(&part[..end]);
            return String::from_utf8(text).ok();
        }
        text.extend_from_slice(&part[..count]);
    }
    None
}

fn memory(pid: Pid) -> Option<File> {
    File::open(Path::new("/proc").join(pid.to_string()).join("mem")).ok()
}

#[cfg(target_arch = "x86_64")]
fn entry(pid: Pid) -> Option<(c_long, [u64; 6])> {
    let registers = ptrace::getregs(pid).ok()?;
    let arguments = [
        registers.rdi,
        registers.rsi,
        registers.rdx,
        registers.r10,
        registers.r8,
        registers.r9,
    ];
    Some((registers.orig_rax.cast_signed(), arguments))
}

#[cfg(target_arch = "x86_64")]
fn result(pid: Pid) -> Option<i64> {
    ptrace::getregs(pid)
        .ok()
        .map(|registers| registers.rax.cast_signed())
}

#[cfg(target_arch = "aarch64")]
fn entry(pid: Pid) -> Option<(c_long, [u64; 6])> {
    let registers = ptrace::getregs(pid).ok()?.regs;
    let arguments = registers[..6].try_into().ok()?;
    Some((registers[8].cast_signed(), arguments))
}

#[cfg(target_arch = "aarch64")]
fn result(pid: Pid) -> Option<i64> {
    ptrace::getregs(pid)
        .ok()
        .map(|registers| registers.regs[0].cast_signed())
}
