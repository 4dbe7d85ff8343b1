//! Location of a directory below the grants, for decisions that depend on paths: descriptors do not carry names.

use std::{
    ffi::OsStr,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::{
    EntryKind, FileId, PathError, Scope, Stat,
    stage::{Layers, leads_to, list, name_of, open_name},
    walk::{MAX_DEPTH, ResolvedEntry, ResolvedPath},
};

/// Maximum number of directory entries that are scanned for excluded names.
pub(crate) const MAX_SCANNED: usize = 1_000_000;

/// Location of a directory: the innermost grant that contains it, and the path below.
#[derive(Debug, Clone)]
pub(crate) struct DirLocation {
    pub root: usize,
    pub below: PathBuf,
}

impl DirLocation {
    pub(crate) fn host_path(&self, scope: &Scope, name: &[u8]) -> PathBuf {
        let dir = scope.roots()[self.root].host().join(&self.below);
        match name {
            b"." => dir,
            name => dir.join(OsStr::from_bytes(name)),
        }
    }

    fn top(root: usize) -> Self {
        let below = PathBuf::new();
        Self { root, below }
    }
}

/// Cache of the last lookup: the path was opened and led to the directory.
#[derive(Debug, Default)]
pub(crate) struct LocationCache(Mutex<Option<(FileId, PathBuf, DirLocation)>>);

impl Scope {
    /// The current location of `dir`. Fails if it is no longer below a grant, because its names cannot be matched
    /// then.
    pub(crate) fn locate(
        &self,
        over: Option<&Layers>,
        dir: BorrowedFd<'_>,
        id: FileId,
    ) -> Result<DirLocation, PathError> {
        if let Some(root) = self.root_of(id) {
            return Ok(DirLocation::top(root));
        }
        let made = over.and_then(|layers| layers.created_path(id));
        let site = match made {
            Some(path) => self.location_of(&path),
            None => self.cached_location(dir, id),
        };
        match site {
            Some(site) => Ok(site),
            None if Stat::of(dir)?.links == 0 => Err(PathError::NotFound),
            None => Err(PathError::NotPermitted),
        }
    }

    /// Uses the cache for repeated lookups of one directory, as in a tree search. If the kernel reports the same
    /// path as before, the directory has not moved.
    fn cached_location(&self, dir: BorrowedFd<'_>, id: FileId) -> Option<DirLocation> {
        let path = name_of(dir)?;
        let mut last = self.last.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, at, site)) = &*last
            && *known == id
            && *at == path
        {
            return Some(site.clone());
        }
        let site = leads_to(&path, id).then(|| self.location_of(&path))??;
        *last = Some((id, path, site.clone()));
        Some(site)
    }

    pub(crate) fn location_of(&self, path: &Path) -> Option<DirLocation> {
        let roots = self.roots().iter().enumerate();
        let inside = roots.filter(|(_, root)| root.is_visible() && path.starts_with(root.host()));
        let (root, found) = inside.max_by_key(|(_, root)| root.host().components().count())?;
        Some(DirLocation {
            root,
            below: path.strip_prefix(found.host()).ok()?.to_owned(),
        })
    }

    /// Location of the directory `name` inside the directory at `site`.
    pub(crate) fn child_location(
        &self,
        site: &DirLocation,
        name: &[u8],
        id: FileId,
    ) -> DirLocation {
        self.root_of(id).map_or_else(
            || DirLocation {
                root: site.root,
                below: site.below.join(OsStr::from_bytes(name)),
            },
            DirLocation::top,
        )
    }

    fn root_of(&self, id: FileId) -> Option<usize> {
        let mut roots = self.roots().iter();
        roots.position(|root| root.is_visible() && root.id() == id)
    }

    /// Whether the grant excludes this name. `found` is `None` if it does not exist or its type is unknown.
    pub(crate) fn is_excluded(
        &self,
        site: &DirLocation,
        name: &[u8],
        found: Option<(FileId, EntryKind)>,
    ) -> bool {
        if self.is_denied(site, name) {
            return true;
        }
        // A directory that is granted itself is included.
        if found.is_some_and(|(id, _)| self.root_of(id).is_some()) {
            return false;
        }
        // A link can lead to a directory.
        let is_dir = found.and_then(|(_, kind)| match kind {
            EntryKind::Symlink | EntryKind::Unknown => None,
            kind => Some(kind == EntryKind::Directory),
        });
        self.is_excluded_by_pattern(site, name, is_dir)
    }

    /// Like [`Self::is_excluded`], for a host path that a call would change.
    pub(crate) fn is_path_excluded(&self, path: &Path, is_dir: bool) -> bool {
        if self
            .denied
            .as_ref()
            .is_some_and(|denied| denied.contains(path))
        {
            return true;
        }
        if self.roots().iter().any(|root| root.is_file(path)) {
            return false;
        }
        let Some(mut site) = self.location_of(path) else {
            return true;
        };
        let below = std::mem::take(&mut site.below);
        let mut names = below.iter().peekable();
        while let Some(name) = names.next() {
            let is_dir = names.peek().is_some() || is_dir;
            if self.is_excluded_by_pattern(&site, name.as_bytes(), Some(is_dir)) {
                return true;
            }
            site.below.push(name);
        }
        false
    }

    /// Whether a policy rule denies this name, even if it is granted itself.
    pub(crate) fn is_denied(&self, site: &DirLocation, name: &[u8]) -> bool {
        let denied = self.denied.as_ref();
        denied.is_some_and(|denied| denied.contains(&site.host_path(self, name)))
    }

    fn is_excluded_by_pattern(
        &self,
        site: &DirLocation,
        name: &[u8],
        is_dir: Option<bool>,
    ) -> bool {
        let this = self.roots()[site.root].id();
        let same = self.roots().iter().zip(&self.rules.excludes);
        same.filter(|(root, _)| root.is_visible() && root.id() == this)
            .any(|(_, excludes)| excludes.is_excluded(&site.below, name, is_dir))
    }

    /// A directory may not move to where other patterns match its content.
    pub(crate) fn check_excluded_after_move(
        &self,
        over: Option<&Layers>,
        moved: &ResolvedEntry,
        from: &ResolvedPath<'_>,
        to: &ResolvedPath<'_>,
    ) -> Result<(), PathError> {
        let (Some(old), Some(new)) = (&from.location, &to.location) else {
            return Ok(());
        };
        let id = moved.stat.id;
        if moved.stat.kind != EntryKind::Directory || !self.hides_names() {
            return Ok(());
        }
        let sites = [
            self.child_location(old, &from.name, id),
            self.child_location(new, &to.name, id),
        ];
        let mut budget = MAX_SCANNED;
        self.check_tree_excluded_after_move(over, moved.fd.as_fd(), &sites, &mut budget)
    }

    fn check_tree_excluded_after_move(
        &self,
        over: Option<&Layers>,
        dir: BorrowedFd<'_>,
        sites: &[DirLocation; 2],
        budget: &mut usize,
    ) -> Result<(), PathError> {
        if sites[0].below.components().count() > 3 * MAX_DEPTH {
            return Err(PathError::NameTooLong);
        }
        let id = Stat::of(dir)?.id;
        let staged = over.into_iter().flat_map(|over| over.staged_names(id));
        let mut names: Vec<Vec<u8>> = staged.cloned().collect();
        for entry in list(dir)? {
            let name = entry?.file_name().to_bytes().to_vec();
            let covered = over.is_some_and(|over| over.is_changed(id, &name));
            if name != b"." && name != b".." && !covered {
                names.push(name);
            }
            if names.len() > *budget {
                return Err(PathError::TooManyEntries);
            }
        }
        *budget -= names.len().min(*budget);
        for name in names {
            let fd = match over {
                Some(over) => over.lookup(dir, id, &name)?.0,
                None => open_name(dir, &name)?,
            };
            let stat = Stat::of(&fd)?;
            let out =
                |site: &DirLocation| self.is_excluded(site, &name, Some((stat.id, stat.kind)));
            let [old, new] = sites.each_ref().map(out);
            if old != new {
                return Err(PathError::NotPermitted);
            }
            if stat.kind == EntryKind::Directory && !old {
                let inside = sites
                    .each_ref()
                    .map(|site| self.child_location(site, &name, stat.id));
                self.check_tree_excluded_after_move(over, fd.as_fd(), &inside, budget)?;
            }
        }
        Ok(())
    }
}
