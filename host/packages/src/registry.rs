//! Packages in OCI registries, in the layout that `wkg`, `oras` and other tools read: an artifact with one layer, the
//! component. Its signature is an artifact that refers to it.
//!
//! Everything that a registry sends is bounded, and used only if it has the expected digest. Redirects cannot lead to
//! private addresses.

mod connection;
mod layout;
mod publish;

use std::sync::Arc;

pub use connection::Transfer;
pub use publish::Publication;

use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toolhost_contract::{Digest, text};
use url::Url;

use crate::error::PackageError;
use crate::fetch::{MAX_PLUGIN, Package, into_text, stem_of};
use crate::key::PublicKey;
use crate::reference::{REVOKED_TAG, RegistryReference};
use crate::revocation::MAX_LIST;
use crate::signature::MAX_BUNDLE;
use connection::{Access, Answer, Call, Connections, MAX_DOCUMENT};
use layout::{BUNDLE, Descriptor, INDEX, Index, MANIFEST, Manifest, WASM_LAYERS};

const MAX_LAYERS: usize = 16;
/// Number of repositories or tags that are requested, and maximum number of tags that are used.
const MAX_LISTED: usize = 1_000;
/// Maximum number of signatures of one package that are tried.
const MAX_SIGNATURES: usize = 16;

/// Access to OCI registries.
#[derive(Default)]
pub struct Registry {
    connections: Connections,
}

impl Registry {
    /// The download that is running.
    pub fn transfer(&self) -> Arc<Transfer> {
        Arc::clone(&self.connections.transfer)
    }

    /// Downloads the component of a reference, and its signatures.
    pub async fn pull(&self, reference: &RegistryReference) -> Result<Package, PackageError> {
        let (resolved, manifest) = self.manifest(reference, Access::Pull).await?;
        let layer = component_layer(reference, &manifest)?;
        let wasm = self
            .blob(reference, layer, "the component", MAX_PLUGIN)
            .await?;
        let others = manifest.layers.len() - 1;
        let mut notes = Vec::new();
        if others > 0 {
            let types = manifest.layers.iter().map(|layer| &layer.media_type);
            let types = types.filter(|one| !WASM_LAYERS.contains(&one.as_str()));
            let types: Vec<_> = types.map(|one| text::escape_line(one, 80)).collect();
            notes.push(format!(
                "layers that are not used, such as policies: {}",
                types.join(", ")
            ));
        }
        Ok(Package {
            bundles: self.signatures(reference, resolved).await?,
            wasm,
            manifest: None,
            stem: stem_of(reference.name()),
            resolved: Some(resolved),
            denied: None,
            notes,
        })
    }

    /// The list of revoked versions of a key in a repository, if there is one. Its signature is not verified.
    pub async fn revocations(
        &self,
        reference: &RegistryReference,
        key: PublicKey,
    ) -> Result<Option<String>, PackageError> {
        let reference = reference.with_tag(&revoked_tag(key));
        match self.manifest(&reference, Access::Pull).await {
            Ok((_, manifest)) => self.bundle(&reference, &manifest, MAX_LIST).await,
            Err(PackageError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The tags of a repository, without those of signatures.
    pub async fn tags(&self, reference: &RegistryReference) -> Result<Vec<String>, PackageError> {
        #[derive(Deserialize)]
        struct Tags {
            tags: Option<Vec<String>>,
        }
        let path = format!("{}/tags/list?n={MAX_LISTED}", reference.repository);
        let tags: Tags = self.list(reference, &path, "its tags").await?;
        let tags = tags.tags.unwrap_or_default().into_iter();
        let tags = tags.filter(|tag| !tag.starts_with("sha256-") && !tag.starts_with(REVOKED_TAG));
        let tags = tags.take(MAX_LISTED);
        Ok(tags.map(|tag| text::escape_line(&tag, 128)).collect())
    }

    /// The repositories of a registry that lists them.
    pub async fn repositories(
        &self,
        reference: &RegistryReference,
    ) -> Result<Vec<String>, PackageError> {
        #[derive(Deserialize)]
        struct Catalog {
            repositories: Vec<String>,
        }
        let catalog: Catalog = self
            .list(
                reference,
                &format!("_catalog?n={MAX_LISTED}"),
                "its repositories",
            )
            .await?;
        let names = catalog.repositories.iter();
        Ok(names.map(|name| text::escape_line(name, 255)).collect())
    }

    /// Downloads a file of at most `limit` bytes; `None` if it does not exist.
    pub async fn download(
        &self,
        url: &Url,
        limit: u64,
        what: &str,
    ) -> Result<Option<Vec<u8>>, PackageError> {
        let host = url.host_str().unwrap_or_default();
        let registry = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let call = Call {
            registry: &registry,
            repository: "",
            access: Access::Pull,
            method: Method::GET,
            path: url.as_str(),
            accept: &[],
            body: None,
            limit,
            what,
        };
        let answer = self.connections.send(&call).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.body)),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(failure(&call, &answer)),
        }
    }

