//! A call's changes on their way from the stage to the real tree: as data for people and rules, then committed.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::Value;
use similar::TextDiff;
use toolhost_contract::{
    BoxFuture, CallError, ChangeKind, ChangeSet, CommitError, Effects, ErrorClass, FileChange,
    FileDiff, FileKind, Recovered, text,
};
use toolhost_vfs::{
    Access, ApplyError, Blobs, Change, Conflict, FileImage, Image, Location, Op, OpenHow, Roots,
    Scope, Source, Stage, StageError, Staged,
};

/// Texts of files that a difference is made of: each, all of a call, and how many.
const DIFF_BYTES: u64 = 512 << 10;
const ALL_DIFF_BYTES: u64 = 4 << 20;
const DIFFS: usize = 200;
/// A difference that takes longer to find is shown less fine.
const DIFF_TIME: Duration = Duration::from_millis(200);

/// Where changes wait, and where what they replace is kept. Both belong to the host alone.
#[derive(Clone)]
pub struct Staging {
    pub stages: PathBuf,
    pub blobs: Arc<Blobs>,
}

impl toolhost_contract::Undo for Staging {
    fn recover(&self, id: &str, entry: &Value) -> Result<Recovered, CallError> {
        let changes = changes(entry)?;
        let (roots, step) = (roots(&changes)?, &mut crate::crash::steps());
        let whole = toolhost_vfs::is_made(id, &self.blobs)
            || toolhost_vfs::check_undo(&roots, &changes)
                .map_err(broken)?
                .is_empty();
        if whole {
            toolhost_vfs::tidy(&roots, &changes, id, &self.blobs, step).map_err(broken)?;
            return Ok(Recovered::Whole);
        }
        let left =
            toolhost_vfs::recover(&roots, &changes, id, &self.blobs, step).map_err(broken)?;
        if left.is_empty() {
            return Ok(Recovered::Nothing);
        }
        let left = left.iter().map(ToString::to_string).collect();
        Ok(Recovered::NothingBut(left))
    }

    fn inverted(&self, entry: &Value) -> Result<Value, CallError> {
        serde_json::to_value(toolhost_vfs::inverted(&changes(entry)?)).map_err(CallError::internal)
    }

    fn undo(&self, id: &str, entry: &Value) -> Result<(), CommitError> {
        let changes = changes(entry).map_err(failed)?;
        let (roots, step) = (roots(&changes).map_err(failed)?, &mut crate::crash::steps());
        toolhost_vfs::undo(&roots, &changes, id, &self.blobs, step).map_err(not_applied)
    }
}

fn changes(entry: &Value) -> Result<Vec<Change>, CallError> {
    Vec::<Change>::deserialize(entry).map_err(|error| {
        CallError::new(
            ErrorClass::Failed,
            format!("the journal's entry cannot be read: {error}"),
        )
    })
}

fn roots(changes: &[Change]) -> Result<Roots, CallError> {
    let moved = changes
        .iter()
        .filter_map(|change| change.moved_from.as_ref());
    let places = changes.iter().map(|change| &change.at).chain(moved);
    Roots::open(places.map(|at| at.root.clone())).map_err(broken)
}

fn conflicting(conflicts: &[Conflict]) -> CommitError {
    CommitError::Conflict(conflicts.iter().map(ToString::to_string).collect())
}

/// What one call would change.
pub struct Held {
    changes: ChangeSet,
    entry: Value,
    work: Arc<Work>,
}

/// What takes its time and runs where it may block.
struct Work {
    /// The pool is there as long as this is.
    stage: Stage,
    blobs: Arc<Blobs>,
    ops: Mutex<Vec<Op>>,
}

impl Held {
    /// Reads the changed files, so it may block.
    pub fn of(stage: Stage, blobs: Arc<Blobs>) -> Result<Effects, CallError> {
        let staged = match stage.changes() {
            Ok(staged) if staged.is_empty() => return Ok(Effects::None),
            Ok(staged) => staged,
            Err(error @ StageError::Changed(_)) => {
                return Ok(Effects::Conflict(vec![error.to_string()]));
            }
            Err(error) => {
                let error = CallError::new(ErrorClass::Failed, error.to_string());
                return Err(error.code("stage_failed"));
            }
        };
        let mut diffs = Diffs {
            scope: stage.scope(),
            left: ALL_DIFF_BYTES,
            count: 0,
        };
        let changes = ChangeSet {
            changes: staged.iter().map(|one| diffs.change(one)).collect(),
        };
        let list: Vec<&Change> = staged.iter().map(|one| &one.change).collect();
        let entry = serde_json::to_value(list).map_err(CallError::internal)?;
        let ops = staged
            .into_iter()
            .map(|one| Op {
                change: one.change,
                source: one.content.map(Source::Take),
                base: one.base,
            })
            .collect();
        Ok(Effects::Held(Box::new(Self {
            changes,
            entry,
            work: Arc::new(Work {
                stage,
                blobs,
                ops: Mutex::new(ops),
            }),
        })))
    }
}

impl Work {
    fn roots(&self) -> Result<Roots, CommitError> {
        Roots::of(self.stage.scope())
            .map_err(CallError::internal)
            .map_err(failed)
    }

    fn prepare(&self) -> Result<(), CommitError> {
        let ops = self.ops.lock().unwrap_or_else(PoisonError::into_inner);
        let roots = self.roots()?;
        let conflicts = toolhost_vfs::check(&roots, &ops).map_err(not_applied)?;
        if !conflicts.is_empty() {
            return Err(conflicting(&conflicts));
        }
        toolhost_vfs::keep_before(&roots, &ops, &self.blobs).map_err(not_applied)
    }

