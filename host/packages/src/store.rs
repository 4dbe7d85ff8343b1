//! The store of installed packages, below the state directory, which is hidden from all tools.
//!
//! ```text
//! packages/installed.toml       the installed plugins; replacing it commits a change
//! packages/content/HEX-NAME/    the files of one version: NAME.wasm, and beside it its manifest and signature
//! packages/incoming/            versions that are being fetched
//! packages/revocations.json     verified lists of revoked files
//! packages/lock                 locked while a change is committed
//! ```
//!
//! A directory in `content` is complete when it appears, because it is renamed, and its name is the digest that a host
//! checks before it loads the file. A process that ends at any time leaves the old state or the new one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use toolhost_contract::Digest;
use toolhost_hostfiles::{create_private_dir_all, lock_within};

use crate::error::PackageError;
use crate::fetch::Verified;
use crate::lock::{LockFile, LockedPlugin};
use crate::revocation::Revocations;
use crate::trust::bundle_path;

/// Computes the digest of a plugin file, with the manifest beside it.
pub type FileDigest = fn(&Path) -> Result<Digest, String>;

/// How long a command waits for another one that commits a change.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// Files that nothing refers to are kept for this long: a running host may still use them, or a command may fetch them.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Clone)]
pub struct PackageStore {
    state: PathBuf,
    directory: PathBuf,
    digest: FileDigest,
}

impl PackageStore {
    /// The store below this state directory. Nothing is created before something is installed.
    pub fn new(state: &Path, digest: FileDigest) -> Self {
        Self {
            state: state.to_owned(),
            directory: state.join("packages"),
            digest,
        }
    }

    pub fn digest(&self, file: &Path) -> Result<Digest, PackageError> {
        (self.digest)(file).map_err(|reason| PackageError::Plugin {
            file: file.display().to_string(),
            reason,
        })
    }

    pub fn installed(&self) -> Result<LockFile, PackageError> {
        let lock = LockFile::read(&self.directory.join("installed.toml"))?;
        Ok(lock.unwrap_or_default())
    }

    /// The plugin file of an installed version.
    pub fn file(&self, plugin: &LockedPlugin) -> PathBuf {
        self.content_dir(plugin)
            .join(format!("{}.wasm", plugin.name))
    }

    fn content_dir(&self, plugin: &LockedPlugin) -> PathBuf {
        self.directory.join("content").join(content_name(plugin))
    }

    /// Whether the file is in the store, and for which digest.
    pub fn digest_of_path(&self, file: &Path) -> Option<Digest> {
        let rest = file.strip_prefix(self.directory.join("content")).ok()?;
        let name = rest.components().next()?.as_os_str().to_str()?;
        let (hex, _) = name.split_once('-')?;
        Digest::parse(&format!("sha256:{hex}")).ok()
    }

    pub fn revocations(&self) -> Result<Revocations, PackageError> {
        Revocations::read(&self.revocations_path())
    }

    /// Changes the revocations with the lock held.
    pub fn change_revocations<T>(
        &self,
        change: impl FnOnce(&mut Revocations) -> Result<T, PackageError>,
    ) -> Result<T, PackageError> {
        let _lock = self.lock()?;
        let mut revocations = self.revocations()?;
        let result = change(&mut revocations)?;
        revocations.write(&self.revocations_path())?;
        Ok(result)
    }

    fn revocations_path(&self) -> PathBuf {
        self.directory.join("revocations.json")
    }

    /// A new directory for the files of a version.
    pub fn incoming(&self) -> Result<TempDir, PackageError> {
        let incoming = self.directory.join("incoming");
        create_private_dir_all(&self.state, &incoming)?;
        remove_old_entries(&incoming, |_| false);
        tempfile::Builder::new()
            .prefix("fetch-")
            .tempdir_in(&incoming)
            .map_err(|error| PackageError::io("create a directory in", &incoming, error))
    }

