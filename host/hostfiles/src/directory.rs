//! Checks and creation of the directories in which the host keeps its files.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Errors of a directory that only its owner may write to.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a directory; move it away", path.display())]
    NotADirectory { path: PathBuf },
    #[error("{} is a symbolic link; replace it with a directory", path.display())]
    SymbolicLink { path: PathBuf },
    /// The directory, or the symbolic link that leads to it, belongs to another user.
    #[error("{} belongs to user {uid}; remove it, or configure another directory", path.display())]
    ForeignOwner { path: PathBuf, uid: u32 },
    #[error(
        "other users can write to {} (mode {mode:o}), so its files may not be yours; inspect them, then run `chmod 700` on it",
        path.display()
    )]
    WritableByOthers { path: PathBuf, mode: u32 },
}

/// Checks that a directory, if it exists, belongs to this user and that other users cannot write to it.
///
/// A symbolic link is followed if it belongs to this user or to root. A missing directory is not an error.
pub fn check_directory(path: &Path) -> Result<(), DirectoryError> {
    let failed = |source| DirectoryError::Io {
        path: path.to_owned(),
        source,
    };
    let us = rustix::process::geteuid().as_raw();
    let foreign = |uid| DirectoryError::ForeignOwner {
        path: path.to_owned(),
        uid,
    };
    let link = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed)?,
    };
    if ![us, 0].contains(&link.uid()) {
        return Err(foreign(link.uid()));
    }
    let found = fs::metadata(path).map_err(failed)?;
    if !found.is_dir() {
        return Err(DirectoryError::NotADirectory {
            path: path.to_owned(),
        });
    }
    if found.uid() != us {
        return Err(foreign(found.uid()));
    }
    match found.mode() & 0o7777 {
        mode if mode & 0o022 != 0 => Err(DirectoryError::WritableByOthers {
            path: path.to_owned(),
            mode,
        }),
        _ => Ok(()),
    }
}

/// Creates a directory below `base` with mode 0700, and its missing parents.
///
/// No component below `base` may be a symbolic link, because a tool may have been able to create one.
pub fn create_private_dir_all(base: &Path, folder: &Path) -> Result<(), DirectoryError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| DirectoryError::Io { path, source }
    };
    let mut maker = DirBuilder::new();
    maker.mode(0o700).recursive(true);
    maker.create(base).map_err(failed(base))?;
    maker.recursive(false);
    let mut here = base.to_owned();
    for part in folder.strip_prefix(base).unwrap_or(folder).components() {
        here.push(part);
        match maker.create(&here) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(&here)(error));
            }
            _ => {}
        }
        let found = fs::symlink_metadata(&here).map_err(failed(&here))?;
        if found.is_symlink() {
            return Err(DirectoryError::SymbolicLink { path: here });
        }
        if !found.is_dir() {
            return Err(DirectoryError::NotADirectory { path: here });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};

    use super::*;

    #[test]
    fn a_directory_that_others_own_or_can_write_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        check_directory(&at("missing")).unwrap();
        fs::create_dir(at("state")).unwrap();
        symlink(at("state"), at("link")).unwrap();
        for (mode, allowed) in [
            (0o700, true),
            (0o755, true),
            (0o775, false),
            (0o777, false),
            (0o1777, false),
        ] {
            fs::set_permissions(at("state"), Permissions::from_mode(mode)).unwrap();
            for name in ["state", "link"] {
                let checked = check_directory(&at(name));
                assert_eq!(checked.is_ok(), allowed, "{name} {mode:o}");
            }
        }
        fs::set_permissions(at("state"), Permissions::from_mode(0o700)).unwrap();
        fs::write(at("file"), "").unwrap();
        assert!(matches!(
            check_directory(&at("file")),
            Err(DirectoryError::NotADirectory { .. })
        ));
        if lchown(at("link"), Some(12_345), None).is_err() {
            eprintln!("only root can change the owner of a link; skipping the rest of the test");
            return;
        }
        assert!(matches!(
            check_directory(&at("link")),
            Err(DirectoryError::ForeignOwner { uid: 12_345, .. })
        ));
        chown(at("state"), Some(12_345), None).unwrap();
        assert!(matches!(
            check_directory(&at("state")),
            Err(DirectoryError::ForeignOwner { uid: 12_345, .. })
        ));
    }
}
