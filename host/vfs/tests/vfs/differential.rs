//! Path resolution compared with the kernel's: `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS`, on random
//! trees with links and random paths. Each resolver must open the same inode or refuse for the same reason.
//! [`intended`] lists the intended differences.

use std::{
    collections::BTreeMap,
    fs,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::symlink,
    },
    path::Path,
};

use proptest::{prelude::*, sample::select};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use toolhost_vfs::{Access, EntryKind, OpenHow, PathError, Scope, Stat};

use crate::support::{
    APPEND, CREATE, CREATE_NEW, DIRECTORY, READ, READ_LINK, WRITE, World, handle,
};

/// An entry of a tree. Entries that cannot be created, because another is in the way, are omitted.
#[derive(Debug, Clone)]
enum Node {
    Dir(String),
    File(String),
    Link { at: String, target: String },
    HardLink { at: String, of: String },
    Fifo(String),
}

impl Node {
    fn make(&self, root: &Path) {
        let at = |path: &str| root.join(path);
        // Omitted if the path is taken.
        let _ = match self {
            Self::Dir(path) => fs::create_dir_all(at(path)),
            Self::File(path) => fs::File::create_new(at(path)).map(drop),
            Self::Link { at: path, target } => symlink(target, at(path)),
            Self::HardLink { at: path, of } => match fs::symlink_metadata(at(of)) {
                Ok(data) if data.is_file() => fs::hard_link(at(of), at(path)),
                _ => Ok(()),
            },
            Self::Fifo(path) => {
                let mode = Mode::from_raw_mode(0o600);
                rustix::fs::mknodat(CWD, at(path), FileType::Fifo, mode, 0).map_err(Into::into)
            }
        };
    }
}

/// Two initially identical trees, so that changes in one do not affect the results in the other.
struct Tree {
    world: World,
    root: OwnedFd,
}

impl Tree {
    fn new(nodes: &[Node]) -> Self {
        let world = World::new();
        let path = world.path("w");
        for node in nodes {
            node.make(&path);
        }
        let root = rustix::fs::open(&path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
        Self {
            world,
            root: root.expect("the root of the tree"),
        }
    }

    /// All paths and their types, without what differs between the trees.
    fn shape(&self) -> BTreeMap<String, String> {
        let mut shape = BTreeMap::new();
        collect(&self.world.path(""), "", &mut shape);
        shape
    }
}

fn collect(dir: &Path, below: &str, shape: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).expect("list") {
        let entry = entry.expect("entry");
        let name = format!("{below}/{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().expect("type");
        if kind.is_dir() {
            collect(&entry.path(), &name, shape);
        }
        shape.insert(name, format!("{kind:?}"));
    }
}

/// The reference. A `..` in a path can fail because of any rename on the machine.
fn openat2(root: BorrowedFd<'_>, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            answer => return answer,
        }
    }
}

fn flags(how: OpenHow) -> OFlags {
    let writes = how.write || how.append || how.truncate;
    let mut flags = match (how.read, writes) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (_, false) => OFlags::RDONLY,
    };
    for (wanted, flag) in [
        (how.append, OFlags::APPEND),
        (how.create, OFlags::CREATE),
        (how.exclusive, OFlags::EXCL),
        (how.directory, OFlags::DIRECTORY),
        (!how.follow, OFlags::NOFOLLOW),
    ] {
        if wanted {
            flags |= flag;
        }
    }
    // Without it the reference would block on a FIFO.
    flags | OFlags::NONBLOCK | OFlags::NOCTTY
}

/// The error that corresponds to the kernel's.
fn refusal(errno: Errno) -> PathError {
    match errno {
        // Outside the root; or a FIFO without a reader.
        Errno::XDEV | Errno::NXIO => PathError::NotPermitted,
        Errno::NOENT => PathError::NotFound,
        Errno::NOTDIR => PathError::NotDirectory,
        Errno::ISDIR => PathError::IsDirectory,
        Errno::LOOP => PathError::Loop,
        Errno::EXIST => PathError::Exists,
        Errno::INVAL => PathError::Invalid,
        Errno::NAMETOOLONG => PathError::NameTooLong,
        other => PathError::Io(other),
    }
}

/// Inode and type, or the error.
type Observed = Result<Stat, PathError>;

fn observed(fd: Result<OwnedFd, Errno>) -> Observed {
    fd.map_err(refusal)
        .map(|fd| Stat::of(&fd).expect("of an open file"))
}

/// Names of the intended differences.
fn intended(case: &str, kernel: &Observed, ours: &Observed) -> Option<&'static str> {
    let opens = !case.starts_with("stat");
    match (kernel, ours) {
        (Ok(stat), Err(PathError::NotPermitted))
            if opens && !matches!(stat.kind, EntryKind::File | EntryKind::Directory) =>
        {
            Some("a special file is not opened, though the kernel would open it")
        }
        _ => None,
    }
}

const MODES: [(&str, OpenHow); 8] = [
    ("read", READ),
    ("read nofollow", READ_LINK),
    ("directory", DIRECTORY),
    ("write", WRITE),
    ("append", APPEND),
    ("create", CREATE),
    ("create new", CREATE_NEW),
    (
        "create nofollow",
        OpenHow {
            follow: false,
            ..CREATE
        },
    ),
];

/// All resolvers: the kernel's in one step, the walk by components, and the one with excludes, which tries the
/// kernel first.
type Open = fn(&World) -> Scope;

