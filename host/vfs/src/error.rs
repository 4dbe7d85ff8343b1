//! Errors of file system operations and of opening a scope.

use std::path::PathBuf;

use rustix::io::Errno;

/// Why a path operation was refused. The names follow WASI's error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("not permitted: outside the granted directories, or without write access")]
    NotPermitted,
    #[error("no such file or directory")]
    NotFound,
    #[error("already exists")]
    Exists,
    #[error("is a directory")]
    IsDirectory,
    #[error("is not a directory")]
    NotDirectory,
    #[error("directory is not empty")]
    NotEmpty,
    #[error("too many symbolic links, or a link where none may be followed")]
    Loop,
    #[error("invalid path or flags")]
    Invalid,
    #[error("name is not valid UTF-8")]
    NotUtf8,
    #[error("directory has more entries than one listing may return")]
    TooManyEntries,
    #[error("busy, try again")]
    Busy,
    #[error("path or name too long, or nested too deeply")]
    NameTooLong,
    #[error("no space left")]
    NoSpace,
    #[error("the file system is mounted read-only")]
    ReadOnlyFileSystem,
    #[error("the two paths are on different file systems")]
    CrossDevice,
    #[error("too many links to this file")]
    TooManyLinks,
    #[error("not supported by this file system")]
    Unsupported,
    #[error("input/output error: {0}")]
    Io(Errno),
}

impl From<Errno> for PathError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::PERM | Errno::ACCESS => Self::NotPermitted,
            Errno::NOENT => Self::NotFound,
            Errno::EXIST => Self::Exists,
            Errno::ISDIR => Self::IsDirectory,
            Errno::NOTDIR => Self::NotDirectory,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::LOOP => Self::Loop,
            Errno::INVAL => Self::Invalid,
            Errno::ILSEQ => Self::NotUtf8,
            Errno::BUSY | Errno::AGAIN | Errno::TXTBSY | Errno::INTR => Self::Busy,
            Errno::NAMETOOLONG => Self::NameTooLong,
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace,
            Errno::ROFS => Self::ReadOnlyFileSystem,
            Errno::XDEV => Self::CrossDevice,
            Errno::MLINK => Self::TooManyLinks,
            Errno::OPNOTSUPP | Errno::NOSYS => Self::Unsupported,
            other => Self::Io(other),
        }
    }
}

/// Why a scope could not be opened for a set of grants. Written for the operator who configured the grants.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    #[error(
        "cannot confine paths on this kernel; use kernel 5.6 or newer, with openat2 not blocked by a sandbox"
    )]
    OldKernel,
    #[error("granted path `{path}` is not absolute; use an absolute path", path = .0.display())]
    Relative(PathBuf),
    #[error("granted path `{path}` does not exist; create it or correct the grant", path = .0.display())]
    Missing(PathBuf),
    #[error("granted path `{path}` is neither a directory nor a regular file; grant its directory", path = .0.display())]
    NeitherFileNorDirectory(PathBuf),
    #[error(
        "invalid exclude pattern `{pattern}`: {why}; use .gitignore syntax, relative to the granted directory"
    )]
    BadExclude { pattern: String, why: String },
    #[error("guest name `{0}` is invalid; use a name such as `/workspace`")]
    BadGuestName(String),
    #[error("guest name `{0}` is used by two grants; use a different name for each")]
    DuplicateGuestName(String),
    #[error(
        "granted path `{path}` {why}, which cannot be granted; grant the directory that holds the files instead",
        path = .path.display()
    )]
    Forbidden { path: PathBuf, why: &'static str },
    #[error(
        "granted path `{path}` {why}; grant a directory inside it, or mark this grant as dangerous",
        path = .path.display()
    )]
    NeedsDangerous { path: PathBuf, why: &'static str },
    #[error(
        "granted path `{path}` is inside `{inside}`, which is reserved for the host; grant another directory",
        path = .path.display(),
        inside = .inside.display()
    )]
    Reserved { path: PathBuf, inside: PathBuf },
    #[error(
        "granted path `{path}` uses the link `{link}`, which tools can change because `{inside}` is writable; grant the link's target",
        path = .path.display(),
        link = .link.display(),
        inside = .inside.display()
    )]
    LinkInGrant {
        path: PathBuf,
        link: PathBuf,
        inside: PathBuf,
    },
    #[error(
        "`{path}` is reached through the symbolic link `{link}`, which a tool may have created; remove the link",
        path = .path.display(),
        link = .link.display()
    )]
    LinkToHostDir { path: PathBuf, link: PathBuf },
    #[error("cannot open `{path}`: {source}", path = .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}
