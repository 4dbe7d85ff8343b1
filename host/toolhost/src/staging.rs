//! Where changes wait before they are real, and what a host that died has left there.

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

/// Beside the records, so that what was replaced can be put back later.
pub fn of_store(store: &Store) -> Result<Staging, Error> {
    let blobs = Blobs::open(&store.blobs_dir().of_store()?).of_store()?;
    let stages = store.stage_dir().of_store()?;
    Ok(Staging {
        // By this name the next start knows whose it was.
        stages: stages.join(format!("{}-calls", store.owner())),
        blobs: Arc::new(blobs),
    })
}

/// Without records nothing can be undone later; what waits and what is replaced goes with the process.
pub fn temporary() -> Result<(Staging, Scratch), Error> {
    let dir = Scratch::new("stage").internal()?;
    let blobs = Blobs::open(&dir.path().join("blobs")).internal()?;
    let staging = Staging {
        stages: dir.path().join("stage"),
        blobs: Arc::new(blobs),
    };
    Ok((staging, dir))
}

/// Forgets what was replaced long ago. On a thread of its own: nobody waits for it, and if it fails it is tried at the
/// next start.
pub fn sweep(store: &Store, staging: &Staging, settings: &RetentionSettings) {
    let Some(keep) = needed(store) else {
        return;
    };
    let blobs = Arc::clone(&staging.blobs);
    let (bytes, age) = bounds(settings);
    // Without the store: whoever drops its last clone waits for its writes, and nobody waits for this thread.
    std::thread::spawn(move || blobs.sweep(bytes, age, SystemTime::now(), &keep));
}

/// The same for a caller that waits. None: an unfinished commit cannot be read and may need anything.
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

/// What unfinished commits may need. None: one of them cannot be read and may need anything.
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

/// Commits that were interrupted become whole or nothing.
pub async fn recover(store: &Store, staging: &Staging, say: &Say) -> Result<(), Error> {
    let files: Arc<dyn Undo> = Arc::new(staging.clone());
    for (row, recovered) in undo::recover(store, &files, toolhost_kernel::Clock::system().now())
        .await
        .of_store()?
    {
        let what = format!(
            "note: the changes of call {} were interrupted by the end of its host",
            text::inline(&row.call, 100)
        );
        match recovered {
            Ok(Recovered::Whole) => say(&format!("{what}; they are whole")),
            Ok(Recovered::Nothing) => say(&format!("{what}; they were taken back")),
            Ok(Recovered::NothingBut(places)) => say(&format!(
                "{what}; they were taken back, but for what somebody has changed since: {}",
                text::block(&places.join("; "), 4_000)
            )),
            Err(error) => say(&format!(
                "warning: {what} and could not be taken back: {}",
                text::block(&error.message, 2_000)
            )),
        }
    }
    Ok(())
}