    async fn list<T: DeserializeOwned>(
        &self,
        reference: &RegistryReference,
        path: &str,
        what: &str,
    ) -> Result<T, PackageError> {
        let call = get(reference, path, what);
        let answer = self.connections.send(&call).await?;
        match answer.status {
            StatusCode::OK => parse(&call, &answer),
            StatusCode::NOT_FOUND => Err(PackageError::NotFound {
                reference: format!("{}/{}", reference.registry, reference.repository),
            }),
            _ => Err(failure(&call, &answer)),
        }
    }

    /// Downloads a manifest. Its digest is that of the reference, if it has one.
    async fn manifest(
        &self,
        reference: &RegistryReference,
        access: Access,
    ) -> Result<(Digest, Manifest), PackageError> {
        let answer = self.manifest_bytes(reference, access).await?;
        let (path, what) = (manifest_path(reference), "the manifest");
        let call = get(reference, &path, what);
        let media_type = answer.media_type();
        if media_type == INDEX {
            return Err(layout_error(
                reference,
                "it is an index of several packages; name one of them by its digest",
            ));
        }
        if media_type != MANIFEST {
            return Err(PackageError::NotARegistry {
                registry: reference.registry.clone(),
                what: what.to_owned(),
                reason: format!("its type is `{}`", text::escape_line(&media_type, 80)),
            });
        }
        let actual = crate::sha256(&answer.body);
        if let Some(expected) = reference.digest
            && actual != expected
        {
            return Err(PackageError::DigestMismatch {
                what: what.to_owned(),
                expected,
                actual,
            });
        }
        let manifest: Manifest = parse(&call, &answer)?;
        if manifest.layers.len() > MAX_LAYERS {
            return Err(layout_error(reference, "it has more than 16 layers"));
        }
        Ok((actual, manifest))
    }

    async fn manifest_bytes(
        &self,
        reference: &RegistryReference,
        access: Access,
    ) -> Result<Answer, PackageError> {
        let path = manifest_path(reference);
        let call = Call {
            access,
            accept: &[MANIFEST, INDEX],
            ..get(reference, &path, "the manifest")
        };
        let answer = self.connections.send(&call).await?;
        match answer.status {
            StatusCode::OK => Ok(answer),
            StatusCode::NOT_FOUND => Err(PackageError::NotFound {
                reference: reference.to_string(),
            }),
            _ => Err(failure(&call, &answer)),
        }
    }

    async fn blob(
        &self,
        reference: &RegistryReference,
        layer: &Descriptor,
        what: &'static str,
        limit: u64,
    ) -> Result<Vec<u8>, PackageError> {
        if layer.size > limit {
            return Err(PackageError::TooLarge {
                what: what.to_owned(),
                limit,
            });
        }
        let path = format!("{}/blobs/{}", reference.repository, layer.digest);
        let call = Call {
            limit: layer.size,
            ..get(reference, &path, what)
        };
        let answer = match self.connections.send(&call).await {
            Err(PackageError::TooLarge { limit, .. }) => {
                return Err(PackageError::SizeMismatch {
                    what,
                    declared: layer.size,
                    actual: format!("more than {limit}"),
                });
            }
            answer => answer?,
        };
        if answer.status != StatusCode::OK {
            return Err(failure(&call, &answer));
        }
        if answer.body.len() as u64 != layer.size {
            return Err(PackageError::SizeMismatch {
                what,
                declared: layer.size,
                actual: answer.body.len().to_string(),
            });
        }
        let actual = crate::sha256(&answer.body);
        if actual != layer.digest {
            return Err(PackageError::DigestMismatch {
                what: what.to_owned(),
                expected: layer.digest,
                actual,
            });
        }
        Ok(answer.body)
    }

    /// The signatures that refer to a manifest.
    async fn signatures(
        &self,
        reference: &RegistryReference,
        manifest: Digest,
    ) -> Result<Vec<String>, PackageError> {
        let path = format!(
            "{}/referrers/{manifest}?artifactType={BUNDLE}",
            reference.repository
        );
        let call = Call {
            accept: &[INDEX],
            ..get(reference, &path, "the signatures")
        };
        let answer = self.connections.send(&call).await?;
        let index: Index = if answer.status == StatusCode::OK && answer.media_type() == INDEX {
            parse(&call, &answer)?
        } else {
            self.fallback_index(reference, manifest, Access::Pull)
                .await?
        };
        let is_signature = |one: &&Descriptor| {
            one.artifact_type
                .as_deref()
                .is_none_or(|kind| kind == BUNDLE)
        };
        let mut bundles = Vec::new();
        for entry in index
            .manifests
            .iter()
            .filter(is_signature)
            .take(MAX_SIGNATURES)
        {
            let artifact = reference.with_digest(entry.digest);
            let (_, manifest) = self.manifest(&artifact, Access::Pull).await?;
            bundles.extend(self.bundle(&artifact, &manifest, MAX_BUNDLE).await?);
        }
        Ok(bundles)
    }

