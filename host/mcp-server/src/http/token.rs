//! Bearer tokens for HTTP: a file with one token per line, each with a user name for records.
//!
//! Only hashes are kept in memory. A token is looked up by its hash, so timing does not reveal how much of a guess
//! is correct.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use toolhost_contract::text;
use toolhost_hostfiles::{open_regular, open_regular_no_follow};

/// User name for a token without a name.
pub const DEFAULT_USER: &str = "owner";
/// Minimum length of a token, in bytes. Shorter ones can be guessed or are mistakes.
const MIN_LENGTH: usize = 20;
const MAX_LENGTH: usize = 1024;
const MAX_NAME: usize = 64;
const MAX_FILE: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("token file {path}: {source}")]
    Unreadable { path: String, source: io::Error },
    #[error("token file {path}: {problem}")]
    Untrusted { path: String, problem: &'static str },
    #[error("token file {path}, line {line}: {problem}")]
    Line {
        path: String,
        line: usize,
        problem: &'static str,
    },
    #[error("token file {path}: no token found; write one `NAME TOKEN` or `TOKEN` per line")]
    Empty { path: String },
    #[error("cannot generate a random token: {0}")]
    Random(String),
}

/// User names by the hash of their token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens(HashMap<[u8; 32], String>);

/// A new token in plain text, which can be shown only now.
pub struct GeneratedToken(pub String);

