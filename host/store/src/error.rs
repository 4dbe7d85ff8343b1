//! Errors of the store, with remedies.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, ffi};
use toolhost_contract::text;

use crate::CommitState;

/// One variant for each case a caller handles differently. Cloneable, because an error is returned to all callers
/// whose writes shared the transaction; causes are kept as text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error(
        "{} is not a directory; choose another state directory or move the file away",
        show(path)
    )]
    NotADirectory { path: PathBuf },
    #[error(
        "{} is writable by other users (mode {mode:o}); run `chmod go-w` on it, or choose another state directory",
        show(path)
    )]
    WritableByOthers { path: PathBuf, mode: u32 },
    #[error(
        "{} belongs to user {uid}; choose a state directory of your own",
        show(path)
    )]
    WrongOwner { path: PathBuf, uid: u32 },
    #[error(
        "{} is not a regular file; move it away, and the next start creates a new one",
        show(path)
    )]
    NotAFile { path: PathBuf },
    #[error(
        "{} cannot be written; make it writable, or choose another state directory",
        show(path)
    )]
    ReadOnly { path: PathBuf },
    #[error(
        "{} is not a database of this program; end all hosts and move it away, and the next start creates a new one",
        show(path)
    )]
    NotADatabase { path: PathBuf },
    #[error(
        "{} was written by a newer version (format {found}, supported {known}); update this program",
        show(path)
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error(
        "{} is damaged ({detail}); end all hosts and move it away, and the next start creates a new one",
        show(path)
    )]
    Corrupt { path: PathBuf, detail: String },
    #[error(
        "{} was moved, replaced or removed while this host runs; restart the host",
        show(path)
    )]
    Moved { path: PathBuf },
    #[error(
        "a row of {} cannot be read ({detail}); another program changed it, verify the store",
        show(path)
    )]
    Unreadable { path: PathBuf, detail: String },
    #[error(
        "{} is locked by another process; end that process or try again later",
        show(path)
    )]
    Locked { path: PathBuf },
    #[error(
        "the disk is full: {} cannot grow; free some space and try again",
        show(path)
    )]
    Full { path: PathBuf },
    #[error(
        "{} cannot be read or written: {detail}; check the disk and the permissions",
        show(path)
    )]
    Io { path: PathBuf, detail: String },
    #[error("a row of {size} bytes is too large for the store (at most {max}); shorten the {kind}")]
    TooLarge {
        kind: &'static str,
        size: usize,
        max: usize,
    },
    #[error(
        "{count} records could not be written to {} and are missing; check the disk, and whether another process \
         locks the file",
        show(path)
    )]
    Lost { path: PathBuf, count: usize },
    #[error("the store has {waiting} pending writes; try again later")]
    QueueFull { waiting: usize },
    #[error("the store's writer has stopped; restart the program")]
    Closed,
    #[error("cannot generate a random id: {detail}; try again")]
    Random { detail: String },
    #[error(
        "{} rejected a statement: {detail}; this is a bug, please report it",
        show(path)
    )]
    Statement { path: PathBuf, detail: String },
}

