//! What a call did to files while nothing was real yet, and the handle that makes it real.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Value, json};

use crate::units::show_size;
use crate::{BoxFuture, CallError, Edit, Edited, FileDiff, text};

/// Everything that a call would change, sorted by path.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChangeSet {
    pub changes: Vec<FileChange>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FileChange {
    /// On the host. As far as it is UTF-8; for people and rules, never to open.
    pub path: String,
    pub kind: ChangeKind,
    pub what: FileKind,
    /// Bytes before and after, for files.
    pub sizes: (Option<u64>, Option<u64>),
    /// Permission bits, where they changed.
    pub modes: Option<(u32, u32)>,
    /// A file that can be run as a program, after the change.
    pub executable: bool,
    /// For text of a size that somebody may read.
    pub diff: Option<FileDiff>,
    /// Why there is no difference to show, for a file whose content changed.
    pub undiffed: Option<&'static str>,
}

impl FileChange {
    /// For people, unescaped: `src/a.rs  (file, 120 B → 124 B, mode 644 → 755, binary)`.
    pub fn described(&self) -> String {
        let mut words = vec![self.what.as_str().to_owned()];
        if let ChangeKind::Moved { from } = &self.kind {
            words.push(format!("from {from}"));
        }
        match self.sizes {
            (Some(before), Some(after)) => {
                words.push(format!("{} → {}", show_size(before), show_size(after)));
            }
            (Some(size), None) | (None, Some(size)) => words.push(show_size(size)),
            (None, None) => {}
        }
        if let Some((before, after)) = self.modes {
            words.push(format!("mode {before:o} → {after:o}"));
        }
        words.extend(self.undiffed.map(ToOwned::to_owned));
        format!("{}  ({})", self.path, words.join(", "))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    Created,
    Modified,
    Deleted,
    Moved { from: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Link,
}

impl ChangeKind {
    pub fn as_str(&self) -> &'static str {
        match self {
            ChangeKind::Created => "created",
            ChangeKind::Modified => "modified",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Moved { .. } => "moved",
        }
    }
}

impl FileKind {
    pub fn as_str(self) -> &'static str {
        match self {
            FileKind::File => "file",
            FileKind::Directory => "directory",
            FileKind::Link => "link",
        }
    }
}

impl ChangeSet {
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Are there changes below its paths that it does not list? What is in a moved directory moves along.
    pub fn goes_deeper(&self) -> bool {
        self.changes.iter().any(|change| {
            change.what == FileKind::Directory && matches!(change.kind, ChangeKind::Moved { .. })
        })
    }

    /// Every path that it touches, each once, both ends of a move among them.
    pub fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = Vec::new();
        for change in &self.changes {
            paths.push(&change.path);
            if let ChangeKind::Moved { from } = &change.kind {
                paths.push(from);
            }
        }
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// The paths of files that can be run as programs, after the changes.
    pub fn executables(&self) -> HashSet<&str> {
        let executable = self.changes.iter().filter(|change| change.executable);
        executable.map(|change| change.path.as_str()).collect()
    }

    /// Lines that its differences add and take away.
    pub fn lines(&self) -> (usize, usize) {
        let diffs = || {
            self.changes
                .iter()
                .filter_map(|change| change.diff.as_ref())
        };
        let starting = |sign: char| {
            let lines = diffs().flat_map(|diff| diff.body().lines());
            lines.filter(|line| line.starts_with(sign)).count()
        };
        (starting('+'), starting('-'))
    }

    /// Without the contents: for records and events.
    pub fn summary(&self) -> Value {
        let each = self.changes.iter().take(200).map(|change| {
            let mut shown = json!({
                "path": text::inline(&change.path, 1_000),
                "change": change.kind.as_str(),
                "what": change.what.as_str(),
            });
            if let ChangeKind::Moved { from } = &change.kind {
                shown["from"] = json!(text::inline(from, 1_000));
            }
            shown
        });
        json!({"count": self.changes.len(), "changes": each.collect::<Vec<_>>()})
    }
}

/// `2 changes: +3 −1`
impl fmt::Display for ChangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.changes.len();
        let things = if count == 1 { "change" } else { "changes" };
        let (more, less) = self.lines();
        write!(f, "{count} {things}: +{more} −{less}")
    }
}

/// The changes of a call that has run, held back. Dropped, they never were.
pub trait Staged: Send + Sync {
    fn changes(&self) -> &ChangeSet;

    /// Looks whether everything is still as the call saw it, and keeps what an undo would need. Brings the entry for
    /// the journal, which has to be on disk before the commit.
    fn prepare(&self) -> BoxFuture<'_, Result<Value, CommitError>>;

    /// The same changes with these contents of a person's in place of the proposed ones. Takes what
    /// [`ChangeSet::accept`] takes. Nothing is real yet.
    fn edit(self: Box<Self>, edits: Vec<Edit>) -> BoxFuture<'static, Result<Edited, CallError>>;

    /// Makes all of it real, or nothing. `id` is the journal's.
    fn commit(self: Box<Self>, id: String) -> BoxFuture<'static, Result<(), CommitError>>;
}

/// Whoever can read the journal's entries of commits: brings them to an end after a crash, and takes them back.
pub trait Undo: Send + Sync {
    /// The process that made this commit is gone, perhaps in the middle of it.
    fn recover(&self, id: &str, entry: &Value) -> Result<Recovered, CallError>;

    /// The entry of the commit that takes another one back.
    fn inverted(&self, entry: &Value) -> Result<Value, CallError>;

    /// Takes back what `entry` tells of, all of it or nothing, as the commit `id`.
    fn undo(&self, id: &str, entry: &Value) -> Result<(), CommitError>;
}

/// What is left of a commit that was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// All of it had become real.
    Whole,
    Nothing,
    /// Nothing, but for these places, which somebody else has changed since.
    NothingBut(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CommitError {
    /// Somebody else changed these meanwhile. Nothing was done.
    #[error("changed by somebody else meanwhile: {}", .0.join(", "))]
    Conflict(Vec<String>),
    /// Nothing is left of it, or the error says what is.
    #[error("{}", .0.message)]
    Failed(Box<CallError>),
}
