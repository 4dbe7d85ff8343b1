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
    pool::Item,
    real::{may_write, open_real},
};
use crate::{
    Access, Kind, NewTime, OpenHow, Opened, Refusal, Scope,
    mutate::{may_link_symbolically, may_make_new, may_set_times, timespec},
    sys::{BENEATH, check_path, open_beneath, open_refused},
    walk::{Found, Last, Place},
};

/// A directory handle and the access that it was opened with.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub dir: BorrowedFd<'a>,
    pub access: Access,
}

impl Layers {
    pub(super) fn walk<'a>(
        &self,
        scope: &'a Scope,
        at: At<'a>,
        path: &str,
        last: Last,
    ) -> Result<Place<'a>, Refusal> {
        scope.walk_over(Some(self), at.dir, at.access, path, last)
    }

    pub(super) fn open(
        &mut self,
        scope: &Scope,
        at: At<'_>,
        path: &str,
        how: OpenHow,
    ) -> Result<Opened, Refusal> {
        how.check()?;
        check_path(path)?;
        let access = at.access.min(scope.cap);
        // As without a stage: if nothing can become writable, the path is not even looked up.
        if how.changes() && access == Access::ReadOnly && !scope.rules.tangled {
            return Err(Refusal::NotPermitted);
        }
        let place = self.walk(scope, at, path, how.last())?;
        let access = how.may_open(&place)?;
        let Some(found) = &place.found else {
            return self.create(scope, &place, how);
        };
        if how.create && how.exclusive {
            return Err(Refusal::Exists);
        }
        match found.stat.kind {
            Kind::Directory if how.changes() => return Err(Refusal::IsDirectory),
            Kind::File if how.directory => return Err(Refusal::NotDirectory),
            _ => {}
        }
        let writes = how.write || how.append || how.truncate;
        if !writes || found.stat.kind == Kind::Directory {
            return self.open_as_it_is(scope, &place, found, how);
        }
        let item = match found.origin {
            Origin::Item(item) => item,
            Origin::Real | Origin::Elsewhere(_) => {
                self.copy_up(scope, &place, found, how.truncate)?
            }
        };
        let fd = self.pool()?.open(item, how)?;
        if how.truncate {
            rustix::fs::ftruncate(&fd, 0)?;
        }
        Ok(Opened {
            fd,
            access,
            kind: Kind::File,
        })
    }

    fn open_as_it_is(
        &mut self,
        scope: &Scope,
        place: &Place<'_>,
        found: &Found,
        how: OpenHow,
    ) -> Result<Opened, Refusal> {
        let fd = match &found.origin {
            Origin::Item(item) => self.pool()?.open(*item, how)?,
            Origin::Real => {
                let fd = open_real(place.parent(), &place.name, how.flags())?;
                scope.saw_content(place, fd.as_fd())?;
                fd
            }
            Origin::Elsewhere(real) => real.open(how.flags())?,
        };
        let opened = scope.admit(
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
            super::for_looking(opened)
        } else {
            opened
        })
    }

    fn create(
        &mut self,
        scope: &Scope,
        place: &Place<'_>,
        how: OpenHow,
    ) -> Result<Opened, Refusal> {
        self.hold(scope, place)?;
        self.room(&[place])?;
        let (fd, item) = self.pool()?.make_file(how)?;
        self.set(place, Node::Item(item), None)?;
        Ok(Opened {
            fd,
            access: place.access,
            kind: Kind::File,
        })
    }

    /// Replaces a real file or link with a writable copy in the pool.
    pub(super) fn copy_up(
        &mut self,
        scope: &Scope,
        place: &Place<'_>,
        found: &Found,
        empty: bool,
    ) -> Result<Item, Refusal> {
        // Does not require directory write permission, because a commit can write the file in place.
        self.hold_for_file(scope, place)?;
        self.room(&[place])?;
        let (item, base) = if found.stat.kind == Kind::Symlink {
            self.copy_link(found)?
        } else {
            let file = match &found.origin {
                Origin::Item(item) => return Ok(*item),
                Origin::Real => {
                    let file = open_to_copy(place.parent(), &place.name)?;
                    if !empty {
                        scope.saw_content(place, file.as_fd())?;
                    }
                    file
                }
                Origin::Elsewhere(real) => open_to_copy(real.dir.open()?.as_fd(), &real.name)?,
            };
            self.copy_file(file, found, empty)?
        };
        self.set(place, Node::Item(item), Some(base))?;
        Ok(item)
    }

    pub(super) fn copy_link(&mut self, found: &Found) -> Result<(Item, Base), Refusal> {
        let base = Base::of(&found.fd)?;
        let target = base.target.as_ref().ok_or(Refusal::Invalid)?;
        let item = self.pool()?.make_link(target.as_os_str())?;
        Ok((item, base))
    }

    fn copy_file(
        &mut self,
        file: File,
        found: &Found,
        empty: bool,
    ) -> Result<(Item, Base), Refusal> {
        let base = Base::of(&file)?;
        if base.stat.id != found.stat.id {
            return Err(Refusal::Busy);
        }
        if empty {
            return Ok((self.pool()?.make_like(&base)?.0, base));
        }
        let limit = self.limits.bytes;
        let pool = self.pool()?;
        let left = pool.left(limit)?;
        if base.stat.size > left {
            return Err(Refusal::NoSpace);
        }
        let item = pool.copy(&file, &base, left)?;
        // The file changed during the copy: a mix of old and new content is worse than an error.
        if base.is_still(&crate::Stat::of(&file)?) {
            Ok((item, base))
        } else {
            pool.remove(item)?;
            Err(Refusal::Busy)
        }
    }

    pub(super) fn create_dir(
        &mut self,
        scope: &Scope,
        at: At<'_>,
        path: &str,
    ) -> Result<(), Refusal> {
        let place = self.walk(scope, at, path, Last::Exact)?;
        may_make_new(&place)?;
        self.hold(scope, &place)?;
        self.room(&[&place])?;
        let item = self.pool()?.make_dir()?;
        self.set(&place, Node::Item(item), None)
    }

    pub(super) fn symlink(
        &mut self,
        scope: &Scope,
        at: At<'_>,
        target: &str,
        path: &str,
    ) -> Result<(), Refusal> {
        let place = self.walk(scope, at, path, Last::Exact)?;
        may_link_symbolically(&place, target)?;
        self.hold(scope, &place)?;
        self.room(&[&place])?;
        let item = self.pool()?.make_link(OsStr::new(target))?;
        self.set(&place, Node::Item(item), None)
    }

    pub(super) fn remove_dir(
        &mut self,
        scope: &Scope,
        at: At<'_>,
        path: &str,
    ) -> Result<(), Refusal> {
        let place = self.walk(scope, at, path, Last::Exact)?;
        let found = scope.may_take_away(&place)?;
        if found.stat.kind != Kind::Directory {
            return Err(Refusal::NotDirectory);
        }
        self.hold(scope, &place)?;
        self.room(&[&place])?;
        self.discard(scope, &place, found)
    }

    pub(super) fn unlink(&mut self, scope: &Scope, at: At<'_>, path: &str) -> Result<(), Refusal> {
        let place = self.walk(scope, at, path, Last::Exact)?;
        let found = scope.may_unlink(&place)?;
        self.hold(scope, &place)?;
        self.room(&[&place])?;
        self.discard(scope, &place, found)
    }

    /// Removes the entry at a place of a held directory.
    pub(super) fn discard(
        &mut self,
        scope: &Scope,
        place: &Place<'_>,
        found: &Found,
    ) -> Result<(), Refusal> {
        let id = found.stat.id;
        let is_dir = found.stat.kind == Kind::Directory;
        if let (true, Some(reads), Some(path)) = (is_dir, &scope.reads, place.host_path(scope)) {
            // The result depends on whether it is empty.
            reads.tree(path);
        }
        if is_dir && !self.is_empty_dir(found)? {
            return Err(Refusal::NotEmpty);
        }
        let base = match &found.origin {
            Origin::Item(item) => {
                self.pool()?.remove(*item)?;
                if is_dir {
                    self.dirs.remove(&id);
                    self.placed.remove(&id);
                }
                None
            }
            Origin::Real => {
                let base = Base::of(&found.fd)?;
                if is_dir {
                    self.dead.insert(id);
                }
                Some(base)
            }
            Origin::Elsewhere(real) => {
                if is_dir {
                    self.dead.insert(id);
                    self.placed.remove(&id);
                    self.moved.remove(&real.path());
                }
                None
            }
        };
        self.vacate(place.parent_id, &place.name, base);
        Ok(())
    }

    pub(super) fn set_times(
        &mut self,
        scope: &Scope,
        at: At<'_>,
        path: &str,
        follow: bool,
        (accessed, modified): (NewTime, NewTime),
    ) -> Result<(), Refusal> {
        let last = if follow {
            Last::Follow
        } else {
            Last::FollowIfSlash
        };
        let place = self.walk(scope, at, path, last)?;
        let found = may_set_times(&place)?;
        let times = Timestamps {
            last_access: timespec(accessed)?,
            last_modification: timespec(modified)?,
        };
        match found.stat.kind {
            // A directory's timestamps are not part of any change; setting them succeeds without effect.
            Kind::Directory => return Ok(()),
            Kind::File | Kind::Symlink => {}
            _ => return Err(Refusal::Unsupported),
        }
        let item = self.copy_up(scope, &place, found, false)?;
        self.pool()?.set_times(item, &times)
    }

    pub(super) fn dev(&self, place: &Place<'_>) -> Option<u64> {
        Some(self.dirs.get(&place.parent_id)?.dev)
    }

    /// Like `put`, for an object of the pool.
    pub(super) fn set(
        &mut self,
        place: &Place<'_>,
        node: Node,
        under: Option<Base>,
    ) -> Result<(), Refusal> {
        let id = match &node {
            Node::Item(item) if item.kind == Kind::Directory => {
                let dir = self.pool()?.name(*item)?;
                let id = crate::Stat::of(&dir)?.id;
                let layer = Layer {
                    home: Home::Pool,
                    dev: self.dev(place).ok_or(Refusal::NotFound)?,
                    slots: std::collections::BTreeMap::new(),
                };
                self.dirs.insert(id, layer);
                // The inode number can be that of a removed directory.
                self.dead.remove(&id);
                id
            }
            _ => place.parent_id,
        };
        self.put(place.parent_id, &place.name, node, id, under);
        Ok(())
    }
}

fn open_to_copy(dir: BorrowedFd<'_>, name: &[u8]) -> Result<File, Refusal> {
    may_write(dir, name)?;
    Ok(open_real(dir, name, OFlags::RDONLY)?.into())
}

/// Reopens a directory to read its entries, because a read position is shared by all holders of the descriptor.
pub(crate) fn list(dir: BorrowedFd<'_>) -> Result<rustix::fs::Dir, Refusal> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let own = open_beneath(dir, ".", flags, rustix::fs::Mode::empty(), BENEATH);
    Ok(rustix::fs::Dir::new(own.map_err(open_refused)?)?)
}
