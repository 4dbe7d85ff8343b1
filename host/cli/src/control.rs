//! The control socket of a running host: commands of the same user that change its plugins, servers and calls.
//!
//! `STATE/hosts/PID-RANDOM.sock` accepts one JSON line per connection and answers with one. `PID-RANDOM.json`, readable
//! only by the user, contains the socket's token: tools cannot read the state directory, so a program that a tool
//! starts cannot control the host even if it reaches the socket. Hosts in containers that share a state directory can
//! have the same process id.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use toolhost_contract::text;
use toolhost_hostfiles::{create_private_dir_all, read_regular};
use toolhost_kernel::id;

use crate::exit::{CliError, Exit, OrExit as _};
use crate::load::RunningHost;
use crate::settings::{CliSettings, in_real_directory};
use crate::terminal::note;

/// Directory of the sockets in the state directory.
const DIRECTORY: &str = "hosts";
/// Maximum length of a request, an answer and a description in bytes.
const MAX_LINE: u64 = 1 << 20;
/// Time that a client has to send its request, and to read the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a client waits for the answer, because a plugin may have to be compiled.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
const MAX_CONNECTIONS: usize = 8;

/// A change of a running host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    AddPlugin {
        path: PathBuf,
    },
    RemovePlugin {
        name: String,
    },
    /// All plugins without a name.
    ReloadPlugins {
        name: Option<String>,
    },
    /// Reads the installed packages and the revocations again.
    ReloadPackages,
    /// Reads the servers of the configuration file again and runs the discovery command again.
    ReloadServers,
    /// Moves the running command of a call of the local user to the background.
    DetachCall {
        call: String,
    },
    /// Serves the web page, if it is not served yet, and answers with a link.
    OpenPage {
        address: Option<SocketAddr>,
    },
    /// Stops a call.
    CancelCall {
        call: String,
    },
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ControlAnswer {
    /// What changed, one line each.
    pub changes: Vec<String>,
    pub errors: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    token: String,
    request: ControlRequest,
}

/// The file that describes a running host to its user's other commands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostDescription {
    pub pid: u32,
    /// Working directory of the host.
    pub directory: PathBuf,
    pub config: Option<PathBuf>,
    token: String,
    /// Next to the file with the same name, because containers can mount the state directory at different paths.
    #[serde(skip)]
    socket: PathBuf,
}

/// An open control socket. Dropping it removes its files.
pub struct ControlSocket {
    task: JoinHandle<()>,
    _files: ControlFiles,
}

/// The socket and the description of a host. Dropping it removes them.
struct ControlFiles([PathBuf; 2]);

impl Drop for ControlFiles {
    fn drop(&mut self) {
        for file in &self.0 {
            let _ = fs::remove_file(file);
        }
    }
}

impl ControlSocket {
    /// Opens the socket of a host that serves calls. A host without a state directory, and one whose socket cannot be
    /// opened, works without.
    pub fn open(host: &Arc<RunningHost>) -> Option<Self> {
        let state = host.settings.core.host_paths.state.clone()?;
        Self::try_open(host, &state)
            .map_err(|error| {
                note(&format!(
                    "warning: plugins cannot be changed while this host runs: {error:#}"
                ));
            })
            .ok()
    }

