//! Staged changes by directory: the names whose entries differ from the real tree.

use std::{
    collections::{BTreeMap, HashMap, HashSet, hash_map},
    ffi::{OsStr, OsString},
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::io::Errno;

use super::{
    StageLimits,
    base::Base,
    pool::{Pool, PoolItem},
    real::{RealDir, RealEntry, check_writable, open_name},
};
use crate::{
    EntryKind, FileId, PathError, Scope,
    sys::PATH_MAX,
    walk::{MAX_DEPTH, ResolvedPath},
};

/// Source of an entry found by a walk.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// The real entry.
    Real,
    Item(PoolItem),
    /// A real entry that was moved here.
    Moved(Arc<RealEntry>),
}

#[derive(Debug)]
pub(super) enum Node {
    /// The real entry is hidden.
    Removed,
    Item(PoolItem),
    Moved(Arc<RealEntry>),
}

/// The staged entry at a name, and the real entry that it replaces.
#[derive(Debug)]
pub(super) struct Slot {
    pub node: Node,
    pub under: Option<Base>,
}

#[derive(Debug)]
pub(super) enum Home {
    Pool,
    Real(Arc<RealDir>),
}

#[derive(Debug)]
pub(super) struct Layer {
    pub home: Home,
    /// The device that will hold entries of this directory after the commit.
    pub dev: u64,
    pub slots: BTreeMap<Vec<u8>, Slot>,
}

#[derive(Debug)]
pub(crate) struct Layers {
    pub(super) limits: StageLimits,
    pub(super) parent: PathBuf,
    pub(super) pool: Option<Pool>,
    pub(super) dirs: HashMap<FileId, Layer>,
    /// Current parent directory and name of each pool directory or moved directory.
    pub(super) current_parent: HashMap<FileId, (FileId, Vec<u8>)>,
    /// Moved directories by their real path.
    pub(super) moved: HashMap<PathBuf, FileId>,
    /// Real directories that were removed; a guest can still hold a handle.
    pub(super) removed: HashSet<FileId>,
    pub(super) slots: usize,
    /// Pool copies of moved files that had to be reported as new, by current path.
    pub(super) copies: HashMap<PathBuf, (Base, PoolItem)>,
}

impl Layers {
    pub(super) fn new(parent: PathBuf, limits: StageLimits) -> Self {
        Self {
            limits,
            parent,
            pool: None,
            dirs: HashMap::new(),
            current_parent: HashMap::new(),
            moved: HashMap::new(),
            removed: HashSet::new(),
            slots: 0,
            copies: HashMap::new(),
        }
    }

    /// The staged view equals the real tree.
    pub(super) fn is_untouched(&self) -> bool {
        self.dirs.is_empty() && self.removed.is_empty()
    }

    pub(crate) fn lookup(
        &self,
        dir: BorrowedFd<'_>,
        id: FileId,
        name: &[u8],
    ) -> Result<(OwnedFd, Origin), Errno> {
        if self.removed.contains(&id) {
            return Err(Errno::NOENT);
        }
        match self.slot(id, name).map(|slot| &slot.node) {
            None => Ok((open_name(dir, name)?, Origin::Real)),
            Some(Node::Removed) => Err(Errno::NOENT),
            Some(Node::Item(item)) => {
                let pool = self.pool.as_ref().ok_or(Errno::NOENT)?;
                Ok((pool.name(*item)?, Origin::Item(*item)))
            }
            Some(Node::Moved(real)) => Ok((real.name()?, Origin::Moved(Arc::clone(real)))),
        }
    }

    /// Whether the call changed the entry at this name.
    pub(crate) fn is_changed(&self, dir: FileId, name: &[u8]) -> bool {
        self.slot(dir, name).is_some()
    }

    pub(super) fn slot(&self, dir: FileId, name: &[u8]) -> Option<&Slot> {
        self.dirs.get(&dir)?.slots.get(name)
    }

    pub(super) fn pool(&mut self) -> Result<&mut Pool, PathError> {
        if self.pool.is_none() {
            let pool =
                Pool::create(&self.parent).map_err(|error| super::pool::path_error(&error))?;
            self.pool = Some(pool);
        }
        self.pool.as_mut().ok_or(PathError::Io(Errno::IO))
    }

    /// Creates the layer of the parent directory, and checks that the host's user may write to it.
    pub(super) fn ensure_layer(
        &mut self,
        scope: &Scope,
        resolved: &ResolvedPath<'_>,
    ) -> Result<(), PathError> {
        self.ensure_layer_for_file(scope, resolved)?;
        match self.dirs.get(&resolved.parent_id).map(|layer| &layer.home) {
            Some(Home::Pool) => Ok(()),
            _ => check_writable(resolved.parent(), b"."),
        }
    }

