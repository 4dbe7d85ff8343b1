//! From refused accesses to lines of a server's sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use toolhost::mcp_servers::{RefusedAccess, ServerProtection};
use toolhost_contract::Access;
use toolhost_mcp_client::{ServerNetwork, ServerProfile, ServerProgram};
use toolhost_net::HostRule;

use super::edit::path_entry;

/// So many refused entries of one directory are proposed as the directory.
const MANY: usize = 4;
/// Never proposed: the parts of these that programs need are granted, and the rest shows other processes and devices.
const SYSTEM: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Proposal {
    pub read: BTreeSet<PathBuf>,
    pub write: BTreeSet<PathBuf>,
    pub hosts: BTreeSet<String>,
    /// What no line of the configuration can allow.
    pub notes: Vec<String>,
}

impl Proposal {
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty() && self.hosts.is_empty()
    }

    /// Entries of `paths`.
    pub fn paths(&self) -> impl Iterator<Item = String> {
        let read = self.read.iter().map(|path| (path, Access::ReadOnly));
        let write = self.write.iter().map(|path| (path, Access::ReadWrite));
        read.chain(write)
            .map(|(path, access)| path_entry(&path.to_string_lossy(), access))
    }

    /// The sandbox of a server with what is proposed.
    pub fn extend(&self, profile: &mut ServerProfile) {
        profile.read.extend(self.read.iter().cloned());
        profile.write.extend(self.write.iter().cloned());
        if let ServerNetwork::Hosts(hosts) = &mut profile.network {
            hosts.extend(self.hosts.iter().cloned());
        }
    }

    pub fn lines(&self) -> Vec<String> {
        let read = self
            .read
            .iter()
            .map(|path| format!("read {}", path.display()));
        let write = self
            .write
            .iter()
            .map(|path| format!("read and change {}", path.display()));
        let hosts = self.hosts.iter().map(|host| format!("connect to {host}"));
        read.chain(write).chain(hosts).collect()
    }
}

/// What a proposal depends on, besides the refused accesses.
pub struct ProposalContext {
    pub profile: ServerProfile,
    pub protection: ServerProtection,
    /// Directories that arguments of the server name. They are proposed in place of the files in them.
    pub named: Vec<PathBuf>,
    pub home: Option<PathBuf>,
    /// The files and directories of the server's program. Write access to them would let the server change its next start.
    pub program: BTreeSet<PathBuf>,
}

impl ProposalContext {
    pub fn new(
        program: &ServerProgram,
        profile: &ServerProfile,
        protection: ServerProtection,
        reads: &BTreeSet<PathBuf>,
    ) -> Self {
        let named = program.args.iter().map(|arg| program.cwd.join(&arg.value));
        let named = named
            .filter_map(|path| path.canonicalize().ok())
            .filter(|path| path.is_dir());
        let home = std::env::var_os("HOME");
        Self {
            profile: profile.clone(),
            protection,
            named: named.collect(),
            home: home.and_then(|home| fs::canonicalize(home).ok()),
            program: reads.clone(),
        }
    }

    /// A home directory, or one above it.
    fn is_broad(&self, path: &Path) -> bool {
        let is_home = |home: &PathBuf| home.starts_with(path);
        path.parent().is_none() || self.home.as_ref().is_some_and(is_home)
    }

    /// Whether changing this path could change the server's program.
    fn covers_program(&self, path: &Path) -> bool {
        let mut program = self.program.iter();
        program.any(|own| path.starts_with(own) || own.starts_with(path))
    }

    /// Replaces files of a named directory, and many entries of one directory, by the directory.
    fn group(&self, paths: BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let mut entries: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for dir in paths.iter().filter_map(|path| path.parent()) {
            *entries.entry(dir.to_owned()).or_default() += 1;
        }
        let grouped = paths.into_iter().map(|path| {
            let named = self.named.iter().find(|named| path.starts_with(named));
            let parent = path.parent().filter(|dir| entries[*dir] >= MANY);
            let dir = named.map(PathBuf::as_path).or(parent);
            dir.filter(|dir| !self.is_broad(dir))
                .map(Path::to_owned)
                .unwrap_or(path)
        });
        grouped.filter(|path| !self.is_broad(path)).collect()
    }
}

