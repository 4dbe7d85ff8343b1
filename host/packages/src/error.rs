//! Errors of installing and publishing packages. Texts of registries and files are escaped.

use std::io;
use std::path::{Path, PathBuf};

use toolhost_contract::{Digest, PluginName};
use toolhost_hostfiles::DirectoryError;
use toolhost_net::NetError;

use crate::reference::ReferenceError;
use crate::trust::TrustError;

#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    #[error("no space left for {}; free some and try again; nothing was changed", path.display())]
    StoreFull { path: PathBuf },
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("{}: {reason}", path.display())]
    LockFormat { path: PathBuf, reason: String },
    #[error("another command changes the installed plugins; try again when it has ended")]
    StoreBusy,
    #[error(
        "{plugin} has a tool `{tool}`, which is the name of a tool of the installed plugin {owner}; remove one of them"
    )]
    ToolNameTaken {
        plugin: PluginName,
        tool: String,
        owner: PluginName,
    },
    #[error("it is not signed, but a signature is required")]
    Unsigned,
    #[error("`{name}` was changed by another command; try again")]
    Changed { name: String },
    #[error("{what} has the digest {actual}, not {expected}; it is not used")]
    DigestMismatch {
        what: String,
        expected: Digest,
        actual: Digest,
    },
    #[error("{what} has {actual} bytes, not {declared} as the registry states")]
    SizeMismatch {
        what: &'static str,
        declared: u64,
        actual: String,
    },
    #[error("{what} is larger than {limit} bytes")]
    TooLarge { what: String, limit: u64 },
    #[error("{file}: {reason}")]
    Plugin { file: String, reason: String },
    #[error("{0}")]
    Trust(#[from] TrustError),
    #[error("its signatures are not by a trusted author: {0}")]
    UntrustedSigner(String),
    #[error(
        "it is signed, but the author is not known; name the author with `--key FILE`, or with `--identity` and `--issuer`, \
         or allow it as unsigned with --allow-unsigned"
    )]
    UnknownSigner,
    #[error("{content} was revoked by {by}: {reason}")]
    Revoked {
        content: Digest,
        by: String,
        reason: String,
    },
    #[error("the list of revoked plugins is not valid: {0}")]
    Revocations(String),
    #[error("{registry} answered {what}: {status}{detail}")]
    Registry {
        registry: String,
        what: String,
        status: String,
        detail: String,
    },
    #[error("{registry} did not answer {what} as a registry: {reason}")]
    NotARegistry {
        registry: String,
        what: String,
        reason: String,
    },
    #[error("{reference} does not exist")]
    NotFound { reference: String },
    #[error("{reference} cannot be used: {reason}")]
    Layout { reference: String, reason: String },
    #[error("{registry} denied access ({tried}); log in with `docker login {registry}`")]
    Unauthorized {
        registry: String,
        tried: &'static str,
    },
    #[error("cannot get the credentials for {registry}: {reason}")]
    Credentials { registry: String, reason: String },
    #[error("a redirect from {registry} is refused: {reason}")]
    Redirect { registry: String, reason: String },
    #[error("{}", without_option(.0))]
    Net(#[from] NetError),
}

/// The advice is for hosts; commands for packages do not have that option.
fn without_option(error: &NetError) -> String {
    let text = error.to_string();
    let end = text.find("; to allow: ").unwrap_or(text.len());
    text[..end].to_owned()
}

impl PackageError {
    pub fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::StoreFull { path },
            _ => Self::Io {
                action,
                path,
                error,
            },
        }
    }
}
