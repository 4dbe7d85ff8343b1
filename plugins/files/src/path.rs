//! Resolution of paths from models to targets in the sandbox, and conversion of I/O errors to actionable messages.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use toolhost_sdk::prelude::*;

/// The sandbox's error for a directory that is too large; std has no `ErrorKind` for it.
const OVERFLOW: i32 = if cfg!(target_os = "wasi") { 61 } else { 75 };

/// Limit of a path in bytes, as on Linux.
const MOST_BYTES: usize = 4096;

/// A path inside one of the directories of the call.
#[derive(Debug)]
pub struct Target {
    /// Absolute, without `.` and `..`.
    pub path: PathBuf,
    /// As in the call, for messages.
    pub shown: String,
    /// The directory of the call that contains it.
    pub root: PathBuf,
    pub writable: bool,
}

/// Resolves `given`. Relative paths start in the first directory of the call.
///
/// The check is lexical and only improves error messages; the sandbox enforces access.
pub fn resolve(cx: &Context, given: &str) -> Result<Target> {
    let text = unquoted(given);
    if text.is_empty() {
        let message = "the path is empty; pass a file or directory, for example `src/main.rs`";
        return Err(Error::invalid_input(message).code("invalid_path"));
    }
    if text.len() > MOST_BYTES {
        let length = text.len();
        let message = format!("the path has {length} bytes; the limit is {MOST_BYTES}");
        return Err(Error::invalid_input(message).code("invalid_path"));
    }
    if text.contains('\0') {
        let message = format!("the path {text:?} contains a NUL character; remove it");
        return Err(Error::invalid_input(message).code("invalid_path"));
    }
    // A file name may start or end with spaces or quotes.
    if text != given
        && let Ok(target) = locate(cx, given)
        && exists(&target.path)
        && !target.path.is_dir()
    {
        return Ok(target);
    }
    let literal = locate(cx, text);
    if let Ok(target) = &literal
        && exists(&target.path)
    {
        return literal;
    }
    // `@src/main.rs` is a file mention in a prompt, and `my\ notes.txt` is shell-escaped. Both are also valid names, so
    // the literal reading comes first.
    let unescaped = text.replace("\\ ", " ");
    let mention = text.strip_prefix('@').filter(|rest| !rest.is_empty());
    for reading in mention
        .into_iter()
        .chain((unescaped != text).then_some(unescaped.as_str()))
    {
        if let Ok(target) = locate(cx, reading)
            && exists(&target.path)
        {
            return Ok(target);
        }
    }
    match mention {
        Some(rest) if !is_in_a_directory_that_exists(&literal) => locate(cx, rest),
        _ => literal,
    }
}

/// Resolves the path of a directory.
pub fn resolve_directory(cx: &Context, given: &str) -> Result<Target> {
    let target = resolve(cx, given)?;
    let metadata = fs::metadata(&target.path).map_err(|error| target.error(&error))?;
    if metadata.is_dir() {
        Ok(target)
    } else {
        Err(target.not_a_directory())
    }
}

impl Target {
    /// Converts an I/O error for this path.
    pub fn error(&self, error: &io::Error) -> Error {
        let shown = &self.shown;
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => self.not_found(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => self
                .denied("is protected, not accessible to the user of the host, or a symbolic link that leaves the allowed paths")
                .recommend(
                    "files that usually contain secrets are excluded; the operator can allow one: --exclude-path '!NAME'",
                ),
            io::ErrorKind::IsADirectory => self.is_directory(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::failed(format!("no space left on the device for {shown}"))
                    .code("no_space_left")
            }
            _ if error.raw_os_error() == Some(OVERFLOW) => Error::failed(format!(
                "{shown} has more entries than the host's limit"
            ))
            .code("too_many_entries")
            .recommend("use a file or subdirectory in it"),
            _ => Error::failed(format!("cannot access {shown}: {error}")).code("io_error"),
        }
    }

    /// An unused name in the same directory, for a temporary file.
    pub fn unused_sibling(&self, number: usize) -> Self {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let free = (0..).map(|again| {
            self.path
                .with_file_name(format!(".{name}.moved-{number}-{again}"))
        });
        let mut free = free.filter(|path| fs::symlink_metadata(path).is_err());
        Self {
            path: free.next().unwrap_or_default(),
            shown: self.shown.clone(),
            root: self.root.clone(),
            writable: self.writable,
        }
    }

