//! Staged counterparts of `open.rs` and `mutate.rs`: create, change and remove entries in the layers.

use std::{
    ffi::OsStr,
    fs::File,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::fs::{OFlags, Timestamps};

use super::{
    base::Base,
    layers::{Home, Layer, Layers, Node, Origin},
    pool::PoolItem,
    real::{check_writable, open_real},
};
use crate::{
    Access, EntryKind, NewTime, OpenHow, Opened, PathError, Scope,
    mutate::{check_create, check_set_times, check_symlink, timespec},
    sys::{BENEATH, check_path, open_beneath, open_error},
    walk::{FinalLink, ResolvedEntry, ResolvedPath},
};

/// A directory handle and the access that it was opened with.
#[derive(Clone, Copy)]
pub(super) struct DirHandle<'a> {
    pub dir: BorrowedFd<'a>,
    pub access: Access,
}

impl Layers {
    pub(super) fn walk<'a>(
        &self,
        scope: &'a Scope,
        at: DirHandle<'a>,
        path: &str,
        last: FinalLink,
    ) -> Result<ResolvedPath<'a>, PathError> {
        scope.walk_over(Some(self), at.dir, at.access, path, last)
    }

    pub(super) fn open(
        &mut self,
        scope: &Scope,
        at: DirHandle<'_>,
        path: &str,
        how: OpenHow,
    ) -> Result<Opened, PathError> {
        how.check()?;
        check_path(path)?;
        let access = at.access.min(scope.cap);
        // As without a stage: if nothing can become writable, the path is not even looked up.
        if how.needs_write() && access == Access::ReadOnly && !scope.rules.needs_walk {
            return Err(PathError::NotPermitted);
        }
        let resolved = self.walk(scope, at, path, how.final_link())?;
        let access = how.check_open(&resolved)?;
        let Some(found) = &resolved.found else {
            return self.create(scope, &resolved, how);
        };
        if how.create && how.exclusive {
            return Err(PathError::Exists);
        }
        match found.stat.kind {
            EntryKind::Directory if how.needs_write() => return Err(PathError::IsDirectory),
            EntryKind::File if how.directory => return Err(PathError::NotDirectory),
            _ => {}
        }
        let writes = how.write || how.append || how.truncate;
        if !writes || found.stat.kind == EntryKind::Directory {
            return self.open_existing(scope, &resolved, found, how);
        }
        let item = match found.origin {
            Origin::Item(item) => item,
            Origin::Real | Origin::Moved(_) => {
                self.copy_up(scope, &resolved, found, how.truncate)?
            }
        };
        let fd = self.pool()?.open(item, how)?;
        if how.truncate {
            rustix::fs::ftruncate(&fd, 0)?;
        }
        Ok(Opened {
            fd,
            access,
            kind: EntryKind::File,
        })
    }

    fn open_existing(
        &mut self,
        scope: &Scope,
        resolved: &ResolvedPath<'_>,
        found: &ResolvedEntry,
        how: OpenHow,
    ) -> Result<Opened, PathError> {
        let fd = match &found.origin {
            Origin::Item(item) => self.pool()?.open(*item, how)?,
            Origin::Real => {
                let fd = open_real(resolved.parent(), &resolved.name, how.flags())?;
                scope.record_content_read(resolved, fd.as_fd())?;
                fd
            }
            Origin::Moved(real) => real.open(how.flags())?,
        };
        let opened = scope.check_opened(
            fd,
            found.access,
            OpenHow {
                create: false,
                ..how
            },
        )?;
        // A readable descriptor allows setting a file's timestamps, and this one refers to the user's real file.
        let real = !matches!(found.origin, Origin::Item(_));
        Ok(if real {
            super::read_only_handle(opened)
        } else {
            opened
        })
    }

    fn create(
        &mut self,
        scope: &Scope,
        resolved: &ResolvedPath<'_>,
        how: OpenHow,
    ) -> Result<Opened, PathError> {
        self.ensure_layer(scope, resolved)?;
        self.check_name_limit(&[resolved])?;
        let (fd, item) = self.pool()?.create_file(how)?;
        self.set_pool_entry(resolved, Node::Item(item), None)?;
        Ok(Opened {
            fd,
            access: resolved.access,
            kind: EntryKind::File,
        })
    }

    /// Replaces a real file or link with a writable copy in the pool.
    pub(super) fn copy_up(
        &mut self,
        scope: &Scope,
        resolved: &ResolvedPath<'_>,
        found: &ResolvedEntry,
        empty: bool,
    ) -> Result<PoolItem, PathError> {
        // Does not require directory write permission, because a commit can write the file in place.
        self.ensure_layer_for_file(scope, resolved)?;
        self.check_name_limit(&[resolved])?;
        let (item, base) = if found.stat.kind == EntryKind::Symlink {
            self.copy_link(found)?
        } else {
            let file = match &found.origin {
                Origin::Item(item) => return Ok(*item),
                Origin::Real => {
                    let file = open_to_copy(resolved.parent(), &resolved.name)?;
                    if !empty {
                        scope.record_content_read(resolved, file.as_fd())?;
                    }
                    file
                }
                Origin::Moved(real) => open_to_copy(real.dir.open()?.as_fd(), &real.name)?,
            };
            self.copy_file(file, found, empty)?
        };
        self.set_pool_entry(resolved, Node::Item(item), Some(base))?;
        Ok(item)
    }

    pub(super) fn copy_link(
        &mut self,
        found: &ResolvedEntry,
    ) -> Result<(PoolItem, Base), PathError> {
        let base = Base::of(&found.fd)?;
        let target = base.target.as_ref().ok_or(PathError::Invalid)?;
        let item = self.pool()?.create_link(target.as_os_str())?;
        Ok((item, base))
    }

    fn copy_file(
        &mut self,
        file: File,
        found: &ResolvedEntry,
        empty: bool,
    ) -> Result<(PoolItem, Base), PathError> {
        let base = Base::of(&file)?;
        if base.stat.id != found.stat.id {
            return Err(PathError::Busy);
        }
        if empty {
            return Ok((self.pool()?.create_like(&base)?.0, base));
        }
        let limit = self.limits.bytes;
        let pool = self.pool()?;
        let left = pool.remaining_bytes(limit)?;
        if base.stat.size > left {
            return Err(PathError::NoSpace);
        }
        let item = pool.copy(&file, &base, left)?;
        // The file changed during the copy: a mix of old and new content is worse than an error.
        if base.is_unchanged(&crate::Stat::of(&file)?) {
            Ok((item, base))
        } else {
            pool.remove(item)?;
            Err(PathError::Busy)
        }
    }

    pub(super) fn create_dir(
        &mut self,
        scope: &Scope,
        at: DirHandle<'_>,
        path: &str,
    ) -> Result<(), PathError> {
        let resolved = self.walk(scope, at, path, FinalLink::Exact)?;
        check_create(&resolved)?;
        self.ensure_layer(scope, &resolved)?;
        self.check_name_limit(&[&resolved])?;
        let item = self.pool()?.create_dir()?;
        self.set_pool_entry(&resolved, Node::Item(item), None)
    }

    pub(super) fn symlink(
        &mut self,
        scope: &Scope,
        at: DirHandle<'_>,
        target: &str,
        path: &str,
    ) -> Result<(), PathError> {
        let resolved = self.walk(scope, at, path, FinalLink::Exact)?;
        check_symlink(&resolved, target)?;
        self.ensure_layer(scope, &resolved)?;
        self.check_name_limit(&[&resolved])?;
        let item = self.pool()?.create_link(OsStr::new(target))?;
        self.set_pool_entry(&resolved, Node::Item(item), None)
    }

    pub(super) fn remove_dir(
        &mut self,
        scope: &Scope,
        at: DirHandle<'_>,
        path: &str,
    ) -> Result<(), PathError> {
        let resolved = self.walk(scope, at, path, FinalLink::Exact)?;
        let found = scope.check_removable(&resolved)?;
        if found.stat.kind != EntryKind::Directory {
            return Err(PathError::NotDirectory);
        }
        self.ensure_layer(scope, &resolved)?;
        self.check_name_limit(&[&resolved])?;
        self.discard(scope, &resolved, found)
    }

    pub(super) fn unlink(
        &mut self,
        scope: &Scope,
        at: DirHandle<'_>,
        path: &str,
    ) -> Result<(), PathError> {
        let resolved = self.walk(scope, at, path, FinalLink::Exact)?;
        let found = scope.check_unlink(&resolved)?;
        self.ensure_layer(scope, &resolved)?;
        self.check_name_limit(&[&resolved])?;
        self.discard(scope, &resolved, found)
    }

    /// Removes the entry of a held directory.
    pub(super) fn discard(
        &mut self,
        scope: &Scope,
        resolved: &ResolvedPath<'_>,
        found: &ResolvedEntry,
    ) -> Result<(), PathError> {
        let id = found.stat.id;
        let is_dir = found.stat.kind == EntryKind::Directory;
        if let (true, Some(reads), Some(path)) = (is_dir, &scope.reads, resolved.host_path(scope)) {
            // The result depends on whether it is empty.
            reads.record_tree(path);
        }
        if is_dir && !self.is_empty_dir(found)? {
            return Err(PathError::NotEmpty);
        }
        let base = match &found.origin {
            Origin::Item(item) => {
                self.pool()?.remove(*item)?;
                if is_dir {
                    self.dirs.remove(&id);
                    self.current_parent.remove(&id);
                }
                None
            }
            Origin::Real => {
                let base = Base::of(&found.fd)?;
                if is_dir {
                    self.removed.insert(id);
                }
                Some(base)
            }
            Origin::Moved(real) => {
                if is_dir {
                    self.removed.insert(id);
                    self.current_parent.remove(&id);
                    self.moved.remove(&real.path());
                }
                None
            }
        };
        self.remove_entry(resolved.parent_id, &resolved.name, base);
        Ok(())
    }

    pub(super) fn set_times(
        &mut self,
        scope: &Scope,
        at: DirHandle<'_>,
        path: &str,
        follow: bool,
        (accessed, modified): (NewTime, NewTime),
    ) -> Result<(), PathError> {
        let last = if follow {
            FinalLink::Follow
        } else {
            FinalLink::FollowIfSlash
        };
        let resolved = self.walk(scope, at, path, last)?;
        let found = check_set_times(&resolved)?;
        let times = Timestamps {
            last_access: timespec(accessed)?,
            last_modification: timespec(modified)?,
        };
        match found.stat.kind {
            // A directory's timestamps are not part of any change; setting them succeeds without effect.
            EntryKind::Directory => return Ok(()),
            EntryKind::File | EntryKind::Symlink => {}
            _ => return Err(PathError::Unsupported),
        }
        let item = self.copy_up(scope, &resolved, found, false)?;
        self.pool()?.set_times(item, &times)
    }

    pub(super) fn dev(&self, resolved: &ResolvedPath<'_>) -> Option<u64> {
        Some(self.dirs.get(&resolved.parent_id)?.dev)
    }

    /// Like `put`, for an object of the pool.
    pub(super) fn set_pool_entry(
        &mut self,
        resolved: &ResolvedPath<'_>,
        node: Node,
        under: Option<Base>,
    ) -> Result<(), PathError> {
        let id = match &node {
            Node::Item(item) if item.kind == EntryKind::Directory => {
                let dir = self.pool()?.name(*item)?;
                let id = crate::Stat::of(&dir)?.id;
                let layer = Layer {
                    home: Home::Pool,
                    dev: self.dev(resolved).ok_or(PathError::NotFound)?,
                    slots: std::collections::BTreeMap::new(),
                };
                self.dirs.insert(id, layer);
                // The inode number can be that of a removed directory.
                self.removed.remove(&id);
                id
            }
            _ => resolved.parent_id,
        };
        self.set_entry(resolved.parent_id, &resolved.name, node, id, under);
        Ok(())
    }
}

fn open_to_copy(dir: BorrowedFd<'_>, name: &[u8]) -> Result<File, PathError> {
    check_writable(dir, name)?;
    Ok(open_real(dir, name, OFlags::RDONLY)?.into())
}

/// Reopens a directory to read its entries, because a read position is shared by all holders of the descriptor.
pub(crate) fn list(dir: BorrowedFd<'_>) -> Result<rustix::fs::Dir, PathError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let own = open_beneath(dir, ".", flags, rustix::fs::Mode::empty(), BENEATH);
    Ok(rustix::fs::Dir::new(own.map_err(open_error)?)?)
}
