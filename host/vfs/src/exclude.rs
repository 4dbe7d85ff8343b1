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
    /// The last components of all patterns that exclude: a name that matches none of them is excluded in no directory.
    last_components: Gitignore,
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
        let mut last_components = GitignoreBuilder::new("");
        for pattern in patterns {
            // Patterns that git ignores or reads differently are errors here, because they would leave a secret
            // readable.
            if let Some(why) = pattern_error(pattern, host) {
                return Err(bad(pattern, why.to_owned()));
            }
            let invalid = |error: ignore::Error| bad(pattern, error.to_string());
            let pattern = pattern.to_lowercase();
            builder.add_line(None, &pattern).map_err(invalid)?;
            if !pattern.starts_with('!') {
                let last = last_component(&pattern);
                last_components.add_line(None, last).map_err(invalid)?;
            }
        }
        let build = |builder: GitignoreBuilder| {
            let globs = builder.build();
            globs.map_err(|error| bad(&patterns.join(", "), error.to_string()))
        };
        let lets_in =
            |pattern: &String| pattern.starts_with('!') && pattern.trim_end().ends_with('/');
        Ok(Self(Some(Patterns {
            globs: build(builder)?,
            last_components: build(last_components)?,
            reincludes_directories: patterns.iter().any(lets_in),
        })))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether `name` is excluded in at least one directory. May be true although it is excluded in none.
    pub(crate) fn may_exclude(&self, name: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|patterns| {
            let name = lower(Path::new(OsStr::from_bytes(name)));
            patterns.last_components.matched(&name, true).is_ignore()
        })
    }

    /// Whether `name` in the directory `below` the grant is excluded.
    ///
    /// `is_dir` is `None` if the type is unknown or the entry is to be created; it is then excluded if any type
    /// would be.
    pub(crate) fn is_excluded(&self, below: &Path, name: &[u8], is_dir: Option<bool>) -> bool {
        let Some(patterns) = self.0.as_ref().filter(|_| self.may_exclude(name)) else {
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

/// A pattern that matches at least the names which this one can match in some directory.
fn last_component(pattern: &str) -> &str {
    let path = pattern.trim_end().trim_end_matches('/');
    match path.rsplit_once('/') {
        None => pattern,
        // A slash can be within brackets or braces, or a backslash can be split off.
        Some(_) if path.contains(['[', '{', '\\']) => "*",
        Some((_, last)) => last,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_may_not_be_excluded_is_excluded_nowhere() {
        let own = [
            "a", "A/", "/a", "a/b", "/a/b/", "a/**", "**/a", "a/**/b", "*.b", "a/*", "{x/a,b}",
            "[a/]b", "a\\/b", "b ", "a/b ", "é/É",
        ];
        let names = [
            "a",
            "b",
            "A",
            "c.b",
            "x",
            "xa",
            "ab",
            "É",
            "id_rsa",
            "gcloud",
            "config.json",
        ];
        let dirs = ["", "a", "x", "a/x", ".config", "x/.docker", "é", "["];
        let mut excluded = 0;
        for pattern in own.iter().chain(DEFAULT_EXCLUDES) {
            let excludes = Excludes::parse(&[(*pattern).to_owned()], Path::new("/host")).unwrap();
            let patterns = excludes.0.as_ref().unwrap();
            for (name, dir) in names
                .iter()
                .flat_map(|name| dirs.iter().map(move |dir| (name, dir)))
            {
                let path = lower(&Path::new(dir).join(name));
                let is_excluded =
                    [true, false].map(|is_dir| patterns.globs.matched(&path, is_dir).is_ignore());
                if is_excluded.contains(&true) {
                    excluded += 1;
                    assert!(
                        excludes.may_exclude(name.as_bytes()),
                        "{pattern}: {dir}/{name}"
                    );
                }
            }
        }
        assert!(excluded > 50, "{excluded}");
        let excludes = DEFAULT_EXCLUDES
            .iter()
            .map(|pattern| (*pattern).to_owned())
            .collect::<Vec<_>>();
        let excludes = Excludes::parse(&excludes, Path::new("/host")).unwrap();
        for name in ["main.rs", "src", "README.md", ".gitignore", "node_modules"] {
            assert!(!excludes.may_exclude(name.as_bytes()), "{name}");
        }
    }
}
