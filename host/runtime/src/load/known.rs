//! Components that the cache describes, so that a start neither hashes their files nor reads their code.

use std::path::Path;

use toolhost_contract::Digest;

use super::contract_check::{ToolSource, tool_source};
use super::plugin_file::{file_version, manifest, read_outline};
use super::{CodeState, Description, Environment, Loaded, Runtime};
use crate::LoadError;
use crate::compile_cache::EntryKind;

impl Runtime {
    /// A component that its file or the cache describes. Its code is not read yet.
    pub(super) fn known(
        &self,
        path: &Path,
        environment: &Environment,
        defers_compilation: bool,
    ) -> Result<Option<Loaded>, LoadError> {
        let Some(cache) = &self.0.cache else {
            return Ok(None);
        };
        // What runs has the digest that is loaded here, whatever the file contains by then, so an outdated digest would
        // load the earlier version of the plugin. Commands that only report on a file hash it.
        let version = defers_compilation.then(|| file_version(path)).flatten();
        let known = version.and_then(|version| cache.get(EntryKind::FileDigest, version));
        if let Some(digest) = known.and_then(|digest| digest.try_into().ok().map(Digest)) {
            // Otherwise the error is that of the file as it is now.
            if self.verify(path, digest).is_ok() {
                let loaded = self.described(path, digest, environment, defers_compilation)?;
                if loaded.is_some() {
                    return Ok(loaded);
                }
            }
        }
        let file = read_outline(path)?;
        let digest = file.digest;
        self.verify(path, digest)?;
        if let Some(version) = file.version {
            // Without the entry, the next start hashes the file again.
            let _ = cache.put(EntryKind::FileDigest, version, &digest.0);
        }
        if defers_compilation && let Some(loaded) = self.packed(path, file)? {
            return Ok(Some(loaded));
        }
        self.described(path, digest, environment, false)
    }

    /// A component that the cache describes.
    fn described(
        &self,
        path: &Path,
        digest: Digest,
        environment: &Environment,
        defers_compilation: bool,
    ) -> Result<Option<Loaded>, LoadError> {
        let code_state = self.code_state(digest);
        if defers_compilation {
            let kind = EntryKind::PackedDescription;
            let loaded = self.described_by(kind, path, digest, environment, code_state)?;
            if loaded.is_some() {
                return Ok(loaded);
            }
        }
        if code_state == CodeState::Cached {
            let kind = EntryKind::Description;
            return self.described_by(kind, path, digest, environment, code_state);
        }
        Ok(None)
    }

    fn described_by(
        &self,
        kind: EntryKind,
        path: &Path,
        digest: Digest,
        environment: &Environment,
        code_state: CodeState,
    ) -> Result<Option<Loaded>, LoadError> {
        let json = self.0.cache.as_ref();
        let Some(json) = json.and_then(|cache| cache.get(kind, digest)) else {
            return Ok(None);
        };
        let Ok(description) = serde_json::from_slice::<Description<'_>>(&json) else {
            return Ok(None);
        };
        let is_current = description.host_version == env!("CARGO_PKG_VERSION")
            && (kind == EntryKind::PackedDescription
                // Descriptions of functions depend on the file only.
                || tool_source(&description.exports) == ToolSource::Functions
                || *description.environment == **environment);
        if !is_current {
            return Ok(None);
        }
        let manifest = manifest(path, description.manifest.as_deref())?;
        self.loaded(path, digest, manifest, description, code_state, None)
            .map(Some)
    }
}
