//! Where memory is kept: a folder for a project or a user, the session for itself. Both hold files by name.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::inline;

use super::name::MOST_LEVELS;
use super::{INDEX, MOST_BYTES, Scope, invalid};
use crate::show::nearest;

const KEY: &str = "memory";
const MOST_FILES: usize = 200;
/// What a session keeps is held in memory and has to leave room for others.
const MOST_SESSION_BYTES: usize = 256 << 10;
/// Entries of a folder that are looked at; what is beyond is not ours.
const MOST_LOOKS: usize = 2000;

pub struct Place<'a> {
    cx: &'a Context,
    pub scope: Scope,
    folder: Option<PathBuf>,
}

impl<'a> Place<'a> {
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

    /// Names and sizes, by name.
    pub fn files(&self) -> Result<BTreeMap<String, usize>> {
        Ok(self.look()?.0)
    }

    /// The files, and whether these are all.
    fn look(&self) -> Result<(BTreeMap<String, usize>, bool)> {
        let Some(folder) = &self.folder else {
            let files = self.session()?.into_iter();
            let files = files.map(|(name, text)| (name, text.len())).collect();
            return Ok((files, true));
        };
        let mut found = BTreeMap::new();
        let mut looks = MOST_LOOKS;
        look(folder, "", 1, &mut looks, &mut found)
            .map_err(|error| self.failed("list the folder of", &error))?;
        Ok((found, looks > 0))
    }

    /// Is there room for a new file, and is its name one that nobody takes for another?
    fn admit(&self, name: &str) -> Result<()> {
        let (files, is_all) = self.look()?;
        if files.contains_key(name) {
            return Ok(());
        }
        if files.len() >= MOST_FILES {
            let message = format!(
                "there are {} files already; at most {MOST_FILES} are kept",
                files.len()
            );
            return Err(invalid(message).recommend("delete or join some first"));
        }
        if !is_all {
            let message = format!(
                "the folder has more than {MOST_LOOKS} entries; the user has to tidy it up"
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

    /// None when there is no such file.
    pub fn read(&self, name: &str) -> Result<Option<String>> {
        let Some(folder) = &self.folder else {
            return Ok(self.session()?.remove(name));
        };
        let file = match fs::File::open(folder.join(name)) {
            Err(error) if is_absent(&error) => return Ok(None),
            file => file.map_err(|error| self.failed("read", &error))?,
        };
        let mut bytes = Vec::new();
        // People write here too, and more than we would.
        match file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes) {
            // A folder can be opened and only then turns out to be none.
            Err(error) if is_absent(&error) => return Ok(None),
            read => read.map_err(|error| self.failed("read", &error))?,
        };
        if bytes.len() > MOST_BYTES {
            let message =
                format!("{name} is larger than {MOST_BYTES} bytes; the user has to shorten it");
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
                "{name} would have {} bytes; a file of memory has at most {MOST_BYTES}",
                text.len()
            );
            return Err(invalid(message).recommend("keep less, or in several files"));
        }
        self.admit(name)?;
        let Some(folder) = &self.folder else {
            let mut session = self.session()?;
            session.insert(name.to_owned(), text.to_owned());
            let size: usize = session.values().map(String::len).sum();
            if size > MOST_SESSION_BYTES {
                let message = format!(
                    "a session remembers {MOST_SESSION_BYTES} bytes; this would make it {size}"
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
        // Folders that nothing is in would count as entries, and nobody could remove them.
        let above = Path::new(name).ancestors().skip(1);
        for parent in above.take_while(|parent| !parent.as_os_str().is_empty()) {
            if fs::remove_dir(folder.join(parent)).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// What to say of a file that is not there.
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
            .recommend("see what there is with the action `list`")
    }

    fn session(&self) -> Result<BTreeMap<String, String>> {
        Ok(self.cx.recall(KEY)?.unwrap_or_default())
    }

    fn failed(&self, deed: &str, error: &io::Error) -> Error {
        let what = format!("cannot {deed} the memory of the {}", self.scope.as_str());
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::denied(
                format!("{what}: it is protected, or a link that leads out of it"),
            )
            .code("permission_denied"),
            _ => Error::failed(format!("{what}: {error}")).code(match deed {
                "write" | "delete from" => "file_write_failure",
                _ => "read_content_failure",
            }),
        }
    }
}

/// The folder that the host shows under this name. In a test it lies somewhere in a temporary directory.
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
    Error::unavailable(format!("there is no folder for the memory of the {scope}"))
        .code("not_configured")
        .recommend("use the scope `session`")
        .recommend("whoever runs this host can name a folder: `memory = \"PATH\"`")
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory
    )
}

/// Files that are ours by their names. What is a link is left alone: where it leads, only the sandbox knows.
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