    pub(super) fn ensure_layer_for_file(
        &mut self,
        scope: &Scope,
        resolved: &ResolvedPath<'_>,
    ) -> Result<(), PathError> {
        let id = resolved.parent_id;
        // Directories created through each other's handles can nest without bound, and could not be committed.
        if let Some(dir) = self.current_path(id)
            && (dir.as_os_str().len() + resolved.name.len() >= PATH_MAX
                || dir.components().count() > 2 * MAX_DEPTH)
        {
            return Err(PathError::NameTooLong);
        }
        if self.removed.contains(&id) {
            return Err(PathError::NotFound);
        }
        if let hash_map::Entry::Vacant(entry) = self.dirs.entry(id) {
            let dir = RealDir::of(scope, resolved.parent(), id).ok_or(PathError::NotFound)?;
            entry.insert(Layer {
                home: Home::Real(Arc::new(dir)),
                dev: id.dev(),
                slots: BTreeMap::new(),
            });
        }
        Ok(())
    }

    /// Checks the limit for changing these names. Names that were changed before do not count again.
    pub(super) fn check_name_limit(&self, entries: &[&ResolvedPath<'_>]) -> Result<(), PathError> {
        let new = entries
            .iter()
            .filter(|resolved| self.slot(resolved.parent_id, &resolved.name).is_none());
        if self.slots + new.count() > self.limits.files {
            Err(PathError::NoSpace)
        } else {
            Ok(())
        }
    }

    /// Sets the entry at a name of a directory with a layer. `under` is the real entry, if it was just read.
    pub(super) fn set_entry(
        &mut self,
        dir: FileId,
        name: &[u8],
        node: Node,
        id: FileId,
        under: Option<Base>,
    ) {
        match &node {
            Node::Removed => {}
            Node::Item(item) => {
                if item.kind == EntryKind::Directory {
                    self.current_parent.insert(id, (dir, name.to_vec()));
                }
            }
            Node::Moved(real) => {
                let is_dir = real.base.stat.kind == EntryKind::Directory;
                if real.dir.id == dir && real.name == name {
                    // Moved back to its original path: no change remains.
                    if is_dir {
                        self.current_parent.remove(&id);
                        self.moved.remove(&real.path());
                    }
                    self.forget(dir, name);
                    return;
                }
                if is_dir {
                    self.current_parent.insert(id, (dir, name.to_vec()));
                    self.moved.insert(real.path(), id);
                }
            }
        }
        let Some(layer) = self.dirs.get_mut(&dir) else {
            return;
        };
        if let Some(slot) = layer.slots.get_mut(name) {
            slot.node = node;
        } else {
            layer.slots.insert(name.to_vec(), Slot { node, under });
            self.slots += 1;
        }
    }

    /// Removes the entry at a name; `under` as in `put`.
    pub(super) fn remove_entry(&mut self, dir: FileId, name: &[u8], under: Option<Base>) {
        let Some(layer) = self.dirs.get_mut(&dir) else {
            return;
        };
        match layer.slots.get_mut(name) {
            Some(slot) if slot.under.is_some() => slot.node = Node::Removed,
            Some(_) => self.forget(dir, name),
            None => {
                let node = Node::Removed;
                layer.slots.insert(name.to_vec(), Slot { node, under });
                self.slots += 1;
            }
        }
    }

    fn forget(&mut self, dir: FileId, name: &[u8]) {
        if let Some(layer) = self.dirs.get_mut(&dir)
            && layer.slots.remove(name).is_some()
        {
            self.slots -= 1;
        }
    }

    /// Current path of a directory with a layer, or of a moved one. `None` if it was removed.
    pub(super) fn current_path(&self, id: FileId) -> Option<PathBuf> {
        let mut below: Vec<OsString> = Vec::new();
        let mut id = id;
        // A loop instead of recursion: guests can nest directories deeper than the stack allows.
        let mut path = loop {
            if self.removed.contains(&id) {
                return None;
            }
            if let Some((parent, name)) = self.current_parent.get(&id) {
                below.push(OsStr::from_bytes(name).to_owned());
                id = *parent;
                continue;
            }
            let Some(Layer {
                home: Home::Real(dir),
                ..
            }) = self.dirs.get(&id)
            else {
                return None;
            };
            match self.nearest_moved(&dir.path) {
                None => break dir.path.clone(),
                Some((moved, from)) => {
                    let rest = dir.path.strip_prefix(from).ok()?;
                    below.extend(rest.iter().rev().map(OsStr::to_owned));
                    id = moved;
                }
            }
        };
        path.extend(below.into_iter().rev());
        Some(path)
    }

    /// Path of a directory that the call created.
    pub(crate) fn created_path(&self, id: FileId) -> Option<PathBuf> {
        match self.dirs.get(&id)?.home {
            Home::Pool => self.current_path(id),
            Home::Real(_) => None,
        }
    }

    /// The path of a real entry in the staged view.
    pub(super) fn current_path_of(&self, path: &Path) -> Option<PathBuf> {
        match self.nearest_moved(path) {
            None => Some(path.to_owned()),
            Some((moved, from)) => Some(
                self.current_path(moved)?
                    .join(path.strip_prefix(from).ok()?),
            ),
        }
    }

    /// The nearest moved directory at or above a real path.
    pub(super) fn nearest_moved<'p>(&self, path: &'p Path) -> Option<(FileId, &'p Path)> {
        path.ancestors()
            .find_map(|above| Some((*self.moved.get(above)?, above)))
    }
}
