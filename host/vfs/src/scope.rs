//! The open directories that a plugin is granted, and the access rules inside them.

use std::{
    collections::HashSet,
    ffi::OsString,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    Access, FileId, PathError, PathGrant, ProtectedPath, Protection, ReadTracker, ScopeError,
    access_marks::AccessMarks,
    dir_location::LocationCache,
    exclude::{DeniedPaths, Excludes},
    roots::{self, SpecialDirs, failed},
    trace::{Ancestry, MountedInode, TraceEnd, trace},
};

/// One granted directory. It stays the directory that was granted, even if its path changes later.
#[derive(Debug, Clone)]
pub struct Root {
    guest: String,
    host: PathBuf,
    access: Access,
    id: FileId,
    /// The mount through which it was opened.
    mount: u64,
    dir: Arc<OwnedFd>,
    is_local: bool,
    /// The root is visible to the guest. False for the directory of a granted file that another grant covers.
    is_visible: bool,
    /// The granted file in it, if a file was granted.
    file: Option<OsString>,
    /// Access of the granted directory or file after protected paths are applied, without other grants.
    granted: Access,
}

impl Root {
    /// The guest's name for it.
    pub fn guest(&self) -> &str {
        &self.guest
    }

    /// Host path when the scope was opened, without symbolic links. For display only, never for opening.
    pub fn host(&self) -> &Path {
        &self.host
    }

    /// Access after overlaps and protected paths are applied.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The granted directory or file, and its access.
    pub fn granted(&self) -> (PathBuf, Access) {
        match &self.file {
            Some(name) => (self.host.join(name), self.granted),
            None => (self.host.clone(), self.access),
        }
    }

    pub fn id(&self) -> FileId {
        self.id
    }

    /// A readable directory descriptor, shared by all calls. Do not read its entries directly, because the position
    /// is shared too; [`Scope::read_dir`] opens its own.
    pub fn dir(&self) -> &Arc<OwnedFd> {
        &self.dir
    }

    /// Whether it is on a local disk or in memory, so that system calls on it are fast.
    pub fn is_local(&self) -> bool {
        self.is_local
    }
}

impl Root {
    pub(crate) fn is_visible(&self) -> bool {
        self.is_visible
    }

    pub(crate) fn is_file(&self, path: &Path) -> bool {
        let file = self.file.as_ref();
        file.is_some_and(|name| path.parent() == Some(&self.host) && path.file_name() == Some(name))
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// The directories of one plugin and the rules inside them. Immutable; clones share everything.
#[derive(Debug, Clone)]
pub struct Scope {
    roots: Arc<[Root]>,
    pub(crate) rules: Arc<Rules>,
    /// The maximum access anywhere in the scope.
    pub(crate) cap: Access,
    /// Records what the call reads.
    pub(crate) reads: Option<Arc<ReadTracker>>,
    /// Host paths that this call may not see.
    pub(crate) denied: Option<DeniedPaths>,
    pub(crate) last: Arc<LocationCache>,
}

#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub marks: AccessMarks,
    /// The access can change below a root, so paths must be walked instead of resolved by the kernel.
    pub needs_walk: bool,
    /// Exclude patterns of each root.
    pub excludes: Vec<Arc<Excludes>>,
}

impl Rules {
    /// Whether a pattern can exclude a name, so that the location of a directory must be known.
    pub fn has_excludes(&self) -> bool {
        self.excludes.iter().any(|excludes| !excludes.is_empty())
    }

    /// Whether a pattern excludes this name in some directory.
    fn may_exclude(&self, name: &[u8]) -> bool {
        let mut excludes = self.excludes.iter();
        excludes.any(|excludes| excludes.may_exclude(name))
    }
}

/// Rejects grants that are reached through a link in a writable directory. A tool, or a program that it started,
/// could have created the link and would so choose what is granted.
fn reject_writable_links(
    grants: &[PathGrant],
    opened: &[(roots::OpenedRoot, Access)],
    others: &[PathBuf],
) -> Result<(), ScopeError> {
    let own = opened
        .iter()
        .filter(|(root, access)| *access == Access::ReadWrite && root.file.is_none())
        .map(|(root, _)| (root.lineage.inode.id, root.path.clone()));
    // A path that cannot be opened is reported by the scope that grants it.
    let others = others.iter().filter_map(|path| {
        let path = path.canonicalize().ok()?;
        Some((Ancestry::of_dir(&path).ok()?.inode.id, path))
    });
    let writable: Vec<_> = own.chain(others).collect();
    for (grant, (root, _)) in grants.iter().zip(opened) {
        for (dir, name) in &root.trace.links {
            let lineage = Ancestry::of_dir(dir).map_err(roots::failed(&grant.host))?;
            let holder = lineage
                .self_and_ancestors()
                .find_map(|id| writable.iter().find(|(writable, _)| *writable == id));
            if let Some((_, holder)) = holder {
                return Err(ScopeError::LinkInGrant {
                    path: grant.host.clone(),
                    link: dir.join(name),
                    inside: holder.clone(),
                });
            }
        }
    }
    Ok(())
}

impl Scope {
    /// Opens all granted directories and resolves overlaps.
    ///
    /// The most specific grant applies; for a directory that is granted twice, the narrower access. Protected paths
    /// override both.
    pub fn open(grants: &[PathGrant], protected: &[ProtectedPath]) -> Result<Self, ScopeError> {
        Self::open_with_writable(grants, protected, &[])
    }

