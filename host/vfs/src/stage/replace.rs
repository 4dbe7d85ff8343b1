//! Edits staged files: replaces their content with the user's version, and sets the executable bit.

use std::{
    fs,
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};

use super::{
    Stage, StageError,
    base::Base,
    difference::After,
    layers::Layers,
    pool::{Pool, PoolItem, path_error},
};
use crate::{EntryKind, Location, PathError};

impl Stage {
    /// Replaces the content of a regular file in [`Stage::changes`]. Its permission bits stay. Call
    /// [`Stage::changes`] again afterwards.
    pub fn replace(&self, at: &Location, content: &[u8]) -> Result<(), StageError> {
        self.layers().replace(&at.root.join(&at.path), content)
    }

    /// Sets or clears the executable bits of files, for the classes that may read them.
    ///
    /// The paths are host paths. Returns `false` for each that is not a regular file that the call created or wrote.
    /// Call [`Stage::changes`] again afterwards.
    pub fn set_executable(&self, files: &[(PathBuf, bool)]) -> Result<Vec<bool>, StageError> {
        self.layers().set_executable(files)
    }
}

impl Layers {
    fn replace(&mut self, path: &Path, content: &[u8]) -> Result<(), StageError> {
        let failed = |source| StageError::Failed {
            path: path.to_owned(),
            source,
        };
        let difference = self.difference()?;
        let item = match difference.after.get(path) {
            Some(After::Item(item)) if item.kind == EntryKind::File => *item,
            Some(After::Moved(there)) if there.base.stat.kind == EntryKind::File => {
                self.copy_of(path, there)?
            }
            Some(After::Item(_) | After::Moved(_)) | None => {
                return Err(failed(PathError::NotFound));
            }
        };
        let pool = self.pool().map_err(failed)?;
        pool.rewrite(item, content).map_err(failed)
    }

    fn set_executable(&mut self, files: &[(PathBuf, bool)]) -> Result<Vec<bool>, StageError> {
        let difference = self.difference()?;
        let mut is_set = Vec::with_capacity(files.len());
        for (path, on) in files {
            let item = match difference.after.get(path) {
                Some(After::Item(item)) if item.kind == EntryKind::File => *item,
                _ => {
                    is_set.push(false);
                    continue;
                }
            };
            let set = self.pool().and_then(|pool| pool.set_executable(item, *on));
            set.map_err(|source| StageError::Failed {
                path: path.clone(),
                source,
            })?;
            is_set.push(true);
        }
        Ok(is_set)
    }
}

impl Pool {
    /// Sets the bits of `chmod +x` under any umask: a class without read permission gets no execute permission.
    /// Other bits stay.
    fn set_executable(&self, item: PoolItem, on: bool) -> Result<(), PathError> {
        const READ: u32 = 0o444;
        const EXECUTE: u32 = 0o111;
        let mode = Base::of(self.name(item)?)?.mode;
        let mode = if on {
            mode | (mode & READ) >> 2
        } else {
            mode & !EXECUTE
        };
        let file = self.open_with(item, OFlags::RDONLY | OFlags::CLOEXEC)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        Ok(())
    }

    /// Writes a new file instead of overwriting: hard links must keep the old content, and a guest with an open
    /// handle must not change content that the user has reviewed.
    fn rewrite(&mut self, item: PoolItem, content: &[u8]) -> Result<(), PathError> {
        let (new, file) = self.create_like(&Base::of(self.name(item)?)?)?;
        let written = File::from(file)
            .write_all(content)
            .and_then(|()| fs::rename(self.path_of(new), self.path_of(item)));
        written.map_err(|error| {
            // The pool removes leftovers; the first error is the one to report.
            let _ = self.remove(new);
            path_error(&error)
        })
    }
}