/// Why an answer was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error(
        "call `{}` now asks a different question; answer the current one",
        name(call)
    )]
    QuestionChanged { call: String },
    #[error("no call `{}`; list the pending calls", name(call))]
    UnknownCall { call: String },
    #[error("the call has ended ({}); there is nothing to answer", name(state))]
    Finished { state: String },
    #[error("the call is not waiting for an answer (it is {})", name(state))]
    NotWaiting { state: String },
    #[error("`{}` has already answered; the first answer counts", name(by))]
    AlreadyAnswered { by: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an approval was not saved or revoked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    #[error("no approval `{}`; list the approvals", name(id))]
    Unknown { id: String },
    #[error("approval `{}` already exists; choose another id", name(id))]
    Exists { id: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a commit did not begin or did not change its state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    #[error(
        "invalid commit id `{}`; use 1 to 64 characters of a-z, 0-9 and -",
        name(id)
    )]
    Name { id: String },
    #[error("a commit cannot begin in state {state}; begin it as begun")]
    NotBegun { state: CommitState },
    #[error("commit `{}` already exists; choose another id", name(id))]
    Exists { id: String },
    #[error(
        "commit `{}` is {state}; only commits that are done can be undone or redone",
        name(id)
    )]
    NotDone { id: String, state: CommitState },
    #[error(
        "commit `{}` is being undone or redone by `{}`; try again when that has ended",
        name(id),
        name(by)
    )]
    Busy { id: String, by: String },
    #[error("no commit `{}`; list the commits", name(id))]
    Unknown { id: String },
    #[error(
        "commit `{}` is {state} and cannot become {next}; check it again, another process may have changed it",
        name(id)
    )]
    State {
        id: String,
        state: CommitState,
        next: CommitState,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn name(value: &str) -> String {
    text::escape_line(value, 80)
}

fn show(path: &Path) -> String {
    text::escape_line(&path.to_string_lossy(), 400)
}

impl StoreError {
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotADirectory => Self::NotADirectory { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { path }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::Io {
                path,
                detail: error.to_string(),
            },
        }
    }

    pub(crate) fn sql(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let detail = match error {
            // A value of another program, or one that does not match the chain.
            rusqlite::Error::FromSqlConversionFailure(_, _, cause) => cause.to_string(),
            rusqlite::Error::InvalidColumnType(_, column, kind) => {
                format!("`{column}` is of type {kind}")
            }
            rusqlite::Error::SqlInputError { msg, .. } if is_other_schema(msg) => msg.clone(),
            other => other.to_string(),
        };
        let detail = text::escape_line(&detail, 200);
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked { path },
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(code) if is_failed_growth(code, error) && has_no_space(&path) => {
                Self::Full { path }
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly { path },
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path },
            Some(ErrorCode::DatabaseCorrupt) => Self::Corrupt { path, detail },
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => Self::Io { path, detail },
            Some(_) if is_other_schema(&detail) => Self::Corrupt { path, detail },
            Some(_) => Self::Statement { path, detail },
            // A value of the wrong type, or invalid JSON: only this program should write here.
            None => Self::Unreadable { path, detail },
        }
    }

    /// The row caused the error, not the database: other rows of the group can still be written.
    pub(crate) fn is_row_error(&self) -> bool {
        matches!(
            self,
            Self::Statement { .. } | Self::Unreadable { .. } | Self::TooLarge { .. }
        )
    }
}

/// SQLite reports a full disk as these errors when it creates the files beside the database.
fn is_failed_growth(code: ErrorCode, error: &rusqlite::Error) -> bool {
    let extended = error.sqlite_error().map(|error| error.extended_code);
    code == ErrorCode::CannotOpen
        || matches!(
            extended,
            Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMOPEN)
        )
}

/// Whether the file system of the database is full.
fn has_no_space(database: &Path) -> bool {
    /// Size of the shared-memory file in bytes, the largest that SQLite allocates at once.
    const NEEDED: u64 = 32 * 1_024;
    let directory = database.parent().unwrap_or(database);
    rustix::fs::statvfs(directory)
        .is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) < NEEDED)
}

/// Another program removed a table or a column, or replaced a table by a view.
fn is_other_schema(detail: &str) -> bool {
    let starts = ["no such table:", "no such column:", "cannot modify "];
    starts.iter().any(|start| detail.starts_with(start)) || detail.contains(" has no column named ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sqlite(code: i32, message: &str) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message.to_owned()))
    }

    #[test]
    fn a_full_disk_is_reported_as_one() {
        // A file system without free space.
        let full = Path::new("/proc/store.db");
        for code in [
            ffi::SQLITE_FULL,
            ffi::SQLITE_IOERR_WRITE,
            ffi::SQLITE_IOERR_SHMSIZE,
            ffi::SQLITE_IOERR_SHMOPEN,
            ffi::SQLITE_CANTOPEN,
        ] {
            let error = StoreError::sql(full, &sqlite(code, "disk I/O error"));
            assert!(matches!(error, StoreError::Full { .. }), "{code}: {error}");
        }
        let directory = std::env::temp_dir();
        for (path, code) in [
            (full, ffi::SQLITE_IOERR_READ),
            (&directory.join("store.db"), ffi::SQLITE_IOERR_SHMSIZE),
        ] {
            let error = StoreError::sql(path, &sqlite(code, "disk I/O error"));
            assert!(matches!(error, StoreError::Io { .. }), "{code}: {error}");
        }
    }
}
