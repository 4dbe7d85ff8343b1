//! On-disk cache of compiled components, their descriptions, and the digests of files.
//!
//! A code entry is native code that runs in the host process. An entry is used only with a valid MAC over its kind, the
//! component's digest, the engine's compatibility hash and the content; tools cannot read the key. Entries are read
//! into memory and verified and deserialized there, because a mapped file could change after the check.

use std::fs::DirBuilder;
use std::hash::{Hash, Hasher};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cap_std::ambient_authority;
use cap_std::fs::{
    Dir, File, MetadataExt as _, OpenOptions, OpenOptionsExt as _, Permissions, PermissionsExt as _,
};
use rustix::fs::{OFlags, Timespec, Timestamps, UTIME_NOW};
use toolhost_contract::Digest;
use wasmtime::Engine;

const MAGIC: &[u8; 8] = b"THCACHE2";
const HEADER_LEN: usize = MAGIC.len() + blake3::OUT_LEN;
const MAX_ENTRY: u64 = 512 << 20;
const MAX_TOTAL: u64 = 1 << 30;
const KEY: &str = "key";
/// Length of the name of an entry before the extension: two hashes of 32 and 8 bytes.
const STEM_LEN: usize = 64 + 1 + 16;

pub struct CompileCache {
    path: PathBuf,
    /// All access goes through this handle, so it stays in the directory that was checked.
    dir: Dir,
    key: [u8; 32],
    compatibility: [u8; 32],
}

/// What an entry contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Machine code.
    Code,
    /// What a component says about itself, as JSON.
    Description,
    /// What a file says about its component, as JSON.
    PackedDescription,
    /// The digest of a file. Instead of a digest, the name of the entry has a hash of what identifies this version of the
    /// file.
    FileDigest,
    /// The digest under which the code of a file is stored.
    CodeDigest,
}

impl EntryKind {
    const ALL: [Self; 5] = [
        Self::Code,
        Self::Description,
        Self::PackedDescription,
        Self::FileDigest,
        Self::CodeDigest,
    ];

    fn extension(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Description => "tools",
            Self::PackedDescription => "packed",
            Self::FileDigest => "digest",
            Self::CodeDigest => "component",
        }
    }
}

/// A file that can be removed from the directory of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheFile {
    /// Its modification time is that of its last use.
    Entry,
    /// A file that is renamed once it is complete. A process that is killed leaves it.
    Temporary,
}

impl CacheFile {
    /// Age after which a temporary file is not in use any more.
    pub const MAX_TEMPORARY_AGE: Duration = Duration::from_hours(24);

    /// Returns `None` for the key and for files that are not of a cache.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.strip_prefix('.') {
            None => is_entry_name(name).then_some(Self::Entry),
            Some(temporary) => {
                let (name, _) = temporary.rsplit_once('.')?;
                (name == KEY || is_entry_name(name)).then_some(Self::Temporary)
            }
        }
    }
}

fn is_entry_name(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        let mut kinds = EntryKind::ALL.iter();
        stem.len() == STEM_LEN
            && stem
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
            && kinds.any(|kind| kind.extension() == extension)
    })
}

