//! Errors and conflicts of applying file changes, written for the user.

use std::{fmt, io, path::PathBuf};

use crate::{Location, PathState};

/// A path that is not in the expected state; it is left unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub at: Location,
    pub expected: PathState,
    /// `None` for a socket, a device or a FIFO.
    pub found: Option<PathState>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` was changed by another process: it was {}, now it is {}",
            EscapedPath(&self.at),
            Described(Some(&self.expected)),
            Described(self.found.as_ref())
        )
    }
}

/// Why a list of changes was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{}", list_conflicts(.0))]
    Conflicts(Vec<Conflict>),
    #[error("`{}` is not one of the opened directories; open it too", .0.display().to_string().escape_debug())]
    UnknownRoot(PathBuf),
    #[error("cannot open the directory `{}`: {source}; restore it, then try again", .path.display().to_string().escape_debug())]
    Root {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the granted directory `{}` was moved or replaced, so nothing was written; restore it or restart the host", .0.display().to_string().escape_debug())]
    RootMoved(PathBuf),
    #[error("cannot mark the changes as applied: {0}; free some space, then try again")]
    Journal(#[source] io::Error),
    #[error("`{}` is not a valid relative path; the list of changes is damaged", EscapedPath(.0))]
    BadPath(Location),
    #[error("cannot apply the list of changes: `{}` {why}; run the call again", EscapedPath(.at))]
    InvalidChanges { at: Location, why: &'static str },
    #[error("cannot {operation} `{}`: {source}", EscapedPath(.at))]
    Io {
        operation: &'static str,
        at: Location,
        #[source]
        source: io::Error,
    },
    #[error(
        "cannot move `{}` to `{}`: they are on different file systems; copy and delete instead",
        EscapedPath(.from),
        EscapedPath(.to)
    )]
    AcrossFileSystems { from: Location, to: Location },
    #[error("the new content of `{}` differs from the approved content; run the call again", EscapedPath(.0))]
    ContentMismatch(Location),
    #[error("cannot restore `{}`: its earlier content is no longer saved", EscapedPath(.0))]
    ContentNotSaved(Location),
    #[error("cannot save the earlier content of `{}`: {source}", EscapedPath(.at))]
    SaveContent {
        at: Location,
        #[source]
        source: io::Error,
    },
    /// Everything that is not listed was restored.
    #[error("{cause}; these paths could not be restored: {}", list_conflicts(.left))]
    NotReverted {
        cause: Box<ApplyError>,
        left: Vec<Conflict>,
    },
    #[error("{cause}; the rollback failed too: {revert}; run recovery before the next change")]
    RevertFailed {
        cause: Box<ApplyError>,
        revert: Box<ApplyError>,
    },
}

/// Only the first conflicts are listed; the rest are counted.
fn list_conflicts(conflicts: &[Conflict]) -> String {
    const SHOWN: usize = 5;
    let mut text: Vec<String> = conflicts
        .iter()
        .take(SHOWN)
        .map(Conflict::to_string)
        .collect();
    if conflicts.len() > SHOWN {
        text.push(format!("and {} more", conflicts.len() - SHOWN));
    }
    text.join("; ")
}

/// A path with control characters escaped, because file names must not control the terminal.
struct EscapedPath<'a>(&'a Location);

impl fmt::Display for EscapedPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.path.escape_debug(), f)
    }
}

struct Described<'a>(Option<&'a PathState>);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("a socket, device or FIFO"),
            Some(PathState::Absent) => f.write_str("absent"),
            Some(PathState::File(file)) => {
                write!(f, "a file of {} bytes, mode {:o}", file.size, file.mode)
            }
            Some(PathState::Dir { .. }) => f.write_str("a directory"),
            Some(PathState::Link { target }) => write!(f, "a link to `{target}`"),
        }
    }
}
