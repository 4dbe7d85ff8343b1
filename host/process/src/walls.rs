//! A fence with everything a program needs of the system: its libraries, its settings, its devices.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::Fence;
use crate::carve::carve;
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

/// What a start knows of what its program may reach.
pub struct Wanted {
    pub fence: Fence,
    /// The search path.
    pub path: Vec<PathBuf>,
    pub program: PathBuf,
    pub temporary: PathBuf,
    pub tty: Option<PathBuf>,
    /// What no program reaches, and what none changes.
    pub hidden: Vec<PathBuf>,
    pub read_only: Vec<PathBuf>,
}

/// Looks around in the file system, and so may block.
pub fn walls(wanted: Wanted) -> Walls {
    let Fence {
        mut read,
        write,
        read_only,
        mut except,
        network,
        local_sockets,
    } = wanted.fence;
    read.extend(SYSTEM.iter().map(PathBuf::from));
    read.extend(wanted.path.into_iter().filter(|dir| dir.is_absolute()));
    read.push(wanted.program);
    let mut list = settings(&mut read);
    if network && let Ok(resolver) = fs::canonicalize("/etc/resolv.conf") {
        read.push(resolver);
    }
    except.extend(wanted.hidden);
    // What may be changed may be read, also those parts of it that are left out of the changing.
    read.extend_from_slice(&write);
    let read = carve(&read, &except);
    except.extend(wanted.read_only);
    except.extend(read_only);
    let mut write = carve(&write, &except);
    list.extend(read.listed);
    list.extend(write.listed);
    // It lies in what is hidden, and is the program's own.
    write.granted.push(wanted.temporary);
    let mut devices: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
    devices.extend(wanted.tty);
    Walls {
        read: read.granted,
        list,
        write: write.granted,
        devices,
        network,
        local_sockets,
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