impl CompileCache {
    /// Opens the cache. The error states why there is none.
    pub fn open(path: &Path, engine: &Engine) -> Result<Self, String> {
        let shown = path.display().to_string();
        let shown = shown.as_str();
        let failed = |operation: &'static str| {
            move |error: io::Error| format!("cannot {operation} {shown}: {error}")
        };
        if path.is_symlink() {
            return Err(format!("{shown} is a symbolic link"));
        }
        // Created private, independent of the umask.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed("create"))?;
        let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(failed("open"))?;
        let metadata = dir.dir_metadata().map_err(failed("inspect"))?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(format!("{shown} belongs to another user"));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(format!(
                "{shown} is writable by other users; run `chmod 700 {shown}`"
            ));
        }
        dir.set_permissions(".", Permissions::from_mode(0o700))
            .map_err(failed("protect"))?;
        let key = key(&dir).map_err(failed("use the key in"))?;
        let mut hasher = Blake3Hasher(blake3::Hasher::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self {
            path: path.to_owned(),
            dir,
            key,
            compatibility: *hasher.0.finalize().as_bytes(),
        })
    }

    /// The verified content, or `None`. Removes an invalid entry.
    pub fn get(&self, kind: EntryKind, digest: Digest) -> Option<Vec<u8>> {
        let name = self.name(kind, digest);
        let mut entry = self.read(&name)?;
        if self.is_valid(kind, digest, &entry) {
            self.renew(kind, digest);
            entry.drain(..HEADER_LEN);
            return Some(entry);
        }
        let _ = self.dir.remove_file(&name);
        None
    }

    /// Updates the entry's timestamp, which records its last use. Returns whether there is an entry.
    pub fn renew(&self, kind: EntryKind, digest: Digest) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        let Ok(file) = open(&self.dir, &self.name(kind, digest)) else {
            return false;
        };
        // If it fails, the entry may be removed early.
        let _ = rustix::fs::futimens(&file, &times);
        true
    }

    pub fn remove(&self, kind: EntryKind, digest: Digest) {
        let _ = self.dir.remove_file(self.name(kind, digest));
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        let file = open(&self.dir, name).ok()?;
        let size = file
            .metadata()
            .ok()
            .filter(cap_std::fs::Metadata::is_file)?
            .len();
        if size > MAX_ENTRY {
            return None;
        }
        let mut entry = Vec::with_capacity(usize::try_from(size).ok()? + 1);
        file.take(MAX_ENTRY).read_to_end(&mut entry).ok()?;
        Some(entry)
    }

    fn is_valid(&self, kind: EntryKind, digest: Digest, entry: &[u8]) -> bool {
        let Some((header, content)) = entry.split_at_checked(HEADER_LEN) else {
            return false;
        };
        let (magic, mac) = header.split_at(MAGIC.len());
        // blake3's Hash compares in constant time.
        magic == MAGIC
            && blake3::Hash::from_slice(mac).is_ok_and(|mac| mac == self.mac(kind, digest, content))
    }

    fn mac(&self, kind: EntryKind, digest: Digest, content: &[u8]) -> blake3::Hash {
        blake3::Hasher::new_keyed(&self.key)
            .update(&[kind as u8])
            .update(&digest.0)
            .update(&self.compatibility)
            .update(content)
            .finalize()
    }

    /// Stores an entry. A failure is reported but not fatal: it only costs time at the next start.
    pub fn put(&self, kind: EntryKind, digest: Digest, content: &[u8]) -> Result<(), String> {
        self.write(
            &self.name(kind, digest),
            &[MAGIC, self.mac(kind, digest, content).as_bytes(), content],
        )
        .map_err(|error| format!("cannot write to {}: {error}", self.path.display()))?;
        // The other entries are small.
        if kind == EntryKind::Code {
            self.evict();
        }
        Ok(())
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        // Not synced: an entry that is incomplete after a power failure has no valid MAC.
        write_new(&self.dir, name, parts, |_| Ok(()))
    }

    fn name(&self, kind: EntryKind, digest: Digest) -> String {
        let engine = blake3::Hash::from_bytes(self.compatibility).to_hex();
        let digest = digest.to_string();
        format!(
            "{}-{}.{}",
            digest.trim_start_matches("sha256:"),
            &engine[..16],
            kind.extension()
        )
    }

    /// Removes the oldest entries if the total size exceeds the limit, and temporary files that a process has left.
    fn evict(&self) {
        let Ok(entries) = self.dir.entries() else {
            return;
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let kind = name.to_str().and_then(CacheFile::from_name);
            let (Some(kind), Ok(metadata)) = (kind, entry.metadata()) else {
                continue;
            };
            let Ok(modified) = metadata.modified().map(cap_std::time::SystemTime::into_std) else {
                continue;
            };
            match kind {
                CacheFile::Entry => found.push((modified, metadata.len(), name)),
                CacheFile::Temporary => {
                    let age = SystemTime::now().duration_since(modified);
                    if age.is_ok_and(|age| age > CacheFile::MAX_TEMPORARY_AGE) {
                        let _ = self.dir.remove_file(&name);
                    }
                }
            }
        }
        let mut total: u64 = found.iter().map(|(_, size, _)| size).sum();
        found.sort();
        for (_, size, name) in found {
            if total <= MAX_TOTAL {
                break;
            }
            if self.dir.remove_file(&name).is_ok() {
                total -= size;
            }
        }
    }
}

fn open(dir: &Dir, name: &str) -> io::Result<File> {
    // `NONBLOCK`: a FIFO at this path must not block the host.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    dir.open_with(
        name,
        OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed()),
    )
}

/// The key of this cache, created on first use. A key that is too short or readable by other users is replaced,
/// which invalidates all entries.
fn key(dir: &Dir) -> io::Result<[u8; 32]> {
    if let Ok(file) = open(dir, KEY) {
        let mode = file.metadata()?.mode();
        let mut bytes = Vec::new();
        file.take(64).read_to_end(&mut bytes)?;
        if let Ok(key) = <[u8; 32]>::try_from(bytes)
            && mode & 0o077 == 0
        {
            return Ok(key);
        }
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(io::Error::from)?;
    write_new(dir, KEY, &[&key], File::sync_all)?;
    Ok(key)
}

/// Writes a temporary file and renames it, so that readers see the old or the new content.
fn write_new(
    dir: &Dir,
    name: &str,
    parts: &[&[u8]],
    sync: fn(&File) -> io::Result<()>,
) -> io::Result<()> {
    // Not the process id, which is the same in several containers.
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::from)?;
    let temporary = format!(".{name}.{:016x}", u64::from_ne_bytes(random));
    let written = dir
        .open_with(
            &temporary,
            OpenOptions::new().write(true).create_new(true).mode(0o600),
        )
        .and_then(|mut file| {
            parts.iter().try_for_each(|part| file.write_all(part))?;
            sync(&file)
        })
        .and_then(|()| dir.rename(&temporary, dir, name));
    if written.is_err() {
        let _ = dir.remove_file(&temporary);
    }
    written
}

