//! Uploads of packages, their signatures, and lists of revoked versions.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, StatusCode};
use toolhost_contract::Digest;

use super::connection::{Access, Answer, Call};
use super::layout::{
    BUNDLE, Descriptor, EMPTY, INDEX, MANIFEST, Manifest, TITLE, WASM_CONFIG, WASM_LAYER,
    WasmConfig, WasmInterfaces,
};
use super::{Registry, failure, fallback_tag, get, manifest_path, revoked_tag};
use crate::error::PackageError;
use crate::key::PublicKey;
use crate::reference::RegistryReference;

/// Packages are published without the time, so that publishing a file again yields the same manifest.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// A package to publish.
pub struct Publication<'a> {
    pub wasm: Vec<u8>,
    pub name: &'a str,
    pub version: &'a str,
    pub description: &'a str,
    pub license: Option<&'a str>,
    pub imports: &'a [String],
    pub exports: &'a [String],
    /// Its signature as JSON.
    pub bundle: Option<String>,
}

impl Registry {
    /// Uploads a package and its signature. Returns the digest of its manifest.
    pub async fn publish(
        &self,
        reference: &RegistryReference,
        package: &Publication<'_>,
    ) -> Result<Digest, PackageError> {
        let mut layer = Descriptor::of(WASM_LAYER, &package.wasm);
        layer.annotations = Some(BTreeMap::from([(
            TITLE.to_owned(),
            format!("{}.wasm", package.name),
        )]));
        let config = serde_json::to_vec(&WasmConfig {
            created: CREATED,
            author: None,
            architecture: "wasm",
            os: "wasip2",
            layer_digests: vec![layer.digest],
            component: WasmInterfaces {
                exports: package.exports,
                imports: package.imports,
                target: None,
            },
        })
        .expect("configurations serialize to JSON");
        let annotations = [
            ("version", Some(package.version)),
            ("description", Some(package.description)),
            ("licenses", package.license),
        ];
        let annotations = annotations.into_iter().filter_map(|(name, value)| {
            let value = value.filter(|value| !value.is_empty())?;
            let name = format!("org.opencontainers.image.{name}");
            Some((name, value.to_owned()))
        });
        self.upload(reference, WASM_LAYER, package.wasm.clone().into())
            .await?;
        self.upload(reference, WASM_CONFIG, config.clone().into())
            .await?;
        let manifest = serialize(&Manifest {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            artifact_type: None,
            config: Descriptor::of(WASM_CONFIG, &config),
            layers: vec![layer],
            subject: None,
            annotations: Some(annotations.collect()),
        });
        let described = Descriptor::of(MANIFEST, &manifest);
        // The signature first, so that the tag never names a package whose signature is missing.
        let digest = described.digest;
        let pinned = reference.with_digest(digest);
        self.put(&pinned, MANIFEST, manifest.clone()).await?;
        if let Some(bundle) = &package.bundle {
            self.attach(reference, described, bundle).await?;
        }
        self.put(&reference.with_tag(&reference.tag), MANIFEST, manifest)
            .await?;
        Ok(digest)
    }

    /// Uploads the list of revoked versions that this key has signed.
    pub async fn publish_revocations(
        &self,
        reference: &RegistryReference,
        key: PublicKey,
        bundle: &str,
    ) -> Result<(), PackageError> {
        let manifest = self.bundle_manifest(reference, bundle, None).await?;
        let reference = reference.with_tag(&revoked_tag(key));
        self.put(&reference, MANIFEST, manifest).await.map(drop)
    }

    /// Uploads an artifact with a signature. Returns its manifest.
    async fn bundle_manifest(
        &self,
        reference: &RegistryReference,
        bundle: &str,
        subject: Option<Descriptor>,
    ) -> Result<Vec<u8>, PackageError> {
        self.upload(reference, BUNDLE, Bytes::copy_from_slice(bundle.as_bytes()))
            .await?;
        self.upload(reference, EMPTY, Bytes::from_static(b"{}"))
            .await?;
        Ok(serialize(&Manifest {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            artifact_type: Some(BUNDLE.to_owned()),
            config: Descriptor::of(EMPTY, b"{}"),
            layers: vec![Descriptor::of(BUNDLE, bundle.as_bytes())],
            subject,
            annotations: None,
        }))
    }

    /// Uploads a signature that refers to a manifest.
    async fn attach(
        &self,
        reference: &RegistryReference,
        subject: Descriptor,
        bundle: &str,
    ) -> Result<(), PackageError> {
        let signed = subject.digest;
        let manifest = self
            .bundle_manifest(reference, bundle, Some(subject))
            .await?;
        let mut entry = Descriptor::of(MANIFEST, &manifest);
        entry.artifact_type = Some(BUNDLE.to_owned());
        let artifact = reference.with_digest(entry.digest);
        let answer = self.put(&artifact, MANIFEST, manifest).await?;
        // The registry has an API for referrers.
        if answer.header("oci-subject").is_some() {
            return Ok(());
        }
        let mut index = self.fallback_index(reference, signed, Access::Push).await?;
        if index.manifests.iter().any(|one| one.digest == entry.digest) {
            return Ok(());
        }
        index.manifests.push(entry);
        let tag = reference.with_tag(&fallback_tag(signed));
        self.put(&tag, INDEX, serialize(&index)).await.map(drop)
    }

    async fn put(
        &self,
        reference: &RegistryReference,
        media_type: &str,
        body: Vec<u8>,
    ) -> Result<Answer, PackageError> {
        let path = manifest_path(reference);
        let call = Call {
            access: Access::Push,
            method: Method::PUT,
            body: Some((media_type, body.into())),
            ..get(reference, &path, "the manifest")
        };
        let answer = self.connections.send(&call).await?;
        match answer.status {
            StatusCode::CREATED => Ok(answer),
            _ => Err(failure(&call, &answer)),
        }
    }

    async fn upload(
        &self,
        reference: &RegistryReference,
        media_type: &str,
        body: Bytes,
    ) -> Result<(), PackageError> {
        let digest = crate::sha256(&body);
        let path = format!("{}/blobs/uploads/", reference.repository);
        let call = Call {
            access: Access::Push,
            method: Method::POST,
            ..get(reference, &path, "an upload")
        };
        let answer = self.connections.send(&call).await?;
        let location = answer.header("location");
        let (StatusCode::ACCEPTED, Some(location)) = (answer.status, location) else {
            return Err(failure(&call, &answer));
        };
        let separator = if location.contains('?') { '&' } else { '?' };
        let location = format!("{location}{separator}digest={digest}");
        let media_type = if media_type == WASM_LAYER {
            "application/octet-stream"
        } else {
            media_type
        };
        let call = Call {
            access: Access::Push,
            method: Method::PUT,
            body: Some((media_type, body)),
            ..get(reference, &location, "an upload")
        };
        let answer = self.connections.send(&call).await?;
        match answer.status {
            StatusCode::CREATED => Ok(()),
            _ => Err(failure(&call, &answer)),
        }
    }
}

fn serialize(document: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(document).expect("documents serialize to JSON")
}
