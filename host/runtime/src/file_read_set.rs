//! Read set of a call's file accesses.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use toolhost_contract::{BoxFuture, ChangeKind, ChangeSet, FileKind};
use toolhost_vfs::{ReadTracker, Scope};

/// The recorded reads of a call, and the scope that they refer to.
pub struct FileReadSet {
    reads: Arc<ReadTracker>,
    scope: Scope,
}

impl FileReadSet {
    pub fn new(reads: Arc<ReadTracker>, scope: Scope) -> Self {
        Self { reads, scope }
    }
}

impl fmt::Debug for FileReadSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reads.fmt(f)
    }
}

impl toolhost_contract::ReadSet for FileReadSet {
    fn is_affected_by(&self, changes: &ChangeSet) -> bool {
        changes.changes.iter().any(|change| {
            let in_place =
                change.kind == ChangeKind::Modified && change.file_kind == FileKind::File;
            let moved = match &change.kind {
                ChangeKind::Moved { from } => self.reads.is_affected_by(Path::new(from), false),
                ChangeKind::Created | ChangeKind::Modified | ChangeKind::Deleted => false,
            };
            moved || self.reads.is_affected_by(Path::new(&change.path), in_place)
        })
    }

    fn record_state(&self) -> BoxFuture<'_, ()> {
        let (reads, scope) = (Arc::clone(&self.reads), self.scope.clone());
        Box::pin(async {
            let hash = move || reads.hash_contents(&scope);
            // If hashing panics, no hash is recorded, and the read set counts as changed.
            let _ = tokio::task::spawn_blocking(hash).await;
        })
    }

    fn is_unchanged(&self) -> BoxFuture<'_, bool> {
        let (reads, scope) = (Arc::clone(&self.reads), self.scope.clone());
        Box::pin(async {
            let look = move || reads.is_unchanged(&scope);
            tokio::task::spawn_blocking(look).await.unwrap_or(false)
        })
    }

    fn memory_size(&self) -> usize {
        self.reads.memory_size()
    }
}
