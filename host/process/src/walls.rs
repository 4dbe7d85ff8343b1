//! A fence with everything a program needs of the system: its libraries, its settings, its devices.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::Fence;
use crate::wire::Walls;

/// Read and executed, never changed. Of other processes `/proc` shows a confined program no more than their names:
/// Landlock keeps their memory, variables, descriptors and directories from it.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
];

const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

pub fn walls(
    fence: &Fence,
    path: &[PathBuf],
    program: &Path,
    temporary: &Path,
    tty: Option<&Path>,
) -> Walls {
    let mut read = fence.read.clone();
    read.extend(SYSTEM.iter().map(PathBuf::from));
    read.extend(path.iter().filter(|dir| dir.is_absolute()).cloned());
    read.push(program.to_owned());
    let list = settings(&mut read);
    if fence.network
        && let Ok(resolver) = fs::canonicalize("/etc/resolv.conf")
    {
        read.push(resolver);
    }
    let mut write = fence.write.clone();
    write.push(temporary.to_owned());
    let mut devices: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
    devices.extend(tty.map(Path::to_owned));
    Walls {
        read,
        list,
        write,
        devices,
        network: fence.network,
        local_sockets: fence.local_sockets,
    }
}

/// `/etc`, less what only root may read when it is root who runs this: the kernel would not stop it.
///
/// Returns what can be listed and not read as a whole.
fn settings(read: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    const DEPTH: usize = 6;
    let etc = PathBuf::from("/etc");
    if rustix::process::geteuid().is_root() {
        public(&etc, DEPTH, read);
        vec![etc]
    } else {
        read.push(etc);
        Vec::new()
    }
}

/// Adds what everybody may read below `dir`, in as few pieces as possible; says whether that was all of it.
fn public(dir: &Path, depth: usize, into: &mut Vec<PathBuf>) -> bool {
    const MOST: usize = 4096;
    let Ok(entries) = fs::read_dir(dir) else {
        return false;
    };
    let before = into.len();
    let mut all = depth > 0;
    for entry in entries.flatten() {
        // A link is worth what it leads to, and that has its own place in the fence.
        let Ok(meta) = entry.path().symlink_metadata() else {
            all = false;
            continue;
        };
        if meta.is_symlink() {
            continue;
        }
        let everybody = if meta.is_dir() { 0o005 } else { 0o004 };
        if meta.mode() & everybody != everybody || into.len() > MOST {
            all = false;
        } else if !meta.is_dir() {
            into.push(entry.path());
        } else if depth == 0 || !public(&entry.path(), depth - 1, into) {
            all = false;
        }
    }
    if all {
        into.truncate(before);
        into.push(dir.to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_only_root_may_read_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (name, mode) in [
            ("open/a", 0o644),
            ("mixed/shadow", 0o640),
            ("mixed/group", 0o644),
            ("closed/key", 0o644),
        ] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "").unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for name in ["open", "mixed"] {
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        let mut found = Vec::new();
        assert!(!public(dir.path(), 3, &mut found));
        found.sort();
        assert_eq!(found, [at("mixed/group"), at("open")]);
    }
}