    /// Like [`Self::open`], if other scopes of this host can write to the directories `writable`.
    pub fn open_with_writable(
        grants: &[PathGrant],
        protected: &[ProtectedPath],
        writable: &[PathBuf],
    ) -> Result<Self, ScopeError> {
        check_guest_names(grants)?;
        let special = SpecialDirs::load();
        let mut survey = Survey::default();
        for keep in protected {
            survey.protect(keep)?;
        }
        let mut opened = Vec::with_capacity(grants.len());
        let mut excludes = Vec::with_capacity(grants.len());
        for grant in grants {
            excludes.push(Arc::new(Excludes::parse(&grant.exclude, &grant.host)?));
            let root = roots::open(grant, &special)?;
            let access = survey.grant(grant, &root)?;
            opened.push((root, access));
        }
        reject_writable_links(grants, &opened, writable)?;
        // All grants are registered first, because a second grant of a directory narrows the first.
        for (root, access) in &opened {
            if root.file.is_none() {
                survey.marks.grant(root.lineage.inode.id, *access);
            }
        }
        let reached: Vec<bool> = opened
            .iter()
            .map(|(root, _)| survey.reaches(root))
            .collect();
        for ((root, access), reached) in opened.iter().zip(&reached) {
            let Some(name) = &root.file else { continue };
            let dir = root.lineage.inode.id;
            survey.marks.grant_file(dir, name.as_bytes(), *access);
            if !reached {
                survey.marks.grant(dir, *access);
                survey.marks.close(dir);
            }
        }
        let tangled = survey.needs_walk();
        let marks = survey.marks;
        let mut roots = Vec::with_capacity(grants.len());
        for ((grant, (root, granted)), reached) in grants.iter().zip(opened).zip(reached) {
            // For a directory that another grant covers: the access of that grant.
            let nearest = root
                .lineage
                .self_and_ancestors()
                .find_map(|id| marks.access(id));
            roots.push(Root {
                guest: grant.guest.clone(),
                host: root.path,
                access: nearest.unwrap_or(Access::ReadOnly),
                id: root.lineage.inode.id,
                mount: root.lineage.inode.mount,
                is_local: roots::is_local(root.dir.as_fd()),
                dir: Arc::new(root.dir),
                is_visible: root.file.is_none() || !reached,
                file: root.file,
                granted,
            });
        }
        let mut scope = Self {
            roots: roots.into(),
            rules: Arc::new(Rules {
                marks,
                needs_walk: tangled,
                excludes,
            }),
            cap: Access::ReadWrite,
            reads: None,
            denied: None,
            last: Arc::default(),
        };
        scope.hide_excluded_dirs();
        Ok(scope)
    }

    /// A file can be granted out of a directory that the outer grant excludes. The rest of that directory stays
    /// excluded.
    fn hide_excluded_dirs(&mut self) {
        let is_out = |root: &&Root| !root.is_visible && self.is_path_excluded(&root.host, true);
        let out: Vec<FileId> = self.roots.iter().filter(is_out).map(Root::id).collect();
        if out.is_empty() {
            return;
        }
        let mut roots = self.roots.to_vec();
        // Not shared yet: the rules were created just now.
        let Some(rules) = Arc::get_mut(&mut self.rules) else {
            return;
        };
        for root in roots.iter_mut().filter(|root| out.contains(&root.id)) {
            let name = root.file.as_ref().map(|name| name.as_bytes());
            let access = name.and_then(|name| rules.marks.file(root.id, name));
            root.access = rules
                .marks
                .grant(root.id, access.unwrap_or(Access::ReadOnly));
            root.is_visible = true;
            rules.marks.close(root.id);
        }
        self.roots = roots.into();
    }

