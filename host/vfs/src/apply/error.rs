//! What can stop a set of changes, told to the person whose files they are.

use std::{fmt, io, path::PathBuf};

use crate::{Image, Location};

/// A place is not as it was seen, so nothing is done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub at: Location,
    pub expected: Image,
    /// `None` for what is no file, directory or link: a socket, a device, a pipe.
    pub found: Option<Image>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` was changed by somebody else since: it was {}, now it is {}",
            Shown(&self.at),
            Described(Some(&self.expected)),
            Described(self.found.as_ref())
        )
    }
}

/// Why a set of changes was not made.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{}", list(.0))]
    Changed(Vec<Conflict>),
    #[error("`{}` is not one of the opened directories; open it with the others", .0.display().to_string().escape_debug())]
    UnknownRoot(PathBuf),
    #[error("cannot open the directory `{}`: {source}; bring it back, then try again", .path.display().to_string().escape_debug())]
    Root {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the granted directory `{}` is no longer where it was, so nothing was written; bring it back or start the host again", .0.display().to_string().escape_debug())]
    Elsewhere(PathBuf),
    #[error("cannot write down that the changes are made: {0}; free some space, then try again")]
    Journal(#[source] io::Error),
    #[error("`{}` is no path below a directory; the list of changes is damaged", Shown(.0))]
    BadPath(Location),
    #[error("the list of changes cannot be carried out: `{}` {why}; run the call again", Shown(.at))]
    List { at: Location, why: &'static str },
    #[error("cannot {what} `{}`: {source}", Shown(.at))]
    Io {
        what: &'static str,
        at: Location,
        #[source]
        source: io::Error,
    },
    #[error(
        "cannot move `{}` to `{}`: they are on different file systems; copy and delete instead",
        Shown(.from),
        Shown(.to)
    )]
    AcrossFileSystems { from: Location, to: Location },
    #[error("the new content of `{}` is not what was shown; run the call again", Shown(.0))]
    Content(Location),
    #[error("the earlier content of `{}` is not kept any more, so it cannot be put back", Shown(.0))]
    NotKept(Location),
    #[error("cannot keep the earlier content of `{}`: {source}", Shown(.at))]
    Keep {
        at: Location,
        #[source]
        source: io::Error,
    },
    /// Everything that is not named was put back.
    #[error("{cause}; these places could not be put back: {}", list(.left))]
    NotReverted {
        cause: Box<ApplyError>,
        left: Vec<Conflict>,
    },
    #[error(
        "{cause}; putting everything back failed too: {revert}; recover before the next change"
    )]
    RevertFailed {
        cause: Box<ApplyError>,
        revert: Box<ApplyError>,
    },
}

/// Long lists help nobody: the rest is counted.
fn list(conflicts: &[Conflict]) -> String {
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

/// A path as it may be printed: whoever named the file must not steer the terminal.
struct Shown<'a>(&'a Location);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.path.escape_debug(), f)
    }
}

struct Described<'a>(Option<&'a Image>);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("something else than a file"),
            Some(Image::Absent) => f.write_str("absent"),
            Some(Image::File(file)) => {
                write!(f, "a file of {} bytes, mode {:o}", file.size, file.mode)
            }
            Some(Image::Dir { .. }) => f.write_str("a directory"),
            Some(Image::Link { target }) => write!(f, "a link to `{target}`"),
        }
    }
}
