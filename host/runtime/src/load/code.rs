//! The machine code of components, from the cache or the compiler.
//!
//! Code is stored under the digest of the component without the sections of `host pack`, so a component is not compiled
//! again when its manifest changes.

use std::path::Path;

use sha2::{Digest as _, Sha256};
use toolhost_contract::Digest;
use wasmtime::component::Component;

use super::{CodeState, Runtime};
use crate::compile_cache::EntryKind;
use crate::{LoadError, pack, scan};

impl Runtime {
    /// Returns the component of a file with this content and digest.
    pub(super) async fn component(
        &self,
        path: &Path,
        bytes: &[u8],
        digest: Digest,
    ) -> Result<(Component, CodeState), LoadError> {
        if let Some(component) = self.cached(digest) {
            return Ok((component, CodeState::Cached));
        }
        // Exactly these bytes are hashed and compiled, so that files with the same code digest have the same code.
        let unpacked = pack::unpacked(path, bytes)?;
        scan::check(path, unpacked)?;
        let code_digest = Digest(Sha256::digest(unpacked).into());
        let _turn = self.0.compilers.acquire().await;
        // Also if another task compiled it meanwhile.
        let (component, code_state) = if let Some(component) = self.cached_code(code_digest) {
            (component, CodeState::Cached)
        } else {
            let component = self.compile_code(path, unpacked, code_digest).await?;
            (component, CodeState::Compiled)
        };
        if let Some(cache) = &self.0.cache {
            // Without the entry, the code counts as not compiled.
            let _ = cache.put(EntryKind::CodeDigest, digest, &code_digest.0);
        }
        Ok((component, code_state))
    }

    async fn compile_code(
        &self,
        path: &Path,
        component: &[u8],
        code_digest: Digest,
    ) -> Result<Component, LoadError> {
        let code = self.0.compiler.compile(path, component).await?;
        // SAFETY: the bytes were just produced by our own compiler, in a child process that runs our own program.
        let component = unsafe { Component::deserialize(&self.0.engine, &code) };
        let component = component.map_err(|error| LoadError::Compile {
            path: path.to_owned(),
            reason: format!("{error:#}"),
        })?;
        if let Some(cache) = &self.0.cache {
            // Without the entry, the next start compiles again.
            let _ = cache.put(EntryKind::Code, code_digest, &code);
        }
        Ok(component)
    }

    /// Returns the component of a file with this digest, if the cache has its code.
    pub(super) fn cached(&self, digest: Digest) -> Option<Component> {
        self.cached_code(self.code_digest(digest)?)
    }

    fn cached_code(&self, code_digest: Digest) -> Option<Component> {
        let code = self.0.cache.as_ref()?.get(EntryKind::Code, code_digest)?;
        // SAFETY: the MAC proves that this host wrote exactly these bytes for this component and engine, and they
        // are in our memory, where no other process can change them.
        unsafe { Component::deserialize(&self.0.engine, &code) }.ok()
    }

    fn code_digest(&self, digest: Digest) -> Option<Digest> {
        let cache = self.0.cache.as_ref()?;
        let code_digest = cache.get(EntryKind::CodeDigest, digest)?;
        code_digest.try_into().ok().map(Digest)
    }

    /// Whether the cache has the code, which counts as a use of it.
    pub(super) fn code_state(&self, digest: Digest) -> CodeState {
        let code_digest = self.0.cache.as_ref().zip(self.code_digest(digest));
        if code_digest.is_some_and(|(cache, digest)| cache.renew(EntryKind::Code, digest)) {
            CodeState::Cached
        } else {
            CodeState::NotCompiled
        }
    }
}
