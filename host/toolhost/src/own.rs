//! Directories that the host provides to plugins: the program output of each session and the memory of each user.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolhost_contract::{Access, Capability, Manifest, SessionKey, UserId};
use toolhost_hostfiles::make_private_below;
use toolhost_process::Processes;
use toolhost_runtime::{OwnFolderError, OwnFolders, session_owner};
use toolhost_vfs::PathGrant;

use crate::grants::own_folder;
use crate::outlets::OUTPUT;
use crate::settings::{AllowedPath, Settings};

/// Subdirectory of the memory directory for users of HTTP tokens.
pub const USERS: &str = "users";

/// The memory directories of a user, for this project and for all projects.
fn memory_of(memory: &Path, project: &str, user: &UserId) -> [(PathBuf, &'static str); 2] {
    let base = match user.name() {
        None => memory.to_owned(),
        Some(name) => memory.join(USERS).join(folder_name(name)),
    };
    [
        (base.join("projects").join(project), "/memory/project"),
        (base.join("user"), "/memory/user"),
    ]
}

/// A directory name that is unique for the text.
pub(crate) fn folder_name(text: &str) -> String {
    let name: String = text
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c))
        .take(40)
        .collect();
    format!("{name}-{}", blake3::hash(text.as_bytes()).to_hex())
}

/// The memory directories of the local user, for display. Other users have corresponding ones.
pub(crate) fn memory(manifest: &Manifest, settings: &Settings) -> Vec<AllowedPath> {
    let memory = settings.beyond.memory.as_ref();
    let Some(memory) = memory.filter(|_| manifest.needs(Capability::Memory)) else {
        return Vec::new();
    };
    let project = crate::grants::project_name(&settings.project);
    memory_of(memory, &project, &UserId::Local)
        .into_iter()
        .map(|(host, guest)| own_folder(host, guest.to_owned(), Access::ReadWrite))
        .collect()
}

/// The directories of each session. `processes` are those whose output the plugin may read.
pub(crate) fn folders(
    manifest: &Manifest,
    settings: &Settings,
    processes: Option<&Processes>,
) -> Option<OwnFolders> {
    let memory = settings.beyond.memory.clone();
    let memory = memory.filter(|_| manifest.needs(Capability::Memory));
    let processes = processes.cloned();
    if memory.is_none() && processes.is_none() {
        return None;
    }
    let project = crate::grants::project_name(&settings.project);
    let writable = memory.is_some();
    let folders = move |key: &SessionKey| -> Result<Vec<PathGrant>, OwnFolderError> {
        let mut folders = Vec::new();
        if let Some(memory) = &memory {
            for (host, guest) in memory_of(memory, &project, &key.user) {
                make(memory, &host, &key.user)?;
                folders.push(granted(host, guest, toolhost_vfs::Access::ReadWrite));
            }
        }
        if let Some(processes) = &processes {
            let host = processes.output_folder(&session_owner(key));
            let host = host.map_err(|error| OwnFolderError(error.to_string()))?;
            folders.push(granted(host, OUTPUT, toolhost_vfs::Access::ReadOnly));
        }
        Ok(folders)
    };
    Some(OwnFolders {
        writable,
        folders: Arc::new(folders),
    })
}

/// Creates a directory. Symlinks are rejected, because a program of a tool could have created them.
fn make(memory: &Path, folder: &Path, user: &UserId) -> Result<(), OwnFolderError> {
    make_private_below(memory, folder)
        .map_err(|error| OwnFolderError(format!("the memory of {user}: {error}")))
}

fn granted(host: PathBuf, guest: &str, access: toolhost_vfs::Access) -> PathGrant {
    PathGrant {
        host,
        guest: guest.to_owned(),
        access,
        dangerous: false,
        exclude: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_02_no_two_users_have_one_memory() {
        let of = |user: Option<&str>| {
            let [(project, _), (user, _)] =
                memory_of(Path::new("/m"), "p-1", &UserId::from_name(user));
            assert!(project.ends_with("projects/p-1") && user.ends_with("user"));
            user
        };
        let users = [None, Some("ann"), Some("a/nn"), Some(".."), Some("local")];
        let folders = users.map(of);
        for (at, folder) in folders.iter().enumerate() {
            let others = folders.iter().enumerate().filter(|(other, _)| *other != at);
            for (_, other) in others {
                assert!(!folder.starts_with(other), "{folder:?} {other:?}");
            }
        }
        assert_eq!(
            folders[0],
            Path::new("/m/user"),
            "as before for the local user"
        );
    }
}
