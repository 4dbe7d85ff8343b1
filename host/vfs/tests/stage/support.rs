//! A temporary directory with a granted directory `w`, and helpers for all operations, real or staged.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File},
    io::{Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{MetadataExt, symlink},
    },
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use toolhost_vfs::{
    Access, ContentHash, EntryKind, FileState, OpenHow, PathError, PathGrant, PathState,
    ProtectedPath, Protection, Scope, Stage, StageLimits,
};

pub const LIMITS: StageLimits = StageLimits {
    bytes: 1 << 20,
    files: 1000,
};

/// A granted directory `w`, the host's directory `pool`, and a secret next to them.
pub struct World {
    pub tmp: TempDir,
}

impl World {
    pub fn new() -> Self {
        let world = Self {
            tmp: tempfile::tempdir().expect("temporary directory"),
        };
        for (path, text) in [
            ("secret", "canary"),
            ("w/a", "alpha"),
            ("w/b", "beta"),
            ("w/d/a", "alpha in d"),
            ("w/d/e/a", "alpha in e"),
            ("w/d/e/b", "beta in e"),
            ("w/kept/policy", "theirs"),
            ("w/inner/a", "alpha in inner"),
        ] {
            world.file(path, text);
        }
        fs::create_dir(world.path("w/empty")).expect("directory");
        for (target, path) in [
            ("d", "w/l"),
            ("a", "w/k"),
            ("missing", "w/x"),
            ("../secret", "w/out"),
            ("..", "w/dots"),
            ("../a", "w/d/up"),
        ] {
            symlink(target, world.path(path)).expect("link");
        }
        world
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.tmp.path().join(path)
    }

