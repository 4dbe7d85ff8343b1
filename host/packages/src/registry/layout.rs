//! Manifests and indexes of OCI registries, and the layout of a component in them.
//!
//! Formats: <https://github.com/opencontainers/image-spec>, <https://github.com/opencontainers/distribution-spec>, and for
//! components <https://tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact/>.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolhost_contract::Digest;

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
pub const WASM_LAYER: &str = "application/wasm";
pub const EMPTY: &str = "application/vnd.oci.empty.v1+json";
pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
pub const TITLE: &str = "org.opencontainers.image.title";
/// Media types of layers that contain a component, also those of other tools.
pub const WASM_LAYERS: [&str; 4] = [
    WASM_LAYER,
    "application/vnd.wasm.component.v1",
    "application/vnd.wasm.content.layer.v1+wasm",
    "application/vnd.bytecodealliance.wasm.component.layer.v0+wasm",
];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

impl Descriptor {
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: crate::sha256(bytes),
            size: bytes.len() as u64,
            artifact_type: None,
            annotations: None,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub schema_version: u32,
    #[serde(default)]
    pub media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    pub schema_version: u32,
    #[serde(default)]
    pub media_type: Option<String>,
    pub manifests: Vec<Descriptor>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            schema_version: 2,
            media_type: Some(INDEX.to_owned()),
            manifests: Vec::new(),
        }
    }
}

/// The configuration of a component, as `wkg` writes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WasmConfig<'a> {
    pub created: &'a str,
    pub author: Option<&'a str>,
    pub architecture: &'a str,
    pub os: &'a str,
    pub layer_digests: Vec<Digest>,
    pub component: WasmInterfaces<'a>,
}

#[derive(Debug, Serialize)]
pub struct WasmInterfaces<'a> {
    pub exports: &'a [String],
    pub imports: &'a [String],
    pub target: Option<&'a str>,
}
