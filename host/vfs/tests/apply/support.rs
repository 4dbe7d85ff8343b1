//! Trees in a text notation, the changes between two trees, and a directory to apply them in.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::LazyLock,
};

use tempfile::TempDir;
use toolhost_vfs::{
    ApplyError, BlobStore, Change, ContentHash, ContentSource, FileOp, FileState, Location,
    PathState, Roots, apply, check, save_before_images,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    File(String, u32),
    Dir(u32),
    Link(String),
}

pub type Tree = BTreeMap<String, Node>;

/// One entry per line: `dir/`, `file = content`, `link -> target`, and an octal mode after a name. Parent
/// directories are implied.
pub fn tree(text: &str) -> Tree {
    let mut tree = Tree::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (left, node) = if let Some((left, target)) = line.split_once(" -> ") {
            (left, Node::Link(target.to_owned()))
        } else if let Some((left, content)) = line.split_once(" =") {
            (left, Node::File(content.trim_start().to_owned(), 0o644))
        } else {
            (line, Node::Dir(0o755))
        };
        let (name, mode) = match left.rsplit_once(' ') {
            Some((name, mode)) => (name, Some(u32::from_str_radix(mode, 8).expect("mode"))),
            None => (left, None),
        };
        let name = name.trim_end_matches('/').to_owned();
        for (n, _) in name.match_indices('/') {
            tree.entry(name[..n].to_owned()).or_insert(Node::Dir(0o755));
        }
        let node = match (node, mode) {
            (Node::File(content, _), Some(mode)) => Node::File(content, mode),
            (Node::Dir(_), Some(mode)) => Node::Dir(mode),
            (node, _) => node,
        };
        tree.insert(name, node);
    }
    tree
}

pub fn image(node: Option<&Node>) -> PathState {
    match node {
        None => PathState::Absent,
        Some(Node::File(content, mode)) => file_image(content, *mode),
        Some(Node::Dir(mode)) => PathState::Dir { mode: *mode },
        Some(Node::Link(target)) => PathState::Link {
            target: target.into(),
        },
    }
}

pub fn file_image(content: &str, mode: u32) -> PathState {
    PathState::File(FileState {
        hash: ContentHash::of(content.as_bytes()),
        size: content.len() as u64,
        mode,
    })
}

pub fn is_in(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// `before` after the moves only.
pub fn moved(before: &Tree, moves: &[(&str, &str)]) -> Tree {
    let mut tree = before.clone();
    for (from, to) in moves {
        let inside: Vec<String> = tree
            .keys()
            .filter(|path| *path == from || is_in(path, from))
            .cloned()
            .collect();
        for path in inside {
            let node = tree.remove(&path).expect("listed");
            tree.insert(format!("{to}{}", &path[from.len()..]), node);
        }
    }
    tree
}

/// A directory, the host's directories next to it, and the list of changes.
pub struct World {
    pub tmp: TempDir,
    pub blobs: BlobStore,
}

impl World {
    pub fn new(before: &Tree) -> Self {
        Self::inside(&std::env::temp_dir(), before)
    }

    pub fn inside(parent: &Path, before: &Tree) -> Self {
        let tmp = tempfile::tempdir_in(parent).expect("temporary directory");
        for dir in ["w", "pool"] {
            fs::create_dir(tmp.path().join(dir)).expect("directory");
        }
        let blobs = BlobStore::open(&tmp.path().join("blobs")).expect("blobs");
        let world = Self { tmp, blobs };
        world.fill(before);
        world
    }

    pub fn fill(&self, tree: &Tree) {
        for (path, node) in tree {
            let path = self.path(path);
            match node {
                Node::File(content, mode) => {
                    fs::write(&path, content).expect("file");
                    fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).expect("mode");
                }
                Node::Dir(mode) => {
                    fs::create_dir(&path).expect("directory");
                    fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).expect("mode");
                }
                Node::Link(target) => symlink(target, &path).expect("link"),
            }
        }
    }

    pub fn root(&self) -> PathBuf {
        self.tmp.path().join("w")
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub fn at(&self, path: &str) -> Location {
        Location {
            root: self.root(),
            path: path.to_owned(),
        }
    }

    pub fn roots(&self) -> Roots {
        Roots::open([self.root()]).expect("root")
    }

    /// The actual tree.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        read(&self.root(), "", &mut tree);
        tree
    }

    /// The changes from `before` to `after`, with `moves` as moved entries.
    pub fn changes(&self, before: &Tree, moves: &[(&str, &str)], after: &Tree) -> Vec<Change> {
        let sources: HashMap<&str, &str> = moves.iter().map(|(from, to)| (*to, *from)).collect();
        let middle = moved(before, moves);
        let mut paths: Vec<&String> = middle.keys().chain(after.keys()).collect();
        paths.sort();
        paths.dedup();
        let change = |path: &String| {
            let from = sources.get(path.as_str());
            let was = middle.get(path).filter(|_| from.is_none());
            let is = after.get(path);
            (from.is_some() || was != is).then(|| Change {
                at: self.at(path),
                before: image(was),
                after: image(is),
                moved_from: from.map(|from| self.at(from)),
            })
        };
        paths.into_iter().filter_map(change).collect()
    }

    /// Writes new content to the pool, like a stage.
    pub fn ops(&self, changes: &[Change], after: &Tree) -> Vec<FileOp> {
        let op = |(n, change): (usize, &Change)| {
            let source = match (&change.after, after.get(&change.at.path)) {
                (PathState::File(_), Some(Node::File(content, _)))
                    if change.moved_from.is_none() =>
                {
                    let path = self.tmp.path().join("pool").join(n.to_string());
                    fs::write(&path, content).expect("pool");
                    Some(ContentSource::Move(path))
                }
                _ => None,
            };
            FileOp {
                change: change.clone(),
                source,
                base: None,
            }
        };
        changes.iter().enumerate().map(op).collect()
    }

    /// All steps of a commit.
    pub fn commit(&self, ops: Vec<FileOp>, step: &mut dyn FnMut(&str)) -> Result<(), ApplyError> {
        let roots = self.roots();
        let conflicts = check(&roots, &ops)?;
        if !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
        save_before_images(&roots, &ops, &self.blobs)?;
        apply(&roots, ops, "c1", &self.blobs, step)
    }
}

