//! Retention and chain heads.

use super::Store;
use crate::prune::{self, DroppedRecords, RecordRetention};
use crate::{Segment, StoreError, chain, crash, segments};

impl Store {
    /// Drops due segments of the chain, oldest first, each in its own transaction between those of calls. Segments
    /// that end after the start of this prune, or after the step `until`, are kept for the next one.
    pub async fn prune(
        &self,
        keep: RecordRetention,
        until: Option<i64>,
    ) -> Result<DroppedRecords, StoreError> {
        self.end_old_segment(&keep).await?;
        let last = self.change(0, segments::last).await?;
        let until = until.map_or(last, |until| until.min(last));
        let mut dropped = DroppedRecords::default();
        let owners = self.0.paths.owners.clone();
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
            self.change(0, prune::remove_unused_shapes).await?;
        }
        Ok(dropped)
    }

    /// Ends the current segment if it began long ago, so that [`Store::due`] contains it.
    pub async fn end_old_segment(&self, keep: &RecordRetention) -> Result<(), StoreError> {
        let before_ms = keep.end_segments_before_ms();
        self.change(0, move |connection| {
            segments::seal_if_older(connection, before_ms)
        })
        .await
    }

    /// The segments that [`Store::prune`] would drop now; an estimate for the size limit.
    pub fn due(&self, keep: &RecordRetention) -> Result<Vec<Segment>, StoreError> {
        self.read(|connection| prune::due(connection, keep))
    }

    /// Number of the first step that was not dropped.
    pub fn first_step(&self) -> Result<i64, StoreError> {
        Ok(self.read(chain::base)? + 1)
    }

    /// Number of bytes used in the database.
    pub fn used_bytes(&self) -> Result<u64, StoreError> {
        self.read(prune::used)
    }

    /// Number and hash of the last step. Ends a segment there, so that this head can be verified even after the
    /// segment is dropped.
    pub async fn seal_head(&self) -> Result<(i64, [u8; 32]), StoreError> {
        self.change(0, |connection| {
            let head = chain::head(connection)?;
            segments::seal(connection, head)?;
            Ok((head.rows, head.hash))
        })
        .await
    }
}
