//! Signatures of plugin files: Ed25519 keys, and Sigstore bundles over the digest of the file that runs.

mod key;
mod signature;
mod trust;

#[cfg(test)]
mod tests;

pub use key::{KeyError, PublicKey, SigningKey};
pub use signature::{SignatureError, sign, verify};
pub use trust::{TrustError, TrustPolicy, bundle_path, signer};
