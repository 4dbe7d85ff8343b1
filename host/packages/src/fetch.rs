//! Fetching a package and checking it: from a reference to files whose digest and signature are verified.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use toolhost_contract::manifest::MAX_MANIFEST_BYTES;
use toolhost_contract::{Descriptor, Digest, Manifest, PluginName, side_manifest_path, text};
use url::Url;

use crate::error::PackageError;
use crate::lock::{self, LockedPlugin};
use crate::reference::Reference;
use crate::registry::Registry;
use crate::revocation::Revocations;
use crate::signature::{self, MAX_BUNDLE};
use crate::signer::Signer;
use crate::store::PackageStore;
use crate::trust::{TrustPolicy, bundle_path};

/// Maximum size of a plugin file in bytes; the runtime loads no larger one.
pub const MAX_PLUGIN: u64 = 32 << 20;

/// A complete package with a known digest. Nothing about it is trusted.
pub struct Fetched {
    pub source: Reference,
    pub content: Digest,
    pub size: u64,
    /// The digest of the manifest in the registry.
    pub resolved: Option<Digest>,
    /// What the user should know about the package.
    pub notes: Vec<String>,
    /// Signatures to try, as JSON.
    bundles: Vec<String>,
    /// Why the server did not deliver its signature.
    denied: Option<PackageError>,
    directory: TempDir,
    stem: String,
}

/// What to accept in addition to the operator's policy.
#[derive(Debug, Clone, Default)]
pub struct FetchOptions {
    /// Authors whom the user named for this package.
    pub signers: Vec<Signer>,
    /// Who signed the installed version. Someone else is refused.
    pub pinned: Option<Signer>,
    /// Accept a package whose author is unknown, as unsigned.
    pub allow_unsigned: bool,
}

/// A package that is not revoked and whose signature was checked. Only [`Fetched::verify`] creates one.
pub struct Verified {
    fetched: Fetched,
    signer: Option<Signer>,
    /// The signature by that author.
    bundle: Option<String>,
}

impl Fetched {
    /// Copies or downloads the package. `name` replaces the name of a component without a manifest.
    pub async fn fetch(
        store: &PackageStore,
        registry: &Registry,
        source: &Reference,
        name: Option<&PluginName>,
    ) -> Result<Self, PackageError> {
        let directory = store.incoming()?;
        let mut package = match source {
            Reference::File(path) => read_file(path)?,
            Reference::Url { url, digest } => download(registry, url, *digest).await?,
            Reference::Registry(reference) => registry.pull(reference).await?,
        };
        if let Some(name) = name {
            package.stem = name.to_string();
        }
        let file = directory.path().join(format!("{}.wasm", package.stem));
        let write = |path: &Path, bytes: &[u8]| {
            fs::write(path, bytes).map_err(|error| PackageError::io("write", path, error))
        };
        write(&file, &package.wasm)?;
        if let Some(manifest) = &package.manifest {
            write(&side_manifest_path(&file), manifest)?;
        }
        Ok(Self {
            source: source.clone(),
            content: store.digest(&file)?,
            size: package.wasm.len() as u64,
            resolved: package.resolved,
            notes: package.notes,
            bundles: package.bundles,
            denied: package.denied,
            directory,
            stem: package.stem,
        })
    }

    /// Checks that the package is not revoked, and its signature against the policy of the operator.
    pub fn verify(
        mut self,
        trust: &TrustPolicy,
        revocations: &Revocations,
        options: &FetchOptions,
    ) -> Result<Verified, PackageError> {
        let (trusted, required) = trust.for_source(&self.source);
        let accepted: &[Signer] = match &options.pinned {
            _ if !options.signers.is_empty() => &options.signers,
            Some(pinned) => std::slice::from_ref(pinned),
            None => trusted,
        };
        let needs_signature = required || options.pinned.is_some() || !options.signers.is_empty();
        let signed = self.signer(accepted, trust);
        let (signer, bundle) = match signed {
            Ok((signer, bundle)) => (Some(signer), Some(bundle)),
            Err(PackageError::Unsigned) if !needs_signature => (None, None),
            Err(PackageError::UnknownSigner) if options.allow_unsigned && !needs_signature => {
                (None, None)
            }
            Err(PackageError::Unsigned) => {
                return Err(self.denied.take().unwrap_or(PackageError::Unsigned));
            }
            Err(error) => return Err(error),
        };
        if let Some(signer) = &signer
            && required
            && !trusted.contains(signer)
        {
            let reason = format!("`[signatures]` requires another author than {signer}");
            return Err(PackageError::UntrustedSigner(reason));
        }
        revocations.check(self.content, signer.as_ref(), &trust.signers)?;
        Ok(Verified {
            fetched: self,
            signer,
            bundle,
        })
    }

    /// The first signature by one of these authors.
    fn signer(
        &self,
        accepted: &[Signer],
        trust: &TrustPolicy,
    ) -> Result<(Signer, String), PackageError> {
        let mut last = None;
        for bundle in &self.bundles {
            match signature::verify(bundle, self.content, accepted, &trust.root) {
                Ok(signer) => return Ok((signer, bundle.clone())),
                Err(error) => last = Some(error),
            }
        }
        Err(match last {
            None => PackageError::Unsigned,
            Some(_) if accepted.is_empty() => PackageError::UnknownSigner,
            Some(error) => PackageError::UntrustedSigner(error.to_string()),
        })
    }
}

