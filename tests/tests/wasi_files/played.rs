//! Runs one scenario of the guest on fresh files, and collects the resulting files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use e2e::{CommandResult, Guest, host};
use serde_json::{Value, json};

/// How one scenario went.
pub struct Played {
    pub lines: Vec<String>,
    tree: BTreeMap<String, String>,
}

impl Played {
    pub fn wrong(&self) -> Vec<String> {
        let wrong = self.lines.iter().filter(|line| is_wrong(line));
        wrong.cloned().collect()
    }

    /// What went otherwise than in `plain` without being wrong.
    pub fn differences(&self, plain: &Self) -> Vec<String> {
        let pairs = plain.lines.iter().zip(&self.lines);
        let mut found: Vec<String> = pairs
            .filter(|(plain, staged)| plain != staged && !is_wrong(plain) && !is_wrong(staged))
            .map(|(plain, staged)| format!("differs: {plain}, staged {staged}"))
            .collect();
        if plain.lines.len() != self.lines.len() {
            found.push(format!("differs: {:?}", self.lines.last()));
        }
        let paths = plain.tree.keys().chain(self.tree.keys());
        let mut paths: Vec<&String> = paths.collect();
        paths.sort();
        paths.dedup();
        for path in paths {
            let entry = |tree: &BTreeMap<String, String>| {
                tree.get(path).cloned().unwrap_or_else(|| "nothing".into())
            };
            let (one, other) = (entry(&plain.tree), entry(&self.tree));
            if one != other {
                found.push(format!("left: {path}: {one}, staged {other}"));
            }
        }
        found
    }
}

fn is_wrong(line: &str) -> bool {
    line.starts_with("wrong: ")
}

pub fn play(guest: &Guest, tool: &str, scenario: &str, made: bool, nested: bool) -> Played {
    let dir = tempfile::tempdir().unwrap();
    let path_of = |name: &str| dir.path().join(name);
    fs::create_dir_all(path_of("workspace")).unwrap();
    fs::create_dir_all(path_of("second/folder")).unwrap();
    fs::create_dir_all(path_of("third/folder")).unwrap();
    fs::write(path_of("second/there"), "there").unwrap();
    fs::write(path_of("third/kept"), "kept").unwrap();
    if made {
        furnish(&path_of("workspace"));
    }
    let mut command = host(&["call", tool, "--json", "--allow-tool", tool]);
    command.arg(json!({"scenario": scenario, "made": made}).to_string());
    command.env("TOOLHOST_STATE_DIR", path_of("state"));
    command.arg("--plugins").arg(guest.plugin());
    let mut grant = |name: &str, access: &str| {
        let path = format!("{}:{access}", path_of(name).display());
        command.arg("--allow-path").arg(path);
    };
    grant("workspace", "rw");
    grant("second", "rw");
    grant("third", "ro");
    if nested {
        fs::create_dir(path_of("workspace/granted")).unwrap();
        fs::write(path_of("workspace/granted/kept"), "kept").unwrap();
        grant("workspace/granted", "ro");
    }
    let ended = CommandResult::of(&command.output().unwrap());
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let lines = report["outcome"]["structured"].as_array();
    let lines = lines.unwrap_or_else(|| panic!("{scenario}: {report:#} {}", ended.stderr));
    let mut tree = BTreeMap::new();
    for name in ["workspace", "second", "third"] {
        look_through(dir.path(), &path_of(name), &mut tree);
    }
    Played {
        lines: lines
            .iter()
            .map(|line| line.as_str().unwrap().to_owned())
            .collect(),
        tree,
    }
}

/// What every scenario starts from. The guest makes the same where `made` is false.
fn furnish(root: &Path) {
    for dir in ["dir", "empty"] {
        fs::create_dir(root.join(dir)).unwrap();
    }
    for (name, content) in [
        ("file", "0123456789"),
        ("other", "other"),
        ("dir/inner", "inner"),
    ] {
        fs::write(root.join(name), content).unwrap();
    }
    for (name, target) in [
        ("to_file", "file"),
        ("to_dir", "dir"),
        ("dangling", "nowhere"),
        ("chain", "to_file"),
        ("loop", "loop"),
        ("ping", "pong"),
        ("pong", "ping"),
        // No guest could make this one.
        ("absolute", "/etc/motd"),
    ] {
        symlink(target, root.join(name)).unwrap();
    }
}

/// Everything below `dir` with what can be seen of it.
fn look_through(root: &Path, dir: &Path, tree: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let mut description = if metadata.is_dir() {
            look_through(root, &path, tree);
            "directory".to_owned()
        } else if metadata.is_symlink() {
            format!("link to {}", fs::read_link(&path).unwrap().display())
        } else {
            content(&path, &metadata)
        };
        if let Some(mode) = mode(root, &metadata) {
            write!(description, ", mode {mode:o}").unwrap();
        }
        // A scenario's own times are of 2001. All others are the moment's.
        if metadata.mtime() < 1_200_000_000 {
            write!(
                description,
                ", time {}.{}",
                metadata.mtime(),
                metadata.mtime_nsec()
            )
            .unwrap();
        }
        let name = path.strip_prefix(root).unwrap().display().to_string();
        tree.insert(name, description);
    }
}

fn content(path: &Path, metadata: &Metadata) -> String {
    let bytes = fs::read(path).unwrap();
    let description = if bytes.len() < 100 {
        format!("{:?}", String::from_utf8_lossy(&bytes))
    } else {
        // What is long was read back by the scenario.
        format!("{} bytes", bytes.len())
    };
    match metadata.nlink() {
        1 => description,
        names => format!("{description}, {names} names"),
    }
}

/// The permissions, unless they are the default of the user's umask.
fn mode(root: &Path, metadata: &Metadata) -> Option<u32> {
    let usual = if metadata.is_dir() {
        "third"
    } else {
        "third/kept"
    };
    let usual = fs::metadata(root.join(usual)).unwrap().mode();
    let mode = metadata.mode();
    (mode != usual && !metadata.is_symlink()).then_some(mode & 0o7777)
}
