//! Commits, and the directories that they use.

use std::path::PathBuf;

use super::{Store, check_size};
use crate::paths::private_dir;
use crate::rows::Weight as _;
use crate::{CommitError, CommitFilter, CommitRow, CommitState, StoreError, commits, schema};

impl Store {
    /// Begins a commit; when this returns, the row is durable and files may change.
    ///
    /// A caller that stops waiting must not change files; `adopt_commits` finds the row after this process has
    /// ended. Only one unfinished commit can undo or redo a given commit.
    pub async fn begin_commit(&self, row: CommitRow) -> Result<(), CommitError> {
        commits::check(&row)?;
        let weight = check_size("list of changes", row.weight())?;
        let us = self.owner().to_owned();
        self.change(weight, move |connection| {
            commits::begin(connection, &row, &us)
        })
        .await?
    }

    /// Changes the state of a commit; durable on return. Valid changes: begun to done or reverted, done to undone,
    /// and undone to done by a redo.
    pub async fn end_commit(
        &self,
        id: &str,
        state: CommitState,
        at_ms: i64,
    ) -> Result<(), CommitError> {
        self.end_commits(vec![(id.to_owned(), state)], at_ms).await
    }

    /// Like [`Self::end_commit`] for several commits atomically, so that an undo and the commit that it undoes
    /// change together.
    pub async fn end_commits(
        &self,
        ends: Vec<(String, CommitState)>,
        at_ms: i64,
    ) -> Result<(), CommitError> {
        let weight = check_size("list of commits", ends.iter().map(|(id, _)| id.len()).sum())?;
        self.change(weight, move |connection| {
            commits::end(connection, &ends, at_ms)
        })
        .await?
    }

    pub fn commit_row(&self, id: &str) -> Result<Option<CommitRow>, StoreError> {
        self.read(|connection| commits::commit(connection, id))
    }

    /// Commits, in the order in which they began, newest first.
    pub fn commits(&self, filter: &CommitFilter) -> Result<Vec<CommitRow>, StoreError> {
        self.read(|connection| commits::commits(connection, filter))
    }

    /// Adopts the commits that ended processes have begun: they now belong to this process, and no other process
    /// gets them. Newest first, which is the order to revert them in.
    pub async fn adopt_commits(&self) -> Result<Vec<CommitRow>, StoreError> {
        let owners = self.0.paths.owners.clone();
        let us = self.owner().to_owned();
        self.change(0, move |connection| {
            commits::adopt(connection, &owners, &us)
        })
        .await
    }

    /// Commits that are in progress or were interrupted; the blobs that they need must not be swept. Uses its own
    /// connection, so that other reads are not delayed.
    pub fn begun_commits(&self) -> Result<Vec<CommitRow>, StoreError> {
        let connection = schema::connect(&self.0.paths.database, self.0.busy)?;
        commits::begun(&connection).map_err(|error| self.failed(&error))
    }

    /// Directory with the content of replaced and removed files.
    pub fn blobs_dir(&self) -> Result<PathBuf, StoreError> {
        let dir = &self.0.paths.blobs;
        private_dir(dir)?;
        Ok(dir.clone())
    }

    /// Directory for staged files of calls, each in a directory `<owner>-<random>`. The next start removes those of
    /// ended owners, so a caller must keep this store open.
    pub fn stage_dir(&self) -> Result<PathBuf, StoreError> {
        let dir = &self.0.paths.stage;
        private_dir(dir)?;
        Ok(dir.clone())
    }
}
