//! Content-addressed store for the file contents that an undo needs.

use std::{
    collections::HashSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Seek, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{FlockOperation, flock};
use tempfile::NamedTempFile;

use crate::ContentHash;

/// Content-addressed files `dir/ab/cdef…`, written once and readable by their owner only.
#[derive(Debug)]
pub struct BlobStore {
    dir: PathBuf,
}

/// Result of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweepStats {
    pub removed: usize,
    pub freed: u64,
    /// Bytes of the remaining blobs.
    pub kept: u64,
}

/// A blob that is written but not yet durable under its final name.
pub(crate) struct Pending {
    file: NamedTempFile,
    pub hash: ContentHash,
    pub size: u64,
}

impl BlobStore {
    pub fn open(dir: &Path) -> io::Result<Self> {
        make_dir(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    /// Saves the content of a file. Durable on return.
    pub fn put(&self, file: &File) -> io::Result<(ContentHash, u64)> {
        let pending = self.write(file)?;
        let stored = (pending.hash, pending.size);
        self.publish(vec![pending])?;
        Ok(stored)
    }

    pub(crate) fn write(&self, file: &File) -> io::Result<Pending> {
        // A random name: processes in several containers can have the same PID.
        let copy = tempfile::Builder::new()
            .prefix(TEMP_PREFIX)
            .tempfile_in(&self.dir)
            // The error contains the path, which models must not see.
            .map_err(|error| io::Error::from(error.kind()))?;
        let (hash, size) = copy_and_hash(file, copy.as_file())?;
        Ok(Pending {
            file: copy,
            hash,
            size,
        })
    }

    /// Gives blobs their final names once they are durable; one sync for many is cheaper than one for each.
    pub(crate) fn publish(&self, all: Vec<Pending>) -> io::Result<()> {
        const FEW: usize = 16;
        if all.len() > FEW {
            rustix::fs::syncfs(File::open(&self.dir)?)?;
        } else {
            for pending in &all {
                pending.file.as_file().sync_all()?;
            }
        }
        let mut dirs = HashSet::from([self.dir.clone()]);
        for pending in all {
            let path = self.path(pending.hash);
            if let Some(parent) = path.parent() {
                make_dir(parent)?;
                dirs.insert(parent.to_owned());
            }
            pending.file.persist(&path).map_err(|failed| failed.error)?;
        }
        for dir in dirs {
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    }

    pub fn path(&self, hash: ContentHash) -> PathBuf {
        let hex = hash.to_string();
        self.dir.join(&hex[..2]).join(&hex[2..])
    }

    /// Whether the blob exists with the expected size.
    pub fn has(&self, hash: ContentHash, size: u64) -> bool {
        let path = self.path(hash);
        fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() == size)
    }

    /// Opens a blob. `None` if it is missing, or if another program changed it. Reads all of it.
    pub fn open_verified(&self, hash: ContentHash) -> Option<File> {
        let mut file = File::open(self.path(hash)).ok()?;
        let found = ContentHash::of_reader(&file).ok()?;
        file.rewind().ok()?;
        (found == hash).then_some(file)
    }

    /// Sets the blob's age to zero for the next sweep. Waits while a sweep is removing a blob, so a renewed blob is
    /// not removed.
    pub(crate) fn renew(&self, hash: ContentHash) -> io::Result<()> {
        let _lock = self.lock(FlockOperation::LockShared)?;
        let file = OpenOptions::new().append(true).open(self.path(hash))?;
        file.set_modified(SystemTime::now())
    }

    /// The lock is held until the file is dropped.
    fn lock(&self, how: FlockOperation) -> io::Result<File> {
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.dir.join(LOCK_FILE))?;
        flock(&lock, how)?;
        Ok(lock)
    }

    /// Removes the oldest blobs until the rest fit `max_bytes` and none is older than `max_age`; never removes
    /// those in `keep`, nor what recovery of the `unfinished` commits needs.
    pub fn sweep(
        &self,
        max_bytes: u64,
        max_age: Duration,
        now: SystemTime,
        keep: &HashSet<ContentHash>,
        unfinished: &HashSet<String>,
    ) -> io::Result<SweepStats> {
        /// Temporary files younger than this can belong to a commit that is still running.
        const UNFINISHED: Duration = Duration::from_secs(24 * 60 * 60);
        let age = |written: SystemTime| now.duration_since(written).unwrap_or_default();
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let kind = entry.file_type()?;
            if kind.is_dir() && name.len() == 2 {
                list(&entry.path(), keep, &mut found)?;
            } else if let Some(commit) = name.to_string_lossy().strip_prefix(APPLIED_PREFIX) {
                let is_needed = unfinished.contains(commit);
                if !is_needed && kind.is_file() && age(entry.metadata()?.modified()?) > max_age {
                    fs::remove_file(entry.path())?;
                }
            } else if kind.is_file() && name.to_string_lossy().starts_with(TEMP_PREFIX) {
                let written = entry.metadata()?.modified()?;
                if age(written) > UNFINISHED {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        found.sort();
        let mut swept = SweepStats {
            kept: found.iter().map(|blob| blob.size).sum(),
            ..SweepStats::default()
        };
        for blob in found.iter().filter(|blob| !blob.is_kept) {
            if swept.kept <= max_bytes && age(blob.written) <= max_age {
                break;
            }
            // Locked for each removal and not for the whole sweep, so that a commit waits for one removal at most.
            let lock = self.lock(FlockOperation::LockExclusive)?;
            if fs::symlink_metadata(&blob.path)?.modified()? != blob.written {
                continue;
            }
            before_removal();
            fs::remove_file(&blob.path)?;
            drop(lock);
            swept.removed += 1;
            swept.freed += blob.size;
            swept.kept -= blob.size;
        }
        Ok(swept)
    }

    /// Marks a file that is being written in place, so that partial content is not taken for another process's
    /// change.
    pub(crate) fn mark(&self, name: &str) -> io::Result<()> {
        let marker = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.dir.join(name))?;
        marker.sync_all()?;
        File::open(&self.dir)?.sync_all()
    }

    pub(crate) fn is_marked(&self, name: &str) -> bool {
        self.dir.join(name).exists()
    }

    pub(crate) fn unmark(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.dir.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

/// Prefix of the marker of applied changes; the commit's name follows.
pub(crate) const APPLIED_PREFIX: &str = "made-";
const TEMP_PREFIX: &str = "temp-";
/// Locked shared for renewals, exclusive for removals.
const LOCK_FILE: &str = "lock";

#[cfg(test)]
thread_local! {
    /// Test hook that runs between a sweep's check and its removal.
    static MEANWHILE: std::cell::RefCell<Option<Box<dyn FnMut()>>> = const { std::cell::RefCell::new(None) };
}

#[cfg(test)]
fn before_removal() {
    MEANWHILE.with_borrow_mut(|meanwhile| {
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
    });
}

#[cfg(not(test))]
fn before_removal() {}

/// Ordered by age, then by name, because clock resolution can be coarse.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct BlobEntry {
    written: SystemTime,
    path: PathBuf,
    size: u64,
    is_kept: bool,
}

/// Adds the blobs of one directory to `found`.
fn list(dir: &Path, keep: &HashSet<ContentHash>, found: &mut Vec<BlobEntry>) -> io::Result<()> {
    let start = dir.file_name().unwrap_or_default().to_string_lossy();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let hex = format!("{start}{}", entry.file_name().to_string_lossy());
        // Files with other names were not created by this store.
        let Ok(hash) = hex.parse::<ContentHash>() else {
            continue;
        };
        let metadata = entry.metadata()?;
        found.push(BlobEntry {
            written: metadata.modified()?,
            path: entry.path(),
            size: metadata.len(),
            is_kept: keep.contains(&hash),
        });
    }
    Ok(())
}

fn make_dir(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = fs::symlink_metadata(dir)?;
            if found.is_dir() { Ok(()) } else { Err(error) }
        }
        done => done,
    }
}

