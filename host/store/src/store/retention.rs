//! The store as the keeper of bounded records.

use super::Store;
use crate::prune::{self, DroppedRecords, KeepRecords};
use crate::{Segment, StoreError, chain, crash, segments};

impl Store {
    /// Drops the parts of the chain that are due, oldest first, each in a transaction of its own between those of
    /// calls. A part that ends later than this began, or after the step `until`, is left to the next time.
    pub async fn prune(
        &self,
        keep: KeepRecords,
        until: Option<i64>,
    ) -> Result<DroppedRecords, StoreError> {
        let last = self.change(0, segments::last).await?;
        let until = until.map_or(last, |until| until.min(last));
        let mut dropped = DroppedRecords::default();
        let owners = self.0.place.owners.clone();
        loop {
            let owners = owners.clone();
            let one = self
                .change(0, move |connection| {
                    prune::drop_oldest(connection, &owners, &keep, until)
                })
                .await?;
            let Some(one) = one else { break };
            crash::at("prune_committed");
            dropped.add(one);
        }
        if dropped.segments > 0 {
            self.change(0, prune::forget_shapes).await?;
        }
        Ok(dropped)
    }

    /// The parts that [`Store::prune`] would drop now; for the limit of bytes an estimate.
    pub fn due(&self, keep: &KeepRecords) -> Result<Vec<Segment>, StoreError> {
        self.read(|connection| prune::due(connection, keep))
    }

    /// The number of the first step that was not dropped.
    pub fn first_step(&self) -> Result<i64, StoreError> {
        Ok(self.read(chain::base)? + 1)
    }

    /// The bytes of the database that are in use.
    pub fn used_bytes(&self) -> Result<u64, StoreError> {
        self.read(prune::used)
    }

    /// The number and the hash of the last step. A part of the chain ends there, so that this head can be found also
    /// when the part has been dropped.
    pub async fn seal_head(&self) -> Result<(i64, [u8; 32]), StoreError> {
        self.change(0, |connection| {
            let head = chain::head(connection)?;
            segments::seal(connection, head)?;
            Ok((head.rows, head.hash))
        })
        .await
    }
}
