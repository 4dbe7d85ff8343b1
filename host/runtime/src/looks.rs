//! Read set of a call's file accesses.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use toolhost_contract::{BoxFuture, ChangeKind, ChangeSet, FileKind};
use toolhost_vfs::{Reads, Scope};

/// The recorded reads of a call, and the scope that they refer to.
pub struct Looks {
    reads: Arc<Reads>,
    scope: Scope,
}

impl Looks {
    pub fn new(reads: Arc<Reads>, scope: Scope) -> Self {
        Self { reads, scope }
    }
}

impl fmt::Debug for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reads.fmt(f)
    }
}

impl toolhost_contract::Reads for Looks {
    fn touched_by(&self, changes: &ChangeSet) -> bool {
        changes.changes.iter().any(|change| {
            let in_place = change.kind == ChangeKind::Modified && change.what == FileKind::File;
            let moved = match &change.kind {
                ChangeKind::Moved { from } => self.reads.touched_by(Path::new(from), false),
                ChangeKind::Created | ChangeKind::Modified | ChangeKind::Deleted => false,
            };
            moved || self.reads.touched_by(Path::new(&change.path), in_place)
        })
    }

    fn keep(&self) -> BoxFuture<'_, ()> {
        let (reads, scope) = (Arc::clone(&self.reads), self.scope.clone());
        Box::pin(async {
            let hash = move || reads.hash_contents(&scope);
            // If hashing panics, no hash is recorded, and the read set counts as changed.
            let _ = tokio::task::spawn_blocking(hash).await;
        })
    }

    fn still_hold(&self) -> BoxFuture<'_, bool> {
        let (reads, scope) = (Arc::clone(&self.reads), self.scope.clone());
        Box::pin(async {
            let look = move || reads.still_hold(&scope);
            tokio::task::spawn_blocking(look).await.unwrap_or(false)
        })
    }

    fn weight(&self) -> usize {
        self.reads.weight()
    }
}