    /// A scope without directories.
    pub fn empty() -> Self {
        Self {
            roots: Arc::new([]),
            rules: Arc::default(),
            cap: Access::ReadWrite,
            reads: None,
            denied: None,
            last: Arc::default(),
        }
    }

    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// The same directories for a read-only tool.
    ///
    /// Access is limited here and not per handle, because a wider nested grant would override a smaller `access` of
    /// a handle.
    #[must_use]
    pub fn read_only(&self) -> Self {
        let roots = self
            .roots
            .iter()
            .cloned()
            .map(|root| Root {
                access: Access::ReadOnly,
                granted: Access::ReadOnly,
                ..root
            })
            .collect();
        Self {
            roots,
            rules: Arc::clone(&self.rules),
            cap: Access::ReadOnly,
            reads: self.reads.clone(),
            denied: self.denied.clone(),
            last: Arc::default(),
        }
    }

    /// Adds directories of the host for one caller. They are opened now, have no excludes, and may be inside paths
    /// that are hidden from all grants. No part of their paths may be a symbolic link when they are opened.
    pub fn with_host_dirs(&self, own: &[PathGrant]) -> Result<Self, ScopeError> {
        let mut roots = self.roots.to_vec();
        let mut excludes = self.rules.excludes.clone();
        let mut marks = self.rules.marks.clone();
        let mut tangled = self.rules.needs_walk;
        for grant in own {
            let name = grant.guest.trim_end_matches('/');
            if roots
                .iter()
                .any(|root| root.guest.trim_end_matches('/') == name)
            {
                return Err(ScopeError::DuplicateGuestName(grant.guest.clone()));
            }
            let opened = roots::open_host_dir(grant)?;
            if opened.file.is_some() {
                return Err(ScopeError::NeitherFileNorDirectory(grant.host.clone()));
            }
            if let Some((dir, name)) = opened.trace.links.first() {
                return Err(ScopeError::LinkToHostDir {
                    path: grant.host.clone(),
                    link: dir.join(name),
                });
            }
            let inode = opened.lineage.inode;
            let meets = |root: &Root| {
                let other = MountedInode {
                    id: root.id,
                    mount: root.mount,
                };
                opened.lineage.is_in(root.id) || inode.is_alias_of(other)
            };
            tangled |= marks.is_pinned(inode.id) || roots.iter().any(meets);
            opened
                .lineage
                .ancestors
                .iter()
                .for_each(|id| marks.pin(*id));
            let access = marks.grant(inode.id, grant.access);
            excludes.push(Arc::default());
            roots.push(Root {
                guest: grant.guest.clone(),
                host: opened.path,
                access,
                id: inode.id,
                mount: inode.mount,
                is_local: roots::is_local(opened.dir.as_fd()),
                dir: Arc::new(opened.dir),
                is_visible: true,
                file: None,
                granted: access,
            });
        }
        Ok(Self {
            roots: roots.into(),
            rules: Arc::new(Rules {
                marks,
                needs_walk: tangled,
                excludes,
            }),
            cap: self.cap,
            reads: self.reads.clone(),
            denied: self.denied.clone(),
            last: Arc::default(),
        })
    }

    /// The same directories for one call whose reads are recorded. All paths are then walked.
    #[must_use]
    pub fn recording_reads(&self, reads: Arc<ReadTracker>) -> Self {
        Self {
            reads: Some(reads),
            ..self.clone()
        }
    }

    /// The same directories for one call that may not see some paths in them.
    #[must_use]
    pub fn with_denied_paths(&self, denied: DeniedPaths) -> Self {
        Self {
            denied: Some(denied),
            ..self.clone()
        }
    }

    pub fn is_recording_reads(&self) -> bool {
        self.reads.is_some()
    }

    /// Whether the location of directories must be known.
    pub(crate) fn needs_locations(&self) -> bool {
        self.reads.is_some() || self.hides_names()
    }

    /// Whether a name can be hidden because of its path.
    pub(crate) fn hides_names(&self) -> bool {
        self.denied.is_some() || self.rules.has_excludes()
    }

    /// Whether this name can be hidden in some directory.
    pub(crate) fn may_hide(&self, name: &[u8]) -> bool {
        self.denied.is_some() || self.rules.may_exclude(name)
    }

    /// The access inside `id` when entered from a directory with `access`.
    pub(crate) fn enter(&self, id: FileId, access: Access) -> Result<Access, PathError> {
        Ok(self.rules.marks.enter(id, access)?.min(self.cap))
    }

