//! A temporary directory with a granted directory `w`, a secret next to it, and helpers for all operations.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{MetadataExt, symlink},
    },
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use toolhost_vfs::{
    Access, EntryKind, NewTime, OpenHow, PathError, PathGrant, ProtectedPath, Protection, Root,
    Scope,
};

pub const CANARY: &str = "canary: these bytes must never come back";

pub struct World {
    tmp: TempDir,
}

impl World {
    pub fn new() -> Self {
        let world = Self {
            tmp: tempfile::tempdir().expect("temporary directory"),
        };
        world.file("secret", CANARY);
        world.file("w/f.txt", "inside");
        world.file("w/sub/g.txt", "inside");
        world
    }

    /// Adds the links of a hostile tree; `w` is otherwise unchanged.
    pub fn with_links(self) -> Self {
        self.file("w-secret/f.txt", CANARY);
        let outside = self.path("secret").display().to_string();
        for (name, target) in [
            ("abs", outside.as_str()),
            ("rel", "../secret"),
            ("dirlink", ".."),
            ("chain", "chain2"),
            ("chain2", "../secret"),
            ("absdir", "/etc"),
            ("loop1", "loop2"),
            ("loop2", "loop1"),
            ("procroot", "/proc/self/root"),
            ("procfd", "/proc/self/fd"),
            ("magic", "/proc/self/cwd"),
            ("dangling", "../not-there"),
            ("in-then-out", "sub/../../secret"),
            ("sub/up", "../.."),
            ("spaced", ".. /secret"),
            ("slashed", "../secret/"),
            ("prefix", "../w-secret"),
        ] {
            symlink(target, self.path("w").join(name)).expect("link");
        }
        self
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.tmp.path().join(path)
    }

    pub fn file(&self, path: &str, text: &str) {
        self.dir(
            Path::new(path)
                .parent()
                .and_then(Path::to_str)
                .expect("parent"),
        );
        fs::write(self.path(path), text).expect("write");
    }

    pub fn dir(&self, path: &str) {
        fs::create_dir_all(self.path(path)).expect("create directory");
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| format!("<{error}>"))
    }

    pub fn grant(&self, path: &str, guest: &str, access: Access) -> PathGrant {
        PathGrant {
            host: self.path(path),
            guest: guest.to_owned(),
            access,
            dangerous: false,
            exclude: Vec::new(),
        }
    }

    pub fn keep(&self, path: &str, shield: Protection) -> ProtectedPath {
        ProtectedPath {
            path: self.path(path),
            protection: shield,
        }
    }

    /// Only `w`; no grants overlap, so the kernel resolves paths.
    pub fn scope(&self, access: Access) -> Scope {
        Scope::open(&[self.grant("w", "/w", access)], &[]).expect("scope")
    }

    /// `w` with a deeply nested protected path, so that all paths are walked.
    pub fn walking_scope(&self, access: Access) -> Scope {
        let keep = self.keep("w/kept/nothing-here", Protection::Hidden);
        Scope::open(&[self.grant("w", "/w", access)], &[keep]).expect("scope")
    }

    /// The content of everything in the temporary directory, except below `but`.
    pub fn snapshot(&self, but: &str) -> BTreeMap<PathBuf, String> {
        let mut tree = BTreeMap::new();
        snapshot_into(self.tmp.path(), &self.path(but), &mut tree);
        tree
    }
}

fn snapshot_into(dir: &Path, but: &Path, tree: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(dir).expect("list") {
        let path = entry.expect("entry").path();
        let metadata = fs::symlink_metadata(&path).expect("metadata");
        let description = if metadata.is_dir() {
            if path != but {
                snapshot_into(&path, but, tree);
            }
            "directory".to_owned()
        } else if metadata.is_symlink() {
            format!("link to {}", fs::read_link(&path).expect("link").display())
        } else {
            format!(
                "{:o} {} {:?}",
                metadata.mode(),
                metadata.mtime(),
                fs::read(&path).expect("read")
            )
        };
        tree.insert(path, description);
    }
}

/// A guest's handle in the host: a descriptor and its access.
#[derive(Clone, Copy)]
pub struct Handle<'a> {
    pub scope: &'a Scope,
    pub fd: BorrowedFd<'a>,
    pub access: Access,
}

pub fn handle<'a>(scope: &'a Scope, guest: &str) -> Handle<'a> {
    let root = scope
        .roots()
        .iter()
        .find(|root| root.guest() == guest)
        .expect("root");
    Handle {
        scope,
        fd: root.as_fd(),
        access: Root::access(root),
    }
}

const HOW: OpenHow = OpenHow {
    read: false,
    write: false,
    append: false,
    create: false,
    exclusive: false,
    truncate: false,
    directory: false,
    follow: true,
};

pub const READ: OpenHow = OpenHow { read: true, ..HOW };
pub const READ_LINK: OpenHow = OpenHow {
    read: true,
    follow: false,
    ..HOW
};
pub const WRITE: OpenHow = OpenHow { write: true, ..HOW };
pub const APPEND: OpenHow = OpenHow {
    append: true,
    ..HOW
};
pub const CREATE: OpenHow = OpenHow {
    write: true,
    create: true,
    ..HOW
};
pub const CREATE_NEW: OpenHow = OpenHow {
    write: true,
    create: true,
    exclusive: true,
    ..HOW
};
pub const TRUNCATE: OpenHow = OpenHow {
    read: true,
    truncate: true,
    ..HOW
};
pub const DIRECTORY: OpenHow = OpenHow {
    read: true,
    directory: true,
    ..HOW
};