struct Blake3Hasher(blake3::Hasher);

impl Hasher for Blake3Hasher {
    fn finish(&self) -> u64 {
        self.0.finalize().as_bytes()[..8]
            .iter()
            .fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::fs::Mode;

    use super::*;

    const DIGEST: Digest = Digest([7; 32]);

    fn cache(dir: &Path) -> CompileCache {
        CompileCache::open(dir, &crate::engine::compiling().unwrap()).unwrap()
    }

    fn only_entry(dir: &Path) -> PathBuf {
        let mut entries = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        entries
            .find(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "code")
            })
            .unwrap()
    }

    #[test]
    fn entries_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        cache(dir.path())
            .put(EntryKind::Code, DIGEST, b"code")
            .unwrap();
        assert_eq!(
            cache(dir.path()).get(EntryKind::Code, DIGEST).as_deref(),
            Some(&b"code"[..])
        );
    }

    #[test]
    fn temporary_files_of_killed_hosts_are_removed_after_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path());
        let kept = ["other.code", ".other.code.7"].map(ToOwned::to_owned);
        let temporary = EntryKind::ALL.map(|kind| format!(".{}.7", cache.name(kind, DIGEST)));
        for name in temporary.iter().chain(&kept) {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let exists = |name: &String| dir.path().join(name).exists();
        cache.put(EntryKind::Code, DIGEST, b"code").unwrap();
        assert!(temporary.iter().all(exists));
        for name in temporary.iter().chain(&kept) {
            let file = fs::File::options().append(true).open(dir.path().join(name));
            let old = SystemTime::now() - 2 * CacheFile::MAX_TEMPORARY_AGE;
            file.unwrap().set_modified(old).unwrap();
        }
        cache.put(EntryKind::Code, DIGEST, b"code").unwrap();
        assert!(!temporary.iter().any(exists));
        assert!(kept.iter().all(exists));
    }

    #[test]
    fn an_altered_swapped_cut_or_foreign_entry_is_a_miss_and_is_removed() {
        let alterations: [fn(Vec<u8>) -> Vec<u8>; 5] = [
            |mut bytes| {
                *bytes.last_mut().unwrap() ^= 1;
                bytes
            },
            |mut bytes| {
                bytes[10] ^= 1;
                bytes
            },
            |bytes| bytes[..bytes.len() / 2].to_vec(),
            |_| Vec::new(),
            |_| b"\x7fELF and more than forty bytes of something else".to_vec(),
        ];
        for alter in alterations {
            let dir = tempfile::tempdir().unwrap();
            cache(dir.path())
                .put(EntryKind::Code, DIGEST, b"code")
                .unwrap();
            let entry = only_entry(dir.path());
            fs::write(&entry, alter(fs::read(&entry).unwrap())).unwrap();
            assert_eq!(cache(dir.path()).get(EntryKind::Code, DIGEST), None);
            assert!(!entry.exists());
        }
        // A valid entry of one component under the name of another.
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path());
        cache.put(EntryKind::Code, DIGEST, b"code").unwrap();
        fs::rename(
            only_entry(dir.path()),
            dir.path()
                .join(cache.name(EntryKind::Code, Digest([8; 32]))),
        )
        .unwrap();
        assert_eq!(cache.get(EntryKind::Code, Digest([8; 32])), None);
        // Code under the name of a description.
        cache.put(EntryKind::Code, DIGEST, b"code").unwrap();
        let description = dir.path().join(cache.name(EntryKind::Description, DIGEST));
        fs::rename(only_entry(dir.path()), description).unwrap();
        assert_eq!(cache.get(EntryKind::Description, DIGEST), None);
    }

    #[test]
    fn a_lost_or_readable_key_is_replaced_and_invalidates_entries() {
        for damage in [
            (|key| fs::remove_file(key).unwrap()) as fn(&Path),
            |key| fs::write(key, b"short").unwrap(),
            |key| fs::set_permissions(key, fs::Permissions::from_mode(0o644)).unwrap(),
        ] {
            let dir = tempfile::tempdir().unwrap();
            cache(dir.path())
                .put(EntryKind::Code, DIGEST, b"code")
                .unwrap();
            damage(&dir.path().join("key"));
            assert_eq!(cache(dir.path()).get(EntryKind::Code, DIGEST), None);
        }
    }

    #[test]
    fn a_directory_that_others_can_write_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = CompileCache::open(dir.path(), &crate::engine::compiling().unwrap())
            .err()
            .unwrap();
        assert!(error.contains("is writable by other users"), "{error}");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(CompileCache::open(&link, &crate::engine::compiling().unwrap()).is_err());
    }

    #[test]
    fn a_fifo_in_the_place_of_an_entry_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path());
        let path = dir.path().join(cache.name(EntryKind::Code, DIGEST));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert_eq!(cache.get(EntryKind::Code, DIGEST), None);
    }
}
