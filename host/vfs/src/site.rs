//! Where a directory is below the grants, for what is decided by paths: descriptors do not know their names.

use std::{
    ffi::OsStr,
    os::{fd::BorrowedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use crate::{
    FileId, Kind, Refusal, Scope, Stat,
    stage::{Layers, path_of},
};

/// A directory's place: the innermost grant that it is in, and the way from there.
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

impl Scope {
    /// Where `dir` is now. Fails when it is no longer below any grant: then nobody can say what its names mean.
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
        let path = made.or_else(|| path_of(dir, id));
        match path.and_then(|path| self.site_of(&path)) {
            Some(site) => Ok(site),
            None if Stat::of(dir)?.links == 0 => Err(Refusal::NotFound),
            None => Err(Refusal::NotPermitted),
        }
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

    /// What the directory `name` in the directory at `site` is.
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

    /// Whether the grant leaves this name out. None as kind: it is not there, or nobody knows.
    pub(crate) fn leaves_out(
        &self,
        site: &Site,
        name: &[u8],
        found: Option<(FileId, Kind)>,
    ) -> bool {
        // Whoever grants a directory by its own name means it.
        if found.is_some_and(|(id, _)| self.root_of(id).is_some()) {
            return false;
        }
        // A link may lead to a directory.
        let is_dir = found.and_then(|(_, kind)| match kind {
            Kind::Symlink | Kind::Unknown => None,
            kind => Some(kind == Kind::Directory),
        });
        self.patterns_hide(site, name, is_dir)
    }

    /// The same, for a path on the host that a call would change.
    pub(crate) fn leaves_out_path(&self, path: &Path, is_dir: bool) -> bool {
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

    fn patterns_hide(&self, site: &Site, name: &[u8], is_dir: Option<bool>) -> bool {
        let this = self.roots()[site.root].id();
        let same = self.roots().iter().zip(&self.rules.excludes);
        same.filter(|(root, _)| root.is_own() && root.id() == this)
            .any(|(_, excludes)| excludes.hide(&site.below, name, is_dir))
    }
}
