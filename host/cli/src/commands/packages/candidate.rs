//! A package that could be installed: fetched, verified, inspected, and compared with what is installed.

use toolhost_contract::{Descriptor, Digest, Manifest, PluginName, text};
use toolhost_packages::{
    Change, FetchOptions, Fetched, LockedPlugin, PackageError, PublicKey, Reference,
    RevocationList, Signer, Verified, changes,
};

use super::{Packages, notify_running_hosts};
use crate::exit::{CliError, Exit};
use crate::load::runtime;
use crate::terminal::note;
use crate::terminal::progress::{Progress, ProgressMode};

pub struct Candidate {
    pub verified: Verified,
    pub locked: LockedPlugin,
    pub manifest: Manifest,
    pub tools: Vec<Descriptor>,
    /// The installed version.
    pub old: Option<LockedPlugin>,
    /// What differs from it.
    pub changes: Vec<Change>,
    /// The list of revoked versions of its author, which is stored only if the package is installed.
    revocations: Option<(PublicKey, RevocationList)>,
}

impl Packages {
    /// Fetches a package, checks its signature, and runs it without any grant to get the descriptions of its tools.
    pub async fn candidate(
        &self,
        source: &Reference,
        name: Option<&PluginName>,
        options: &FetchOptions,
        expected: Option<Digest>,
    ) -> Result<Candidate, CliError> {
        let shown = text::escape_line(&source.to_string(), 300);
        let mode = ProgressMode::of_terminal();
        let progress = Progress::start(&format!("getting {shown}"), mode);
        let transfer = self.registry.transfer();
        progress.show_transfer(move || transfer.progress());
        let fetched = Fetched::fetch(&self.store, &self.registry, source, name).await;
        let fetched = fetched.map_err(|error| with_source(error, &shown))?;
        if let Some(expected) = expected
            && fetched.content != expected
        {
            let error = PackageError::DigestMismatch {
                what: shown,
                expected,
                actual: fetched.content,
            };
            return Err(error.into());
        }
        let trust = &self.settings.core.trust;
        let verified = fetched.verify(trust, &self.store.revocations()?, options)?;
        let cache = self.settings.core.host_paths.cache.clone();
        let file = verified.file();
        progress.set_title(&format!("compiling {shown}"));
        let loaded = runtime(cache, 1)?.load(&file).await.map_err(|error| {
            let (file, reason) = (file.display().to_string(), error.to_string());
            with_source(PackageError::Plugin { file, reason }, &shown)
        })?;
        let manifest = loaded.manifest().clone();
        let tools = loaded.tools().to_vec();
        let locked = verified.locked(&manifest, &tools);
        locked.check_texts().map_err(|reason| {
            let file = shown.clone();
            CliError::from(PackageError::Plugin { file, reason })
        })?;
        let mut known = self.store.revocations()?;
        let mut revocations = self.revocation_list(&locked).await?;
        if let Some((key, list)) = &revocations
            && warn_unless_local(&locked, known.merge(*key, list.clone()))?.is_none()
        {
            revocations = None;
        }
        known.check(locked.content, locked.signer.as_ref(), &trust.signers)?;
        let installed = self.store.installed()?;
        self.refuse_taken_names(&installed, &locked).await?;
        let old = installed.get(locked.name.as_str()).cloned();
        if options.signers.is_empty() {
            refuse_other_signer(old.as_ref(), &locked)?;
        }
        let changes = changes(old.as_ref(), &locked);
        Ok(Candidate {
            verified,
            locked,
            manifest,
            tools,
            old,
            changes,
            revocations,
        })
    }

    /// Installs it. Anything that another command changed in the meantime is an error.
    pub fn commit(&self, candidate: Candidate) -> Result<LockedPlugin, CliError> {
        let old = candidate.old.map(|old| old.content);
        let locked = candidate.locked.clone();
        if let Some((key, list)) = candidate.revocations {
            self.store_revocations(&locked, key, list)?;
        }
        self.store
            .commit(candidate.verified, candidate.locked, old)?;
        Ok(locked)
    }

    /// Stores the list of revoked versions from the registry of an installed, signed package, and tells running hosts about
    /// new ones.
    pub async fn refresh_revocations(&self, plugin: &LockedPlugin) -> Result<(), CliError> {
        match self.revocation_list(plugin).await? {
            Some((key, list)) => self.store_revocations(plugin, key, list),
            None => Ok(()),
        }
    }

    /// Gets the list of revoked versions from the registry of a signed package. One that cannot be read is a warning: a
    /// registry could withhold it as well.
    async fn revocation_list(
        &self,
        plugin: &LockedPlugin,
    ) -> Result<Option<(PublicKey, RevocationList)>, CliError> {
        let key = plugin.signer.as_ref().and_then(Signer::key);
        let (Reference::Registry(reference), Some(key)) = (&plugin.source, key) else {
            return Ok(None);
        };
        let list = match self.registry.revocations(reference, key).await {
            Ok(None) => return Ok(None),
            Ok(Some(bundle)) => RevocationList::verify(&bundle, &[key]),
            Err(error) => Err(error),
        };
        warn_unless_local(plugin, list)
    }

    fn store_revocations(
        &self,
        plugin: &LockedPlugin,
        key: PublicKey,
        list: RevocationList,
    ) -> Result<(), CliError> {
        let merged = self
            .store
            .change_revocations(|revocations| revocations.merge(key, list));
        if warn_unless_local(plugin, merged)? == Some(true) && self.notifies {
            notify_running_hosts();
        }
        Ok(())
    }
}

/// Refuses a version by another author than that of the installed one.
fn refuse_other_signer(old: Option<&LockedPlugin>, new: &LockedPlugin) -> Result<(), PackageError> {
    match old.and_then(|old| old.signer.as_ref()) {
        Some(pinned) if new.signer.as_ref() != Some(pinned) => {
            let reason = format!(
                "the installed version of {} is signed by {pinned}; name the new author with --key or --identity if you \
                 trust them",
                new.name,
            );
            Err(PackageError::UntrustedSigner(reason))
        }
        _ => Ok(()),
    }
}

/// Names the source of a package instead of the temporary file that it was copied to.
fn with_source(error: PackageError, source: &str) -> CliError {
    let PackageError::Plugin { file, reason } = &error else {
        return error.into();
    };
    let reason = reason.replace(file, source);
    let message = if reason.contains(source) {
        reason
    } else {
        format!("{source}: {reason}")
    };
    CliError::new(Exit::from(&error), message)
}

/// Turns an error of a list of revoked versions into a warning, unless the cause is on this machine.
fn warn_unless_local<T>(
    plugin: &LockedPlugin,
    result: Result<T, PackageError>,
) -> Result<Option<T>, CliError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(
            error @ (PackageError::Io { .. }
            | PackageError::StoreBusy
            | PackageError::StoreFull { .. }
            | PackageError::Directory(_)),
        ) => Err(error.into()),
        Err(error) => {
            let name = &plugin.name;
            note(&format!("warning: revoked versions of {name}: {error}"));
            Ok(None)
        }
    }
}
