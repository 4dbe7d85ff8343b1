//! The decision whether to load a plugin file, from its signature and the keys that the operator trusts.

use std::io;
use std::path::{Component, Path, PathBuf};

use toolhost_contract::{Digest, text};

use crate::keyless::SigstoreRoot;
use crate::reference::Reference;
use crate::signature::{self, MAX_BUNDLE, SignatureError};
use crate::signer::Signer;

/// The authors whom an operator trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustPolicy {
    pub signers: Vec<Signer>,
    /// Verifies the certificates of identities.
    pub root: SigstoreRoot,
    /// Unsigned plugins are refused.
    pub required: bool,
    /// For packages from certain sources, in place of the above. The first that matches applies.
    pub rules: Vec<TrustRule>,
}

/// The authors whom an operator trusts for packages whose reference matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustRule {
    /// A reference in the form of [`source_pattern`](crate::source_pattern); `*` at its end matches any rest.
    pub from: String,
    pub signers: Vec<Signer>,
    pub required: bool,
}

impl TrustRule {
    /// Whether it covers a source. A digest does not matter; a rule without a tag covers all.
    fn matches(&self, source: &Reference) -> bool {
        let names = match source {
            Reference::Registry(reference) => {
                let name = format!("{}/{}", reference.registry, reference.repository);
                [format!("{name}:{}", reference.tag), name]
            }
            Reference::Url { url, .. } => [source.to_string(), url.clone()],
            Reference::File(_) => [source.to_string(), source.to_string()],
        };
        names.iter().any(|name| match self.from.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => *name == self.from,
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("it is not signed, but a signature is required: {0} does not exist")]
    Missing(String),
    #[error("cannot read its signature {path}: {error}")]
    Read { path: String, error: io::Error },
    #[error("{path}: {error}")]
    Signature { path: String, error: SignatureError },
}

/// The file with the signature of a plugin file: `x.wasm.sigstore.json` beside `x.wasm`.
pub fn bundle_path(plugin: &Path) -> PathBuf {
    let mut path = plugin.as_os_str().to_owned();
    path.push(".sigstore.json");
    path.into()
}

impl TrustPolicy {
    /// The trusted authors of packages of this source, and whether a signature by one of them is required.
    pub fn for_source(&self, source: &Reference) -> (&[Signer], bool) {
        // A rule must not cover a file outside of the directory that it names.
        if let Reference::File(path) = source
            && path.components().any(|part| part == Component::ParentDir)
        {
            return (&self.signers, true);
        }
        match self.rules.iter().find(|rule| rule.matches(source)) {
            Some(rule) => (&rule.signers, rule.required),
            None => (&self.signers, self.required),
        }
    }

    /// Returns which of these signed a plugin file with this digest.
    pub fn signer(
        &self,
        plugin: &Path,
        digest: Digest,
        trusted: &[Signer],
    ) -> Result<Signer, TrustError> {
        let path = bundle_path(plugin);
        let shown = || text::escape_line(&path.to_string_lossy(), 500);
        let bundle = toolhost_hostfiles::read_regular(&path, MAX_BUNDLE).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                TrustError::Missing(shown())
            } else {
                TrustError::Read {
                    path: shown(),
                    error,
                }
            }
        })?;
        let bundle = String::from_utf8_lossy(&bundle);
        signature::verify(&bundle, digest, trusted, &self.root).map_err(|error| {
            TrustError::Signature {
                path: shown(),
                error,
            }
        })
    }

    /// Checks a plugin file with this digest. Returns who signed it, or `None` if it is not signed and need not be. A
    /// signature that cannot be verified is an error in any case.
    pub fn check(&self, plugin: &Path, digest: Digest) -> Result<Option<Signer>, TrustError> {
        if self.signers.is_empty() && !self.required {
            return Ok(None);
        }
        match self.signer(plugin, digest, &self.signers) {
            Err(TrustError::Missing(_)) if !self.required => Ok(None),
            signed => signed.map(Some),
        }
    }
}
