//! Staging area for changes, and recovery of commits that were interrupted by a crash.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Deserialize as _;
use toolhost_contract::{Recovered, Undo, text};
use toolhost_kernel::undo;
use toolhost_runtime::Staging;
use toolhost_store::Store;
use toolhost_vfs::{Blobs, Change, ContentHash, Image, Swept};

use crate::error::{As as _, Error};
use crate::load::Say;
use crate::scratch::Scratch;
use crate::settings::RetentionSettings;

/// The staging area in the store, where replaced content is kept for undo.
pub fn of_store(store: &Store) -> Result<Staging, Error> {
    let blobs = Blobs::open(&store.blobs_dir().of_store()?).of_store()?;
    let stages = store.stage_dir().of_store()?;
    Ok(Staging {
        // The next start identifies the owner by this name.
        stages: stages.join(format!("{}-calls", store.owner())),
        blobs: Arc::new(blobs),
    })
}

/// A temporary staging area, for a host without a store. Changes cannot be undone after the process has exited.
pub fn temporary() -> Result<(Staging, Scratch), Error> {
    let dir = Scratch::new("stage").internal()?;
    let blobs = Blobs::open(&dir.path().join("blobs")).internal()?;
    let staging = Staging {
        stages: dir.path().join("stage"),
        blobs: Arc::new(blobs),
    };
    Ok((staging, dir))
}

/// Deletes old undo data on a background thread. A failure is retried at the next run.
pub fn sweep(store: &Store, staging: &Staging, settings: &RetentionSettings) {
    let Some(keep) = needed(store) else {
        return;
    };
    let blobs = Arc::clone(&staging.blobs);
    let (bytes, age) = bounds(settings);
    // Does not hold the store, because dropping its last clone waits for writes and this thread is not joined.
    std::thread::spawn(move || blobs.sweep(bytes, age, SystemTime::now(), &keep));
}

/// Deletes old undo data. Returns `None` if an unfinished commit cannot be read, because it may need any of the data.
pub fn sweep_now(
    store: &Store,
    staging: &Staging,
    settings: &RetentionSettings,
) -> Option<std::io::Result<Swept>> {
    let keep = needed(store)?;
    let (bytes, age) = bounds(settings);
    Some(staging.blobs.sweep(bytes, age, SystemTime::now(), &keep))
}

fn bounds(settings: &RetentionSettings) -> (u64, Duration) {
    let bytes = settings.undo_size.unwrap_or(u64::MAX);
    (bytes, settings.undo_age.unwrap_or(Duration::MAX))
}

/// The data that unfinished commits may need, or `None` if one of them cannot be read.
fn needed(store: &Store) -> Option<HashSet<ContentHash>> {
    let mut needed = HashSet::new();
    for row in store.begun_commits().ok()? {
        for change in Vec::<Change>::deserialize(&row.body).ok()? {
            needed.extend([&change.before, &change.after].into_iter().filter_map(hash));
        }
    }
    Some(needed)
}

fn hash(image: &Image) -> Option<ContentHash> {
    match image {
        Image::File(file) => Some(file.hash),
        Image::Absent | Image::Dir { .. } | Image::Link { .. } => None,
    }
}

/// Completes or rolls back interrupted commits.
pub async fn recover(store: &Store, staging: &Staging, say: &Say) -> Result<(), Error> {
    let files: Arc<dyn Undo> = Arc::new(staging.clone());
    for (row, recovered) in undo::recover(store, &files, toolhost_kernel::Clock::system().now())
        .await
        .of_store()?
    {
        let what = format!(
            "note: the changes of call {} were interrupted because its host exited",
            text::inline(&row.call, 100)
        );
        match recovered {
            Ok(Recovered::Whole) => say(&format!("{what}; they were completed")),
            Ok(Recovered::Nothing) => say(&format!("{what}; they were rolled back")),
            Ok(Recovered::NothingBut(places)) => say(&format!(
                "{what}; they were rolled back except for files that have changed since: {}",
                text::block(&places.join("; "), 4_000)
            )),
            Err(error) => say(&format!(
                "warning: {what} and could not be rolled back: {}",
                text::block(&error.message, 2_000)
            )),
        }
    }
    Ok(())
}