/// Proposes what the user could do without the sandbox, and what the host does not protect.
pub fn propose(accesses: &BTreeSet<RefusedAccess>, context: &ProposalContext) -> Proposal {
    let mut proposal = Proposal::default();
    let (mut read, mut write) = (BTreeSet::new(), BTreeSet::new());
    let mut protected = BTreeSet::new();
    let mut direct = BTreeSet::new();
    for access in accesses {
        match access {
            RefusedAccess::Read(path) => {
                read.extend(existing(path).filter(|path| is_readable(path)));
            }
            RefusedAccess::Write(path) => {
                // A file that does not exist needs its directory.
                let mut above = path.ancestors();
                write.extend(above.find_map(existing).filter(|path| is_writable(path)));
            }
            RefusedAccess::Host(rule) => {
                if HostRule::parse(rule).is_ok() {
                    proposal.hosts.insert(rule.clone());
                }
            }
            // A name server: the proxy resolves names.
            RefusedAccess::Address(address) if address.ends_with(":53") => {}
            RefusedAccess::Address(address) => drop(direct.insert(address.clone())),
        }
    }
    for set in [&mut read, &mut write] {
        set.retain(|path| {
            let is_free = !context.protection.covers(path);
            if !is_free {
                protected.insert(path.clone());
            }
            is_free && !SYSTEM.iter().any(|dir| path.starts_with(dir))
        });
    }
    let profile = &context.profile;
    let (own, write): (BTreeSet<_>, BTreeSet<_>) = context
        .group(write)
        .into_iter()
        .partition(|path| context.covers_program(path));
    proposal.notes.extend(own.iter().map(|path| {
        format!(
            "changing {} is not proposed, because the server's program is there",
            path.display()
        )
    }));
    proposal.write = without_nested(write, &profile.write);
    let granted = proposal
        .write
        .iter()
        .chain(&profile.read)
        .chain(&profile.write);
    let granted: Vec<_> = granted.cloned().collect();
    proposal.read = without_nested(context.group(read), &granted);
    proposal.notes.extend(protected.iter().map(|path| {
        format!(
            "{} belongs to the host and cannot be allowed",
            path.display()
        )
    }));
    proposal.notes.extend(direct.iter().map(|address| {
        format!(
            "a connection to {address} without the proxy was refused; programs that ignore HTTPS_PROXY need \
             `network = true`"
        )
    }));
    proposal
}

/// The real path, unless it contains a home directory or is none.
fn existing(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    (real.is_file() || real.is_dir()).then_some(real)
}

fn is_readable(path: &Path) -> bool {
    if path.is_dir() {
        fs::read_dir(path).is_ok()
    } else {
        File::open(path).is_ok()
    }
}

fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// The paths that neither another one nor one of `granted` contains.
fn without_nested(paths: BTreeSet<PathBuf>, granted: &[PathBuf]) -> BTreeSet<PathBuf> {
    let all = || paths.iter().chain(granted);
    let outer = paths.iter().filter(|path| {
        let is_within = |other: &PathBuf| other != *path && path.starts_with(other);
        !granted.contains(path) && !all().any(is_within)
    });
    outer.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_accesses_become_few_lines() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path);
        for name in [
            "data/1",
            "data/2",
            "data/3",
            "data/4",
            "one/file",
            "out/kept",
            "granted/x",
            "code/a.py",
            "tools/s.py",
        ] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "").unwrap();
        }
        let read = |path: &str| RefusedAccess::Read(at(path));
        let accesses = BTreeSet::from([
            read("data/1"),
            read("data/2"),
            read("data/3"),
            read("data/4"),
            read("one/file"),
            read("one/../one/file"),
            read("out/kept"),
            read("granted/x"),
            read("missing"),
            RefusedAccess::Read("/proc/1/environ".into()),
            RefusedAccess::Write(at("out/new/deep")),
            RefusedAccess::Write(at("code/__pycache__/a.pyc")),
            RefusedAccess::Write(at("tools/__pycache__")),
            RefusedAccess::Host("example.org".to_owned()),
            RefusedAccess::Host("a b".to_owned()),
            RefusedAccess::Host("127.0.0.1:8080".to_owned()),
            RefusedAccess::Address("192.0.2.1:443".to_owned()),
        ]);
        let profile = ServerProfile {
            read: vec![at("granted")],
            ..ServerProfile::default()
        };
        let mut context = ProposalContext {
            profile,
            protection: ServerProtection::default(),
            named: Vec::new(),
            home: None,
            program: BTreeSet::from([at("code"), at("tools/s.py")]),
        };
        let proposal = propose(&accesses, &context);
        assert_eq!(proposal.read, BTreeSet::from([at("data"), at("one/file")]));
        context.named.push(at("one"));
        let named = propose(&accesses, &context);
        assert_eq!(named.read, BTreeSet::from([at("data"), at("one")]));
        assert_eq!(proposal.write, BTreeSet::from([at("out")]));
        let hosts: Vec<_> = proposal.hosts.iter().collect();
        assert_eq!(hosts, ["127.0.0.1:8080", "example.org"]);
        let [code, tools, address] = &proposal.notes[..] else {
            panic!("{:?}", proposal.notes);
        };
        assert!(code.contains("/code is not proposed"), "{code}");
        assert!(tools.contains("/tools is not proposed"), "{tools}");
        assert!(address.contains("192.0.2.1:443"), "{address}");
    }

    #[test]
    fn a_home_directory_is_not_proposed() {
        let context = ProposalContext {
            profile: ServerProfile::default(),
            protection: ServerProtection::default(),
            named: vec!["/home".into()],
            home: Some("/home/me".into()),
            program: BTreeSet::new(),
        };
        let paths = [
            "/home/me",
            "/home",
            "/",
            "/home/me/a",
            "/home/me/b",
            "/home/me/c",
            "/home/me/d",
        ];
        let paths = paths.map(PathBuf::from);
        let grouped = context.group(BTreeSet::from(paths.clone()));
        assert_eq!(grouped, paths[3..].iter().cloned().collect());
    }
}
