//! What the person granted and what the host keeps for itself, as plain values: the input of `Scope::open`.

use std::path::PathBuf;

/// How far a grant goes. The order is the order of power, so that `min` narrows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// One directory or file of the host that a plugin may see under a name of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathGrant {
    /// Absolute path on the host. Resolved once, when the scope is opened; afterwards only the inode counts.
    pub host: PathBuf,
    /// The name the guest knows it by, for example `/workspace`. Of a file: the directory that holds it, and in which
    /// the guest sees nothing else.
    pub guest: String,
    pub access: Access,
    /// The person was told what `/`, `/run`, `/boot` or a home directory holds, and still wants it.
    pub dangerous: bool,
    /// What stays out of sight below a directory: the lines of a `.gitignore`. Where one grant lies inside another,
    /// the inner one's patterns hold in it and the outer one's do not.
    pub exclude: Vec<String>,
}

/// Something of the host's own that no grant may open up: its config, policy, cache, store, plugin folders.
/// It need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protected {
    pub path: PathBuf,
    pub shield: Shield,
}

/// How a protected thing is kept, whatever the grants say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shield {
    /// May be read where a grant reaches it, never changed.
    ReadOnly,
    /// Cannot be opened, listed, or asked about.
    Hidden,
}
