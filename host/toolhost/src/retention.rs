//! Enforces retention limits on records, undo data, compiled code and logs.
//!
//! This runs concurrently with calls. Records are deleted one segment of the audit chain at a time, each in its own
//! transaction.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;
use toolhost_kernel::Clock;
use toolhost_runtime::{CacheFile, Staging};
use toolhost_store::{DroppedRecords, RecordRetention, Store, StoreError};
use toolhost_vfs::SweepStats;

use crate::host_paths::HostPaths;
use crate::settings::RetentionSettings;
use crate::staging;

/// Interval between two runs.
const INTERVAL: Duration = Duration::from_mins(10);

/// Files that were removed because of their age or the total size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemovedFiles {
    pub files: usize,
    pub bytes: u64,
}

/// The background task; aborted on drop.
pub struct RetentionTask(JoinHandle<()>);

impl Drop for RetentionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RetentionSettings {
    /// The limits on records at this moment.
    pub fn record_limits(&self) -> RecordRetention {
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        RecordRetention {
            now_ms: Clock::system().now().0,
            max_age_ms: self.records_age.map(millis),
            max_bytes: self.records_size,
            undo_ms: self.undo_age.map_or(i64::MAX, millis),
        }
    }
}

/// Enforces the limits now and every ten minutes. A failure is retried at the next run; `host prune` reports it.
pub fn start(
    store: Store,
    staging: Staging,
    host_paths: HostPaths,
    settings: RetentionSettings,
) -> RetentionTask {
    RetentionTask(tokio::spawn(async move {
        let mut looks = tokio::time::interval(INTERVAL);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let _ = prune_records(&store, &settings, None).await;
            staging::sweep(&store, &staging, &settings);
            let host_paths = host_paths.clone();
            let _ =
                tokio::task::spawn_blocking(move || remove_old_files(&host_paths, &settings)).await;
        }
    }))
}

/// Deletes old records, up to the step `until` if given.
pub async fn prune_records(
    store: &Store,
    settings: &RetentionSettings,
    until: Option<i64>,
) -> Result<DroppedRecords, StoreError> {
    store.prune(settings.record_limits(), until).await
}

/// Deletes old undo data. Returns `None` if an unfinished commit cannot be read, because it may need any of the data.
pub fn sweep_undo_data(
    store: &Store,
    staging: &Staging,
    settings: &RetentionSettings,
) -> Option<std::io::Result<SweepStats>> {
    staging::sweep_now(store, staging, settings)
}

/// Compares case-sensitively, because the host writes these names.
fn has_suffix(name: &str, suffix: &str) -> bool {
    name.ends_with(suffix)
}

/// Removes compiled code and logs, which are created again when needed.
pub fn remove_old_files(host_paths: &HostPaths, settings: &RetentionSettings) -> [RemovedFiles; 2] {
    let cache = host_paths.cache.as_deref();
    let logs = host_paths
        .state
        .as_ref()
        .map(|state| state.join("mcp/logs"));
    let is_log = |name: &str| has_suffix(name, ".log") || has_suffix(name, ".log.1");
    [
        cache.map_or_else(RemovedFiles::default, |dir| shrink_cache(dir, settings)),
        logs.map_or_else(RemovedFiles::default, |dir| {
            shrink(&dir, is_log, settings.logs_age, None)
        }),
    ]
}

fn shrink_cache(dir: &Path, settings: &RetentionSettings) -> RemovedFiles {
    let is = |kind| move |name: &str| CacheFile::from_name(name) == Some(kind);
    let (age, size) = (settings.cache_age, settings.cache_size);
    let entries = shrink(dir, is(CacheFile::Entry), age, size);
    let age = Some(CacheFile::MAX_TEMPORARY_AGE);
    let temporary = shrink(dir, is(CacheFile::Temporary), age, None);
    RemovedFiles {
        files: entries.files + temporary.files,
        bytes: entries.bytes + temporary.bytes,
    }
}

