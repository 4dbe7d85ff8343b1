//! `host publish` and `host revoke`: for authors.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::{Args, ValueHint};
use sha2::{Digest as _, Sha256};
use toolhost::HostPaths;
use toolhost_contract::{Digest, PluginName, side_manifest_path, text};
use toolhost_hostfiles::read_regular;
use toolhost_packages::{
    MAX_BUNDLE, MAX_PLUGIN, PackageError, PublicKey, Publication, Reference, Registry,
    RegistryReference, RevocationList, bundle_path, check_subject, sign,
};
use toolhost_runtime::file_digest;

use super::{Packages, notify_running_hosts};
use crate::commands::key;
use crate::exit::{CliError, Exit, OrExit};
use crate::load::runtime;
use crate::terminal::{note, print};

#[derive(Debug, Args)]
pub struct PublishArgs {
    /// Plugin file with a manifest
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Where to publish it: `REGISTRY/NAME:TAG`
    #[arg(value_name = "REFERENCE")]
    pub reference: String,

    /// Private key to sign it with: a name of `host key new`, or a file [default: the signature beside the file, if any]
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Digest (`sha256:…`), name of an installed plugin, or plugin file
    #[arg(value_name = "DIGEST|NAME|FILE")]
    pub what: String,

    /// The reason, which users see
    #[arg(long, value_name = "TEXT")]
    pub reason: String,

    /// Private key of the author, to publish the revocation: a name of `host key new`, or a file
    #[arg(long, value_name = "KEY", requires = "publish")]
    pub key: Option<String>,

    /// Repository whose users get the revocation: `REGISTRY/NAME`
    #[arg(long, value_name = "REFERENCE", requires = "key")]
    pub publish: Option<String>,
}

pub async fn publish(args: PublishArgs) -> Result<Exit, CliError> {
    let reference = registry_reference(&args.reference)?;
    let file = &args.file;
    if side_manifest_path(file).exists() {
        let message = format!(
            "{} has its manifest beside it; embed it with `host pack`",
            file.display()
        );
        return Err(CliError::new(Exit::Usage, message));
    }
    let cache = HostPaths::from_env(|name| std::env::var(name).ok()).cache;
    // What hosts would refuse is not published.
    let loaded = runtime(cache, 1)?
        .load(file)
        .await
        .or_exit(Exit::NoPlugin)?;
    let wasm = read_regular(file, MAX_PLUGIN)
        .with_context(|| file.display().to_string())
        .or_exit(Exit::NoPlugin)?;
    if Sha256::digest(&wasm)[..] != loaded.digest().0 {
        let message = format!("{} changed while it was read; try again", file.display());
        return Err(CliError::new(Exit::NoPlugin, message));
    }
    let manifest = loaded.manifest();
    let name = format!("{}.wasm", manifest.name);
    let bundle = match &args.key {
        Some(key) => Some(sign(&key::read(key)?, &name, loaded.digest())),
        None => existing_bundle(file, loaded.digest())?,
    };
    if bundle.is_none() {
        note("warning: the package is not signed; sign it with --key");
    }
    let package = Publication {
        wasm,
        name: manifest.name.as_str(),
        version: &manifest.version,
        description: &manifest.description,
        license: manifest.license.as_deref(),
        imports: loaded.imports(),
        exports: loaded.exports(),
        bundle,
    };
    let digest = Registry::default().publish(&reference, &package).await?;
    let message = format!(
        "published {}\ncontent {}",
        reference.with_digest(digest),
        loaded.digest()
    );
    print(&message).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// The signature beside the file. Its author is not verified, because no key is named.
fn existing_bundle(file: &Path, digest: Digest) -> Result<Option<String>, CliError> {
    let path = bundle_path(file);
    let bundle = match toolhost_hostfiles::read_text(&path, MAX_BUNDLE) {
        Ok(bundle) => bundle,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            return Err(CliError::new(Exit::Usage, message));
        }
    };
    check_subject(&bundle, digest).map_err(|error| {
        let message = format!(
            "{}: {error}; sign the file again with `host sign`, or publish it with --key",
            path.display()
        );
        CliError::new(Exit::Signature, message)
    })?;
    Ok(Some(bundle))
}