    /// Fails if the directory is read-only.
    pub fn check_writable(&self) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        let why = format!("is in {}, which is read-only", self.root.display());
        let advice = "only the operator can change that: --allow-path DIR:rw";
        Err(self.denied(&why).recommend(advice))
    }

    pub fn not_a_directory(&self) -> Error {
        let shown = &self.shown;
        Error::invalid_input(format!("{shown} is a file, not a directory"))
            .code("path_is_not_a_directory")
            .recommend(format!("use read_file with path {shown:?}"))
    }

    pub fn not_found(&self) -> Error {
        let near = self.neighbours();
        let message = if near.is_empty() {
            format!("File not found: {}", self.shown)
        } else {
            format!(
                "File not found: {}. Did you mean: {}?",
                self.shown,
                near.join(", ")
            )
        };
        Error::not_found(message)
            .code("file_not_found")
            .recommend("list the directory to see its entries")
    }

    pub fn is_directory(&self) -> Error {
        Error::invalid_input(format!("{} is a directory, not a file", self.shown))
            .code("target_is_directory")
            .recommend(format!(
                "list it: list_directory with path {:?}",
                self.shown
            ))
    }

    /// `why` continues a sentence that starts with the path.
    pub fn denied(&self, why: &str) -> Error {
        Error::denied(format!(
            "Permission denied: Access denied: {} {why}",
            self.shown
        ))
        .code("permission_denied")
    }

    /// Similar existing paths, nearest first. Compares the first part that does not exist, so that `scr/main.rs` finds
    /// `src/main.rs`.
    fn neighbours(&self) -> Vec<String> {
        const MOST_ENTRIES: usize = 2000;
        let Some(dir) = self.path.ancestors().skip(1).find(|dir| dir.is_dir()) else {
            return Vec::new();
        };
        if !dir.starts_with(&self.root) {
            return Vec::new();
        }
        let Ok(rest) = self.path.strip_prefix(dir) else {
            return Vec::new();
        };
        let mut parts = rest.components();
        let Some(missing) = parts
            .next()
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
        else {
            return Vec::new();
        };
        let Ok(entries) = fs::read_dir(dir) else {
            return Vec::new();
        };
        let mut near: Vec<(usize, String)> = entries
            .take(MOST_ENTRIES)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| {
                let distance = distance(&missing, &name)?;
                let path = dir.join(&name).join(parts.as_path());
                // Joining an empty path leaves a trailing `/`, which a file must not have.
                let path: PathBuf = path.components().collect();
                path.exists().then(|| (distance, self.brief(&path)))
            })
            .collect();
        near.sort();
        near.into_iter().take(3).map(|(_, path)| path).collect()
    }

    /// Absolute if the model used an absolute path, else as short as possible.
    fn brief(&self, path: &Path) -> String {
        let relative = path
            .strip_prefix(&self.root)
            .ok()
            .filter(|_| !self.shown.starts_with('/'));
        relative.unwrap_or(path).display().to_string()
    }
}

/// The edit distance of `name` from `wanted`; `None` if it is too large.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let (low_wanted, low_name) = (wanted.to_lowercase(), name.to_lowercase());
    if low_wanted == low_name {
        return Some(0);
    }
    let stem = |name: &str| {
        Path::new(name)
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
    };
    if stem(&low_wanted) == stem(&low_name) {
        return Some(1);
    }
    let distance = strsim::osa_distance(&low_wanted, &low_name);
    (distance <= (low_wanted.chars().count() / 3).max(1)).then_some(distance + 1)
}

/// Removes surrounding spaces, line breaks and a pair of quotes.
fn unquoted(given: &str) -> &str {
    let text = given.trim();
    ['"', '\'', '`']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(text)
        .trim()
}

fn locate(cx: &Context, text: &str) -> Result<Target> {
    let Some(first) = cx.roots().first() else {
        return Err(outside(cx, text));
    };
    // A guest has no home directory, so `~` is always outside.
    if text == "~" || text.starts_with("~/") {
        return Err(outside(cx, text));
    }
    let path = normal(&Path::new(&first.path).join(text));
    let root = cx
        .roots()
        .iter()
        .filter(|root| path.starts_with(&root.path))
        .max_by_key(|root| root.path.len())
        .ok_or_else(|| outside(cx, text))?;
    Ok(Target {
        path,
        shown: text.to_owned(),
        root: PathBuf::from(&root.path),
        writable: root.is_writable(),
    })
}

fn outside(cx: &Context, text: &str) -> Error {
    let roots: Vec<&str> = cx.roots().iter().map(|root| root.path.as_str()).collect();
    let roots = if roots.is_empty() {
        "none are granted; run host with --allow-path DIR".to_owned()
    } else {
        roots.join(", ")
    };
    Error::denied(format!(
        "Permission denied: Access denied: {text} is outside the allowed paths ({roots})"
    ))
    .code("path_not_in_workspace")
}

/// Resolves `.` and `..` lexically. The parent of `/` is `/`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => normal.push(part),
        }
    }
    normal
}

/// True for a dangling link as well.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// `@types/new.d.ts` is literal if a directory `@types` exists.
fn is_in_a_directory_that_exists(target: &Result<Target>) -> bool {
    target.as_ref().is_ok_and(|target| {
        target
            .path
            .parent()
            .is_some_and(|parent| parent != target.root && parent.is_dir())
    })
}

#[cfg(test)]
mod tests;