/// Removes the oldest files of a directory until the rest is within the limits. Files that cannot be removed are kept
/// for the next run.
fn shrink(
    dir: &Path,
    ours: impl Fn(&str) -> bool,
    max_age: Option<Duration>,
    max_bytes: Option<u64>,
) -> RemovedFiles {
    let mut found: Vec<(SystemTime, u64, _)> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(&ours))
        .filter_map(|entry| {
            let about = fs::symlink_metadata(entry.path()).ok()?;
            let modified = about.modified().ok()?;
            about
                .is_file()
                .then(|| (modified, about.len(), entry.path()))
        })
        .collect();
    found.sort();
    let mut total: u64 = found.iter().map(|(_, size, _)| size).sum();
    let mut removed = RemovedFiles::default();
    let now = SystemTime::now();
    for (modified, size, path) in found {
        let age = now.duration_since(modified).unwrap_or_default();
        let is_old = max_age.is_some_and(|most| age > most);
        if !is_old && max_bytes.is_none_or(|most| total <= most) {
            break;
        }
        if fs::remove_file(path).is_ok() {
            total -= size;
            removed.files += 1;
            removed.bytes += size;
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn the_oldest_files_are_removed_until_the_rest_fits() {
        let hour = Duration::from_hours(1);
        for (max_age, max_bytes, left) in [
            (None, None, &["a.code", "b.code", "c.code"][..]),
            (Some(hour * 3), None, &["b.code", "c.code"]),
            (None, Some(10), &["c.code"]),
            (Some(Duration::ZERO), Some(0), &[]),
        ] {
            let dir = tempfile::tempdir().unwrap();
            for (name, hours) in [("a.code", 4), ("b.code", 2), ("c.code", 1), ("key", 9)] {
                let path = dir.path().join(name);
                fs::write(&path, "ten bytes.").unwrap();
                let file = File::options().append(true).open(path).unwrap();
                file.set_modified(SystemTime::now() - hour * hours).unwrap();
            }
            std::os::unix::fs::symlink("key", dir.path().join("link.code")).unwrap();
            let removed = shrink(
                dir.path(),
                |name| has_suffix(name, ".code"),
                max_age,
                max_bytes,
            );
            assert_eq!(removed.files, 3 - left.len());
            assert_eq!(removed.bytes, 10 * removed.files as u64);
            let mut names: Vec<_> = fs::read_dir(dir.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            let expected: Vec<_> = left.iter().copied().chain(["key", "link.code"]).collect();
            assert_eq!(names, expected);
        }
    }

    #[test]
    fn retention_of_the_cache_covers_all_of_its_files_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let stem = format!("{}-{}", "5".repeat(64), "e".repeat(16));
        let entries = ["code", "tools", "packed", "digest"].map(|kind| format!("{stem}.{kind}"));
        let temporary = entries.clone().map(|name| format!(".{name}.7"));
        let others = ["key", "notes.code", ".notes.code.7"].map(ToOwned::to_owned);
        let fresh = [
            format!("{}.code", stem.replace('5', "6")),
            format!(".{stem}.code.8"),
        ];
        let all = [&entries[..], &temporary, &others, &fresh].concat();
        for name in &all {
            let path = dir.path().join(name);
            fs::write(&path, "ten bytes.").unwrap();
            if !fresh.contains(name) {
                let file = File::options().append(true).open(path).unwrap();
                let old = SystemTime::now() - Duration::from_hours(48);
                file.set_modified(old).unwrap();
            }
        }
        let host_paths = HostPaths {
            cache: Some(dir.path().to_owned()),
            ..HostPaths::default()
        };
        let remove = |cache_age| {
            let settings = RetentionSettings {
                cache_age,
                ..RetentionSettings::default()
            };
            remove_old_files(&host_paths, &settings)[0]
        };
        let expected = |files: usize| RemovedFiles {
            files,
            bytes: 10 * files as u64,
        };
        assert_eq!(remove(None), expected(temporary.len()));
        assert_eq!(
            remove(Some(Duration::from_hours(1))),
            expected(entries.len())
        );
        let kept = others.iter().chain(&fresh);
        assert!(kept.into_iter().all(|name| dir.path().join(name).exists()));
    }
}
