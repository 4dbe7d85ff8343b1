//! Packages: where plugins come from, their signatures, and the store of the installed ones.
//!
//! A package passes through these types: [`Fetched`] is complete and its digest is known, [`Verified`] also has a checked
//! signature and is not revoked, and [`PackageStore::commit`] installs only the latter.

mod change;
mod error;
mod fetch;
mod installed;
mod key;
mod keyless;
mod lock;
mod reference;
mod registry;
mod revocation;
mod signature;
mod signer;
mod store;
#[cfg(test)]
mod tests;
mod trust;

pub use change::{Change, changes};
pub use error::PackageError;
pub use fetch::{FetchOptions, Fetched, MAX_PLUGIN, Verified};
pub use installed::InstalledPackages;
pub use key::{KeyError, PublicKey, SigningKey};
pub use keyless::SigstoreRoot;
pub use lock::{LOCK_FILE, LockFile, LockedPlugin, LockedTool, needs, tools};
pub use reference::{Reference, ReferenceError, RegistryReference, source_pattern};
pub use registry::{Publication, Registry, Transfer};
pub use revocation::{RevocationList, Revocations};
pub use signature::{MAX_BUNDLE, SignatureError, check_subject, sign, verify};
pub use signer::{Identity, Signer};
pub use store::{FileDigest, PackageStore};
pub use trust::{TrustError, TrustPolicy, TrustRule, bundle_path};

fn sha256(bytes: &[u8]) -> toolhost_contract::Digest {
    use sha2::Digest as _;
    toolhost_contract::Digest(sha2::Sha256::digest(bytes).into())
}
