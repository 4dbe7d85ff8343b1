//! Errors and conflicts of applying file changes, written for the user.

use std::{fmt, io, path::PathBuf};

use crate::{Location, PERMISSIONS, PathState};

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
        )?;
        match (&self.expected, &self.found) {
            (PathState::File(one), Some(PathState::File(other)))
                if one.size == other.size && one.hash != other.hash =>
            {
                f.write_str(", with other content")
            }
            (PathState::Dir { mode: one }, Some(PathState::Dir { mode: other })) => {
                let [one, other] = [one, other].map(|mode| mode & PERMISSIONS);
                write!(f, ", with mode {other:o} instead of {one:o}")
            }
            _ => Ok(()),
        }
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
    #[error("cannot mark the changes as applied: {source}; {}, then try again", journal_remedy(.source))]
    Journal { source: io::Error },
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
    #[error("cannot restore `{}`: its content is no longer saved, or another program changed the saved content", EscapedPath(.0))]
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

fn journal_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
        _ => "make the directory `blobs` of the host's state directory writable",
    }
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
                let mode = file.mode & PERMISSIONS;
                write!(f, "a file of {} bytes, mode {mode:o}", file.size)
            }
            Some(PathState::Dir { .. }) => f.write_str("a directory"),
            Some(PathState::Link { target }) => write!(f, "a link to `{target}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContentHash, FileState};

    fn file(text: &str, mode: u32) -> PathState {
        PathState::File(FileState {
            hash: ContentHash::of(text.as_bytes()),
            size: text.len() as u64,
            mode,
        })
    }

    #[test]
    fn a_conflict_names_the_difference() {
        let dir = |mode| PathState::Dir { mode };
        for (expected, found, shown) in [
            (
                file("one", 0o644),
                file("two", 0o644),
                "it was a file of 3 bytes, mode 644, now it is a file of 3 bytes, mode 644, with other content",
            ),
            (
                file("one", 0o4755),
                file("one", 0o700),
                "it was a file of 3 bytes, mode 755, now it is a file of 3 bytes, mode 700",
            ),
            (
                dir(0o755),
                dir(0o700),
                "it was a directory, now it is a directory, with mode 700 instead of 755",
            ),
            (
                file("one", 0o644),
                PathState::Absent,
                "it was a file of 3 bytes, mode 644, now it is absent",
            ),
        ] {
            let conflict = Conflict {
                at: Location {
                    root: "/ws".into(),
                    path: "a".to_owned(),
                },
                expected,
                found: Some(found),
            };
            let all = format!("`a` was changed by another process: {shown}");
            assert_eq!(conflict.to_string(), all);
        }
    }

    #[test]
    fn the_remedy_for_a_journal_error_fits_its_cause() {
        for (kind, remedy) in [
            (io::ErrorKind::StorageFull, "free some space"),
            (io::ErrorKind::PermissionDenied, "`blobs`"),
        ] {
            let shown = ApplyError::Journal {
                source: kind.into(),
            }
            .to_string();
            assert!(shown.contains(remedy), "{shown}");
        }
    }
}
