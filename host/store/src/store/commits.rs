//! The store as the keeper of commits and of the directories they use.

use std::path::PathBuf;

use super::{Store, fits};
use crate::place::private_dir;
use crate::rows::Weight as _;
use crate::{CommitError, CommitFilter, CommitRow, CommitState, StoreError, commits, schema};

impl Store {
    /// Returns when the row is on disk: now the files may change. Whoever stops waiting for this begins nothing, and
    /// the row is found by `adopt_commits` when this process is gone. While a commit that is of another one has not
    /// ended, no second one can begin.
    pub async fn begin_commit(&self, row: CommitRow) -> Result<(), CommitError> {
        commits::check(&row)?;
        let weight = fits("list of changes", row.weight())?;
        let us = self.owner().to_owned();
        self.change(weight, move |connection| {
            commits::begin(connection, &row, &us)
        })
        .await?
    }

    /// Returns when the new state is on disk. What has begun becomes done or reverted; what is done becomes undone, and
    /// done again when it is redone.
    pub async fn end_commit(
        &self,
        id: &str,
        state: CommitState,
        at_ms: i64,
    ) -> Result<(), CommitError> {
        self.end_commits(vec![(id.to_owned(), state)], at_ms).await
    }

    /// The same for several, of which all change or none: an undo is done at the moment in which the commit it is of is
    /// undone, and no kill comes between.
    pub async fn end_commits(
        &self,
        ends: Vec<(String, CommitState)>,
        at_ms: i64,
    ) -> Result<(), CommitError> {
        let weight = fits("list of commits", ends.iter().map(|(id, _)| id.len()).sum())?;
        self.change(weight, move |connection| {
            commits::end(connection, &ends, at_ms)
        })
        .await?
    }

    pub fn commit_row(&self, id: &str) -> Result<Option<CommitRow>, StoreError> {
        self.read(|connection| commits::commit(connection, id))
    }

    /// The newest first: those that began last.
    pub fn commits(&self, filter: &CommitFilter) -> Result<Vec<CommitRow>, StoreError> {
        self.read(|connection| commits::commits(connection, filter))
    }

    /// Commits that a process which is gone has begun, taken over: from now on they are this process's, and no other
    /// one gets them. The newest first, which is the order to revert them in.
    pub async fn adopt_commits(&self) -> Result<Vec<CommitRow>, StoreError> {
        let owners = self.0.place.owners.clone();
        let us = self.owner().to_owned();
        self.change(0, move |connection| {
            commits::adopt(connection, &owners, &us)
        })
        .await
    }

    /// Commits that some process makes just now, or was making when it ended: what they need to be recovered must not
    /// be swept. Uses a connection of its own, so that nobody waits meanwhile.
    pub fn begun_commits(&self) -> Result<Vec<CommitRow>, StoreError> {
        let connection = schema::connect(&self.0.place.database, self.0.busy)?;
        commits::begun(&connection).map_err(|error| self.failed(&error))
    }

    /// Where the contents of files lie that were replaced or removed.
    pub fn blobs_dir(&self) -> Result<PathBuf, StoreError> {
        let dir = &self.0.place.blobs;
        private_dir(dir)?;
        Ok(dir.clone())
    }

    /// Where calls put what they write until it is committed, each in a directory `<owner>-<random>`. The next start
    /// removes those whose owner is gone, so whoever uses one keeps this store open.
    pub fn stage_dir(&self) -> Result<PathBuf, StoreError> {
        let dir = &self.0.place.stage;
        private_dir(dir)?;
        Ok(dir.clone())
    }
}
