//! Sandbox rules for one program: granted paths plus the system's libraries, settings and devices.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::wire::{AccessRights, RulePath, SandboxRule, SandboxRules};
use crate::{OpenPath, SandboxPermissions};

/// Readable and executable, never writable. The launcher adds the readable parts of `/proc`.
const SYSTEM_DIRECTORIES: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
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

/// Input for the sandbox rules of one program.
pub struct SandboxRequest {
    pub permissions: SandboxPermissions,
    /// The search path.
    pub path: Vec<PathBuf>,
    pub program: PathBuf,
    pub temporary: OpenPath,
    pub tty: Option<PathBuf>,
    /// Paths that no program can access, and paths that none can change; without symbolic links.
    pub hidden: Vec<PathBuf>,
    pub read_only: Vec<PathBuf>,
}

/// Returns the rules and the descriptors they refer to. Reads the file system, and so can block.
pub fn build_rules(wanted: SandboxRequest) -> (SandboxRules, Vec<Arc<OwnedFd>>) {
    let SandboxPermissions {
        read,
        write,
        except,
        network,
        local_sockets,
    } = wanted.permissions;
    let hidden = [wanted.hidden, except].concat();
    let mut system: Vec<PathBuf> = SYSTEM_DIRECTORIES.iter().map(PathBuf::from).collect();
    system.extend(wanted.path.into_iter().filter(|dir| dir.is_absolute()));
    system.push(wanted.program);
    let listed = add_etc(&mut system);
    if network {
        system.push(PathBuf::from("/etc/resolv.conf"));
    }
    let mut made = RuleBuilder::default();
    for path in system.iter().filter_map(|path| path.canonicalize().ok()) {
        made.add_path(path, AccessRights::Read, &hidden);
    }
    for path in listed {
        made.add_path(path, AccessRights::List, &[]);
    }
    let devices = DEVICES.iter().map(PathBuf::from).chain(wanted.tty);
    for path in devices {
        made.add_path(path, AccessRights::Device, &[]);
    }
    // A writable path is readable too, including the parts that are excluded from writing.
    for granted in read.iter().chain(&write) {
        made.add_descriptor(granted, AccessRights::Read, &hidden);
    }
    for granted in &write {
        let mut out = hidden.clone();
        out.extend_from_slice(&wanted.read_only);
        let inner = read.iter().map(OpenPath::path);
        let inner =
            inner.filter(|path| path.starts_with(granted.path()) && *path != granted.path());
        out.extend(inner.map(Path::to_owned));
        made.add_descriptor(granted, AccessRights::Write, &out);
    }
    // The temporary directory is inside a hidden directory but belongs to the program.
    made.add_descriptor(&wanted.temporary, AccessRights::Write, &[]);
    let sandbox_rules = SandboxRules {
        rules: made.rules,
        network,
        local_sockets,
    };
    (sandbox_rules, made.descriptors)
}

#[derive(Default)]
struct RuleBuilder {
    rules: Vec<SandboxRule>,
    descriptors: Vec<Arc<OwnedFd>>,
}

impl RuleBuilder {
    fn add_path(&mut self, path: PathBuf, rights: AccessRights, out: &[PathBuf]) {
        if let Some(except) = relative_exclusions(&path, out) {
            self.rules.push(SandboxRule {
                place: RulePath::Path(path),
                rights,
                except,
            });
        }
    }

    fn add_descriptor(&mut self, granted: &OpenPath, rights: AccessRights, out: &[PathBuf]) {
        let Some(except) = relative_exclusions(granted.path(), out) else {
            return;
        };
        let fd = granted.descriptor();
        let mut known = self.descriptors.iter();
        let number = known.position(|one| Arc::ptr_eq(one, &fd));
        let number = number.unwrap_or_else(|| {
            self.descriptors.push(fd);
            self.descriptors.len() - 1
        });
        self.rules.push(SandboxRule {
            place: RulePath::Held(number),
            rights,
            except,
        });
    }
}

/// Returns the excluded paths below `path`, relative to it, or `None` if `path` itself is excluded.
fn relative_exclusions(path: &Path, out: &[PathBuf]) -> Option<Vec<PathBuf>> {
    if out.iter().any(|out| path.starts_with(out)) {
        return None;
    }
    let below = out.iter().filter_map(|out| out.strip_prefix(path).ok());
    Some(below.map(Path::to_owned).collect())
}

/// Resolves symbolic links, even if the last components do not exist yet, because creating them must be refused too.
pub fn resolve_links(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolve_links(parent).join(name),
        _ => path.to_owned(),
    }
}

/// Adds `/etc` to `read`. For root, adds only what all users may read, because the kernel would not restrict root.
///
/// Returns the directories that can be listed but not read as a whole.
fn add_etc(read: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    const DEPTH: usize = 6;
    let etc = PathBuf::from("/etc");
    if rustix::process::geteuid().is_root() {
        add_world_readable(&etc, DEPTH, read);
        vec![etc]
    } else {
        read.push(etc);
        Vec::new()
    }
}

/// Adds what all users may read below `dir`, in as few entries as possible. Returns whether that is all of `dir`.
fn add_world_readable(dir: &Path, depth: usize, into: &mut Vec<PathBuf>) -> bool {
    const MOST: usize = 4096;
    let Ok(entries) = fs::read_dir(dir) else {
        return false;
    };
    let before = into.len();
    let mut all = depth > 0;
    for entry in entries.flatten() {
        // A symbolic link is skipped: its target has its own rule.
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
        } else if depth == 0 || !add_world_readable(&entry.path(), depth - 1, into) {
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
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_inner_of_nested_grants_applies() {
        let root = OpenPath::open("/".as_ref()).unwrap();
        let open_path =
            |path: &str| OpenPath::new(path.into(), root.as_fd().try_clone_to_owned().unwrap());
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let permissions = SandboxPermissions {
            read: vec![open_path("/w/a")],
            write: vec![
                open_path("/w"),
                open_path("/w/a/b"),
                open_path("/w/state/x"),
            ],
            ..SandboxPermissions::default()
        };
        let (sandbox_rules, descriptors) = build_rules(SandboxRequest {
            permissions,
            path: Vec::new(),
            program: "/w/tool".into(),
            temporary: open_path("/w/state/tmp"),
            tty: None,
            hidden: paths(&["/w/state"]),
            read_only: paths(&["/w/config"]),
        });
        let held = sandbox_rules
            .rules
            .iter()
            .filter_map(|rule| match rule.place {
                RulePath::Held(number) => Some((number, rule.rights, rule.except.clone())),
                RulePath::Path(_) => None,
            });
        assert_eq!(
            held.collect::<Vec<_>>(),
            [
                (0, AccessRights::Read, paths(&[])),
                (1, AccessRights::Read, paths(&["state"])),
                (2, AccessRights::Read, paths(&[])),
                (1, AccessRights::Write, paths(&["state", "config", "a"])),
                (2, AccessRights::Write, paths(&[])),
                (3, AccessRights::Write, paths(&[])),
            ]
        );
        assert_eq!(descriptors.len(), 4);
    }

    #[test]
    fn files_readable_only_by_root_are_excluded() {
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
        assert!(!add_world_readable(dir.path(), 3, &mut found));
        found.sort();
        assert_eq!(found, [at("mixed/group"), at("open")]);
    }
}