const SCOPES: [(&str, Open); 3] = [
    ("in one step", |world| world.scope(Access::ReadWrite)),
    ("walking", |world| world.walking_scope(Access::ReadWrite)),
    ("leaving out", |world| {
        let mut grant = world.grant("w", "/w", Access::ReadWrite);
        grant.exclude = vec!["*.left-out".to_owned()];
        Scope::open(&[grant], &[]).expect("scope")
    }),
];

fn compare(nodes: &[Node], paths: &[String]) {
    for (resolver, scope) in SCOPES {
        let (theirs, ours) = (Tree::new(nodes), Tree::new(nodes));
        let scope = scope(&ours.world);
        let handle = handle(&scope, "/w");
        let mut changed = 0;
        for path in paths {
            for follow in [true, false] {
                let case = format!("stat {path:?}, follow {follow}, {resolver}");
                let flags = if follow {
                    OFlags::PATH
                } else {
                    OFlags::PATH | OFlags::NOFOLLOW
                };
                let kernel = observed(openat2(ours.root.as_fd(), path, flags, Mode::empty()));
                let found = scope.stat_at(handle.fd, path, follow);
                check_result(&case, &kernel, &found, true);
            }
            for (mode, how) in MODES {
                let case = format!("{mode} {path:?}, {resolver}");
                let tree = if how.create { &theirs } else { &ours };
                let mode = if how.create { 0o666 } else { 0 };
                let mode = Mode::from_raw_mode(mode);
                let kernel = observed(openat2(tree.root.as_fd(), path, flags(how), mode));
                let found = scope
                    .open_at(handle.fd, handle.access, path, &how)
                    .map(|opened| Stat::of(&opened.fd).expect("of an open file"));
                check_result(&case, &kernel, &found, !how.create);
                if how.create && found.is_ok() {
                    changed += 1;
                    assert_eq!(theirs.shape(), ours.shape(), "{case}");
                }
            }
        }
        if changed == 0 {
            assert_eq!(theirs.shape(), ours.shape());
        }
    }
}

fn check_result(case: &str, kernel: &Observed, ours: &Observed, same_tree: bool) {
    let agree = match (kernel, ours) {
        (Ok(kernel), Ok(ours)) if same_tree => kernel.id == ours.id,
        (Ok(kernel), Ok(ours)) => kernel.kind == ours.kind,
        (kernel, ours) => kernel.is_err() && kernel.as_ref().err() == ours.as_ref().err(),
    };
    assert!(
        agree || intended(case, kernel, ours).is_some(),
        "{case}: kernel {kernel:?}, ours {ours:?}"
    );
}

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        12 => select(vec!["a", "b", "c", "sub", "f.txt"]),
        4 => Just(".."),
        2 => select(vec![".", ""]),
        1 => select(vec!["...", "é", "a b", "..a", "\\", "nothing"]),
    ]
}

/// Of a path or of the target of a link.
fn path() -> impl Strategy<Value = String> {
    let parts = prop::collection::vec(name(), 0..7);
    let around = prop_oneof![
        12 => Just(("", "")),
        3 => Just(("", "/")),
        1 => Just(("./", "/.")),
        1 => Just(("/", "")),
        1 => Just(("", "/..")),
    ];
    let plain = (parts, around)
        .prop_map(|(parts, (front, end))| format!("{front}{}{end}", parts.join("/")));
    let odd = select(vec![
        "a\0b".to_owned(),
        "/etc/passwd".to_owned(),
        "/proc/self/root".to_owned(),
        "/proc/self/cwd/a".to_owned(),
        "x".repeat(255),
        "x".repeat(256),
        format!("a/{}/b", "x".repeat(256)),
        "./".repeat(2_047) + "a",
        "./".repeat(2_048) + "a",
        "a/../".repeat(30) + "b",
        "a/".repeat(100),
    ]);
    prop_oneof![20 => plain, 1 => odd]
}

fn node() -> impl Strategy<Value = Node> {
    let at = || {
        let names = prop::collection::vec(select(vec!["a", "b", "c", "sub"]), 1..4);
        names.prop_map(|names| names.join("/"))
    };
    prop_oneof![
        4 => at().prop_map(Node::Dir),
        2 => at().prop_map(Node::File),
        6 => (at(), path()).prop_map(|(at, target)| Node::Link { at, target }),
        1 => (at(), at()).prop_map(|(at, of)| Node::HardLink { at, of }),
        1 => at().prop_map(Node::Fifo),
    ]
}

fn has_openat2() -> bool {
    let opened = rustix::fs::openat2(
        CWD,
        ".",
        OFlags::PATH,
        Mode::empty(),
        ResolveFlags::NO_MAGICLINKS,
    );
    let has = !matches!(opened, Err(Errno::NOSYS | Errno::PERM));
    if !has {
        eprintln!("skipped: this kernel has no openat2 to compare with");
    }
    has
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(4))
    })]

    #[test]
    fn paths_resolve_like_openat2(
        nodes in prop::collection::vec(node(), 0..14),
        paths in prop::collection::vec(path(), 1..10),
    ) {
        if has_openat2() {
            compare(&nodes, &paths);
        }
    }
}

/// The kernel's maximum number of links, and one more.
#[test]
fn as_many_links_are_followed_as_the_kernel_follows() {
    if !has_openat2() {
        return;
    }
    let chain = |length: usize| {
        let link = |number: usize| Node::Link {
            at: format!("l{number}"),
            target: match number {
                0 => "f.txt".to_owned(),
                _ => format!("l{}", number - 1),
            },
        };
        (0..length).map(link).collect::<Vec<_>>()
    };
    let nodes = chain(42);
    let paths: Vec<String> = (37..42).map(|last| format!("l{last}")).collect();
    compare(&nodes, &paths);
}