impl Verified {
    /// The plugin file, to be inspected.
    pub fn file(&self) -> PathBuf {
        let fetched = &self.fetched;
        fetched
            .directory
            .path()
            .join(format!("{}.wasm", fetched.stem))
    }

    pub fn notes(&self) -> &[String] {
        &self.fetched.notes
    }

    /// The entry of this version, from what its file contains.
    pub fn locked(&self, manifest: &Manifest, tools: &[Descriptor]) -> LockedPlugin {
        LockedPlugin {
            name: manifest.name.clone(),
            version: text::escape_line(&manifest.version, 64),
            source: self.fetched.source.clone(),
            resolved: self.fetched.resolved,
            content: self.fetched.content,
            size: self.fetched.size,
            signer: self.signer.clone(),
            needs: lock::needs(manifest),
            tools: lock::tools(tools),
        }
    }

    /// Completes the directory that is moved to its place: files are named after the plugin, and are on disk.
    pub(crate) fn into_files(
        self,
        name: &PluginName,
        target: &Path,
    ) -> Result<TempDir, PackageError> {
        let failed = |error| PackageError::io("write", target, error);
        let file = self.file();
        let named = self.fetched.directory.path().join(format!("{name}.wasm"));
        fs::rename(&file, &named).map_err(failed)?;
        match fs::rename(side_manifest_path(&file), side_manifest_path(&named)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        if let Some(bundle) = &self.bundle {
            fs::write(bundle_path(&named), bundle).map_err(failed)?;
        }
        for entry in fs::read_dir(self.fetched.directory.path()).map_err(failed)? {
            let file = entry.and_then(|entry| File::open(entry.path()));
            file.and_then(|file| file.sync_all()).map_err(failed)?;
        }
        Ok(self.fetched.directory)
    }
}

/// The parts of a package before they are written.
pub struct Package {
    pub wasm: Vec<u8>,
    /// The manifest beside a component.
    pub manifest: Option<Vec<u8>>,
    pub stem: String,
    pub resolved: Option<Digest>,
    pub bundles: Vec<String>,
    /// Why the server did not deliver its signature.
    pub denied: Option<PackageError>,
    pub notes: Vec<String>,
}

/// A file name without its extension, limited to harmless characters.
pub fn stem_of(name: &str) -> String {
    let stem = name.strip_suffix(".wasm").unwrap_or(name);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let stem: String = stem
        .chars()
        .map(|c| if is_allowed(c) { c } else { '-' })
        .take(64)
        .collect();
    let stem = stem.trim_start_matches('-');
    if stem.is_empty() { "plugin" } else { stem }.to_owned()
}

fn read_file(path: &Path) -> Result<Package, PackageError> {
    let read = |path: &Path, limit| match toolhost_hostfiles::read_regular(path, limit) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PackageError::Plugin {
            file: path.display().to_string(),
            reason: format!("cannot be read: {error}"),
        }),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let wasm = read(path, MAX_PLUGIN)?.ok_or_else(|| PackageError::Plugin {
        file: path.display().to_string(),
        reason: "does not exist".to_owned(),
    })?;
    let bundle = read(&bundle_path(path), MAX_BUNDLE)?;
    Ok(Package {
        wasm,
        manifest: read(&side_manifest_path(path), MAX_MANIFEST_BYTES as u64)?,
        stem: stem_of(&name),
        resolved: None,
        bundles: bundle.into_iter().map(into_text).collect(),
        denied: None,
        notes: Vec::new(),
    })
}

async fn download(
    registry: &Registry,
    url: &str,
    expected: Digest,
) -> Result<Package, PackageError> {
    let not_found = || PackageError::NotFound {
        reference: url.to_owned(),
    };
    let mut address = Url::parse(url).map_err(|_| not_found())?;
    let wasm = registry.download(&address, MAX_PLUGIN, "the file").await?;
    let wasm = wasm.ok_or_else(not_found)?;
    let actual = crate::sha256(&wasm);
    if actual != expected {
        return Err(PackageError::DigestMismatch {
            what: url.to_owned(),
            expected,
            actual,
        });
    }
    let path = address.path().to_owned();
    let name = path.rsplit('/').next().unwrap_or_default();
    address.set_path(&format!("{path}.sigstore.json"));
    let bundle = registry.download(&address, MAX_BUNDLE, "the signature");
    let mut notes = Vec::new();
    let (bundle, denied) = match bundle.await {
        Ok(bundle) => (bundle, None),
        // Servers that list no files answer so for one that does not exist.
        Err(error) if is_forbidden(&error) => {
            notes.push(format!("it counts as not signed, because {error}"));
            (None, Some(error))
        }
        Err(error) => return Err(error),
    };
    Ok(Package {
        wasm,
        manifest: None,
        stem: stem_of(name),
        resolved: None,
        bundles: bundle.into_iter().map(into_text).collect(),
        denied,
        notes,
    })
}

fn is_forbidden(error: &PackageError) -> bool {
    matches!(error, PackageError::Registry { status, .. } if status.starts_with("403"))
}

pub fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}
