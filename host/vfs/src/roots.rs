//! Opens a granted directory and rejects those that would expose the whole machine.

use std::{
    ffi::OsString,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use crate::{
    FileId, PathGrant, ScopeError,
    trace::{Ancestry, PathTrace, TraceEnd, trace},
};

/// A granted directory that was opened and accepted, before overlaps are resolved.
pub(crate) struct OpenedRoot {
    pub path: PathBuf,
    pub dir: OwnedFd,
    /// The granted file in it, if a file was granted.
    pub file: Option<OsString>,
    pub lineage: Ancestry,
    pub trace: PathTrace,
}

pub(crate) fn open(grant: &PathGrant, special: &SpecialDirs) -> Result<OpenedRoot, ScopeError> {
    let opened = open_host_dir(grant)?;
    let (dir, lineage) = (opened.dir.as_fd(), &opened.lineage);
    special.check(grant, opened.file.is_some(), dir, lineage)?;
    Ok(opened)
}

/// Opens a directory that the host itself chose, without the checks for special directories.
pub(crate) fn open_host_dir(grant: &PathGrant) -> Result<OpenedRoot, ScopeError> {
    if !grant.host.is_absolute() {
        // The working directory may have been chosen by a model.
        return Err(ScopeError::Relative(grant.host.clone()));
    }
    let trace = trace(&grant.host).map_err(failed(&grant.host))?;
    let path = match &trace.end {
        TraceEnd::Found(path) => path.clone(),
        TraceEnd::Missing { .. } => return Err(ScopeError::Missing(grant.host.clone())),
    };
    let (path, file) = match (kind(&path)?, path.parent(), path.file_name()) {
        (FileType::Directory, _, _) => (path, None),
        (FileType::RegularFile, Some(dir), Some(name)) => (dir.to_owned(), Some(name.to_owned())),
        _ => return Err(ScopeError::NeitherFileNorDirectory(grant.host.clone())),
    };
    let dir = open_without_links(&path, &grant.host)?;
    let lineage = Ancestry::of(dir.as_fd()).map_err(failed(&path))?;
    Ok(OpenedRoot {
        path,
        dir,
        file,
        lineage,
        trace,
    })
}

fn kind(path: &Path) -> Result<FileType, ScopeError> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    let stat = stat.map_err(|errno| failed(path)(errno.into()))?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// `NO_SYMLINKS` closes the race between tracing and opening: the descriptor is what the traced path named.
fn open_without_links(path: &Path, granted: &Path) -> Result<OwnedFd, ScopeError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve).map_err(|errno| match errno {
        // Some container sandboxes return EPERM for unknown system calls.
        Errno::NOSYS | Errno::PERM => ScopeError::OldKernel,
        Errno::NOTDIR => ScopeError::NeitherFileNorDirectory(granted.to_owned()),
        Errno::NOENT => ScopeError::Missing(granted.to_owned()),
        other => failed(granted)(other.into()),
    })
}

pub(crate) fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> ScopeError {
    move |source| ScopeError::Io {
        path: path.to_owned(),
        source,
    }
}

/// System directories and the home directory, by inode, looked up once per scope.
pub(crate) struct SpecialDirs {
    kernel: Vec<FileId>,
    system: Vec<(FileId, &'static str)>,
    home: Option<Ancestry>,
}

impl SpecialDirs {
    pub(crate) fn load() -> Self {
        let id = |path: &str| {
            Ancestry::of_dir(Path::new(path))
                .ok()
                .map(|lineage| lineage.inode.id)
        };
        let system = [
            ("/", "is the whole machine"),
            ("/run", "contains the sockets of running services"),
            ("/boot", "contains the boot loader and kernel"),
        ];
        let home = std::env::home_dir()
            .filter(|home| home.is_absolute())
            .and_then(|home| trace(&home).ok());
        Self {
            kernel: ["/proc", "/sys", "/dev"]
                .into_iter()
                .filter_map(id)
                .collect(),
            system: system
                .into_iter()
                .filter_map(|(path, why)| Some((id(path)?, why)))
                .collect(),
            home: home.and_then(|trace| match trace.end {
                TraceEnd::Found(path) => Ancestry::of_dir(&path).ok(),
                TraceEnd::Missing { .. } => None,
            }),
        }
    }

    fn check(
        &self,
        grant: &PathGrant,
        is_file: bool,
        dir: BorrowedFd<'_>,
        lineage: &Ancestry,
    ) -> Result<(), ScopeError> {
        let id = lineage.inode.id;
        // A `/proc` grant would expose the host's own environment and memory, so it cannot be allowed.
        if self.kernel.iter().any(|kernel| lineage.is_in(*kernel)) || is_kernel_file_system(dir) {
            let why = "belongs to the kernel or its devices";
            return Err(ScopeError::Forbidden {
                path: grant.host.clone(),
                why,
            });
        }
        // A single file in the home directory does not expose the directory.
        if grant.dangerous || is_file {
            return Ok(());
        }
        let system = self
            .system
            .iter()
            .find(|(system, _)| *system == id)
            .map(|(_, why)| *why);
        let home = self
            .home
            .as_ref()
            .filter(|home| home.is_in(id))
            .map(|home| {
                if home.inode.id == id {
                    "is your home directory, which contains keys and settings of other programs"
                } else {
                    "contains your home directory, with keys and settings of other programs"
                }
            });
        match system.or(home) {
            Some(why) => Err(ScopeError::NeedsDangerous {
                path: grant.host.clone(),
                why,
            }),
            None => Ok(()),
        }
    }
}

/// Whether it is a kernel file system, which can be mounted anywhere.
fn is_kernel_file_system(dir: BorrowedFd<'_>) -> bool {
    const KERNEL: [u32; 12] = [
        0x9fa0,      // proc
        0x6265_6572, // sysfs
        0x6462_6720, // debugfs
        0x7472_6163, // tracefs
        0x7363_6673, // securityfs
        0x6367_7270, // cgroup2
        0x0027_e0eb, // cgroup
        0x1cd1,      // devpts
        0xcafe_4a11, // bpf
        0x6265_6570, // configfs
        0xde5e_81e4, // efivarfs
        0xf97c_ff8c, // selinuxfs
    ];
    file_system_magic(dir).is_some_and(|magic| KERNEL.contains(&magic))
}

/// Whether system calls on this directory are fast: on a local disk or in memory, not on a network or FUSE.
pub(crate) fn is_local(dir: BorrowedFd<'_>) -> bool {
    const LOCAL: [u32; 16] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // xfs
        0x9123_683e, // btrfs
        0x0102_1994, // tmpfs
        0x8584_58f6, // ramfs
        0x794c_7630, // overlayfs
        0xf2f5_2010, // f2fs
        0x2fc1_2fc1, // zfs
        0xca45_1a4e, // bcachefs
        0x7371_7368, // squashfs
        0xe0f5_e1e2, // erofs
        0x4d44,      // vfat
        0x2011_bab0, // exfat
        0x7366_746e, // ntfs3
        0x9660,      // iso9660
        0x3153_464a, // jfs
    ];
    file_system_magic(dir).is_some_and(|magic| LOCAL.contains(&magic))
}

/// Magic numbers are 32 bits wide; the type of the field depends on the architecture and can be signed.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the low 32 bits are the number"
)]
fn file_system_magic(dir: BorrowedFd<'_>) -> Option<u32> {
    rustix::fs::fstatfs(dir)
        .ok()
        .map(|answer| answer.f_type as u32)
}
