//! Exclude patterns of a grant, in `.gitignore` syntax, matched below the granted directory.

use std::{
    ffi::OsStr,
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::ScopeError;

/// Default patterns for files that hold secrets. A later pattern of the grant can include one again with `!`.
pub const DEFAULT_EXCLUDES: &[&str] = &[
    // Settings files with passwords and tokens, but not the samples that belong to a project.
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
    // Directories of programs that store keys.
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
    // Keys, by the default file names of their tools.
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

/// Host paths that policy rules deny to one call, in addition to the excludes of its grants.
#[derive(Clone)]
pub struct DeniedPaths(Arc<dyn Fn(&Path) -> bool + Send + Sync>);

impl DeniedPaths {
    /// `denies` gets absolute paths without symbolic links, of existing entries and of entries to be created.
    pub fn new(denies: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(denies))
    }

    pub(crate) fn contains(&self, path: &Path) -> bool {
        (self.0)(path)
    }
}

impl fmt::Debug for DeniedPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeniedPaths").finish_non_exhaustive()
    }
}

/// Patterns of one grant.
#[derive(Debug, Default)]
pub(crate) struct Excludes(Option<Patterns>);

#[derive(Debug)]
struct Patterns {
    /// Lowercase, like the names they are matched with, because some file systems ignore case. A case-insensitive
    /// glob would compile to a regular expression, which is ten times slower.
    globs: Gitignore,
    /// A pattern such as `!d/` exists: it can include a directory where a file of that name stays excluded.
    reincludes_directories: bool,
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
            // Patterns that git ignores or reads differently are errors here, because they would leave a secret
            // readable.
            if let Some(why) = pattern_error(pattern, host) {
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
            reincludes_directories: patterns.iter().any(lets_in),
        })))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether `name` in the directory `below` the grant is excluded.
    ///
    /// `is_dir` is `None` if the type is unknown or the entry is to be created; it is then excluded if any type
    /// would be.
    pub(crate) fn is_excluded(&self, below: &Path, name: &[u8], is_dir: Option<bool>) -> bool {
        let Some(patterns) = &self.0 else {
            return false;
        };
        let path = lower(&below.join(OsStr::from_bytes(name)));
        let leave_out = |is_dir| patterns.globs.matched(&path, is_dir).is_ignore();
        match is_dir {
            Some(is_dir) => leave_out(is_dir),
            // Every pattern can match a directory.
            None => leave_out(true) || patterns.reincludes_directories && leave_out(false),
        }
    }
}

/// The reason why a pattern would not exclude anything.
fn pattern_error(pattern: &str, host: &Path) -> Option<&'static str> {
    let body = pattern.strip_prefix('!').unwrap_or(pattern);
    let first = body.chars().next();
    if pattern.starts_with('#') {
        return Some("it is a comment; to match a name that begins with #, write \\#");
    }
    if first.is_none_or(|c| c.is_whitespace() || c == '\u{feff}') || body.contains(char::is_control)
    {
        return Some("it is empty, begins with whitespace or contains a control character");
    }
    if Path::new(body).starts_with(host) && host != Path::new("/") || body.starts_with("~/") {
        return Some("it is a host path; patterns are relative to the granted directory");
    }
    let inner = body.strip_prefix('/').unwrap_or(body);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if inner.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Some("it has a component that is empty, `.` or `..`");
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
