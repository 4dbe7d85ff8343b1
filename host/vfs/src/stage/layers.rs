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
    pool::{Item, Pool},
    real::{Real, RealDir, may_write, open_name},
};
use crate::{
    FileId, Kind, Refusal, Scope,
    sys::PATH_MAX,
    walk::{MAX_DEPTH, Place},
};

/// Source of an entry found by a walk.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// The real entry.
    Real,
    Item(Item),
    /// A real entry that was moved here.
    Elsewhere(Arc<Real>),
}

#[derive(Debug)]
pub(super) enum Node {
    /// The real entry is hidden.
    Gone,
    Item(Item),
    Elsewhere(Arc<Real>),
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
    pub(super) placed: HashMap<FileId, (FileId, Vec<u8>)>,
    /// Moved directories by their real path.
    pub(super) moved: HashMap<PathBuf, FileId>,
    /// Real directories that were removed; a guest can still hold a handle.
    pub(super) dead: HashSet<FileId>,
    pub(super) slots: usize,
    /// Pool copies of moved files that had to be reported as new, by current path.
    pub(super) copies: HashMap<PathBuf, (FileId, Item)>,
}

impl Layers {
    pub(super) fn new(parent: PathBuf, limits: StageLimits) -> Self {
        Self {
            limits,
            parent,
            pool: None,
            dirs: HashMap::new(),
            placed: HashMap::new(),
            moved: HashMap::new(),
            dead: HashSet::new(),
            slots: 0,
            copies: HashMap::new(),
        }
    }

    /// The staged view equals the real tree.
    pub(super) fn is_untouched(&self) -> bool {
        self.dirs.is_empty() && self.dead.is_empty()
    }

    pub(crate) fn look_up(
        &self,
        dir: BorrowedFd<'_>,
        id: FileId,
        name: &[u8],
    ) -> Result<(OwnedFd, Origin), Errno> {
        if self.dead.contains(&id) {
            return Err(Errno::NOENT);
        }
        match self.slot(id, name).map(|slot| &slot.node) {
            None => Ok((open_name(dir, name)?, Origin::Real)),
            Some(Node::Gone) => Err(Errno::NOENT),
            Some(Node::Item(item)) => {
                let pool = self.pool.as_ref().ok_or(Errno::NOENT)?;
                Ok((pool.name(*item)?, Origin::Item(*item)))
            }
            Some(Node::Elsewhere(real)) => Ok((real.name()?, Origin::Elsewhere(Arc::clone(real)))),
        }
    }

    /// Whether the call changed the entry at this name.
    pub(crate) fn covers(&self, dir: FileId, name: &[u8]) -> bool {
        self.slot(dir, name).is_some()
    }

    pub(super) fn slot(&self, dir: FileId, name: &[u8]) -> Option<&Slot> {
        self.dirs.get(&dir)?.slots.get(name)
    }

    pub(super) fn pool(&mut self) -> Result<&mut Pool, Refusal> {
        if self.pool.is_none() {
            let pool = Pool::make(&self.parent).map_err(|error| super::pool::refusal_of(&error))?;
            self.pool = Some(pool);
        }
        self.pool.as_mut().ok_or(Refusal::Io(Errno::IO))
    }

    /// Creates the layer of the place's directory, and checks that the host's user may write to it.
    pub(super) fn hold(&mut self, scope: &Scope, place: &Place<'_>) -> Result<(), Refusal> {
        self.hold_for_file(scope, place)?;
        match self.dirs.get(&place.parent_id).map(|layer| &layer.home) {
            Some(Home::Pool) => Ok(()),
            _ => may_write(place.parent(), b"."),
        }
    }

    pub(super) fn hold_for_file(
        &mut self,
        scope: &Scope,
        place: &Place<'_>,
    ) -> Result<(), Refusal> {
        let id = place.parent_id;
        // Directories created through each other's handles can nest without bound, and could not be committed.
        if let Some(dir) = self.path_now(id)
            && (dir.as_os_str().len() + place.name.len() >= PATH_MAX
                || dir.components().count() > 2 * MAX_DEPTH)
        {
            return Err(Refusal::NameTooLong);
        }
        if self.dead.contains(&id) {
            return Err(Refusal::NotFound);
        }
        if let hash_map::Entry::Vacant(entry) = self.dirs.entry(id) {
            let dir = RealDir::of(scope, place.parent(), id).ok_or(Refusal::NotFound)?;
            entry.insert(Layer {
                home: Home::Real(Arc::new(dir)),
                dev: id.dev(),
                slots: BTreeMap::new(),
            });
        }
        Ok(())
    }

    /// Checks the limit for changing these names. Names that were changed before do not count again.
    pub(super) fn room(&self, places: &[&Place<'_>]) -> Result<(), Refusal> {
        let new = places
            .iter()
            .filter(|place| self.slot(place.parent_id, &place.name).is_none());
        if self.slots + new.count() > self.limits.files {
            Err(Refusal::NoSpace)
        } else {
            Ok(())
        }
    }

    /// Sets the entry at a name of a directory with a layer. `under` is the real entry, if it was just read.
    pub(super) fn put(
        &mut self,
        dir: FileId,
        name: &[u8],
        node: Node,
        id: FileId,
        under: Option<Base>,
    ) {
        match &node {
            Node::Gone => {}
            Node::Item(item) => {
                if item.kind == Kind::Directory {
                    self.placed.insert(id, (dir, name.to_vec()));
                }
            }
            Node::Elsewhere(real) => {
                let is_dir = real.base.stat.kind == Kind::Directory;
                if real.dir.id == dir && real.name == name {
                    // Moved back to its original path: no change remains.
                    if is_dir {
                        self.placed.remove(&id);
                        self.moved.remove(&real.path());
                    }
                    self.forget(dir, name);
                    return;
                }
                if is_dir {
                    self.placed.insert(id, (dir, name.to_vec()));
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
    pub(super) fn vacate(&mut self, dir: FileId, name: &[u8], under: Option<Base>) {
        let Some(layer) = self.dirs.get_mut(&dir) else {
            return;
        };
        match layer.slots.get_mut(name) {
            Some(slot) if slot.under.is_some() => slot.node = Node::Gone,
            Some(_) => self.forget(dir, name),
            None => {
                let node = Node::Gone;
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
    pub(super) fn path_now(&self, id: FileId) -> Option<PathBuf> {
        let mut below: Vec<OsString> = Vec::new();
        let mut id = id;
        // A loop instead of recursion: guests can nest directories deeper than the stack allows.
        let mut path = loop {
            if self.dead.contains(&id) {
                return None;
            }
            if let Some((parent, name)) = self.placed.get(&id) {
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
            match self.moved_above(&dir.path) {
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
    pub(crate) fn path_of_made(&self, id: FileId) -> Option<PathBuf> {
        match self.dirs.get(&id)?.home {
            Home::Pool => self.path_now(id),
            Home::Real(_) => None,
        }
    }

    /// The path of a real entry in the staged view.
    pub(super) fn real_path_now(&self, path: &Path) -> Option<PathBuf> {
        match self.moved_above(path) {
            None => Some(path.to_owned()),
            Some((moved, from)) => Some(self.path_now(moved)?.join(path.strip_prefix(from).ok()?)),
        }
    }

    /// The nearest moved directory at or above a real path.
    pub(super) fn moved_above<'p>(&self, path: &'p Path) -> Option<(FileId, &'p Path)> {
        path.ancestors()
            .find_map(|above| Some((*self.moved.get(above)?, above)))
    }
}