impl Tokens {
    /// Reads a token file of the operator.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let shown = display_path(path);
        let unreadable = |source| TokenError::Unreadable {
            path: shown.clone(),
            source,
        };
        let file = open_regular(path).map_err(unreadable)?;
        Self::parse(&read_checked(file, &shown, 0o006)?, &shown)
    }

    /// Reads the host's own token file, or creates it with a new token.
    pub fn read_or_create(path: &Path) -> Result<(Self, Option<GeneratedToken>), TokenError> {
        let shown = display_path(path);
        let unreadable = |source| TokenError::Unreadable {
            path: shown.clone(),
            source,
        };
        // Do not follow links: another user could create one and so choose the token.
        let open = || open_regular_no_follow(path);
        let (file, new) = match open() {
            Ok(file) => (file, None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let token = random_token()?;
                match create_file(path, &token) {
                    Ok(()) => (open().map_err(unreadable)?, Some(GeneratedToken(token))),
                    // Another host created the file first. Use its token.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        (open().map_err(unreadable)?, None)
                    }
                    Err(error) => return Err(unreadable(error)),
                }
            }
            Err(error) => return Err(unreadable(error)),
        };
        let tokens = Self::parse(&read_checked(file, &shown, 0o077)?, &shown)?;
        Ok((tokens, new))
    }

    /// `shown` is the path for error messages.
    pub fn parse(content: &str, shown: &str) -> Result<Self, TokenError> {
        let mut tokens = HashMap::new();
        for (number, line) in content.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |problem| TokenError::Line {
                path: shown.to_owned(),
                line: number + 1,
                problem,
            };
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (name, token) = match fields[..] {
                [token] => (DEFAULT_USER, token),
                [name, token] => (name, token),
                _ => return Err(wrong("a line is `NAME TOKEN` or `TOKEN`")),
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
            if name.len() > MAX_NAME || !name.chars().all(plain) {
                return Err(wrong(
                    "a name has at most 64 characters: ASCII letters, digits, `-`, `_`, `.` and `@`",
                ));
            }
            if !(MIN_LENGTH..=MAX_LENGTH).contains(&token.len()) || !token.is_ascii() {
                return Err(wrong("a token has 20 to 1024 ASCII characters"));
            }
            if tokens.insert(hash(token), name.to_owned()).is_some() {
                return Err(wrong("duplicate token"));
            }
        }
        if tokens.is_empty() {
            return Err(TokenError::Empty {
                path: shown.to_owned(),
            });
        }
        Ok(Self(tokens))
    }

    /// Returns the user of a token.
    pub fn user_of(&self, token: &str) -> Option<&str> {
        self.0.get(&hash(token)).map(String::as_str)
    }

    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(String::as_str)
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn random_token() -> Result<String, TokenError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| TokenError::Random(error.to_string()))?;
    Ok(format!("toolhost_{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Creates a token file. The file is written under a temporary name, so that a partial token is never read, and then
/// hard-linked, which fails if `path` exists, even as a dangling link.
fn create_file(path: &Path, token: &str) -> io::Result<()> {
    let folder = path
        .parent()
        .ok_or_else(|| io::Error::other("the path has no parent folder"))?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let number = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
    let fresh = folder.join(format!(".http-token-{number:016x}"));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut file| {
            writeln!(file, "{token}")?;
            file.sync_all()
        })
        .and_then(|()| fs::hard_link(&fresh, path));
    // A temporary file that cannot be removed does no harm.
    let _ = fs::remove_file(&fresh);
    written
}

/// Reads a regular file that belongs to this user or root and has none of the mode bits of `closed` set.
fn read_checked(file: File, shown: &str, closed: u32) -> Result<String, TokenError> {
    let unreadable = |source| TokenError::Unreadable {
        path: shown.to_owned(),
        source,
    };
    let untrusted = |problem| TokenError::Untrusted {
        path: shown.to_owned(),
        problem,
    };
    let metadata = file.metadata().map_err(unreadable)?;
    let us = rustix::process::geteuid().as_raw();
    if ![us, 0].contains(&metadata.uid()) {
        return Err(untrusted("owned by another user"));
    }
    if metadata.mode() & (closed | 0o022) != 0 {
        return Err(untrusted(
            "readable or writable by other users; run `chmod 600` on it and create a new token",
        ));
    }
    if metadata.len() > MAX_FILE {
        return Err(untrusted("larger than 1 MiB"));
    }
    let mut content = String::new();
    file.take(MAX_FILE)
        .read_to_string(&mut content)
        .map_err(unreadable)?;
    Ok(content)
}

fn display_path(path: &Path) -> String {
    text::escape_line(&path.to_string_lossy(), 400)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbb";

    fn check(content: &str, expected: Result<&[(&str, &str)], &str>) {
        match (Tokens::parse(content, "f"), expected) {
            (Ok(tokens), Ok(expected)) => {
                assert_eq!(tokens.users().count(), expected.len(), "{content}");
                for (token, name) in expected {
                    assert_eq!(tokens.user_of(token), Some(*name), "{content}");
                }
                assert_eq!(tokens.user_of(""), None);
                assert_eq!(tokens.user_of(&A[1..]), None);
            }
            (Err(error), Err(expected)) => {
                let error = error.to_string();
                assert!(error.contains(expected), "{error}");
                assert!(!error.contains(A), "a message shows no token: {error}");
            }
            (got, _) => panic!("{content}: {got:?}"),
        }
    }

    #[test]
    fn a_line_is_a_token_with_an_optional_name() {
        check(A, Ok(&[(A, DEFAULT_USER)]));
        check(
            &format!("# two\n\nann {A}\nbob\t{B}\r\n"),
            Ok(&[(A, "ann"), (B, "bob")]),
        );
        check(&format!("ann {A}\nann {B}"), Ok(&[(A, "ann"), (B, "ann")]));
        check("", Err("no token found"));
        check("# empty\n", Err("no token found"));
        check("short", Err("line 1: a token has 20"));
        check(&format!("a b {A}"), Err("line 1: a line is"));
        check(&format!("ann {A}\nbob {A}"), Err("line 2: duplicate token"));
        check(&format!("a/b {A}"), Err("line 1: a name has"));
    }

    #[test]
    fn the_token_file_is_created_once_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/http-token");
        let (first, new) = Tokens::read_or_create(&path).unwrap();
        let token = new.expect("a new token").0;
        assert_eq!(first.user_of(&token), Some(DEFAULT_USER));
        assert!(token.len() > 43, "32 bytes and a prefix");
        let mode = fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path().join("state")).unwrap().count(), 1);

        let (second, new) = Tokens::read_or_create(&path).unwrap();
        assert!(new.is_none());
        assert_eq!(first, second);
    }

    #[test]
    fn a_file_that_other_users_could_access_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let own = |name: &str, mode: u32| {
            let path = dir.path().join(name);
            fs::write(&path, A).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        };
        let check = |error: Option<TokenError>, expected: &str| {
            let error = error.expect("a refusal").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(
            Tokens::read_or_create(&own("group", 0o640)).err(),
            "readable or writable",
        );
        check(
            Tokens::read(&own("world", 0o644)).err(),
            "readable or writable",
        );
        check(
            Tokens::read(&own("write", 0o620)).err(),
            "readable or writable",
        );
        check(Tokens::read(dir.path()).err(), "not a regular file");
        check(Tokens::read(&dir.path().join("none")).err(), "No such file");
        Tokens::read(&own("mounted", 0o440)).unwrap();

        let (link, dangling) = (dir.path().join("link"), dir.path().join("dangling"));
        symlink(own("target", 0o600), &link).unwrap();
        symlink(dir.path().join("nowhere"), &dangling).unwrap();
        assert!(Tokens::read_or_create(&link).is_err());
        assert!(Tokens::read_or_create(&dangling).is_err());
        assert!(!dir.path().join("nowhere").exists());
    }
}