pub async fn revoke(args: RevokeArgs) -> Result<Exit, CliError> {
    let packages = Packages::open(None)?;
    let content = digest_of(&packages, &args.what)?;
    let reason = text::escape_line(&args.reason, 200);
    // What the publication needs is checked before anything is changed.
    let publication = match (&args.key, &args.publish) {
        (Some(key), Some(repository)) => Some((key::read(key)?, registry_reference(repository)?)),
        _ => None,
    };
    packages.store.change_revocations(|revocations| {
        revocations.own.insert(content, reason.clone());
        Ok(())
    })?;
    print(&format!("{content} does not run here any more")).or_exit(Exit::Internal)?;
    notify_running_hosts();
    let Some((key, reference)) = publication else {
        return Ok(Exit::Ok);
    };
    let public = key.public();
    let mut list = packages.store.revocations()?.list(public);
    let published = published_list(&packages, &reference, public).await?;
    let is_replaced = match &published {
        PublishedList::Missing => false,
        PublishedList::Invalid => true,
        PublishedList::Valid(published) => published.sequence < list.sequence,
    };
    if is_replaced {
        // Hosts can know a later list than this machine, and refuse one with a lower number.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        list.exceed_published(now.map_or(0, |now| now.as_secs()));
    }
    if let PublishedList::Valid(published) = published {
        if is_replaced {
            warn_of_replacement(&reference, "it is older than the list of this machine");
        }
        list.merge(published);
    }
    list.add(content, &reason)?;
    packages
        .registry
        .publish_revocations(&reference, public, &list.sign(&key))
        .await?;
    packages
        .store
        .change_revocations(|revocations| revocations.merge(public, list))?;
    let message = format!(
        "published the revocation for {}/{}",
        reference.registry, reference.repository
    );
    print(&message).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// What a repository has as the list of a key.
enum PublishedList {
    Missing,
    Invalid,
    Valid(RevocationList),
}

/// The list of a key that was published, maybe from another machine. One that is not valid is replaced: everyone who can
/// write to the repository could otherwise prevent revocations.
async fn published_list(
    packages: &Packages,
    reference: &RegistryReference,
    key: PublicKey,
) -> Result<PublishedList, CliError> {
    let bundle = packages.registry.revocations(reference, key).await;
    let list = bundle.and_then(|bundle| match bundle {
        Some(bundle) => {
            RevocationList::verify(&bundle, &[key]).map(|(_, list)| PublishedList::Valid(list))
        }
        None => Ok(PublishedList::Missing),
    });
    match list {
        Ok(list) => Ok(list),
        Err(
            error @ (PackageError::Revocations(_)
            | PackageError::Layout { .. }
            | PackageError::DigestMismatch { .. }
            | PackageError::SizeMismatch { .. }
            | PackageError::TooLarge { .. }),
        ) => {
            warn_of_replacement(reference, &error.to_string());
            Ok(PublishedList::Invalid)
        }
        // Entries of a list that cannot be read now would be lost.
        Err(error) => Err(error.into()),
    }
}

fn warn_of_replacement(reference: &RegistryReference, reason: &str) {
    let RegistryReference {
        registry,
        repository,
        ..
    } = reference;
    note(&format!(
        "warning: the published list of revoked versions in {registry}/{repository} is replaced: {reason}"
    ));
}

/// The digest that is meant by a digest, the name of an installed plugin, or a file.
fn digest_of(packages: &Packages, what: &str) -> Result<Digest, CliError> {
    let installed = packages.store.installed()?;
    if what.starts_with("sha256:") {
        let digest = Digest::parse(what).or_exit(Exit::Usage)?;
        let mut plugins = installed.plugins().iter();
        if let Some(plugin) = plugins.find(|plugin| plugin.resolved == Some(digest)) {
            return Ok(plugin.content);
        }
        if !installed.plugins().iter().any(|one| one.content == digest) {
            note(
                "warning: no installed plugin has this digest; it must be that of a plugin file, and not of a manifest",
            );
        }
        return Ok(digest);
    }
    if PluginName::parse(what).is_ok() {
        let plugin = installed.get(what);
        return plugin
            .map(|plugin| plugin.content)
            .ok_or_else(|| super::not_installed(what, &installed));
    }
    file_digest(Path::new(what)).or_exit(Exit::NoPlugin)
}

fn registry_reference(text: &str) -> Result<RegistryReference, CliError> {
    match text.parse().or_exit(Exit::Usage)? {
        Reference::Registry(reference) if reference.digest.is_none() => Ok(reference),
        _ => Err(CliError::new(
            Exit::Usage,
            "name a place in a registry: `REGISTRY/NAME:TAG`, without a digest",
        )),
    }
}
