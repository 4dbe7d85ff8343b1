//! Storage of memory files: a directory for a project or user, session state for a session.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::{inline, nearest};

use super::name::MOST_LEVELS;
use super::{INDEX, MOST_BYTES, Scope, invalid};

const KEY: &str = "memory";
const MOST_FILES: usize = 200;
/// Limit of a session's notes, which are held in memory.
const MOST_SESSION_BYTES: usize = 256 << 10;
/// Limit of visited directory entries.
const MAX_VISITED_ENTRIES: usize = 2000;

pub struct NoteStore<'a> {
    cx: &'a Context,
    pub scope: Scope,
    folder: Option<PathBuf>,
}

impl<'a> NoteStore<'a> {
    pub fn find(cx: &'a Context, scope: Scope) -> Result<Self> {
        let folder = match scope {
            Scope::Session => None,
            Scope::Project | Scope::User => {
                Some(root(cx, scope.as_str()).ok_or_else(|| missing(scope))?)
            }
        };
        Ok(Self {
            cx,
            scope,
            folder: folder.map(|root| PathBuf::from(&root.path)),
        })
    }

    /// Names and sizes, sorted by name.
    pub fn files(&self) -> Result<BTreeMap<String, usize>> {
        Ok(self.look()?.0)
    }

    /// The files, and whether the list is complete.
    fn look(&self) -> Result<(BTreeMap<String, usize>, bool)> {
        let Some(folder) = &self.folder else {
            let files = self.session()?.into_iter();
            let files = files.map(|(name, text)| (name, text.len())).collect();
            return Ok((files, true));
        };
        let mut found = BTreeMap::new();
        let mut looks = MAX_VISITED_ENTRIES;
        look(folder, "", 1, &mut looks, &mut found)
            .map_err(|error| self.failed("list the directory of", &error))?;
        Ok((found, looks > 0))
    }

    /// Checks the number of files, and that the name does not differ from an existing one only in case.
    fn check_new_file(&self, name: &str) -> Result<()> {
        let (files, is_all) = self.look()?;
        if files.contains_key(name) {
            return Ok(());
        }
        if files.len() >= MOST_FILES {
            let message = format!(
                "{} files exist already; the limit is {MOST_FILES}",
                files.len()
            );
            return Err(invalid(message).recommend("delete or merge some first"));
        }
        if !is_all {
            let message = format!(
                "the directory has more than {MAX_VISITED_ENTRIES} entries; ask the user to clean it up"
            );
            return Err(invalid(message));
        }
        let mut known = files.keys().map(String::as_str).chain([INDEX]);
        match known.find(|known| *known != name && known.to_lowercase() == name.to_lowercase()) {
            Some(known) => Err(invalid(format!(
                "{name} differs from {known} only in upper and lower case; use that or another name"
            ))),
            None => Ok(()),
        }
    }

