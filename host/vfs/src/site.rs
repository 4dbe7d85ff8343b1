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
    FileId, Kind, Refusal, Scope, Stat,
    stage::{Layers, is_there, list, name_of, open_name},
    walk::{Found, MAX_DEPTH, Place},
};

/// Maximum number of directory entries that are scanned for excluded names.
pub(crate) const MAX_LOOKED: usize = 1_000_000;

/// Location of a directory: the innermost grant that contains it, and the path below.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub root: usize,
    pub below: PathBuf,
}

impl Site {
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
pub(crate) struct LastSite(Mutex<Option<(FileId, PathBuf, Site)>>);

impl Scope {
    /// The current location of `dir`. Fails if it is no longer below a grant, because its names cannot be matched
    /// then.
    pub(crate) fn site(
        &self,
        over: Option<&Layers>,
        dir: BorrowedFd<'_>,
        id: FileId,
    ) -> Result<Site, Refusal> {
        if let Some(root) = self.root_of(id) {
            return Ok(Site::top(root));
        }
        let made = over.and_then(|layers| layers.path_of_made(id));
        let site = match made {
            Some(path) => self.site_of(&path),
            None => self.real_site(dir, id),
        };
        match site {
            Some(site) => Ok(site),
            None if Stat::of(dir)?.links == 0 => Err(Refusal::NotFound),
            None => Err(Refusal::NotPermitted),
        }
    }

    /// Uses the cache for repeated lookups of one directory, as in a tree search. If the kernel reports the same
    /// path as before, the directory has not moved.
    fn real_site(&self, dir: BorrowedFd<'_>, id: FileId) -> Option<Site> {
        let path = name_of(dir)?;
        let mut last = self.last.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, at, site)) = &*last
            && *known == id
            && *at == path
        {
            return Some(site.clone());
        }
        let site = is_there(&path, id).then(|| self.site_of(&path))??;
        *last = Some((id, path, site.clone()));
        Some(site)
    }

    pub(crate) fn site_of(&self, path: &Path) -> Option<Site> {
        let roots = self.roots().iter().enumerate();
        let inside = roots.filter(|(_, root)| root.is_own() && path.starts_with(root.host()));
        let (root, found) = inside.max_by_key(|(_, root)| root.host().components().count())?;
        Some(Site {
            root,
            below: path.strip_prefix(found.host()).ok()?.to_owned(),
        })
    }

    /// Location of the directory `name` inside the directory at `site`.
    pub(crate) fn inner_site(&self, site: &Site, name: &[u8], id: FileId) -> Site {
        self.root_of(id).map_or_else(
            || Site {
                root: site.root,
                below: site.below.join(OsStr::from_bytes(name)),
            },
            Site::top,
        )
    }

    fn root_of(&self, id: FileId) -> Option<usize> {
        let mut roots = self.roots().iter();
        roots.position(|root| root.is_own() && root.id() == id)
    }

    /// Whether the grant excludes this name. `found` is `None` if it does not exist or its type is unknown.
    pub(crate) fn leaves_out(
        &self,
        site: &Site,
        name: &[u8],
        found: Option<(FileId, Kind)>,
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
            Kind::Symlink | Kind::Unknown => None,
            kind => Some(kind == Kind::Directory),
        });
        self.patterns_hide(site, name, is_dir)
    }

    /// Like [`Self::is_excluded`], for a host path that a call would change.
    pub(crate) fn leaves_out_path(&self, path: &Path, is_dir: bool) -> bool {
        if self
            .denied
            .as_ref()
            .is_some_and(|denied| denied.holds(path))
        {
            return true;
        }
        if self.roots().iter().any(|root| root.is_file(path)) {
            return false;
        }
        let Some(mut site) = self.site_of(path) else {
            return true;
        };
        let below = std::mem::take(&mut site.below);
        let mut names = below.iter().peekable();
        while let Some(name) = names.next() {
            let is_dir = names.peek().is_some() || is_dir;
            if self.patterns_hide(&site, name.as_bytes(), Some(is_dir)) {
                return true;
            }
            site.below.push(name);
        }
        false
    }

    /// Whether a policy rule denies this name, even if it is granted itself.
    pub(crate) fn is_denied(&self, site: &Site, name: &[u8]) -> bool {
        let denied = self.denied.as_ref();
        denied.is_some_and(|denied| denied.holds(&site.host_path(self, name)))
    }

    fn patterns_hide(&self, site: &Site, name: &[u8], is_dir: Option<bool>) -> bool {
        let this = self.roots()[site.root].id();
        let same = self.roots().iter().zip(&self.rules.excludes);
        same.filter(|(root, _)| root.is_own() && root.id() == this)
            .any(|(_, excludes)| excludes.hide(&site.below, name, is_dir))
    }

    /// A directory may not move to where other patterns match its content.
    pub(crate) fn stays_left_out(
        &self,
        over: Option<&Layers>,
        moved: &Found,
        from: &Place<'_>,
        to: &Place<'_>,
    ) -> Result<(), Refusal> {
        let (Some(old), Some(new)) = (&from.site, &to.site) else {
            return Ok(());
        };
        let id = moved.stat.id;
        if moved.stat.kind != Kind::Directory || !self.hides_names() {
            return Ok(());
        }
        let sites = [
            self.inner_site(old, &from.name, id),
            self.inner_site(new, &to.name, id),
        ];
        let mut budget = MAX_LOOKED;
        self.is_left_out_alike(over, moved.fd.as_fd(), &sites, &mut budget)
    }

    fn is_left_out_alike(
        &self,
        over: Option<&Layers>,
        dir: BorrowedFd<'_>,
        sites: &[Site; 2],
        budget: &mut usize,
    ) -> Result<(), Refusal> {
        if sites[0].below.components().count() > 3 * MAX_DEPTH {
            return Err(Refusal::NameTooLong);
        }
        let id = Stat::of(dir)?.id;
        let staged = over.into_iter().flat_map(|over| over.staged_names(id));
        let mut names: Vec<Vec<u8>> = staged.cloned().collect();
        for entry in list(dir)? {
            let name = entry?.file_name().to_bytes().to_vec();
            let covered = over.is_some_and(|over| over.covers(id, &name));
            if name != b"." && name != b".." && !covered {
                names.push(name);
            }
            if names.len() > *budget {
                return Err(Refusal::TooManyEntries);
            }
        }
        *budget -= names.len().min(*budget);
        for name in names {
            let fd = match over {
                Some(over) => over.look_up(dir, id, &name)?.0,
                None => open_name(dir, &name)?,
            };
            let stat = Stat::of(&fd)?;
            let out = |site: &Site| self.leaves_out(site, &name, Some((stat.id, stat.kind)));
            let [old, new] = sites.each_ref().map(out);
            if old != new {
                return Err(Refusal::NotPermitted);
            }
            if stat.kind == Kind::Directory && !old {
                let inside = sites
                    .each_ref()
                    .map(|site| self.inner_site(site, &name, stat.id));
                self.is_left_out_alike(over, fd.as_fd(), &inside, budget)?;
            }
        }
        Ok(())
    }
}
