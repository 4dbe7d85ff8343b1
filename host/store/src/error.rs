//! What can go wrong with the store, and what to do about each.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use toolhost_contract::text;

use crate::CommitState;

/// One variant for each thing a caller might do differently. An error reaches everybody whose write was in the same
/// transaction, so it can be cloned; causes are kept as their text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error(
        "{} is not a directory; choose another state directory or move the file away",
        show(path)
    )]
    NotADirectory { path: PathBuf },
    #[error(
        "others can write to {} (mode {mode:o}); take that away with `chmod go-w`, or choose another state directory",
        show(path)
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error(
        "{} belongs to user {uid}; choose a state directory of your own",
        show(path)
    )]
    NotOurs { path: PathBuf, uid: u32 },
    #[error(
        "{} is not an ordinary file; move it away, and the next start makes a new one",
        show(path)
    )]
    NotAFile { path: PathBuf },
    #[error(
        "{} cannot be written; make it writable, or choose another state directory",
        show(path)
    )]
    ReadOnly { path: PathBuf },
    #[error(
        "{} is not a database of this program; move it away, and the next start makes a new one",
        show(path)
    )]
    NotADatabase { path: PathBuf },
    #[error(
        "{} was written by a newer version (format {found}, this program knows {known}); update this program",
        show(path)
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error(
        "{} is damaged ({detail}); copy it for study and move it away, and the next start makes a new one",
        show(path)
    )]
    Corrupt { path: PathBuf, detail: String },
    #[error(
        "a row of {} cannot be read ({detail}); it was changed by another program, verify the store",
        show(path)
    )]
    Unreadable { path: PathBuf, detail: String },
    #[error(
        "{} is locked by another process; end that process or try again when it is done",
        show(path)
    )]
    Locked { path: PathBuf },
    #[error(
        "the disk is full: {} cannot grow; make room and try again",
        show(path)
    )]
    Full { path: PathBuf },
    #[error(
        "{} cannot be read or written: {detail}; check the disk and the permissions",
        show(path)
    )]
    Io { path: PathBuf, detail: String },
    #[error("a row of {size} bytes is too large for the store (at most {max}); shorten the {what}")]
    TooLarge {
        what: &'static str,
        size: usize,
        max: usize,
    },
    #[error("the store is behind by {waiting} writes; try again when it has caught up")]
    Behind { waiting: usize },
    #[error("the store's writer has ended; start the program again")]
    Closed,
    #[error("no randomness for a name: {detail}; try again")]
    Random { detail: String },
    #[error(
        "{} refused a statement: {detail}; this is an error of the program",
        show(path)
    )]
    Statement { path: PathBuf, detail: String },
}

/// Why an answer was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error(
        "call `{}` asks something else now than what was answered; look again and answer that",
        name(call)
    )]
    OtherQuestion { call: String },
    #[error("no call is named `{}`; list the calls that wait", name(call))]
    UnknownCall { call: String },
    #[error("the call has ended ({}); there is nothing to answer", name(state))]
    Finished { state: String },
    #[error("the call does not wait for an answer (it is {})", name(state))]
    NotWaiting { state: String },
    #[error("`{}` has answered already; the first answer counts", name(by))]
    AlreadyAnswered { by: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an approval was not kept or revoked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    #[error("no approval is named `{}`; list the approvals", name(id))]
    Unknown { id: String },
    #[error("an approval named `{}` exists already; choose another name", name(id))]
    Exists { id: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a commit did not begin or did not change its state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    #[error("`{}` cannot name a commit; use 1 to 64 of a-z, 0-9 and -", name(id))]
    Name { id: String },
    #[error("a commit cannot begin as {state}; begin it as begun and end it later")]
    NotBegun { state: CommitState },
    #[error("a commit named `{}` exists already; choose another name", name(id))]
    Exists { id: String },
    #[error(
        "commit `{}` is {state}; only what is done or undone can be undone or redone",
        name(id)
    )]
    Unsettled { id: String, state: CommitState },
    #[error(
        "commit `{}` is being undone or redone by `{}`; look again when that has ended",
        name(id),
        name(by)
    )]
    Busy { id: String, by: String },
    #[error("no commit is named `{}`; list the commits", name(id))]
    Unknown { id: String },
    #[error(
        "commit `{}` is {state} and cannot become {next}; look at it again, perhaps another process was faster",
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

fn name(word: &str) -> String {
    text::inline(word, 80)
}

fn show(path: &Path) -> String {
    text::inline(&path.to_string_lossy(), 400)
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
        let detail = text::inline(&error.to_string(), 200);
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked { path },
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly { path },
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path },
            Some(ErrorCode::DatabaseCorrupt) => Self::Corrupt { path, detail },
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => Self::Io { path, detail },
            Some(_) => Self::Statement { path, detail },
            // A value of the wrong type, or text that is not JSON: nobody but this program writes here.
            None => Self::Unreadable { path, detail },
        }
    }

    /// The row was at fault, not the place: the rows beside it may well be written.
    pub(crate) fn is_of_the_row(&self) -> bool {
        matches!(
            self,
            Self::Statement { .. } | Self::Unreadable { .. } | Self::TooLarge { .. }
        )
    }
}
