//! Summarizes staged changes for the user and for rules: types, sizes and text diffs.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolhost_contract::text::{self, UnifiedDiff};
use toolhost_contract::{
    BinaryContent, ChangeKind, ChangeSide, FileChange, FileDiff, FileKind, LargeContent,
    MAX_EDIT_BYTES, MAX_TOTAL_EDIT_BYTES, UndiffedContent,
};
use toolhost_vfs::{
    Access, Change, FileState, Location, OpenHow, PERMISSIONS, PathState, Scope, Stage,
    StagedChange,
};

/// Limits of text diffs: bytes of one file, bytes of all files of a call, and number of diffs.
const DIFF_BYTES: u64 = MAX_EDIT_BYTES as u64;
const ALL_DIFF_BYTES: u64 = MAX_TOTAL_EDIT_BYTES as u64;
const DIFFS: usize = 200;
/// After this time a coarser diff is produced.
const DIFF_TIME: Duration = Duration::from_millis(200);

const EXECUTE: u32 = 0o111;

/// Creates diffs within the limits.
pub(crate) struct DiffBuilder {
    left: u64,
    count: usize,
}

impl Default for DiffBuilder {
    fn default() -> Self {
        Self {
            left: ALL_DIFF_BYTES,
            count: 0,
        }
    }
}

impl DiffBuilder {
    /// Describes a change. `old` and `new` open the content of the file before and after it.
    pub(crate) fn change(
        &mut self,
        change: &Change,
        old_content: impl FnOnce() -> Option<File>,
        new_content: impl FnOnce() -> Option<File>,
    ) -> FileChange {
        let Change {
            at,
            before,
            after,
            moved_from,
        } = change;
        let kind = match (moved_from, before, after) {
            (Some(from), _, _) => ChangeKind::Moved {
                from: host_path(from),
            },
            (None, PathState::Absent, _) => ChangeKind::Created,
            (None, _, PathState::Absent) => ChangeKind::Deleted,
            (None, _, _) => ChangeKind::Modified,
        };
        let (old, new) = (file(before), file(after));
        let mode = |file: &FileState| file.mode & PERMISSIONS;
        let (old_mode, new_mode) = (old.map(mode), new.map(mode));
        let (diff, undiffed, content) = match self.content(change, old_content, new_content) {
            Ok(Some(ShownContent::Text(diff))) => (Some(diff), None, None),
            Ok(Some(ShownContent::Binary(content))) => {
                let content = UndiffedContent::Binary(content);
                (None, Some("binary"), Some(content))
            }
            Ok(None) => (None, None, None),
            Err(why) => (None, Some(why), None),
        };
        FileChange {
            path: host_path(at),
            kind,
            file_kind: match (before, after) {
                (_, PathState::Dir { .. }) | (PathState::Dir { .. }, PathState::Absent) => {
                    FileKind::Directory
                }
                (_, PathState::Link { .. }) | (PathState::Link { .. }, PathState::Absent) => {
                    FileKind::Link
                }
                (_, PathState::File(_) | PathState::Absent) => FileKind::File,
            },
            sizes: (old.map(|file| file.size), new.map(|file| file.size)),
            link_targets: (link_target(before), link_target(after)),
            modes: match (old_mode, new_mode) {
                (Some(old), Some(new)) if old != new => Some((old, new)),
                // A new file is executable only if the call requested it.
                (None, Some(new)) if new & EXECUTE != 0 && moved_from.is_none() => {
                    Some((new & !EXECUTE, new))
                }
                _ => None,
            },
            executable: new.is_some_and(|file| file.mode & 0o111 != 0),
            diff,
            no_diff_reason: undiffed,
            content,
        }
    }

    /// Describes a change of a stage. The content of a file beyond the limits can be opened until the stage is dropped.
    pub(crate) fn staged_change(&mut self, stage: &Stage, staged: &StagedChange) -> FileChange {
        let at = &staged.change.at;
        let old = || open_below(stage.scope(), at);
        let new = || File::open(staged.content.as_ref()?).ok();
        let mut described = self.change(&staged.change, old, new);
        if described.no_diff_reason.is_some() && described.content.is_none() {
            described.content = Some(UndiffedContent::Large(large_content(stage, staged)));
        }
        described
    }

