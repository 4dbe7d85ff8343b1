//! The sandbox of a program that runs as long as the host, such as an MCP server.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::AsyncReadExt as _;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::program_reads::ProgramReads;
use crate::sandbox_rules::{SandboxRequest, build_rules, resolve_links};
use crate::wire::{MAX_DESCRIPTORS, SandboxRules, take_frame};
use crate::{OpenPath, PipedCommand, ProcessError, ProgramAccess, SandboxPermissions};

/// What a program may access in addition to the system's programs and libraries, its interpreter and its packages.
#[derive(Debug, Clone)]
pub struct PipedSandbox {
    /// The home directory of the program, which contains its temporary directory and caches.
    pub data: PathBuf,
    /// Real paths: the program does not start if one of them is behind a symbolic link.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// Paths of the program that it may read: those of [`program_reads`], which the caller has checked, and
    /// [`certificate_reads`].
    pub program: BTreeSet<PathBuf>,
    pub network: PipedNetwork,
    /// Paths that it cannot access, and paths that it cannot change, whatever is granted.
    pub hidden: Vec<PathBuf>,
    pub read_only: Vec<PathBuf>,
    /// Reports what is refused on [`crate::Pipes::refused`]. The program is traced, which makes it slower.
    pub record: bool,
}

/// The network of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipedNetwork {
    None,
    /// Only the proxy that the caller serves on [`crate::Pipes::proxy`].
    Proxy,
    /// All hosts, this machine included.
    Direct,
}

/// The rules of a program, and the descriptors that they refer to.
pub struct PreparedSandbox {
    pub rules: SandboxRules,
    pub held: Vec<Arc<OwnedFd>>,
    /// The host's end of the socket over which the listener of the proxy arrives, and the index of the other end.
    pub proxy: Option<(UnixStream, usize)>,
    /// The same for the socket over which refused accesses are reported.
    pub record: Option<(UnixStream, usize)>,
}

/// Variables by which programs find the host's proxy.
pub fn proxy_variables() -> Vec<(String, String)> {
    let address = format!("http://127.0.0.1:{}", crate::confine::PROXY_PORT);
    let addresses = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
    let addresses = addresses.map(|name| (name.to_owned(), address.clone()));
    // Node.js ignores the others without it.
    let node = ("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned());
    addresses.into_iter().chain([node]).collect()
}

/// Opens the granted paths. Reads the file system, and so can block.
pub fn prepare(sandbox: &PipedSandbox, program: &Path) -> Result<PreparedSandbox, ProcessError> {
    let open = |path: &PathBuf| {
        OpenPath::open(path).map_err(|source| ProcessError::Folder {
            path: path.clone(),
            source,
        })
    };
    // A link that was created after the approval would grant something else.
    let open_real = |path: &PathBuf| {
        let opened = open(path)?;
        if opened.path() == path {
            return Ok(opened);
        }
        let real = opened.path().display();
        let reason = format!("its real path is {real}, which was not approved");
        Err(ProcessError::Folder {
            path: path.clone(),
            source: std::io::Error::other(reason),
        })
    };
    let all = |paths: &[PathBuf]| paths.iter().map(open_real).collect::<Result<Vec<_>, _>>();
    let mut read = all(&sandbox.read)?;
    let temporary = open(&sandbox.data)?;
    // A file that vanishes or is replaced meanwhile is not needed.
    let own = sandbox.program.iter();
    read.extend(own.filter_map(|path| open_real(path).ok()));
    let resolved = |paths: &[PathBuf]| paths.iter().map(|path| resolve_links(path)).collect();
    let wanted = SandboxRequest {
        permissions: SandboxPermissions {
            read,
            write: all(&sandbox.write)?,
            except: Vec::new(),
            network: sandbox.network != PipedNetwork::None,
            local_sockets: false,
        },
        path: Vec::new(),
        program: program.to_owned(),
        temporary,
        tty: None,
        hidden: resolved(&sandbox.hidden),
        read_only: resolved(&sandbox.read_only),
    };
    let (rules, mut held) = build_rules(wanted);
    let mut hold_socket = |wanted: bool| {
        let socket = || {
            let (ours, theirs) = UnixStream::pair()?;
            held.push(Arc::new(theirs.into()));
            Ok((ours, held.len() - 1))
        };
        let socket = wanted.then(socket).transpose();
        socket.map_err(|source| ProcessError::Io {
            subject: "a socket",
            source,
        })
    };
    let proxy = hold_socket(sandbox.network == PipedNetwork::Proxy)?;
    let record = hold_socket(sandbox.record)?;
    if held.len() > MAX_DESCRIPTORS {
        return Err(ProcessError::TooLarge {
            subject: "the list of granted paths (counted in entries)",
            size: held.len(),
            most: MAX_DESCRIPTORS,
        });
    }
    Ok(PreparedSandbox {
        rules,
        held,
        proxy,
        record,
    })
}

/// The files and directories of a program that a sandbox grants without a setting: its interpreter and its packages.
/// `writable` is what the program can write.
pub fn program_reads(
    command: &PipedCommand,
    program: &Path,
    writable: &[PathBuf],
) -> BTreeSet<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let mut reads = ProgramReads::new(&command.path, home.as_deref(), writable);
    reads.add_program(program, &command.arguments, &command.cwd);
    reads.into_paths()
}

/// The files of private authorities that a program may read, unless it could have chosen what they are.
pub fn certificate_reads(files: &[PathBuf], writable: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut reads = ProgramReads::new(&[], None, writable);
    reads.add_certificates(files);
    reads.into_paths()
}

/// Receives the listener that the launcher has sent before the program started.
pub fn receive_listener(socket: &UnixStream) -> std::io::Result<TcpListener> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut bytes = [std::io::IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut bytes, &mut control, flags)?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let descriptor =
        descriptor.ok_or_else(|| std::io::Error::other("the launcher sent no listener"))?;
    let listener = TcpListener::from(descriptor);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The accesses of a program that its sandbox refuses, while they happen.
pub struct RefusedAccesses {
    socket: tokio::net::UnixStream,
    buffer: Vec<u8>,
}

impl RefusedAccesses {
    pub(crate) fn new(socket: UnixStream) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: tokio::net::UnixStream::from_std(socket)?,
            buffer: Vec::new(),
        })
    }

    /// The next access; `None` when the program has ended. Each one is returned once.
    pub async fn next(&mut self) -> Option<ProgramAccess> {
        loop {
            if let Some(access) = take_frame(&mut self.buffer).ok()? {
                return Some(access);
            }
            if self.socket.read_buf(&mut self.buffer).await.ok()? == 0 {
                return None;
            }
        }
    }
}
