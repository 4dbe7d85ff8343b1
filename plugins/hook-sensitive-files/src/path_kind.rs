//! Classification of paths by name.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// Passwords, keys, tokens.
    Secret,
    /// Below `/etc`.
    System,
    Ordinary,
}

/// System files with secrets.
const SYSTEM_SECRETS: [&str; 6] = [
    "etc/passwd",
    "etc/shadow",
    "etc/gshadow",
    "etc/sudoers",
    "etc/master.passwd",
    "etc/security/opasswd",
];
/// Directories that contain only secrets.
const SECRET_DIRECTORIES: [&str; 3] = [".ssh", ".gnupg", ".password-store"];
const SECRET_NAMES: [&str; 11] = [
    ".env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".git-credentials",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "credentials.json",
];
const SECRET_ENDS: [&str; 8] = [
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".ppk",
    ".kdbx",
];
/// The last components of a path.
const SECRET_PATHS: [&str; 3] = [".aws/credentials", ".kube/config", ".docker/config.json"];
/// `.env.example` contains no secrets.
const SAMPLES: [&str; 4] = ["example", "sample", "template", "dist"];

pub fn kind(path: &str) -> PathKind {
    // Some file systems are case-insensitive.
    let path = unquoted(path).to_lowercase().replace('\\', "/");
    let path = path.strip_prefix("file://").unwrap_or(&path);
    let (names, climbs) = names(path);
    let rooted = names.join("/");
    let last = names.last().copied().unwrap_or_default();
    let system = if climbs || path.starts_with('/') {
        rooted.strip_prefix("private/").unwrap_or(&rooted)
    } else {
        ""
    };

    let is_secret = SYSTEM_SECRETS.iter().any(|secret| is_in(system, secret))
        || names.iter().any(|name| SECRET_DIRECTORIES.contains(name))
        || SECRET_NAMES.contains(&last)
        || SECRET_ENDS.iter().any(|end| last.ends_with(end))
        || SECRET_PATHS.iter().any(|secret| ends_in(&rooted, secret))
        || is_environment(last);
    if is_secret {
        PathKind::Secret
    } else if is_in(system, "etc") {
        PathKind::System
    } else {
        PathKind::Ordinary
    }
}

/// Removes what the file tools ignore around a path: white space, quotes, and the `@` of a file mention.
fn unquoted(path: &str) -> &str {
    let is_quote = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`');
    path.trim_start_matches(|c| is_quote(c) || c == '@')
        .trim_end_matches(is_quote)
}

/// The components of a path after resolving `.` and `..`, and whether it leaves an unknown directory upwards. Such a
/// path may reach the root, so the rest is checked from there.
fn names(path: &str) -> (Vec<&str>, bool) {
    let (mut names, mut climbs) = (Vec::new(), false);
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                climbs |= names.pop().is_none();
            }
            name => names.push(name),
        }
    }
    (names, climbs)
}

/// `.env.local`, but not a sample.
fn is_environment(name: &str) -> bool {
    name.strip_prefix(".env.")
        .is_some_and(|which| !SAMPLES.iter().any(|sample| which.ends_with(sample)))
}

fn is_in(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn ends_in(path: &str, suffix: &str) -> bool {
    path.strip_suffix(suffix)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: PathKind, paths: &[&str]) {
        for path in paths {
            assert_eq!(kind(path), expected, "{path}");
        }
    }

    #[test]
    fn r_214_secrets_are_known_by_their_names() {
        check(
            PathKind::Secret,
            &[
                "/etc/passwd",
                "/etc/shadow",
                "//etc//./passwd",
                "/etc/x/../passwd",
                "/workspace/../etc/passwd",
                "../../../etc/passwd",
                "a/../../etc/passwd",
                "file:///etc/passwd",
                "/private/etc/master.passwd",
                "/ETC/Passwd",
                "/home/ann/.ssh/config",
                "~/.ssh/known_hosts",
                ".ssh",
                "/root/.ssh/",
                "/srv/app/.env",
                ".env",
                "app/.env.production",
                ".envrc",
                "C:\\Users\\ann\\.ssh\\id_rsa",
                "deploy/id_ed25519",
                "tls/server.key",
                "cert.PEM",
                "/home/ann/.aws/credentials",
                ".kube/config",
                "~/.netrc",
                "\"server.pem\"",
                "' /etc/passwd '",
                "@.env\n",
                "`@\"id_rsa\"`",
            ],
        );
    }

    #[test]
    fn r_214_the_rest_of_etc_is_the_systems() {
        check(
            PathKind::System,
            &[
                "/etc/hosts",
                "/etc/",
                "/etc",
                "/x/../etc/ssl/openssl.cnf",
                "../etc/fstab",
                "/private/etc/hosts",
            ],
        );
    }

    #[test]
    fn r_214_what_only_looks_alike_is_ordinary() {
        check(
            PathKind::Ordinary,
            &[
                "src/main.rs",
                "etc/hosts",
                "etc/passwd",
                "/etcetera/x",
                "/home/etc/passwd",
                "/workspace/etc/passwd",
                "docs/.environment.md",
                ".env.example",
                "env",
                "id_rsa.pub",
                "ssh/config",
                "my.ssh/x",
                "key",
                "keys.rs",
                "config.json",
                "aws/credentials",
                "",
                "/",
                "..",
            ],
        );
    }
}