/// Copies all of `from` to the empty file `to`, and returns the hash and size of the content.
pub(crate) fn copy_and_hash(from: &File, to: &File) -> io::Result<(ContentHash, u64)> {
    let mut hasher = blake3::Hasher::new();
    let mut size = 0;
    let mut buffer = vec![0; 128 * 1024];
    // With reflinks no bytes are copied; they are read only for the hash.
    let shared = rustix::fs::ioctl_ficlone(to, from).is_ok();
    let (reader, mut writer) = if shared { (to, to) } else { (from, to) };
    loop {
        // Read at an explicit offset: the descriptor's position belongs to the caller.
        let read = match reader.read_at(&mut buffer, size) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..read]);
        size += read as u64;
        if !shared {
            writer.write_all(&buffer[..read])?;
        }
    }
    Ok((ContentHash(hasher.finalize().into()), size))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    fn put(blobs: &BlobStore, dir: &Path, content: &[u8]) -> ContentHash {
        let path = dir.join("source");
        fs::write(&path, content).unwrap();
        blobs.put(&File::open(path).unwrap()).unwrap().0
    }

    #[test]
    fn files_of_a_process_with_the_same_id_are_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(&dir.path().join("blobs")).unwrap();
        let other = |number| {
            let name = format!("{TEMP_PREFIX}{}-{number}", std::process::id());
            dir.path().join("blobs").join(name)
        };
        for number in 0..100 {
            fs::write(other(number), "other").unwrap();
        }
        let hash = put(&blobs, dir.path(), b"content");
        assert!(blobs.has(hash, 7));
        for number in 0..100 {
            assert_eq!(fs::read(other(number)).unwrap(), b"other");
        }
    }

    #[test]
    fn errors_do_not_contain_the_path_of_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(&dir.path().join("blobs")).unwrap();
        fs::remove_dir(dir.path().join("blobs")).unwrap();
        fs::write(dir.path().join("source"), "x").unwrap();
        let file = File::open(dir.path().join("source")).unwrap();
        let error = blobs.put(&file).unwrap_err();
        assert!(!error.to_string().contains('/'), "{error}");
    }

    /// A commit that renews a blob while a sweep removes it either fails and writes its own copy, or keeps the
    /// blob.
    #[test]
    fn a_14_a_renewed_blob_is_not_swept() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Arc::new(BlobStore::open(&dir.path().join("blobs")).unwrap());
        let hash = put(&blobs, dir.path(), b"content");
        let old = SystemTime::now() - Duration::from_secs(3_600);
        let file = OpenOptions::new()
            .append(true)
            .open(blobs.path(hash))
            .unwrap();
        file.set_modified(old).unwrap();
        let (renewing, renewed): (_, Receiver<io::Result<()>>) = channel();
        let other = Arc::clone(&blobs);
        MEANWHILE.set(Some(Box::new(move || {
            let (blobs, renewing) = (Arc::clone(&other), renewing.clone());
            std::thread::spawn(move || renewing.send(blobs.renew(hash)));
        })));
        let now = SystemTime::now();
        blobs
            .sweep(
                u64::MAX,
                Duration::from_secs(60),
                now,
                &HashSet::new(),
                &HashSet::new(),
            )
            .unwrap();
        let renewed = renewed.recv_timeout(Duration::from_secs(120)).unwrap();
        assert_eq!(renewed.is_ok(), blobs.has(hash, 7));
        MEANWHILE.set(None);

        // The other order: a blob renewed after the sweep has listed it stays.
        let hash = put(&blobs, dir.path(), b"another");
        let file = OpenOptions::new()
            .append(true)
            .open(blobs.path(hash))
            .unwrap();
        file.set_modified(old).unwrap();
        let first = put(&blobs, dir.path(), b"first");
        let file = OpenOptions::new()
            .append(true)
            .open(blobs.path(first))
            .unwrap();
        file.set_modified(old - Duration::from_secs(60)).unwrap();
        let other = Arc::clone(&blobs);
        MEANWHILE.set(Some(Box::new(move || {
            // A commit that runs between two removals.
            let file = OpenOptions::new()
                .append(true)
                .open(other.path(hash))
                .unwrap();
            file.set_modified(SystemTime::now()).unwrap();
        })));
        blobs
            .sweep(
                u64::MAX,
                Duration::from_secs(60),
                now,
                &HashSet::new(),
                &HashSet::new(),
            )
            .unwrap();
        MEANWHILE.set(None);
        assert!(blobs.has(hash, 7));
        assert!(!blobs.has(first, 5));
    }
}
