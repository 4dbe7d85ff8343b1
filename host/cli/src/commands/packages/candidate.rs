//! A package that could be installed: fetched, verified, inspected, and compared with what is installed.

use toolhost_contract::{Descriptor, Digest, Manifest, PluginName, text};
use toolhost_packages::{
    Change, FetchOptions, Fetched, LockedPlugin, PackageError, PublicKey, Reference,
    RevocationList, Verified, changes,
};

use super::Packages;
use crate::exit::{CliError, Exit, OrExit};
use crate::load::runtime;
use crate::terminal::note;

pub struct Candidate {
    pub verified: Verified,
    pub locked: LockedPlugin,
    pub manifest: Manifest,
    pub tools: Vec<Descriptor>,
    /// The installed version.
    pub old: Option<LockedPlugin>,
    /// What differs from it.
    pub changes: Vec<Change>,
}

impl Packages {
    /// Fetches a package, checks its signature, and runs it without any grant to get the descriptions of its tools.
    pub async fn candidate(
        &self,
        source: &Reference,
        name: Option<&PluginName>,
        options: &FetchOptions,
    ) -> Result<Candidate, CliError> {
        let fetched = Fetched::fetch(&self.store, &self.registry, source, name).await?;
        let trust = &self.settings.core.trust;
        let verified = fetched.verify(trust, &self.store.revocations()?, options)?;
        let cache = self.settings.core.host_paths.cache.clone();
        let loaded = runtime(cache, 1)?
            .load(&verified.file())
            .await
            .or_exit(Exit::NoPlugin)?;
        let manifest = loaded.manifest().clone();
        let tools = loaded.tools().to_vec();
        let locked = verified.locked(&manifest, &tools);
        self.refresh_revocations(&locked).await?;
        self.refuse_revoked(locked.content, locked.signer)?;
        let installed = self.store.installed()?;
        for other in installed
            .plugins()
            .iter()
            .filter(|one| one.name != locked.name)
        {
            let taken = |tool: &&Descriptor| other.tools.iter().any(|one| one.name == tool.name);
            if let Some(tool) = tools.iter().find(taken) {
                let message = format!(
                    "{} has a tool `{}`, which is the name of a tool of the installed plugin {}; remove one of them",
                    locked.name, tool.name, other.name
                );
                return Err(CliError::new(Exit::Denied, message));
            }
        }
        let old = installed.get(locked.name.as_str()).cloned();
        let changes = old.as_ref().map(|old| changes(old, &locked));
        Ok(Candidate {
            verified,
            locked,
            manifest,
            tools,
            old,
            changes: changes.unwrap_or_default(),
        })
    }

    /// Installs it. Anything that another command changed in the meantime is an error.
    pub fn commit(&self, candidate: Candidate) -> Result<LockedPlugin, CliError> {
        let old = candidate.old.map(|old| old.content);
        let locked = candidate.locked.clone();
        self.store
            .commit(candidate.verified, candidate.locked, old)?;
        Ok(locked)
    }

    fn refuse_revoked(&self, content: Digest, signer: Option<PublicKey>) -> Result<(), CliError> {
        let trusted = &self.settings.core.trust.keys;
        Ok(self.store.revocations()?.check(content, signer, trusted)?)
    }

    /// Gets the list of revoked versions from the registry of a signed package. Returns whether there are new ones.
    pub async fn refresh_revocations(&self, plugin: &LockedPlugin) -> Result<bool, CliError> {
        let (Reference::Registry(reference), Some(signer)) = (&plugin.source, plugin.signer) else {
            return Ok(false);
        };
        let Some(bundle) = self.registry.revocations(reference).await? else {
            return Ok(false);
        };
        let trusted = self.settings.core.trust.keys.iter().copied();
        let keys: Vec<PublicKey> = std::iter::once(signer).chain(trusted).collect();
        let merged = RevocationList::verify(&bundle, &keys).and_then(|(key, list)| {
            self.store
                .change_revocations(|revocations| revocations.merge(key, list))
        });
        match merged {
            Ok(has_new) => Ok(has_new),
            // Whoever can write to the registry could otherwise stop updates with an invalid list.
            Err(error @ PackageError::Revocations(_)) => {
                let repository = text::escape_line(&reference.repository, 200);
                note(&format!("warning: {repository}: {error}"));
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}
