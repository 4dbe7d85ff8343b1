//! Directory listings of the staged view: real entries, minus removed ones, plus those that the call created.

use std::os::fd::{AsFd, BorrowedFd};

use super::{
    layers::{Layers, Node, Slot},
    write::list,
};
use crate::{
    DirEntry, DirListing, EntryKind, FileId, PathError, Scope, Stat,
    dir::kind_of,
    symlinks::{MAX_SCANNED_ENTRIES, check_link_depth, check_target, target_of},
    walk::{MAX_DEPTH, ResolvedEntry, ResolvedPath},
};

impl Slot {
    fn kind(&self) -> Option<EntryKind> {
        match &self.node {
            Node::Removed => None,
            Node::Item(item) => Some(item.kind),
            Node::Moved(real) => Some(real.base.stat.kind),
        }
    }
}

impl Layers {
    pub(super) fn read_dir(
        &self,
        scope: &Scope,
        dir: BorrowedFd<'_>,
        limit: usize,
    ) -> Result<DirListing, PathError> {
        let id = Stat::of(dir)?.id;
        if self.removed.contains(&id) {
            return Ok(DirListing::default());
        }
        let staged: Vec<DirEntry> = self
            .slots_of(id)
            .filter_map(|(name, slot)| {
                Some(DirEntry {
                    kind: slot.kind()?,
                    name: String::from_utf8_lossy(name).into_owned(),
                })
            })
            .collect();
        let left = limit
            .checked_sub(staged.len())
            .ok_or(PathError::TooManyEntries)?;
        let mut listed = scope.read_dir_under(Some(self), dir, left)?;
        listed.entries.extend(staged);
        Ok(listed)
    }

    pub(super) fn slots_of(&self, dir: FileId) -> impl Iterator<Item = (&Vec<u8>, &Slot)> {
        self.dirs
            .get(&dir)
            .into_iter()
            .flat_map(|layer| &layer.slots)
    }

    pub(super) fn is_empty_dir(&self, found: &ResolvedEntry) -> Result<bool, PathError> {
        let id = found.stat.id;
        if self.slots_of(id).any(|(_, slot)| slot.kind().is_some()) {
            return Ok(false);
        }
        for entry in list(found.fd.as_fd())? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." && self.slot(id, name).is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Like `links.rs`, on the staged view.
    pub(super) fn check_moved_links(
        &self,
        moved: &ResolvedEntry,
        from: &ResolvedPath<'_>,
        to: &ResolvedPath<'_>,
    ) -> Result<(), PathError> {
        match moved.stat.kind {
            EntryKind::Symlink => check_target(&target_of(moved.fd.as_fd(), c"")?, to.depth),
            EntryKind::Directory if to.depth < from.depth || to.start_id != from.start_id => {
                let mut budget = MAX_SCANNED_ENTRIES;
                self.check_links_inside(moved.fd.as_fd(), to.depth + 1, &mut budget)
            }
            _ => Ok(()),
        }
    }

    fn check_links_inside(
        &self,
        dir: BorrowedFd<'_>,
        depth: usize,
        budget: &mut usize,
    ) -> Result<(), PathError> {
        if depth > MAX_DEPTH {
            return Err(PathError::NameTooLong);
        }
        let id = Stat::of(dir)?.id;
        let mut names: Vec<(Vec<u8>, EntryKind)> = self
            .slots_of(id)
            .filter_map(|(name, slot)| Some((name.clone(), slot.kind()?)))
            .collect();
        for entry in list(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." || self.slot(id, name.to_bytes()).is_some() {
                continue;
            }
            if names.len() >= *budget {
                return Err(PathError::TooManyEntries);
            }
            let kind = kind_of(dir, name, entry.file_type());
            names.push((name.to_bytes().to_vec(), kind));
        }
        *budget = budget
            .checked_sub(names.len())
            .ok_or(PathError::TooManyEntries)?;
        for (name, kind) in names {
            match kind {
                EntryKind::Symlink => {
                    let (link, _) = self.lookup(dir, id, &name)?;
                    check_link_depth(&target_of(link.as_fd(), c"")?, depth)?;
                }
                EntryKind::Directory => {
                    let (dir, _) = self.lookup(dir, id, &name)?;
                    self.check_links_inside(dir.as_fd(), depth + 1, budget)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The names that the call created in a directory.
    pub(crate) fn staged_names(&self, dir: FileId) -> impl Iterator<Item = &Vec<u8>> {
        let there = self.slots_of(dir);
        there.filter_map(|(name, slot)| slot.kind().map(|_| name))
    }
}
