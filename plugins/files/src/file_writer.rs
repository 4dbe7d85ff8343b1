//! Reading and writing of file bytes for `write_file`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use toolhost_sdk::prelude::*;

use crate::new_directory::create_all;
use crate::path::Target;

/// The bytes of the file, if it exists.
pub fn load(target: &Target) -> Result<Option<Vec<u8>>> {
    match fs::metadata(&target.path) {
        Ok(metadata) if metadata.is_dir() => Err(target.is_directory()),
        Ok(metadata) if !metadata.is_file() => Err(Error::invalid_input(format!(
            "{} is not a regular file",
            target.shown
        ))
        .code("not_a_file")),
        Ok(_) => fs::read(&target.path)
            .map(Some)
            .map_err(|error| target.error(&error)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            if fs::symlink_metadata(&target.path).is_ok() {
                let message = format!(
                    "{} is a dangling symbolic link; remove it or write its target",
                    target.shown
                );
                return Err(Error::invalid_input(message).code("dangling_link"));
            }
            Ok(None)
        }
        Err(error) => Err(target.error(&error)),
    }
}

/// Replaces `old` by `new`.
///
/// An existing file is written in place. Renaming a new file over it would be atomic, but WASI can neither read nor set
/// a mode: scripts would lose their executable bit, and private files would become readable to all. Writing in place
/// keeps mode, owner and links; if it fails, the old bytes are restored.
pub fn store(target: &Target, old: Option<&[u8]>, new: &[u8], create_dirs: bool) -> Result<()> {
    let explain = |error: io::Error| target.error(&error);
    let Some(old) = old else {
        ensure_parent(target, create_dirs)?;
        // `create_new`, so that a file created in the meantime is not replaced.
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&target.path)
            .map_err(explain)?;
        return file
            .write_all(new)
            .and_then(|()| file.sync_all())
            .map_err(|error| {
                drop(fs::remove_file(&target.path));
                target.error(&error)
            });
    };
    let mut file = OpenOptions::new()
        .write(true)
        .open(&target.path)
        .map_err(explain)?;
    fill(&mut file, new).map_err(|error| match rewrite(&target.path, old) {
        Ok(()) => target.error(&error),
        Err(_) => target
            .error(&error)
            .cause("the old content could not be restored"),
    })
}

fn rewrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fill(&mut OpenOptions::new().write(true).open(path)?, bytes)
}

/// The length is set last, so that the file is never empty for other readers.
fn fill(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()
}

/// Creates the parent directory of `target`; fails if it does not exist and `create_dirs` is not set.
pub fn ensure_parent(target: &Target, create_dirs: bool) -> Result<()> {
    let Some(parent) = target.path.parent().filter(|parent| !parent.is_dir()) else {
        return Ok(());
    };
    if !create_dirs {
        let message = format!(
            "the directory of {} does not exist; set `create_dirs` to create it",
            target.shown
        );
        return Err(Error::not_found(message).code("directory_not_found"));
    }
    create_all(target, parent, "a file")
}