    /// `None`: the content did not change.
    fn content(
        &mut self,
        change: &Change,
        old_content: impl FnOnce() -> Option<File>,
        new_content: impl FnOnce() -> Option<File>,
    ) -> Result<Option<ShownContent>, &'static str> {
        let (old, new) = (file(&change.before), file(&change.after));
        if old.map(|file| file.hash) == new.map(|file| file.hash) || change.moved_from.is_some() {
            return Ok(None);
        }
        let sizes = [old, new].map(|file| file.map_or(0, |file| file.size));
        if sizes.iter().any(|size| *size > DIFF_BYTES) {
            return Err("too large to show");
        }
        let sum: u64 = sizes.iter().sum();
        if sum > self.left || self.count >= DIFFS {
            return Err("too much to show");
        }
        self.left -= sum;
        self.count += 1;
        let original = match old {
            Some(_) => Some(read(old_content().ok_or(UNREADABLE)?)?),
            None => None,
        };
        let new = match new {
            Some(_) => read(new_content().ok_or(UNREADABLE)?)?,
            None => Vec::new(),
        };
        let new = (change.after != PathState::Absent).then_some(new);
        let texts = (
            original.as_deref().map(text_of),
            new.as_deref().map(text_of),
        );
        Ok(Some(match texts {
            (Some(None), _) | (_, Some(None)) => ShownContent::Binary(BinaryContent {
                before: original.map(Arc::from),
                after: new.map(Arc::from),
            }),
            (original, new) => {
                let original = original.flatten().map(str::to_owned);
                ShownContent::Text(file_diff(&change.at.path, original, new.flatten()))
            }
        }))
    }
}

fn large_content(stage: &Stage, staged: &StagedChange) -> LargeContent {
    // Does not keep the stage alive, because the description of a change can outlive the call.
    let stage = stage.downgrade();
    let before = file(&staged.change.before).map(|_| staged.change.at.clone());
    let after = staged.content.clone();
    LargeContent::new(move |side| {
        let stage = stage.upgrade()?;
        match side {
            ChangeSide::Before => open_below(stage.scope(), before.as_ref()?),
            ChangeSide::After => File::open(after.as_ref()?).ok(),
        }
    })
}

/// The real file, opened as the guest would open it.
pub(crate) fn open_below(scope: &Scope, at: &Location) -> Option<File> {
    let root = scope.roots().iter().find(|root| root.host() == at.root)?;
    let how = OpenHow {
        read: true,
        ..OpenHow::default()
    };
    let opened = scope.open_at(root.dir().as_fd(), Access::ReadOnly, &at.path, &how);
    opened.ok().map(|opened| File::from(opened.fd))
}

/// The content of a change as a user can see it.
enum ShownContent {
    Text(FileDiff),
    Binary(BinaryContent),
}

/// Diff of two texts of a file; `None` if the file does not exist.
pub fn file_diff(name: &str, original: Option<String>, new: Option<&str>) -> FileDiff {
    // A single line, because the diff follows on the next line.
    let shown = &text::escape_line(name, 4_096);
    let header = |text: Option<&str>| {
        if text.is_some() { shown } else { "/dev/null" }
    };
    let diff = UnifiedDiff {
        header: Some((header(original.as_deref()), header(new))),
        deadline: Some(Instant::now() + DIFF_TIME),
        ..UnifiedDiff::default()
    };
    let diff = diff.of(
        original.as_deref().unwrap_or_default(),
        new.unwrap_or_default(),
    );
    FileDiff {
        file_name: name.to_owned(),
        diff,
        original,
        new: new.unwrap_or_default().to_owned(),
    }
}

const UNREADABLE: &str = "cannot be read";

fn read(file: File) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::new();
    file.take(DIFF_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|_| UNREADABLE)?;
    Ok(bytes)
}

/// `None`: the content is binary.
fn text_of(bytes: &[u8]) -> Option<&str> {
    if bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

fn file(image: &PathState) -> Option<&FileState> {
    match image {
        PathState::File(file) => Some(file),
        PathState::Absent | PathState::Dir { .. } | PathState::Link { .. } => None,
    }
}

fn link_target(image: &PathState) -> Option<String> {
    match image {
        PathState::Link { target } => Some(target.as_os_str().to_string_lossy().into_owned()),
        PathState::Absent | PathState::File(_) | PathState::Dir { .. } => None,
    }
}

pub(crate) fn host_path(at: &Location) -> String {
    at.root.join(&at.path).to_string_lossy().into_owned()
}