fn read(dir: &Path, prefix: &str, tree: &mut Tree) {
    for entry in fs::read_dir(dir).expect("list") {
        let entry = entry.expect("entry");
        let name = entry.file_name().into_string().expect("name");
        let path = format!("{prefix}{name}");
        let metadata = entry.metadata().expect("metadata");
        let mode = metadata.permissions().mode() & 0o777;
        if metadata.is_dir() {
            tree.insert(path.clone(), Node::Dir(mode));
            read(&entry.path(), &format!("{path}/"), tree);
        } else if metadata.is_symlink() {
            let target = fs::read_link(entry.path()).expect("link");
            tree.insert(path, Node::Link(target.to_str().expect("text").to_owned()));
        } else if metadata.is_file() {
            let content = fs::read(entry.path()).expect("content");
            let content = String::from_utf8_lossy(&content).into_owned();
            tree.insert(path, Node::File(content, mode));
        } else {
            tree.insert(path, Node::Link("(special)".to_owned()));
        }
    }
}

/// In memory if possible, because thousands of disk syncs take minutes.
pub fn memory_dir() -> &'static Path {
    static DIR: LazyLock<PathBuf> = LazyLock::new(|| {
        let memory = Path::new("/dev/shm");
        match tempfile::tempdir_in(memory) {
            Ok(_) => memory.to_owned(),
            Err(_) => std::env::temp_dir(),
        }
    });
    &DIR
}

pub fn silent(_: &str) {}

/// A deterministic generator of pseudorandom numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % (limit.max(1) as u64)).expect("small")
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A small tree in which all entries use the same few names.
pub fn random_tree(random: &mut Random) -> Tree {
    let mut tree = Tree::new();
    for _ in 0..random.below(14) {
        put_random(&mut tree, random, &[]);
    }
    tree
}

fn put_random(tree: &mut Tree, random: &mut Random, protected: &[&str]) {
    let dirs: Vec<String> = tree
        .iter()
        .filter(|(path, node)| matches!(node, Node::Dir(_)) && path.matches('/').count() < 3)
        .map(|(path, _)| format!("{path}/"))
        .chain([String::new()])
        .collect();
    let path = format!("{}{}", random.pick(&dirs), random.pick(&NAMES));
    let node = match random.below(9) {
        0..4 => Node::Dir(*random.pick(&[0o755, 0o700])),
        4..8 => Node::File(
            format!("content {}", random.below(5)),
            *random.pick(&[0o644, 0o600]),
        ),
        _ => Node::Link(format!("target{}", random.below(3))),
    };
    if remove_random(tree, &path, protected) {
        tree.insert(path, node);
    }
}

fn remove_random(tree: &mut Tree, path: &str, protected: &[&str]) -> bool {
    if protected
        .iter()
        .any(|protected| *protected == path || is_in(protected, path))
    {
        return false;
    }
    tree.retain(|other, _| other != path && !is_in(other, path));
    true
}

/// Up to three moves, followed by other changes.
pub fn random_changes(before: &Tree, random: &mut Random) -> (Vec<(String, String)>, Tree) {
    let mut moves: Vec<(String, String)> = Vec::new();
    for _ in 0..random.below(4) {
        let paths: Vec<&String> = before.keys().collect();
        if paths.is_empty() {
            break;
        }
        let from = (*random.pick(&paths)).clone();
        let dirs: Vec<String> = before
            .iter()
            .filter(|(_, node)| matches!(node, Node::Dir(_)))
            .map(|(path, _)| format!("{path}/"))
            .chain([String::new()])
            .collect();
        let to = format!("{}{}", random.pick(&dirs), random.pick(&["m", "n", "o"]));
        let touches =
            |one: &str, other: &str| one == other || is_in(one, other) || is_in(other, one);
        let free = moves.iter().all(|(f, t)| {
            !touches(f, &from) && !touches(t, &to) && !touches(f, &to) && !touches(t, &from)
        });
        if free && !is_in(&to, &from) {
            moves.push((from, to));
        }
    }
    let borrowed: Vec<(&str, &str)> = moves
        .iter()
        .map(|(f, t)| (f.as_str(), t.as_str()))
        .collect();
    let mut after = moved(before, &borrowed);
    let protected: Vec<&str> = borrowed.iter().map(|(_, to)| *to).collect();
    for _ in 0..random.below(8) {
        if random.below(3) == 0 {
            let paths: Vec<String> = after.keys().cloned().collect();
            if !paths.is_empty() {
                let path = random.pick(&paths).clone();
                remove_random(&mut after, &path, &protected);
            }
        } else {
            put_random(&mut after, random, &protected);
        }
    }
    (moves, after)
}
