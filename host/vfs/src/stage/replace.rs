//! Puts another content into a file that a call made or changed: what a person saved in place of what was proposed.

use std::{fs, fs::File, io::Write as _, path::Path};

use super::{
    Stage, StageError,
    base::Base,
    difference::After,
    layers::Layers,
    pool::{Item, Pool, refusal_of},
};
use crate::{Kind, Location, Refusal};

impl Stage {
    /// `at` is where [`Stage::changes`] tells of a regular file with a content. Its permission bits stay. Ask for the
    /// changes anew afterwards.
    pub fn replace(&self, at: &Location, content: &[u8]) -> Result<(), StageError> {
        self.layers().replace(&at.root.join(&at.path), content)
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
            Some(After::Item(item)) if item.kind == Kind::File => *item,
            Some(After::Moved(there)) if there.base.stat.kind == Kind::File => {
                self.copy_of(path, there)?
            }
            Some(After::Item(_) | After::Moved(_)) | None => return Err(failed(Refusal::NotFound)),
        };
        let pool = self.pool().map_err(failed)?;
        pool.rewrite(item, content).map_err(failed)
    }
}

impl Pool {
    /// Not written into the file itself: it may have a second name, which stays as it was, and whoever still holds it
    /// open must not be able to write into what a person has seen.
    fn rewrite(&mut self, item: Item, content: &[u8]) -> Result<(), Refusal> {
        let (new, file) = self.make_like(&Base::of(self.name(item)?)?)?;
        let written = File::from(file)
            .write_all(content)
            .and_then(|()| fs::rename(self.path_of(new), self.path_of(item)));
        written.map_err(|error| {
            // What is left of it goes with the pool; the error that counts is the first one.
            let _ = self.remove(new);
            refusal_of(&error)
        })
    }
}