    /// Whether all directories are on local file systems.
    pub fn all_local(&self) -> bool {
        self.roots.iter().all(Root::is_local)
    }
}

fn check_guest_names(grants: &[PathGrant]) -> Result<(), ScopeError> {
    let mut names = HashSet::new();
    for grant in grants {
        let name = grant.guest.trim_end_matches('/');
        if grant.guest.is_empty() || grant.guest.contains('\0') {
            return Err(ScopeError::BadGuestName(grant.guest.clone()));
        }
        if !names.insert(name) {
            return Err(ScopeError::DuplicateGuestName(grant.guest.clone()));
        }
    }
    Ok(())
}

/// Granted and protected directories, collected before the scope exists.
#[derive(Default)]
struct Survey {
    marks: AccessMarks,
    roots: Vec<MountedInode>,
    /// Directories that are granted whole.
    dirs: HashSet<FileId>,
    /// All directories above a granted or protected path, or above a link that leads to one.
    ancestors: HashSet<FileId>,
    protected_in: Vec<MountedInode>,
    protections: Vec<(FileId, Protection, PathBuf)>,
}

impl Survey {
    fn protect(&mut self, keep: &ProtectedPath) -> Result<(), ScopeError> {
        if !keep.path.is_absolute() {
            return Err(ScopeError::Relative(keep.path.clone()));
        }
        let trace = trace(&keep.path).map_err(failed(&keep.path))?;
        self.links(&trace.links)?;
        match trace.end {
            TraceEnd::Missing { dir, name } => {
                let dir = self.name(&dir, name.as_bytes(), keep.protection)?;
                self.protected_in.push(dir);
            }
            TraceEnd::Found(path) => {
                let id = file_id(&path).map_err(failed(&path))?;
                self.marks.protect_inode(id, keep.protection);
                if let (Some(dir), Some(name)) = (path.parent(), path.file_name()) {
                    let dir = self.name(dir, name.as_bytes(), keep.protection)?;
                    self.protected_in.push(dir);
                }
                self.protections.push((id, keep.protection, path));
            }
        }
        Ok(())
    }

    /// A link on the way to a granted or protected path must not change, or the path would lead elsewhere next
    /// time.
    fn links(&mut self, links: &[(PathBuf, std::ffi::OsString)]) -> Result<(), ScopeError> {
        for (dir, name) in links {
            self.name(dir, name.as_bytes(), Protection::ReadOnly)?;
        }
        Ok(())
    }

    fn name(
        &mut self,
        dir: &Path,
        name: &[u8],
        shield: Protection,
    ) -> Result<MountedInode, ScopeError> {
        let lineage = Ancestry::of_dir(dir).map_err(failed(dir))?;
        self.marks.protect_name(lineage.inode.id, name, shield);
        self.pin(lineage.self_and_ancestors());
        Ok(lineage.inode)
    }

    fn pin(&mut self, ids: impl Iterator<Item = FileId>) {
        for id in ids {
            self.marks.pin(id);
            self.ancestors.insert(id);
        }
    }

    /// The access of a grant after protected paths are applied. All protected paths are registered before the first
    /// grant.
    fn grant(&mut self, grant: &PathGrant, root: &roots::OpenedRoot) -> Result<Access, ScopeError> {
        let mut access = grant.access;
        for (id, shield, path) in &self.protections {
            let is_it = root
                .file
                .as_ref()
                .is_some_and(|name| *path == root.path.join(name));
            if !is_it && !root.lineage.is_in(*id) {
                continue;
            }
            match shield {
                Protection::ReadOnly => access = Access::ReadOnly,
                Protection::Hidden => {
                    return Err(ScopeError::Reserved {
                        path: grant.host.clone(),
                        inside: path.clone(),
                    });
                }
            }
        }
        self.links(&root.trace.links)?;
        self.pin(root.lineage.ancestors.iter().copied());
        if root.file.is_some() {
            self.marks.pin(root.lineage.inode.id);
        } else {
            self.dirs.insert(root.lineage.inode.id);
        }
        self.roots.push(root.lineage.inode);
        Ok(access)
    }

    /// Whether a granted directory contains the directory of a granted file.
    fn reaches(&self, file: &roots::OpenedRoot) -> bool {
        let dirs = &self.dirs;
        file.lineage
            .self_and_ancestors()
            .any(|id| dirs.contains(&id))
    }

    fn needs_walk(&self) -> bool {
        if self.marks.has_files() {
            return true;
        }
        let others = || self.roots.iter().chain(&self.protected_in);
        self.roots.iter().any(|root| {
            self.ancestors.contains(&root.id) || others().any(|other| root.is_alias_of(*other))
        })
    }
}

fn file_id(path: &Path) -> std::io::Result<FileId> {
    let stat = rustix::fs::statat(rustix::fs::CWD, path, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(crate::Stat::from(stat).id)
}
