//! Which plugin files an operator trusts.

use std::io;
use std::path::{Path, PathBuf};

use toolhost_contract::{Digest, text};

use crate::key::PublicKey;
use crate::signature::{self, MAX_BUNDLE, SignatureError};

/// The keys that an operator trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustPolicy {
    pub keys: Vec<PublicKey>,
    /// Unsigned plugins are refused.
    pub required: bool,
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
    /// Checks a plugin file with this digest. Returns the key that signed it, or `None` if it is not signed and need not
    /// be. A signature that cannot be verified is an error in any case.
    pub fn check(&self, plugin: &Path, digest: Digest) -> Result<Option<PublicKey>, TrustError> {
        if self.keys.is_empty() && !self.required {
            return Ok(None);
        }
        let path = bundle_path(plugin);
        let shown = || text::escape_line(&path.to_string_lossy(), 500);
        let bundle = match toolhost_hostfiles::read_regular(&path, MAX_BUNDLE) {
            Ok(bundle) => String::from_utf8_lossy(&bundle).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return if self.required {
                    Err(TrustError::Missing(shown()))
                } else {
                    Ok(None)
                };
            }
            Err(error) => {
                return Err(TrustError::Read {
                    path: shown(),
                    error,
                });
            }
        };
        let signed = signature::verify(&bundle, digest, &self.keys);
        signed.map(Some).map_err(|error| TrustError::Signature {
            path: shown(),
            error,
        })
    }
}
