//! Directories that the host provides to plugins: the program output of each session and the memory of each user.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use toolhost_contract::{Access, Capability, Manifest, SessionKey, UserId};
use toolhost_hostfiles::create_private_dir_all;
use toolhost_process::Processes;
use toolhost_runtime::{SessionDirError, SessionDirs, session_owner};
use toolhost_vfs::PathGrant;

use crate::grants::provided_directory;
use crate::host_resources::OUTPUT_PATH;
use crate::settings::{AllowedPath, Settings};

/// Subdirectory of the memory directory for users of HTTP tokens.
pub const USERS_DIR: &str = "users";

/// The memory directories of a user, for this project and for all projects.
fn memory_paths(memory: &Path, project: &str, user: &UserId) -> [(PathBuf, &'static str); 2] {
    let base = match user.name() {
        None => memory.to_owned(),
        Some(name) => memory.join(USERS_DIR).join(unique_dir_name(name)),
    };
    [
        (base.join("projects").join(project), "/memory/project"),
        (base.join("user"), "/memory/user"),
    ]
}

/// A directory name that is unique for the text.
pub(crate) fn unique_dir_name(text: &str) -> String {
    let name: String = text
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c))
        .take(40)
        .collect();
    format!("{name}-{}", blake3::hash(text.as_bytes()).to_hex())
}

/// The memory directories of the local user, for display. Other users have corresponding ones.
pub(crate) fn memory_directories(manifest: &Manifest, settings: &Settings) -> Vec<AllowedPath> {
    let memory = settings.external_access.memory.as_ref();
    let Some(memory) = memory.filter(|_| manifest.needs(Capability::Memory)) else {
        return Vec::new();
    };
    let project = crate::grants::project_name(&settings.project);
    memory_paths(memory, &project, &UserId::Local)
        .into_iter()
        .map(|(host, guest)| provided_directory(host, guest.to_owned(), Access::ReadWrite))
        .collect()
}

/// The directories of each session. `processes` are those whose output the plugin may read.
pub(crate) fn session_directories(
    manifest: &Manifest,
    settings: &Settings,
    processes: Option<&Processes>,
) -> Option<SessionDirs> {
    let memory = settings.external_access.memory.clone();
    let memory = memory.filter(|_| manifest.needs(Capability::Memory));
    let processes = processes.cloned();
    if memory.is_none() && processes.is_none() {
        return None;
    }
    let project = crate::grants::project_name(&settings.project);
    let writable = memory.is_some();
    // Links on the way to the directory are the operator's. It is resolved once, because a tool may be able to write
    // into it.
    let resolved: OnceLock<PathBuf> = OnceLock::new();
    let folders = move |key: &SessionKey| -> Result<Vec<PathGrant>, SessionDirError> {
        let mut folders = Vec::new();
        if let Some(memory) = &memory {
            let memory = if let Some(memory) = resolved.get() {
                memory
            } else {
                create_private(memory, memory, &key.user)?;
                let path = memory.canonicalize().map_err(unusable)?;
                resolved.get_or_init(|| path)
            };
            for (host, guest) in memory_paths(memory, &project, &key.user) {
                create_private(memory, &host, &key.user)?;
                folders.push(path_grant(host, guest, toolhost_vfs::Access::ReadWrite));
            }
        }
        if let Some(processes) = &processes {
            let host = processes.output_directory(&session_owner(key));
            let host = host.map_err(|error| SessionDirError(error.to_string()))?;
            let host = host.canonicalize().map_err(unusable)?;
            folders.push(path_grant(
                host,
                OUTPUT_PATH,
                toolhost_vfs::Access::ReadOnly,
            ));
        }
        Ok(folders)
    };
    Some(SessionDirs {
        writable,
        open: Arc::new(folders),
    })
}

fn unusable(error: std::io::Error) -> SessionDirError {
    SessionDirError(error.to_string())
}

/// Creates a directory. Symlinks are rejected, because a program of a tool could have created them.
fn create_private(memory: &Path, folder: &Path, user: &UserId) -> Result<(), SessionDirError> {
    create_private_dir_all(memory, folder)
        .map_err(|error| SessionDirError(format!("the memory of {user}: {error}")))
}

fn path_grant(host: PathBuf, guest: &str, access: toolhost_vfs::Access) -> PathGrant {
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
    fn a_02_users_have_separate_memory() {
        let of = |user: Option<&str>| {
            let [(project, _), (user, _)] =
                memory_paths(Path::new("/m"), "p-1", &UserId::from_name(user));
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
