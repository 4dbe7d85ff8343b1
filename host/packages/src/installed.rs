//! The installed packages as a host loads them, and the checks before it loads any plugin file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use toolhost_contract::Digest;

use crate::error::PackageError;
use crate::lock::LockFile;
use crate::revocation::Revocations;
use crate::signer::Signer;
use crate::store::PackageStore;
use crate::trust::TrustPolicy;

/// The packages of a store, as they were when they were last read. Clones share this state.
#[derive(Debug, Clone)]
pub struct InstalledPackages {
    /// `None` has no packages and no revocations.
    store: Option<PackageStore>,
    read: Arc<RwLock<Snapshot>>,
}

#[derive(Debug, Default)]
struct Snapshot {
    installed: LockFile,
    revocations: Revocations,
    /// The signers of all files that were installed since the host started: a host can still use an earlier one.
    signers: BTreeMap<Digest, Signer>,
}

impl InstalledPackages {
    pub fn new(store: Option<PackageStore>) -> Self {
        Self {
            store,
            read: Arc::default(),
        }
    }

    /// Reads the store again. Returns the plugin files.
    pub fn refresh(&self) -> Result<Vec<PathBuf>, PackageError> {
        let Some(store) = &self.store else {
            return Ok(Vec::new());
        };
        let (installed, revocations) = (store.installed()?, store.revocations()?);
        let plugins = installed.plugins().iter();
        let files = plugins.clone().map(|plugin| store.file(plugin)).collect();
        let signed = plugins.filter_map(|plugin| Some((plugin.content, plugin.signer.clone()?)));
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        read.signers.extend(signed);
        read.revocations = revocations;
        read.installed = installed;
        Ok(files)
    }

    /// Whether the file belongs to a package.
    pub fn contains(&self, file: &Path) -> bool {
        let store = self.store.as_ref();
        store.is_some_and(|store| store.digest_of_path(file).is_some())
    }

    /// Whether a plugin file that was loaded before must not run any more.
    pub fn is_revoked(&self, digest: Digest, trust: &TrustPolicy) -> bool {
        // The file may have changed, so only what is known of the loaded version counts.
        let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
        let signer = read.signers.get(&digest);
        let checked = read.revocations.check(digest, signer, &trust.signers);
        checked.is_err()
    }

    /// Checks a plugin file before its code is compiled or run: it is not revoked, a file of a package is the one that was
    /// installed, and its signature is one that the operator trusts.
    pub fn check(
        &self,
        file: &Path,
        actual: Digest,
        trust: &TrustPolicy,
    ) -> Result<(), PackageError> {
        let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
        let store = self.store.as_ref();
        let Some(expected) = store.and_then(|store| store.digest_of_path(file)) else {
            let signer = trust.check(file, actual)?;
            return read
                .revocations
                .check(actual, signer.as_ref(), &trust.signers);
        };
        let mut plugins = read.installed.plugins().iter();
        let plugin = plugins.find(|plugin| plugin.content == expected);
        if actual != expected {
            let remedy = match plugin {
                Some(plugin) => format!("repair it with `host update {}`", plugin.name),
                None => "restart the host to use the installed version".to_owned(),
            };
            return Err(PackageError::Layout {
                reference: "the installed file".to_owned(),
                reason: format!("it has the digest {actual}, not {expected}; {remedy}"),
            });
        }
        let signer = plugin.and_then(|plugin| plugin.signer.as_ref());
        if let Some(plugin) = plugin {
            let (trusted, required) = trust.for_source(&plugin.source);
            if required && !signer.is_some_and(|signer| trusted.contains(signer)) {
                let reason = "`[signatures]` requires a signature by another author".to_owned();
                return Err(PackageError::UntrustedSigner(reason));
            }
        }
        read.revocations.check(expected, signer, &trust.signers)
    }
}
