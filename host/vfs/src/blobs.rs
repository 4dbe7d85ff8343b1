//! Keeps the contents that an undo needs, each once, under the hash of its bytes.

use std::{
    collections::HashSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use rustix::fs::{FlockOperation, flock};

use crate::ContentHash;

/// Content-addressed files: `dir/ab/cdef…`, written once, readable by their owner only.
#[derive(Debug)]
pub struct Blobs {
    dir: PathBuf,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    pub removed: usize,
    pub freed: u64,
    /// Bytes of what stays.
    pub kept: u64,
}

/// Written, but not yet under its name: it may not have reached the disk.
pub(crate) struct Pending {
    temp: PathBuf,
    file: File,
    pub hash: ContentHash,
    pub size: u64,
}

/// What was not published leaves nothing behind.
impl Drop for Pending {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temp);
    }
}

impl Blobs {
    pub fn open(dir: &Path) -> io::Result<Self> {
        make_dir(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    /// Keeps all of a file. On disk when it returns.
    pub fn put(&self, file: &File) -> io::Result<(ContentHash, u64)> {
        let pending = self.write(file)?;
        let kept = (pending.hash, pending.size);
        self.publish(vec![pending])?;
        Ok(kept)
    }

    pub(crate) fn write(&self, file: &File) -> io::Result<Pending> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let temp = self.dir.join(format!("{TEMP}{}-{next}", process::id()));
        // A process of the same number may have died and left one.
        let _ = fs::remove_file(&temp);
        let copy = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temp)?;
        let mut pending = Pending {
            temp,
            file: copy,
            hash: ContentHash([0; 32]),
            size: 0,
        };
        (pending.hash, pending.size) = copy_hashed(file, &pending.file)?;
        Ok(pending)
    }

    /// Gives them their names, once they are on the disk: many at once, which is cheaper than one by one.
    pub(crate) fn publish(&self, all: Vec<Pending>) -> io::Result<()> {
        const FEW: usize = 16;
        if all.len() > FEW {
            rustix::fs::syncfs(File::open(&self.dir)?)?;
        } else {
            for pending in &all {
                pending.file.sync_all()?;
            }
        }
        let mut dirs = HashSet::from([self.dir.clone()]);
        for pending in all {
            let path = self.path(pending.hash);
            if let Some(parent) = path.parent() {
                make_dir(parent)?;
                dirs.insert(parent.to_owned());
            }
            fs::rename(&pending.temp, &path)?;
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

    /// Whether it is kept, with as many bytes as it should have.
    pub fn has(&self, hash: ContentHash, size: u64) -> bool {
        let path = self.path(hash);
        fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() == size)
    }

    /// So that the next sweep takes it for as young as it now is. While a sweep looks at a content and removes it, this
    /// waits: what was renewed is there.
    pub(crate) fn renew(&self, hash: ContentHash) -> io::Result<()> {
        let _lock = self.lock(FlockOperation::LockShared)?;
        let file = OpenOptions::new().append(true).open(self.path(hash))?;
        file.set_modified(SystemTime::now())
    }

    /// Held for as long as the file lives.
    fn lock(&self, how: FlockOperation) -> io::Result<File> {
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.dir.join(LOCK))?;
        flock(&lock, how)?;
        Ok(lock)
    }