    /// `None` if the file does not exist.
    pub fn read(&self, name: &str) -> Result<Option<String>> {
        let Some(folder) = &self.folder else {
            return Ok(self.session()?.remove(name));
        };
        let file = match fs::File::open(folder.join(name)) {
            Err(error) if is_absent(&error) => return Ok(None),
            file => file.map_err(|error| self.failed("read", &error))?,
        };
        let mut bytes = Vec::new();
        // Users write here too, without our size limit.
        match file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes) {
            // Some systems open directories and report the error on the first read.
            Err(error) if is_absent(&error) => return Ok(None),
            read => read.map_err(|error| self.failed("read", &error))?,
        };
        if bytes.len() > MOST_BYTES {
            let message =
                format!("{name} is larger than {MOST_BYTES} bytes; ask the user to shorten it");
            return Err(Error::failed(message).code("file_too_large"));
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            Error::failed(format!("{name} is not text in UTF-8")).code("binary_file")
        })?;
        Ok(Some(text))
    }

    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        if text.len() > MOST_BYTES {
            let message = format!(
                "{name} would have {} bytes; the limit is {MOST_BYTES}",
                text.len()
            );
            return Err(invalid(message).recommend("write less, or to several files"));
        }
        self.check_new_file(name)?;
        let Some(folder) = &self.folder else {
            let mut session = self.session()?;
            session.insert(name.to_owned(), text.to_owned());
            let size: usize = session.values().map(String::len).sum();
            if size > MOST_SESSION_BYTES {
                let message = format!(
                    "the notes of a session are limited to {MOST_SESSION_BYTES} bytes; this would make {size}"
                );
                return Err(invalid(message).recommend("delete or shorten some first"));
            }
            return self.cx.remember(KEY, &session);
        };
        let path = folder.join(name);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .map_err(|error| self.failed("write", &error))?;
        fs::write(path, text).map_err(|error| self.failed("write", &error))
    }

    pub fn remove(&self, name: &str) -> Result<()> {
        let Some(folder) = &self.folder else {
            let mut session = self.session()?;
            session.remove(name);
            return self.cx.remember(KEY, &session);
        };
        fs::remove_file(folder.join(name)).map_err(|error| self.failed("delete from", &error))?;
        // Removes empty parent directories, which would count as entries and could not be removed otherwise.
        let above = Path::new(name).ancestors().skip(1);
        for parent in above.take_while(|parent| !parent.as_os_str().is_empty()) {
            if fs::remove_dir(folder.join(parent)).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// The error for a missing file.
    pub fn no_file(&self, name: &str) -> Error {
        let files = self.files().unwrap_or_default();
        let scope = self.scope.as_str();
        let error = Error::not_found(match nearest(name, files.keys().map(String::as_str)) {
            Some(near) => format!(
                "File not found: {name} in the memory of the {scope}. Did you mean: {near}?"
            ),
            None => format!("File not found: {name} in the memory of the {scope}"),
        });
        error
            .code("file_not_found")
            .recommend("list the files with the action `list`")
    }

    fn session(&self) -> Result<BTreeMap<String, String>> {
        Ok(self.cx.recall(KEY)?.unwrap_or_default())
    }

    fn failed(&self, operation: &str, error: &io::Error) -> Error {
        let message = format!(
            "cannot {operation} the memory of the {}",
            self.scope.as_str()
        );
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::denied(
                format!("{message}: it is protected, or a link that leaves the directory"),
            )
            .code("permission_denied"),
            _ => Error::failed(format!("{message}: {error}")).code(match operation {
                "write" | "delete from" => "file_write_failure",
                _ => "read_content_failure",
            }),
        }
    }
}

/// The directory that the host mounts under this name. In tests it is in a temporary directory.
fn root<'a>(cx: &'a Context, name: &str) -> Option<&'a Root> {
    let wanted = format!("/memory/{name}");
    let is = |path: &str| {
        if cfg!(test) {
            path.ends_with(&wanted)
        } else {
            path == wanted
        }
    };
    cx.roots().iter().find(|root| is(&root.path))
}

fn missing(scope: Scope) -> Error {
    let scope = scope.as_str();
    Error::unavailable(format!(
        "no directory is configured for the memory of the {scope}"
    ))
    .code("not_configured")
    .recommend("use the scope `session`")
    .recommend("the operator can configure one: `memory = \"PATH\"`")
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory
    )
}

/// Collects files with valid names. Links are skipped, because only the sandbox knows their targets.
fn look(
    folder: &Path,
    above: &str,
    level: usize,
    looks: &mut usize,
    found: &mut BTreeMap<String, usize>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        if *looks == 0 {
            break;
        }
        *looks -= 1;
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let metadata = entry.metadata()?;
        let path = format!("{above}{name}");
        if metadata.is_dir() && level < MOST_LEVELS && !name.starts_with('.') {
            look(&entry.path(), &format!("{path}/"), level + 1, looks, found)?;
        } else if metadata.is_file()
            && super::name::checked(&path).is_ok_and(|checked| checked == path)
        {
            found.insert(
                inline(&path, 128),
                usize::try_from(metadata.len()).unwrap_or(usize::MAX),
            );
        }
    }
    Ok(())
}