    /// The index of what refers to a manifest, in registries without an API for it.
    async fn fallback_index(
        &self,
        reference: &RegistryReference,
        manifest: Digest,
        access: Access,
    ) -> Result<Index, PackageError> {
        let reference = reference.with_tag(&fallback_tag(manifest));
        let answer = match self.manifest_bytes(&reference, access).await {
            Ok(answer) => answer,
            Err(PackageError::NotFound { .. }) => return Ok(Index::default()),
            Err(error) => return Err(error),
        };
        parse(&get(&reference, "", "the signatures"), &answer)
    }

    /// The signature in an artifact; `None` if it is of another kind.
    async fn bundle(
        &self,
        reference: &RegistryReference,
        manifest: &Manifest,
        limit: u64,
    ) -> Result<Option<String>, PackageError> {
        let [layer] = manifest.layers.as_slice() else {
            return Ok(None);
        };
        if layer.media_type != BUNDLE {
            return Ok(None);
        }
        let bundle = self.blob(reference, layer, "the signature", limit);
        bundle.await.map(|bundle| Some(into_text(bundle)))
    }
}

fn get<'a>(reference: &'a RegistryReference, path: &'a str, what: &'a str) -> Call<'a> {
    Call {
        registry: &reference.registry,
        repository: &reference.repository,
        access: Access::Pull,
        method: Method::GET,
        path,
        accept: &[],
        body: None,
        limit: MAX_DOCUMENT,
        what,
    }
}

fn manifest_path(reference: &RegistryReference) -> String {
    let name = match &reference.digest {
        Some(digest) => digest.to_string(),
        None => reference.tag.clone(),
    };
    format!("{}/manifests/{name}", reference.repository)
}

/// Each key has a list, so that several authors can publish in one repository.
fn revoked_tag(key: PublicKey) -> String {
    format!("{REVOKED_TAG}-{}", key.id().hex())
}

fn fallback_tag(manifest: Digest) -> String {
    format!("sha256-{}", manifest.hex())
}

fn parse<T: DeserializeOwned>(call: &Call<'_>, answer: &Answer) -> Result<T, PackageError> {
    serde_json::from_slice(&answer.body).map_err(|error| PackageError::NotARegistry {
        registry: call.registry.to_owned(),
        what: call.what.to_owned(),
        reason: text::escape_line(&error.to_string(), 200),
    })
}

/// The only layer with a component.
fn component_layer<'a>(
    reference: &RegistryReference,
    manifest: &'a Manifest,
) -> Result<&'a Descriptor, PackageError> {
    let is_component = |layer: &&Descriptor| WASM_LAYERS.contains(&layer.media_type.as_str());
    let mut components = manifest.layers.iter().filter(is_component);
    match (components.next(), components.next()) {
        (Some(layer), None) => Ok(layer),
        (Some(_), Some(_)) => Err(layout_error(reference, "it has several components")),
        (None, _) => {
            let first = manifest
                .layers
                .first()
                .map(|layer| layer.media_type.as_str());
            let first = text::escape_line(first.unwrap_or("nothing"), 80);
            let reason = format!("it contains no WebAssembly component (found: {first})");
            Err(layout_error(reference, &reason))
        }
    }
}

fn layout_error(reference: &RegistryReference, reason: &str) -> PackageError {
    PackageError::Layout {
        reference: reference.to_string(),
        reason: reason.to_owned(),
    }
}

/// The error for a status. Registries describe errors as JSON.
fn failure(call: &Call<'_>, answer: &Answer) -> PackageError {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<ErrorEntry>,
    }
    #[derive(Deserialize)]
    struct ErrorEntry {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let errors: Option<Errors> = serde_json::from_slice(&answer.body).ok();
    let first = errors.and_then(|errors| errors.errors.into_iter().next());
    let detail = first.map(|first| {
        let text = format!(": {} {}", first.code, first.message);
        text::escape_line(&text, 200)
    });
    PackageError::Registry {
        registry: call.registry.to_owned(),
        what: call.what.to_owned(),
        status: answer.status.to_string(),
        detail: detail.unwrap_or_default(),
    }
}