    /// A file whose lock is held until it is dropped.
    fn lock(&self) -> Result<File, PackageError> {
        create_private_dir_all(&self.state, &self.directory)?;
        let path = self.directory.join("lock");
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| PackageError::io("open", &path, error))?;
        match lock_within(&file, LOCK_PATIENCE) {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(PackageError::StoreBusy),
            Err(TryLockError::Error(error)) => Err(PackageError::io("lock", &path, error)),
        }
    }

    /// Installs a version in place of `old`, the digest of the version that was installed when the user decided.
    pub fn commit(
        &self,
        verified: Verified,
        plugin: LockedPlugin,
        old: Option<Digest>,
    ) -> Result<(), PackageError> {
        let _lock = self.lock()?;
        let mut installed = self.installed()?;
        let name = plugin.name.to_string();
        let before = installed.get(&name).cloned();
        if before.as_ref().map(|one| one.content) != old {
            return Err(PackageError::Changed { name });
        }
        if let Some(conflict) = installed.conflict(&plugin) {
            return Err(conflict);
        }
        // A list may have arrived in the meantime.
        self.revocations()?
            .check(plugin.content, plugin.signer.as_ref(), &[])?;
        let directory = self.place(verified, &plugin)?;
        sync_directory(directory.parent().unwrap_or(&directory))?;
        installed.insert(plugin);
        self.write_installed(&installed, before.as_ref())
    }

    /// Moves the files to their place. A version that is there already is used if it is intact.
    fn place(&self, verified: Verified, plugin: &LockedPlugin) -> Result<PathBuf, PackageError> {
        let target = self.content_dir(plugin);
        let parent = self.directory.join("content");
        create_private_dir_all(&self.state, &parent)?;
        let is_intact = (self.digest)(&self.file(plugin)).ok() == Some(plugin.content);
        if is_intact && plugin.signer.is_none() {
            return Ok(target);
        }
        let incoming = verified.into_files(&plugin.name, &target)?;
        if is_intact {
            // Only the signature may differ.
            let bundle = bundle_path(&self.file(plugin));
            let from = bundle_path(&incoming.path().join(format!("{}.wasm", plugin.name)));
            fs::rename(&from, &bundle)
                .map_err(|error| PackageError::io("write", &bundle, error))?;
            return Ok(target);
        }
        let failed = |error| PackageError::io("write", &target, error);
        match fs::remove_dir_all(&target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        fs::rename(incoming.path(), &target).map_err(failed)?;
        // It was renamed, so there is nothing to remove.
        let _ = incoming.keep();
        Ok(target)
    }

    /// Removes a plugin. Returns it.
    pub fn remove(&self, name: &str) -> Result<Option<LockedPlugin>, PackageError> {
        let _lock = self.lock()?;
        let mut installed = self.installed()?;
        let removed = installed.remove(name);
        if removed.is_some() {
            self.write_installed(&installed, removed.as_ref())?;
        }
        Ok(removed)
    }

    /// `before` is the version that is not used any more.
    fn write_installed(
        &self,
        installed: &LockFile,
        before: Option<&LockedPlugin>,
    ) -> Result<(), PackageError> {
        installed.write(&self.directory.join("installed.toml"))?;
        // Its time to be kept starts now. If this fails, it may be removed earlier.
        if let Some(before) = before
            && let Ok(directory) = File::open(self.content_dir(before))
        {
            let _ = directory.set_modified(SystemTime::now());
        }
        let plugins = installed.plugins().iter();
        let used: Vec<String> = plugins.map(content_name).collect();
        remove_old_entries(&self.directory.join("content"), |name| {
            used.iter().any(|used| used == name)
        });
        Ok(())
    }
}

/// The name of the directory of a version. It contains the digest that a host checks.
fn content_name(plugin: &LockedPlugin) -> String {
    format!("{}-{}", plugin.content.hex(), plugin.name)
}

/// Removes directories that were last changed a day ago, except those to keep. Failures do not matter: the next change
/// tries again.
fn remove_old_entries(directory: &Path, keep: impl Fn(&str) -> bool) {
    let limit = SystemTime::now() - KEPT;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_old = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|modified| modified < limit);
        if is_old && !keep(&entry.file_name().to_string_lossy()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn sync_directory(path: &Path) -> Result<(), PackageError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| PackageError::io("write", path, error))
}
