//! What a grant leaves out: patterns in the grammar of `.gitignore`, matched below the granted directory.

use std::{
    ffi::OsStr,
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::ScopeError;

/// Files that hold secrets in most people's folders. A later pattern of the grant's own can let one in again with `!`.
pub const DEFAULT_EXCLUDES: &[&str] = &[
    // Settings with passwords and tokens in them, but not the samples that belong to a project.
    ".env",
    ".env.*",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    ".envrc",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".pypirc",
    ".htpasswd",
    // Folders of programs that keep keys.
    ".ssh/",
    ".gnupg/",
    ".aws/",
    ".azure/",
    ".kube/",
    ".password-store/",
    "/.config/gcloud/",
    "/.config/gh/",
    "**/.docker/config.json",
    "**/.cargo/credentials.toml",
    ".vault-token",
    // Keys by the names that their tools give them.
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
];

/// Paths on the host that one call may not see, besides what its grants leave out. A rule of the host's owner decides.
#[derive(Clone)]
pub struct DeniedPaths(Arc<dyn Fn(&Path) -> bool + Send + Sync>);

impl DeniedPaths {
    /// `denies` gets absolute paths without links, of what is there and of what is to be made.
    pub fn new(denies: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(denies))
    }

    pub(crate) fn holds(&self, path: &Path) -> bool {
        (self.0)(path)
    }
}

impl fmt::Debug for DeniedPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeniedPaths").finish_non_exhaustive()
    }
}

/// One grant's patterns.
#[derive(Debug, Default)]
pub(crate) struct Excludes(Option<Patterns>);

#[derive(Debug)]
struct Patterns {
    /// In lower case, as the names that it is asked about: some file systems find `.ENV` under `.env`. A glob that
    /// ignores case would be a regular expression, and ten times as slow.
    globs: Gitignore,
    /// A pattern such as `!d/`: a directory may be in sight where a file of that name is not.
    lets_directories_in: bool,
}

impl Excludes {
    pub(crate) fn parse(patterns: &[String], host: &Path) -> Result<Self, ScopeError> {
        if patterns.is_empty() {
            return Ok(Self::default());
        }
        let bad = |pattern: &str, why: String| ScopeError::BadExclude {
            pattern: pattern.to_owned(),
            why,
        };
        let mut builder = GitignoreBuilder::new("");
        for pattern in patterns {
            // What git would skip without a word, or take for something else, is here a mistake that leaves a secret
            // open.
            if let Some(why) = mistake(pattern, host) {
                return Err(bad(pattern, why.to_owned()));
            }
            builder
                .add_line(None, &pattern.to_lowercase())
                .map_err(|error| bad(pattern, error.to_string()))?;
        }
        let globs = builder.build();
        let globs = globs.map_err(|error| bad(&patterns.join(", "), error.to_string()))?;
        let lets_in =
            |pattern: &String| pattern.starts_with('!') && pattern.trim_end().ends_with('/');
        Ok(Self(Some(Patterns {
            globs,
            lets_directories_in: patterns.iter().any(lets_in),
        })))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether this name in that directory below the grant is left out. None: nobody knows what it is, or it is to be
    /// made, and then it is left out if it could be.
    pub(crate) fn hide(&self, below: &Path, name: &[u8], is_dir: Option<bool>) -> bool {
        let Some(patterns) = &self.0 else {
            return false;
        };
        let path = lower(&below.join(OsStr::from_bytes(name)));
        let leave_out = |is_dir| patterns.globs.matched(&path, is_dir).is_ignore();
        match is_dir {
            Some(is_dir) => leave_out(is_dir),
            // Every pattern can fit a directory.
            None => leave_out(true) || patterns.lets_directories_in && leave_out(false),
        }
    }
}

/// Why a pattern would leave nothing out.
fn mistake(pattern: &str, host: &Path) -> Option<&'static str> {
    let body = pattern.strip_prefix('!').unwrap_or(pattern);
    let first = body.chars().next();
    if pattern.starts_with('#') {
        return Some("it is a comment; a name that begins with # is written \\#");
    }
    if first.is_none_or(|c| c.is_whitespace() || c == '\u{feff}') || body.contains(char::is_control)
    {
        return Some("it is empty, begins with a blank or has a control character in it");
    }
    if Path::new(body).starts_with(host) && host != Path::new("/") || body.starts_with("~/") {
        return Some("a pattern is relative to the granted folder and no path of the machine");
    }
    let inner = body.strip_prefix('/').unwrap_or(body);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if inner.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Some("a part of it is empty, `.` or `..`, which no name is");
    }
    None
}

fn lower(path: &Path) -> PathBuf {
    match path.to_str() {
        Some(text) if text.is_ascii() => text.to_ascii_lowercase().into(),
        Some(text) => text.to_lowercase().into(),
        None => OsStr::from_bytes(&path.as_os_str().as_bytes().to_ascii_lowercase()).into(),
    }
}
