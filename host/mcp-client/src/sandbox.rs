//! What a server that is a program may access.

use std::any::Any;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;
use toolhost_contract::BoxFuture;
use toolhost_process::{PipedNetwork, PipedSandbox, ProgramAccess, RefusedAccesses};

use crate::approvals::Approvals;
use crate::private_files::private_folder;

/// The sandbox of a server, which is part of what the user approves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSandbox {
    /// All rights of the user. Only the operator can choose this.
    Unconfined,
    Confined(ServerProfile),
}

impl Default for ServerSandbox {
    fn default() -> Self {
        Self::Confined(ServerProfile::default())
    }
}

/// What a confined server may access in addition to its own directory, its interpreter and its packages, and the
/// programs, libraries and settings of the system. Paths are absolute and real: a server does not start if one of them is
/// behind a symbolic link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerProfile {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub network: ServerNetwork,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerNetwork {
    /// Only hosts that these rules allow, through the host's proxy. Without rules there is no network.
    Hosts(Vec<String>),
    /// All hosts and ports, this machine included.
    Unrestricted,
}

impl Default for ServerNetwork {
    fn default() -> Self {
        Self::Hosts(Vec::new())
    }
}

impl ServerProfile {
    /// The profile in lines, as shown for approval; not escaped. The digest of a server covers exactly these.
    pub fn lines(&self) -> Vec<String> {
        let granted = |verb: &str, paths: &[PathBuf]| {
            let lines = paths
                .iter()
                .map(|path| format!("may {verb} {}", path.display()));
            lines.collect::<Vec<_>>()
        };
        let mut lines = granted("read", &self.read);
        lines.extend(granted("read and change", &self.write));
        match &self.network {
            ServerNetwork::Unrestricted => {
                lines.push("may connect to all hosts, this machine included".to_owned());
            }
            ServerNetwork::Hosts(hosts) if hosts.is_empty() => {
                lines.push("has no network".to_owned());
            }
            ServerNetwork::Hosts(hosts) => {
                lines.extend(hosts.iter().map(|host| format!("may connect to {host}")));
            }
        }
        lines
    }
}

/// Serves the host's proxy for one server: the listener, and the rules for hosts.
pub type ServeProxy = dyn Fn(TcpListener, &[String]) -> BoxFuture<'static, ()> + Send + Sync;

/// An access that the sandbox of a server has refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusedAccess {
    Read(PathBuf),
    Write(PathBuf),
    /// A request to the proxy, as the rule that would allow it.
    Host(String),
    /// A connection past the proxy.
    Address(String),
}

/// The refused accesses of the servers that are recorded.
#[derive(Debug, Clone, Default)]
pub struct AccessLog(Arc<Mutex<BTreeSet<RefusedAccess>>>);

impl AccessLog {
    pub fn add(&self, access: RefusedAccess) {
        const MOST: usize = 20_000;
        let mut accesses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if accesses.len() < MOST {
            accesses.insert(access);
        }
    }

    pub fn accesses(&self) -> BTreeSet<RefusedAccess> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Adds what the program is refused until it ends.
    pub(crate) async fn follow(self, mut refused: RefusedAccesses) {
        while let Some(access) = refused.next().await {
            self.add(match access {
                ProgramAccess::Read(path) => RefusedAccess::Read(path),
                ProgramAccess::Write(path) => RefusedAccess::Write(path),
                ProgramAccess::Connect(address) => RefusedAccess::Address(address),
            });
        }
    }
}

/// What the host contributes to the sandboxes of servers.
#[derive(Clone)]
pub struct SandboxContext {
    /// The parent of the servers' own directories.
    pub data: Option<PathBuf>,
    /// Paths that no server can access, and paths that none can change.
    pub hidden: Vec<PathBuf>,
    pub read_only: Vec<PathBuf>,
    pub serve_proxy: Arc<ServeProxy>,
    /// Approvals, which contain the paths of a server's program that it may read.
    pub approvals: Arc<Approvals>,
    /// Records what is refused. A recorded program is slower, and gets the proxy even if no host is allowed.
    pub record: Option<AccessLog>,
}

impl SandboxContext {
    /// Creates the server's own directory, and returns the sandbox of the program.
    pub(crate) fn prepare(
        &self,
        server: &str,
        profile: &ServerProfile,
    ) -> io::Result<PipedSandbox> {
        let data = self.data.as_ref().ok_or_else(|| {
            io::Error::other("the host has no state directory for the server's own files; set HOME or, in a library, `Builder::state`")
        })?;
        let data = data.join(server);
        private_folder(&data)?;
        fs::create_dir_all(data.join(TEMPORARY))?;
        let network = match &profile.network {
            ServerNetwork::Unrestricted => PipedNetwork::Direct,
            ServerNetwork::Hosts(hosts) if hosts.is_empty() && self.record.is_none() => {
                PipedNetwork::None
            }
            ServerNetwork::Hosts(_) => PipedNetwork::Proxy,
        };
        Ok(PipedSandbox {
            data,
            read: profile.read.clone(),
            write: profile.write.clone(),
            program: BTreeSet::new(),
            network,
            hidden: self.hidden.clone(),
            read_only: self.read_only.clone(),
            record: self.record.is_some(),
        })
    }

    /// Starts the proxy. It ends when the returned value is dropped.
    pub(crate) fn start_proxy(
        &self,
        listener: TcpListener,
        profile: &ServerProfile,
    ) -> Box<dyn Any + Send + Sync> {
        let hosts = match &profile.network {
            ServerNetwork::Hosts(hosts) => &hosts[..],
            ServerNetwork::Unrestricted => &[],
        };
        let mut task = JoinSet::new();
        task.spawn((self.serve_proxy)(listener, hosts));
        Box::new(task)
    }
}

const TEMPORARY: &str = "tmp";

/// The variables of a confined server that name directories.
pub fn own_directories(data: &Path) -> [(&'static str, PathBuf); 2] {
    [("HOME", data.to_owned()), ("TMPDIR", data.join(TEMPORARY))]
}
