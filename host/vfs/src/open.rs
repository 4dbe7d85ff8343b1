//! Opens a path below a handle. Only regular files and directories come out, and nothing on the way can block.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
};

use crate::{
    Access, Kind, Refusal, Scope, Stat,
    sys::{BENEATH, check_path, open_beneath, open_refused},
    walk::{Last, Place},
};

/// How to open. With neither `read` nor `write`, a file is opened for reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenHow {
    pub read: bool,
    pub write: bool,
    pub append: bool,
    pub create: bool,
    pub exclusive: bool,
    /// Implies that the descriptor can write.
    pub truncate: bool,
    /// Only a directory will do.
    pub directory: bool,
    /// Follow a symbolic link in the last component.
    pub follow: bool,
}

/// What was opened.
#[derive(Debug)]
pub struct Opened {
    pub fd: OwnedFd,
    /// How far the grants go at this place; pass it along with `fd` when `fd` is a directory. What a file's
    /// descriptor itself can do was said by [`OpenHow`].
    pub access: Access,
    /// [`Kind::File`] or [`Kind::Directory`], never anything else.
    pub kind: Kind,
}

impl OpenHow {
    /// Whether this open can change anything, and so needs [`Access::ReadWrite`].
    pub fn changes(self) -> bool {
        self.write || self.append || self.create || self.truncate
    }

    pub(crate) fn check(self) -> Result<(), Refusal> {
        if self.directory && (self.create || self.truncate || self.exclusive) {
            return Err(Refusal::Invalid);
        }
        Ok(())
    }

    pub(crate) fn flags(self) -> OFlags {
        let writes = self.write || self.append || self.truncate;
        let mut flags = match (self.read, writes) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            (_, false) => OFlags::RDONLY,
        };
        // A FIFO, a leased file or a tape may block an open for ever; a terminal could become ours.
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        for (wanted, flag) in [
            (self.append, OFlags::APPEND),
            (self.create, OFlags::CREATE),
            (self.create && self.exclusive, OFlags::EXCL),
            (self.directory, OFlags::DIRECTORY),
            (!self.follow, OFlags::NOFOLLOW),
        ] {
            if wanted {
                flags |= flag;
            }
        }
        // `O_TRUNC` is left out on purpose: we truncate after we know what was opened.
        flags
    }

    /// Never executable; the kernel takes the umask off.
    pub(crate) fn mode(self) -> Mode {
        if self.create {
            Mode::from_raw_mode(0o666)
        } else {
            Mode::empty()
        }
    }

    /// What a walk has to do with a link in the last component.
    pub(crate) fn last(self) -> Last {
        match (self.create && self.exclusive, self.follow) {
            (true, _) => Last::Exact,
            // A name that ends in a slash is refused, so nothing is followed.
            (false, false) if self.create => Last::Exact,
            (false, true) if self.create => Last::FollowToMake,
            (false, true) => Last::Follow,
            (false, false) => Last::FollowIfSlash,
        }
    }

    /// Whether what a walk found may be opened so, or made where it found nothing; and the access there.
    pub(crate) fn may_open(self, place: &Place<'_>) -> Result<Access, Refusal> {
        // As the kernel has it: a name with a slash after it is never the name of a new file.
        if self.create && place.dir_only && !place.is_dot() {
            return Err(Refusal::IsDirectory);
        }
        let access = match &place.found {
            Some(found) => {
                // In the order in which the kernel looks, so that both resolvers give the same reason.
                let is_plain = matches!(found.stat.kind, Kind::File | Kind::Directory);
                match found.stat.kind {
                    _ if self.create && self.exclusive && !is_plain => return Err(Refusal::Exists),
                    Kind::Directory => {}
                    _ if self.directory || place.dir_only => return Err(Refusal::NotDirectory),
                    Kind::Symlink => return Err(Refusal::Loop),
                    Kind::File => {}
                    // Not even opened: opening alone can wake a FIFO's writer or rewind a tape.
                    _ => return Err(Refusal::NotPermitted),
                }
                found.access
            }
            None if !self.create => return Err(Refusal::NotFound),
            None if place.guarded => return Err(Refusal::NotPermitted),
            None => place.access,
        };
        if self.changes() && access == Access::ReadOnly {
            return Err(Refusal::NotPermitted);
        }
        Ok(access)
    }
}