    fn commit(&self, id: &str) -> Result<(), CommitError> {
        let mut ops = self.ops.lock().unwrap_or_else(PoisonError::into_inner);
        let (ops, step) = (std::mem::take(&mut *ops), &mut crate::crash::steps());
        toolhost_vfs::apply(&self.roots()?, ops, id, &self.blobs, step).map_err(not_applied)
    }
}

impl toolhost_contract::Staged for Held {
    fn changes(&self) -> &ChangeSet {
        &self.changes
    }

    fn prepare(&self) -> BoxFuture<'_, Result<Value, CommitError>> {
        Box::pin(async {
            let work = Arc::clone(&self.work);
            where_it_may_block(move || work.prepare()).await?;
            Ok(self.entry.clone())
        })
    }

    fn commit(self: Box<Self>, id: String) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(where_it_may_block(move || self.work.commit(&id)))
    }
}

async fn where_it_may_block<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CommitError> + Send + 'static,
) -> Result<T, CommitError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(CallError::internal)
        .map_err(failed)?
}

fn failed(error: CallError) -> CommitError {
    CommitError::Failed(Box::new(error))
}

fn broken(error: ApplyError) -> CallError {
    CallError::new(
        ErrorClass::Failed,
        text::block(&format!("the changes could not be made: {error}"), 2_000),
    )
    .code("commit_failed")
}

fn not_applied(error: ApplyError) -> CommitError {
    match error {
        ApplyError::Changed(conflicts) => conflicting(&conflicts),
        error => failed(broken(error)),
    }
}

/// Makes differences as long as there is room for them.
struct Diffs<'a> {
    scope: &'a Scope,
    left: u64,
    count: usize,
}

impl Diffs<'_> {
    fn change(&mut self, staged: &Staged) -> FileChange {
        let Change {
            at,
            before,
            after,
            moved_from,
        } = &staged.change;
        let kind = match (moved_from, before, after) {
            (Some(from), _, _) => ChangeKind::Moved { from: host(from) },
            (None, Image::Absent, _) => ChangeKind::Created,
            (None, _, Image::Absent) => ChangeKind::Deleted,
            (None, _, _) => ChangeKind::Modified,
        };
        let (old, new) = (file(before), file(after));
        let (diff, undiffed) = match self.diff(staged) {
            Ok(diff) => (diff, None),
            Err(why) => (None, Some(why)),
        };
        FileChange {
            path: host(at),
            kind,
            what: match (before, after) {
                (_, Image::Dir { .. }) | (Image::Dir { .. }, Image::Absent) => FileKind::Directory,
                (_, Image::Link { .. }) | (Image::Link { .. }, Image::Absent) => FileKind::Link,
                (_, Image::File(_) | Image::Absent) => FileKind::File,
            },
            sizes: (old.map(|file| file.size), new.map(|file| file.size)),
            modes: match (old, new) {
                (Some(old), Some(new)) if old.mode != new.mode => Some((old.mode, new.mode)),
                _ => None,
            },
            diff,
            undiffed,
        }
    }

    fn diff(&mut self, staged: &Staged) -> Result<Option<FileDiff>, &'static str> {
        let change = &staged.change;
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
            Some(_) => Some(read(self.base(&change.at)?)?),
            None => None,
        };
        let new = match (&staged.content, new) {
            (Some(path), Some(_)) => read(File::open(path).map_err(|_| UNREADABLE)?)?,
            _ => String::new(),
        };
        // One line, whatever the name holds: what follows it is taken for the difference.
        let name = &text::inline(&change.at.path, 4_096);
        let diff = TextDiff::configure()
            .timeout(DIFF_TIME)
            .diff_lines(original.as_deref().unwrap_or_default(), &new)
            .unified_diff()
            .header(
                if original.is_some() {
                    name
                } else {
                    "/dev/null"
                },
                if change.after == Image::Absent {
                    "/dev/null"
                } else {
                    name
                },
            )
            .to_string();
        Ok(Some(FileDiff {
            file_name: change.at.path.clone(),
            diff,
            original,
            new,
        }))
    }

    /// The real file, opened as the guest would open it.
    fn base(&self, at: &Location) -> Result<File, &'static str> {
        let roots = self.scope.roots();
        let root = roots.iter().find(|root| root.host() == at.root);
        let root = root.ok_or(UNREADABLE)?;
        let how = OpenHow {
            read: true,
            ..OpenHow::default()
        };
        self.scope
            .open_at(root.dir().as_fd(), Access::ReadOnly, &at.path, &how)
            .map(|opened| File::from(opened.fd))
            .map_err(|_| UNREADABLE)
    }
}

const UNREADABLE: &str = "cannot be read";

fn read(file: File) -> Result<String, &'static str> {
    let mut bytes = Vec::new();
    file.take(DIFF_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|_| UNREADABLE)?;
    if bytes.contains(&0) {
        return Err("binary");
    }
    String::from_utf8(bytes).map_err(|_| "binary")
}

fn file(image: &Image) -> Option<&FileImage> {
    match image {
        Image::File(file) => Some(file),
        Image::Absent | Image::Dir { .. } | Image::Link { .. } => None,
    }
}

fn host(at: &Location) -> String {
    at.root.join(&at.path).to_string_lossy().into_owned()
}