impl Handle<'_> {
    /// Opens, then reads or writes; returns what a guest would learn.
    pub fn open(&self, path: &str, how: OpenHow) -> Result<String, PathError> {
        let opened = self.scope.open_at(self.fd, self.access, path, &how)?;
        assert!(
            matches!(opened.kind, EntryKind::File | EntryKind::Directory),
            "{path}: {:?}",
            opened.kind
        );
        let kind = opened.kind;
        let mut file = File::from(opened.fd);
        if how.needs_write() && kind == EntryKind::File {
            file.write_all(b"written")
                .expect("write through an open that was granted");
        }
        let mut text = String::new();
        if how.read && !how.needs_write() && kind == EntryKind::File {
            file.read_to_string(&mut text)
                .expect("read through an open that was granted");
        }
        Ok(text)
    }

    pub fn read(&self, path: &str) -> Result<String, PathError> {
        self.open(path, READ)
    }

    pub fn write(&self, path: &str) -> Result<String, PathError> {
        self.open(path, CREATE)
    }

    pub fn stat(&self, path: &str) -> Result<String, PathError> {
        self.scope
            .stat_at(self.fd, path, true)
            .map(|stat| format!("{:?}", stat.kind))
    }

    pub fn lstat(&self, path: &str) -> Result<String, PathError> {
        self.scope
            .stat_at(self.fd, path, false)
            .map(|stat| format!("{:?}", stat.kind))
    }

    pub fn read_link(&self, path: &str) -> Result<String, PathError> {
        self.scope.read_link_at(self.fd, path)
    }

    pub fn mkdir(&self, path: &str) -> Result<String, PathError> {
        self.scope
            .create_dir_at(self.fd, self.access, path)
            .map(done)
    }

    pub fn rmdir(&self, path: &str) -> Result<String, PathError> {
        self.scope
            .remove_dir_at(self.fd, self.access, path)
            .map(done)
    }

    pub fn unlink(&self, path: &str) -> Result<String, PathError> {
        self.scope.unlink_at(self.fd, self.access, path).map(done)
    }

    pub fn rename(&self, path: &str, to: Handle<'_>, new_path: &str) -> Result<String, PathError> {
        self.scope
            .rename_at(self.fd, self.access, path, to.fd, to.access, new_path)
            .map(done)
    }

    pub fn link(&self, path: &str, to: Handle<'_>, new_path: &str) -> Result<String, PathError> {
        self.scope
            .link_at(self.fd, self.access, path, to.fd, to.access, new_path)
            .map(done)
    }

    pub fn symlink(&self, target: &str, path: &str) -> Result<String, PathError> {
        self.scope
            .symlink_at(self.fd, self.access, target, path)
            .map(done)
    }

    pub fn set_times(&self, path: &str, follow: bool) -> Result<String, PathError> {
        let (accessed, modified) = (
            NewTime::Keep,
            NewTime::At(std::time::SystemTime::UNIX_EPOCH),
        );
        self.scope
            .set_times_at(self.fd, self.access, path, follow, accessed, modified)
            .map(done)
    }

    pub fn list(&self, path: &str) -> Result<String, PathError> {
        let dir = self.scope.open_at(self.fd, self.access, path, &DIRECTORY)?;
        let entries = self.scope.read_dir(dir.fd.as_fd(), 1000)?.entries;
        let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        Ok(names.join(" "))
    }
}

fn done((): ()) -> String {
    "done".to_owned()
}

/// An operation of a guest.
pub type Act = fn(Handle<'_>) -> Result<String, PathError>;

/// Opens a scope in a test directory.
pub type OpenScope = fn(&World) -> Scope;

/// A named operation on one path, for tables of operations.
pub type Operation = (
    &'static str,
    fn(Handle<'_>, &str) -> Result<String, PathError>,
);

pub const LOOKING: &[Operation] = &[
    ("open read", |h, p| h.read(p)),
    ("open read nofollow", |h, p| h.open(p, READ_LINK)),
    ("open directory", |h, p| h.list(p)),
    ("stat", |h, p| h.stat(p)),
    ("lstat", |h, p| h.lstat(p)),
    ("read-link", |h, p| h.read_link(p)),
];

pub const CHANGING: &[Operation] = &[
    ("open write", |h, p| h.open(p, WRITE)),
    ("open append", |h, p| h.open(p, APPEND)),
    ("open create", |h, p| h.open(p, CREATE)),
    ("open create new", |h, p| h.open(p, CREATE_NEW)),
    ("open truncate", |h, p| h.open(p, TRUNCATE)),
    ("mkdir", |h, p| h.mkdir(p)),
    ("rmdir", |h, p| h.rmdir(p)),
    ("unlink", |h, p| h.unlink(p)),
    ("rename from", |h, p| h.rename(p, h, "new-name")),
    ("rename to", |h, p| h.rename("f.txt", h, p)),
    ("rename directory to", |h, p| h.rename("sub", h, p)),
    ("link from", |h, p| h.link(p, h, "new-name")),
    ("link to", |h, p| h.link("f.txt", h, p)),
    ("symlink at", |h, p| h.symlink("f.txt", p)),
    ("set-times", |h, p| h.set_times(p, true)),
    ("set-times nofollow", |h, p| h.set_times(p, false)),
];
