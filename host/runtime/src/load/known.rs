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
        // load the earlier version of the plugin.
        let known =
            file_version(path).and_then(|version| cache.get(EntryKind::FileDigest, version));
        if let Some(digest) = known.and_then(|digest| digest.try_into().ok().map(Digest)) {
            let is_trusted = self.verify(path, digest).is_ok();
            if is_trusted
                && let Some(loaded) =
                    self.described(path, digest, environment, defers_compilation)?
            {
                return Ok(Some(loaded));
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
        let Some(cache) = &self.0.cache else {
            return Ok(None);
        };
        let has_code = cache.renew(EntryKind::Code, digest);
        let (kind, code_state) = match (defers_compilation, has_code) {
            (true, true) => (EntryKind::PackedDescription, CodeState::Cached),
            (true, false) => (EntryKind::PackedDescription, CodeState::NotCompiled),
            (false, true) => (EntryKind::Description, CodeState::Cached),
            (false, false) => return Ok(None),
        };
        let Some(json) = cache.get(kind, digest) else {
            return match defers_compilation {
                // A component whose file does not describe it.
                true => self.described(path, digest, environment, false),
                false => Ok(None),
            };
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
