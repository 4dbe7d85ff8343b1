//! Granted and protected paths as plain values: the input of `Scope::open`.

use std::path::PathBuf;

/// Access level of a grant. Ordered by privilege, so that `min` narrows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// One host directory or file that a plugin can access under a guest name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathGrant {
    /// Absolute path on the host. Resolved once, when the scope is opened; afterwards only the inode counts.
    pub host: PathBuf,
    /// The guest's name for it, for example `/workspace`. For a file: the guest directory that holds it and in
    /// which the guest sees nothing else.
    pub guest: String,
    pub access: Access,
    /// The user confirmed a grant of `/`, `/run`, `/boot` or a home directory.
    pub dangerous: bool,
    /// Exclude patterns in `.gitignore` syntax. Inside a nested grant, only the inner grant's patterns apply.
    pub exclude: Vec<String>,
}

/// A path of the host that no grant can expose, such as config, policy, cache, store and plugin directories. It
/// need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedPath {
    pub path: PathBuf,
    pub protection: Protection,
}

/// How a path is protected, regardless of the grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protection {
    /// Readable within a grant, never writable.
    ReadOnly,
    /// Cannot be opened, listed or queried.
    Hidden,
}