    fn try_open(host: &Arc<RunningHost>, state: &Path) -> anyhow::Result<Self> {
        let (listener, files, token) = bind(state, config_file(&host.settings))?;
        let host = Arc::clone(host);
        Ok(Self {
            task: tokio::spawn(accept(listener, host, token)),
            _files: files,
        })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Creates the socket and the description of this host. Returns the token too.
fn bind(
    state: &Path,
    config: Option<PathBuf>,
) -> anyhow::Result<(UnixListener, ControlFiles, String)> {
    let directory = state.join(DIRECTORY);
    create_private_dir_all(state, &directory)?;
    // Deletes the files of hosts that were killed.
    let _ = running_hosts(Some(state));
    let pid = std::process::id();
    let name = format!("{pid}-{}", &id::random()[..8]);
    let file = directory.join(format!("{name}.json"));
    let socket = file.with_extension("sock");
    let description = HostDescription {
        pid,
        directory: std::env::current_dir()?,
        config,
        token: format!("{}{}", id::random(), id::random()),
        socket: socket.clone(),
    };
    let listener = UnixListener::bind(&socket)?;
    let files = ControlFiles([socket, file.clone()]);
    write_private(&file, &serde_json::to_vec(&description)?)?;
    Ok((listener, files, description.token))
}

/// The configuration file that a reload reads: the one of the start, or the path where `host mcp add` would create it.
pub fn config_file(settings: &CliSettings) -> Option<PathBuf> {
    let core = &settings.core;
    let file = core.config_file.clone();
    let default = || Some(in_real_directory(&core.host_paths.config_file()?));
    file.or_else(default)
}

fn write_private(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?
        .write_all(bytes)
}

async fn accept(listener: UnixListener, host: Arc<RunningHost>, token: String) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let token: Arc<str> = token.into();
    // Requests end with this task, before the host shuts down.
    let mut requests = JoinSet::new();
    loop {
        while requests.try_join_next().is_some() {}
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (host, token) = (Arc::clone(&host), Arc::clone(&token));
                requests.spawn(async move {
                    let _slot = slot;
                    // A client that went away gets no answer.
                    let _ = answer(stream, &host, &token).await;
                });
            }
            // For example, too many open files.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer(mut stream: UnixStream, host: &RunningHost, token: &str) -> std::io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut line = Vec::new();
    let mut reader = tokio::io::BufReader::new(reader.take(MAX_LINE));
    timeout(REQUEST_TIMEOUT, reader.read_until(b'\n', &mut line)).await??;
    let answer = match serde_json::from_slice::<Envelope>(&line) {
        // Compared as digests, so that the duration does not depend on the position of the first difference.
        Ok(envelope) if blake3_of(&envelope.token) == blake3_of(token) => {
            host.control(envelope.request).await
        }
        Ok(_) => ControlAnswer::failed("wrong token"),
        Err(error) => ControlAnswer::failed(&format!("not a request: {error}")),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    timeout(REQUEST_TIMEOUT, writer.write_all(&line)).await??;
    writer.shutdown().await
}

fn blake3_of(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}

impl ControlAnswer {
    pub fn failed(reason: &str) -> Self {
        Self {
            changes: Vec::new(),
            errors: vec![reason.to_owned()],
        }
    }
}

/// The running hosts of this user, by process id. Files of hosts that were killed are deleted.
pub fn running_hosts(state: Option<&Path>) -> Vec<HostDescription> {
    let Some(directory) = state.map(|state| state.join(DIRECTORY)) else {
        return Vec::new();
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut hosts: Vec<HostDescription> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .filter_map(|path| {
            let bytes = read_regular(&path, MAX_LINE).ok()?;
            let mut host: HostDescription = serde_json::from_slice(&bytes).ok()?;
            host.socket = path.with_extension("sock");
            match BlockingStream::connect(&host.socket) {
                // The process has ended without removing its files.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionRefused | ErrorKind::NotFound
                    ) =>
                {
                    let _ = fs::remove_file(&path);
                    let _ = fs::remove_file(&host.socket);
                    None
                }
                Ok(_) | Err(_) => Some(host),
            }
        })
        .collect();
    hosts.sort_by_key(|host| host.pid);
    hosts
}

/// The host that a command means: the one with this process id or name, or the only one.
pub fn select_host(
    mut hosts: Vec<HostDescription>,
    pid: Option<&str>,
) -> Result<HostDescription, CliError> {
    if let Some(pid) = pid {
        hosts.retain(|host| host.pid.to_string() == pid || host.name() == pid);
    }
    let usage = |message: String| Err(CliError::new(Exit::Usage, message));
    match (hosts.len(), pid) {
        (1, _) => Ok(hosts.remove(0)),
        (0, Some(pid)) => usage(format!(
            "no host runs as process {}",
            text::escape_line(pid, 80)
        )),
        (0, None) => usage(
            "no host is running; start one with `host run`, and use the same TOOLHOST_STATE_DIR"
                .to_owned(),
        ),
        _ => {
            let lines = hosts.iter().map(|host| {
                let directory = text::escape_line(&host.directory.to_string_lossy(), 400);
                let is_same = |other: &&HostDescription| other.pid == host.pid;
                let pid = match hosts.iter().filter(is_same).count() {
                    1 => host.pid.to_string(),
                    _ => host.name(),
                };
                format!("\n  --pid {pid}  started in {directory}")
            });
            usage(format!(
                "several hosts are running; choose one:{}",
                lines.collect::<String>()
            ))
        }
    }
}

impl HostDescription {
    /// The name of the files, which differs between hosts with the same process id.
    fn name(&self) -> String {
        let name = self.socket.file_stem().unwrap_or_default();
        text::escape_line(&name.to_string_lossy(), 80)
    }

    /// Sends a request and waits for the answer.
    pub fn send(&self, request: ControlRequest) -> Result<ControlAnswer, CliError> {
        self.send_within(request, ANSWER_TIMEOUT)
    }

    /// Sends a request and waits at most this long for the answer. A suspended host handles the request when it
    /// continues, and the caller does not wait for the answer.
    pub fn send_within(
        &self,
        request: ControlRequest,
        patience: Duration,
    ) -> Result<ControlAnswer, CliError> {
        let is_suspended = self.is_suspended();
        let envelope = Envelope {
            token: self.token.clone(),
            request,
        };
        let mut line = serde_json::to_vec(&envelope).or_exit(Exit::Internal)?;
        line.push(b'\n');
        let exchange = || {
            let mut stream = BlockingStream::connect(&self.socket)?;
            stream.set_read_timeout(Some(patience))?;
            stream.write_all(&line)?;
            if is_suspended {
                return Err(ErrorKind::WouldBlock.into());
            }
            let mut answer = String::new();
            BufReader::new(stream.take(MAX_LINE)).read_line(&mut answer)?;
            Ok(answer)
        };
        let answer: std::io::Result<String> = exchange();
        let answer = answer.map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::WouldBlock if is_suspended => {
                    "is suspended; it does this when it continues (`fg`)".to_owned()
                }
                ErrorKind::WouldBlock => {
                    format!("has not answered within {} s", patience.as_secs())
                }
                _ => format!("cannot be reached: {error}"),
            };
            let message = format!("the host with process id {} {reason}", self.pid);
            CliError::new(Exit::Internal, message)
        })?;
        serde_json::from_str(&answer).or_exit(Exit::Internal)
    }

    /// Whether Ctrl-Z or SIGSTOP stopped the process.
    fn is_suspended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // The state follows the name of the program, which can contain parentheses.
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
        state.is_some_and(|state| state.starts_with(['T', 't']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hosts_with_the_same_process_id_do_not_remove_the_files_of_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path();
        let running = || running_hosts(Some(state));
        let first = bind(state, None).unwrap();
        let second = bind(state, None).unwrap();
        assert_eq!(running().len(), 2);
        let Err(CliError { error, .. }) =
            select_host(running(), Some(&std::process::id().to_string()))
        else {
            panic!("one of two hosts is selected");
        };
        for host in running() {
            assert!(
                error
                    .to_string()
                    .contains(&format!("--pid {}", host.name())),
                "{error}"
            );
            let selected = select_host(running(), Some(&host.name())).unwrap();
            assert_eq!(selected.socket, host.socket);
        }
        // As a killed host leaves them.
        let [socket, file] = &first.1.0;
        let killed = [socket, file].map(|path| {
            path.with_file_name("1")
                .with_extension(path.extension().unwrap())
        });
        fs::copy(file, &killed[1]).unwrap();
        drop(UnixListener::bind(&killed[0]).unwrap());
        drop(second);
        let third = bind(state, None).unwrap();
        assert!(killed.iter().all(|file| !file.exists()));
        assert_eq!(running().len(), 2);
        drop((first, third));
        assert_eq!(fs::read_dir(state.join(DIRECTORY)).unwrap().count(), 0);
    }
}