impl Scope {
    /// Opens `path` below `dir`, a directory that was opened through this scope and came with `access`.
    pub fn open_at(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        how: &OpenHow,
    ) -> Result<Opened, Refusal> {
        let access = access.min(self.cap);
        how.check()?;
        check_path(path)?;
        let Some(resolve) = self.resolve_by_kernel(dir, path)? else {
            return self.open_walking(dir, access, path, *how);
        };
        if how.changes() && access == Access::ReadOnly {
            return Err(Refusal::NotPermitted);
        }
        match open_beneath(dir, path, how.flags(), how.mode(), resolve) {
            Ok(fd) => self.admit(fd, access, *how),
            Err(errno) if must_walk(errno, resolve) => self.open_walking(dir, access, path, *how),
            Err(errno) => Err(open_refused(errno)),
        }
    }

    /// How the kernel may resolve the path in one step; None where only a walk will do.
    pub(crate) fn resolve_by_kernel(
        &self,
        dir: BorrowedFd<'_>,
        path: &str,
    ) -> Result<Option<ResolveFlags>, Refusal> {
        if self.rules.tangled || self.reads.is_some() {
            return Ok(None);
        }
        if !self.hides_names() {
            return Ok(Some(BENEATH));
        }
        let mut site = self.site(None, dir, Stat::of(dir)?.id)?;
        for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
            if name == ".." || self.leaves_out(&site, name.as_bytes(), None) {
                return Ok(None);
            }
            site.below.push(name);
        }
        // Without links in it, the path says where it leads.
        Ok(Some(BENEATH | ResolveFlags::NO_SYMLINKS))
    }

    fn open_walking(
        &self,
        dir: BorrowedFd<'_>,
        access: Access,
        path: &str,
        how: OpenHow,
    ) -> Result<Opened, Refusal> {
        let place = self.walk(dir, access, path, how.last())?;
        let access = how.may_open(&place)?;
        let fd = open_beneath(
            place.parent(),
            place.name.as_slice(),
            how.flags() | OFlags::NOFOLLOW,
            how.mode(),
            BENEATH | ResolveFlags::NO_SYMLINKS,
        )
        .map_err(open_refused)?;
        let opened = self.admit(fd, access, how)?;
        if !how.truncate {
            self.saw_content(&place, opened.fd.as_fd())?;
        }
        Ok(opened)
    }

    pub(crate) fn saw_content(&self, place: &Place<'_>, fd: BorrowedFd<'_>) -> Result<(), Refusal> {
        if let (Some(reads), Some(path)) = (&self.reads, place.host_path(self)) {
            let stat = Stat::of(fd)?;
            if stat.kind == Kind::File {
                reads.content(path, &stat);
            }
        }
        Ok(())
    }

    /// The decision is taken on what was really opened, so it does not matter who swapped the name meanwhile.
    pub(crate) fn admit(
        &self,
        fd: OwnedFd,
        access: Access,
        how: OpenHow,
    ) -> Result<Opened, Refusal> {
        let stat = Stat::of(&fd)?;
        if !matches!(stat.kind, Kind::File | Kind::Directory) {
            return Err(Refusal::NotPermitted);
        }
        // Also on the short road: a hard link may lead to a protected file from anywhere.
        let access = self.enter(stat.id, access)?;
        if how.changes() && access == Access::ReadOnly {
            return Err(Refusal::NotPermitted);
        }
        if how.truncate {
            rustix::fs::ftruncate(&fd, 0)?;
        }
        Ok(Opened {
            fd,
            access,
            kind: stat.kind,
        })
    }
}

/// Renames elsewhere keep disturbing a `..` in the path, and a link may lead to what is left out; our own walk does not
/// mind the ones and sees the others.
pub(crate) fn must_walk(errno: Errno, resolve: ResolveFlags) -> bool {
    errno == Errno::AGAIN || errno == Errno::LOOP && resolve.contains(ResolveFlags::NO_SYMLINKS)
}
