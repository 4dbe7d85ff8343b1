//! Staging area for changes, and recovery of commits that were interrupted by a crash.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Deserialize as _;
use toolhost_contract::{CommitRecovery, RecoveryOutcome, text};
use toolhost_kernel::undo;
use toolhost_runtime::Staging;
use toolhost_store::Store;
use toolhost_vfs::{BlobStore, Change, ContentHash, PathState, SweepStats};

use crate::error::{Error, ErrorKindExt as _};
use crate::load::MessageSink;
use crate::scratch_dir::ScratchDir;
use crate::settings::RetentionSettings;

/// The staging area in the store, where replaced content is kept for undo.
pub fn open_in_store(store: &Store) -> Result<Staging, Error> {
    let blobs = BlobStore::open(&store.blobs_dir().store_error()?).store_error()?;
    let stages = store.stage_dir().store_error()?;
    Ok(Staging {
        // The next start identifies the owner by this name.
        stages: stages.join(format!("{}-calls", store.owner())),
        blobs: Arc::new(blobs),
    })
}

/// A temporary staging area, for a host without a store. Changes cannot be undone after the process has exited.
pub fn open_temporary() -> Result<(Staging, ScratchDir), Error> {
    let dir = ScratchDir::new("stage").internal_error()?;
    let blobs = BlobStore::open(&dir.path().join("blobs")).internal_error()?;
    let staging = Staging {
        stages: dir.path().join("stage"),
        blobs: Arc::new(blobs),
    };
    Ok((staging, dir))
}

/// Deletes old undo data on a background thread. A failure is retried at the next run.
pub fn sweep(store: &Store, staging: &Staging, settings: &RetentionSettings) {
    let Some((keep, unfinished)) = required_data(store) else {
        return;
    };
    let blobs = Arc::clone(&staging.blobs);
    let (bytes, age) = undo_limits(settings);
    // Does not hold the store, because dropping its last clone waits for writes and this thread is not joined.
    std::thread::spawn(move || blobs.sweep(bytes, age, SystemTime::now(), &keep, &unfinished));
}

/// Deletes old undo data. Returns `None` if an unfinished commit cannot be read, because it may need any of the data.
pub fn sweep_now(
    store: &Store,
    staging: &Staging,
    settings: &RetentionSettings,
) -> Option<std::io::Result<SweepStats>> {
    let (keep, unfinished) = required_data(store)?;
    let (bytes, age) = undo_limits(settings);
    let blobs = &staging.blobs;
    Some(blobs.sweep(bytes, age, SystemTime::now(), &keep, &unfinished))
}

fn undo_limits(settings: &RetentionSettings) -> (u64, Duration) {
    let bytes = settings.undo_size.unwrap_or(u64::MAX);
    (bytes, settings.undo_age.unwrap_or(Duration::MAX))
}

/// The content that unfinished commits may need, and their ids; `None` if one of them cannot be read.
fn required_data(store: &Store) -> Option<(HashSet<ContentHash>, HashSet<String>)> {
    let mut needed = HashSet::new();
    let mut unfinished = HashSet::new();
    for row in store.begun_commits().ok()? {
        for change in Vec::<Change>::deserialize(&row.body).ok()? {
            needed.extend(
                [&change.before, &change.after]
                    .into_iter()
                    .filter_map(content_hash),
            );
        }
        unfinished.insert(row.id);
    }
    Some((needed, unfinished))
}

fn content_hash(image: &PathState) -> Option<ContentHash> {
    match image {
        PathState::File(file) => Some(file.hash),
        PathState::Absent | PathState::Dir { .. } | PathState::Link { .. } => None,
    }
}

/// Completes or rolls back interrupted commits.
pub async fn recover(store: &Store, staging: &Staging, say: &MessageSink) -> Result<(), Error> {
    let files: Arc<dyn CommitRecovery> = Arc::new(staging.clone());
    for (row, recovered) in undo::recover(store, &files, toolhost_kernel::Clock::system().now())
        .await
        .store_error()?
    {
        let message = format!(
            "note: the changes of call {} were interrupted because its host exited",
            text::escape_line(&row.call, 100)
        );
        match recovered {
            Ok(RecoveryOutcome::Committed) => say(&format!("{message}; they were completed")),
            Ok(RecoveryOutcome::RolledBack) => say(&format!("{message}; they were rolled back")),
            Ok(RecoveryOutcome::PartiallyRolledBack(paths)) => say(&format!(
                "{message}; they were rolled back except for files that have changed since: {}",
                text::escape_lines(&paths.join("; "), 4_000)
            )),
            Err(error) => say(&format!(
                "warning: {message} and could not be rolled back: {}",
                text::escape_lines(&error.message, 2_000)
            )),
        }
    }
    Ok(())
}