    pub fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("parent")).expect("directories");
        fs::write(path, text).expect("write");
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| format!("<{error}>"))
    }

    pub fn grant(&self, path: &str, access: Access) -> PathGrant {
        PathGrant {
            host: self.path(path),
            guest: format!("/{path}"),
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

    /// The kernel resolves all paths.
    pub fn scope(&self) -> Scope {
        Scope::open(&[self.grant("w", Access::ReadWrite)], &[]).expect("scope")
    }

    /// All paths are walked, because of protected names and a nested read-only grant.
    pub fn walking_scope(&self) -> Scope {
        let grants = [
            self.grant("w", Access::ReadWrite),
            self.grant("w/inner", Access::ReadOnly),
        ];
        let keep = [
            self.keep("w/kept/policy", Protection::ReadOnly),
            self.keep("w/kept/later", Protection::Hidden),
            self.keep("w/secret/key", Protection::Hidden),
        ];
        Scope::open(&grants, &keep).expect("scope")
    }

    pub fn stage(&self, scope: Scope) -> Stage {
        Stage::new(scope, self.path("pool"), LIMITS)
    }

    pub fn images(&self) -> BTreeMap<String, PathState> {
        let mut images = BTreeMap::new();
        images_into(&self.path("w"), "", &mut images);
        images
    }

    /// All metadata and content except access times, including inode numbers.
    pub fn traces(&self) -> BTreeMap<PathBuf, String> {
        let mut traces = BTreeMap::new();
        traces_into(&self.path("w"), &mut traces);
        traces
    }
}

fn images_into(dir: &Path, below: &str, images: &mut BTreeMap<String, PathState>) {
    for entry in fs::read_dir(dir).expect("list") {
        let entry = entry.expect("entry");
        let path = format!("{below}{}", entry.file_name().to_string_lossy());
        let metadata = entry.metadata().expect("metadata");
        let mode = metadata.mode() & 0o7777;
        let image = if metadata.is_dir() {
            images_into(&entry.path(), &format!("{path}/"), images);
            PathState::Dir { mode }
        } else if metadata.is_symlink() {
            let target = fs::read_link(entry.path()).expect("link");
            PathState::Link {
                target: target.into_os_string().into(),
            }
        } else {
            PathState::File(file_image(&fs::read(entry.path()).expect("read"), mode))
        };
        images.insert(path, image);
    }
}

pub fn file_image(bytes: &[u8], mode: u32) -> FileState {
    FileState {
        hash: ContentHash::of(bytes),
        size: bytes.len() as u64,
        mode,
    }
}

fn traces_into(path: &Path, traces: &mut BTreeMap<PathBuf, String>) {
    let m = fs::symlink_metadata(path).expect("metadata");
    let mut text = format!(
        "{} {:o} {} {}.{} {}.{}",
        m.ino(),
        m.mode(),
        m.size(),
        m.mtime(),
        m.mtime_nsec(),
        m.ctime(),
        m.ctime_nsec()
    );
    if m.is_file() {
        write!(text, " {:?}", fs::read(path).expect("read")).expect("text");
    } else if m.is_dir() {
        for entry in fs::read_dir(path).expect("list") {
            traces_into(&entry.expect("entry").path(), traces);
        }
    }
    traces.insert(path.to_owned(), text);
}

/// Operations on a scope, real or staged.
#[derive(Clone, Copy)]
pub enum FileView<'a> {
    Real(&'a Scope),
    Staged(&'a Stage),
}

/// A directory handle of a guest.
#[derive(Clone, Copy)]
pub struct Held<'a> {
    pub door: FileView<'a>,
    pub fd: BorrowedFd<'a>,
    pub access: Access,
}

macro_rules! through {
    ($held:expr, $name:ident ( $($arg:expr),* )) => {
        match $held.door {
            FileView::Real(scope) => scope.$name($($arg),*),
            FileView::Staged(stage) => stage.$name($($arg),*),
        }
    };
}

pub fn how(flags: &str) -> OpenHow {
    OpenHow {
        read: flags.contains('r'),
        write: flags.contains('w'),
        append: flags.contains('a'),
        create: flags.contains('c'),
        exclusive: flags.contains('x'),
        truncate: flags.contains('t'),
        directory: flags.contains('d'),
        follow: !flags.contains('n'),
    }
}

impl<'a> Held<'a> {
    pub fn root(door: FileView<'a>) -> Self {
        Self::root_at(door, 0)
    }

    pub fn root_at(door: FileView<'a>, index: usize) -> Self {
        let scope = match door {
            FileView::Real(scope) => scope,
            FileView::Staged(stage) => stage.scope(),
        };
        let root = &scope.roots()[index];
        Self {
            door,
            fd: root.as_fd(),
            access: root.access(),
        }
    }

    pub fn with(self, dir: &'a (OwnedFd, Access)) -> Self {
        Self {
            fd: dir.0.as_fd(),
            access: dir.1,
            ..self
        }
    }

    /// Opens a directory and returns its access too.
    pub fn hold(self, path: &str) -> Result<(OwnedFd, Access), PathError> {
        let opened = through!(self, open_at(self.fd, self.access, path, &how("rd")))?;
        Ok((opened.fd, opened.access))
    }

    pub fn dir(self, path: &str) -> Result<OwnedFd, PathError> {
        Ok(self.hold(path)?.0)
    }

    /// Opens and, if requested, writes.
    pub fn open(self, path: &str, flags: &str, text: &str) -> Result<(), PathError> {
        let how = how(flags);
        let opened = through!(self, open_at(self.fd, self.access, path, &how))?;
        if how.write || how.append || how.truncate {
            assert_eq!(opened.access, Access::ReadWrite);
            File::from(opened.fd)
                .write_all(text.as_bytes())
                .expect("write through an open that was granted");
        }
        Ok(())
    }

    pub fn read(self, path: &str) -> Result<String, PathError> {
        let opened = through!(self, open_at(self.fd, self.access, path, &how("r")))?;
        let mut text = String::new();
        match opened.kind {
            EntryKind::File => File::from(opened.fd)
                .read_to_string(&mut text)
                .map(|_| text)
                .map_err(|_| PathError::NotUtf8),
            _ => Err(PathError::IsDirectory),
        }
    }

    pub fn list(self, path: &str) -> Result<String, PathError> {
        let dir = self.dir(path)?;
        let mut names: Vec<String> = through!(self, read_dir(dir.as_fd(), 1000))?
            .entries
            .into_iter()
            .map(|entry| format!("{} {:?}", entry.name, entry.kind))
            .collect();
        names.sort();
        Ok(names.join(", "))
    }

    pub fn stat(self, path: &str, follow: bool) -> Result<String, PathError> {
        let stat = through!(self, stat_at(self.fd, path, follow))?;
        let size = (stat.kind != EntryKind::Directory).then_some(stat.size);
        Ok(format!("{:?} {size:?}", stat.kind))
    }

    pub fn read_link(self, path: &str) -> Result<String, PathError> {
        through!(self, read_link_at(self.fd, path))
    }

    pub fn mkdir(self, path: &str) -> Result<(), PathError> {
        through!(self, create_dir_at(self.fd, self.access, path))
    }

    pub fn rmdir(self, path: &str) -> Result<(), PathError> {
        through!(self, remove_dir_at(self.fd, self.access, path))
    }

    pub fn unlink(self, path: &str) -> Result<(), PathError> {
        through!(self, unlink_at(self.fd, self.access, path))
    }

    pub fn rename(self, path: &str, to: Held<'_>, new_path: &str) -> Result<(), PathError> {
        through!(
            self,
            rename_at(self.fd, self.access, path, to.fd, to.access, new_path)
        )
    }

    pub fn link(self, path: &str, to: Held<'_>, new_path: &str) -> Result<(), PathError> {
        through!(
            self,
            link_at(self.fd, self.access, path, to.fd, to.access, new_path)
        )
    }

    pub fn symlink(self, target: &str, path: &str) -> Result<(), PathError> {
        through!(self, symlink_at(self.fd, self.access, target, path))
    }

    /// All paths below, with their type and content.
    pub fn tree(self) -> String {
        let mut text = String::new();
        self.tree_into("", &mut text);
        text
    }

    fn tree_into(self, below: &str, text: &mut String) {
        let dir = if below.is_empty() { "." } else { below };
        let listed = match self.list(dir) {
            Ok(listed) => listed,
            Err(refusal) => return writeln!(text, "{dir}: {refusal}").expect("text"),
        };
        for entry in listed.split(", ").filter(|entry| !entry.is_empty()) {
            let (name, kind) = entry.rsplit_once(' ').expect("kind");
            let path = format!("{below}{name}");
            let stat = self.stat(&path, false);
            write!(text, "{path} {kind} {stat:?} ").expect("text");
            match kind {
                "Directory" => {
                    text.push('\n');
                    self.tree_into(&format!("{path}/"), text);
                }
                "Symlink" => writeln!(
                    text,
                    "{:?} {:?}",
                    self.read_link(&path),
                    self.stat(&path, true)
                )
                .expect("text"),
                _ => writeln!(text, "{:?}", self.read(&path)).expect("text"),
            }
        }
    }
}