    /// Removes the oldest until all fits `max_bytes` and none is older than `max_age`; `keep` are never removed.
    pub fn sweep(
        &self,
        max_bytes: u64,
        max_age: Duration,
        now: SystemTime,
        keep: &HashSet<ContentHash>,
    ) -> io::Result<Swept> {
        /// A commit that is still being written is younger than this.
        const UNFINISHED: Duration = Duration::from_secs(24 * 60 * 60);
        let age = |written: SystemTime| now.duration_since(written).unwrap_or_default();
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let kind = entry.file_type()?;
            if kind.is_dir() && name.len() == 2 {
                list(&entry.path(), keep, &mut found)?;
            } else if kind.is_file() && name.to_string_lossy().starts_with(MADE) {
                if age(entry.metadata()?.modified()?) > max_age {
                    fs::remove_file(entry.path())?;
                }
            } else if kind.is_file() && name.to_string_lossy().starts_with(TEMP) {
                let written = entry.metadata()?.modified()?;
                if age(written) > UNFINISHED {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        found.sort();
        let mut swept = Swept {
            kept: found.iter().map(|blob| blob.size).sum(),
            ..Swept::default()
        };
        for blob in found.iter().filter(|blob| !blob.wanted) {
            if swept.kept <= max_bytes && age(blob.written) <= max_age {
                break;
            }
            // Not held for the whole sweep: a commit waits for one removal at most.
            let lock = self.lock(FlockOperation::LockExclusive)?;
            if fs::symlink_metadata(&blob.path)?.modified()? != blob.written {
                continue;
            }
            between_look_and_removal();
            fs::remove_file(&blob.path)?;
            drop(lock);
            swept.removed += 1;
            swept.freed += blob.size;
            swept.kept -= blob.size;
        }
        Ok(swept)
    }

    /// Says that a file is being written in place, so that half of it is not taken for somebody's change.
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

/// What a mark of changes that are real is called, with the name of the commit behind it.
pub(crate) const MADE: &str = "made-";
const TEMP: &str = "temp-";
/// Shared by those who renew, for one at a time who removes.
const LOCK: &str = "lock";

#[cfg(test)]
thread_local! {
    /// What a test does at the worst moment of a sweep.
    static MEANWHILE: std::cell::RefCell<Option<Box<dyn FnMut()>>> = const { std::cell::RefCell::new(None) };
}

#[cfg(test)]
fn between_look_and_removal() {
    MEANWHILE.with_borrow_mut(|meanwhile| {
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
    });
}

#[cfg(not(test))]
fn between_look_and_removal() {}

/// Ordered by age, and by name where the clock was too coarse.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    written: SystemTime,
    path: PathBuf,
    size: u64,
    wanted: bool,
}

/// The blobs of one directory.
fn list(dir: &Path, keep: &HashSet<ContentHash>, found: &mut Vec<Found>) -> io::Result<()> {
    let start = dir.file_name().unwrap_or_default().to_string_lossy();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let hex = format!("{start}{}", entry.file_name().to_string_lossy());
        // What is not named like ours is not ours to remove.
        let Ok(hash) = hex.parse::<ContentHash>() else {
            continue;
        };
        let metadata = entry.metadata()?;
        found.push(Found {
            written: metadata.modified()?,
            path: entry.path(),
            size: metadata.len(),
            wanted: keep.contains(&hash),
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

/// Copies all of `from` to the empty file `to`, and says what it copied.
pub(crate) fn copy_hashed(from: &File, to: &File) -> io::Result<(ContentHash, u64)> {
    let mut hasher = blake3::Hasher::new();
    let mut size = 0;
    let mut buffer = vec![0; 128 * 1024];
    // A file system that shares blocks needs no second copy; the bytes are read for the hash only.
    let shared = rustix::fs::ioctl_ficlone(to, from).is_ok();
    let (reader, mut writer) = if shared { (to, to) } else { (from, to) };
    loop {
        // At an offset of our own: the descriptor may be anywhere, and belongs to the caller.
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

    fn put(blobs: &Blobs, dir: &Path, content: &[u8]) -> ContentHash {
        let path = dir.join("source");
        fs::write(&path, content).unwrap();
        blobs.put(&File::open(path).unwrap()).unwrap().0
    }

    /// A commit that renews a content while a sweep removes it either fails and keeps its own copy, or finds the content
    /// afterwards.
    #[test]
    fn a_14_a_content_that_was_renewed_is_not_swept() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Arc::new(Blobs::open(&dir.path().join("blobs")).unwrap());
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
            .sweep(u64::MAX, Duration::from_secs(60), now, &HashSet::new())
            .unwrap();
        let renewed = renewed.recv_timeout(Duration::from_secs(120)).unwrap();
        assert_eq!(renewed.is_ok(), blobs.has(hash, 7));
        MEANWHILE.set(None);

        // The other order: what was renewed after the sweep has listed it stays.
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
            // As a commit would whose turn comes between two removals.
            let file = OpenOptions::new()
                .append(true)
                .open(other.path(hash))
                .unwrap();
            file.set_modified(SystemTime::now()).unwrap();
        })));
        blobs
            .sweep(u64::MAX, Duration::from_secs(60), now, &HashSet::new())
            .unwrap();
        MEANWHILE.set(None);
        assert!(blobs.has(hash, 7));
        assert!(!blobs.has(first, 5));
    }
}
