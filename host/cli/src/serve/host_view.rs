//! What the web page shows about a running host: plugins and servers in words, and the files for undo.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use serde_json::Value;
use toolhost::{BrokenPlugin, GrantedDirectory, ServedPlugin, staging};
use toolhost_contract::{
    CallError, ChangeSet, CommitError, CommitRecovery, RecoveryOutcome, ToolName, text,
};
use toolhost_kernel::Kernel;
use toolhost_mcp_client::plugin_name;
use toolhost_runtime::Staging;
use toolhost_ui::{FileHistory, HostView, Need, PluginKind, PluginLimits, PluginView, UndoPreview};

use crate::commands::packages::{describe_need, describe_signer};
use crate::control::config_file;
use crate::load::RunningHost;
use crate::load::servers::ConfiguredServer;
use crate::settings::CliSettings;

/// Bytes at the end of a server's log that are shown.
const LOG_TAIL: u64 = 8 << 10;

/// A host that is known once its plugins are loaded.
pub type LoadedHost = Arc<OnceLock<Weak<RunningHost>>>;

/// The view of a host whose plugins may still be loading.
pub struct PageView {
    kernel: Arc<Kernel>,
    host: LoadedHost,
}

impl PageView {
    pub fn new(kernel: &Arc<Kernel>, host: &LoadedHost) -> Self {
        Self {
            kernel: Arc::clone(kernel),
            host: Arc::clone(host),
        }
    }

    fn host(&self) -> Option<Arc<RunningHost>> {
        self.host.get()?.upgrade()
    }

    fn tools_of(&self, plugin: &str) -> Vec<ToolName> {
        let registry = self.kernel.registry();
        let tools = registry.list_all();
        let own = tools.filter(|entry| entry.plugin.name.as_str() == plugin);
        own.map(|entry| entry.name.clone()).collect()
    }

    fn plugin(served: &ServedPlugin, settings: &CliSettings) -> PluginView {
        let manifest = &served.manifest;
        let needs = manifest.needs.iter().map(|need| Need {
            what: describe_need(need),
            why: need.why.clone(),
        });
        PluginView {
            name: manifest.name.to_string(),
            kind: PluginKind::Plugin,
            version: manifest.version.clone(),
            description: manifest.description.clone(),
            source: served.path.to_string_lossy().into_owned(),
            digest: Some(served.digest.to_string()),
            size: Some(served.size),
            signature: signature(served, settings),
            needs: needs.collect(),
            grants: grants(served),
            limits: Some(PluginLimits {
                memory: served.limits.memory,
                output: served.limits.output,
                timeout: served.limits.timeout,
            }),
            tools: served.tools.clone(),
            problem: None,
            log: Vec::new(),
        }
    }

    fn server(&self, server: &ConfiguredServer, settings: &CliSettings) -> PluginView {
        let (state, reason) = server.state();
        let config = server.settings.config.as_ref();
        let description =
            config.map_or_else(Clone::clone, toolhost_mcp_client::ServerConfig::description);
        let mut lines = description.lines().map(str::trim);
        let source = lines.next().unwrap_or_default().to_owned();
        let problem = match (state, reason) {
            ("connected", None) => None,
            (state, None) => Some(state.to_owned()),
            (state, Some(reason)) => Some(format!("{state}: {reason}")),
        };
        let name = plugin_name(&server.name).to_string();
        PluginView {
            kind: PluginKind::Server,
            source,
            grants: lines.map(str::to_owned).collect(),
            tools: self.tools_of(&name),
            problem,
            log: log_tail(settings, &server.name),
            name,
            ..PluginView::default()
        }
    }
}

impl HostView for PageView {
    fn plugins(&self) -> Vec<PluginView> {
        let Some(host) = self.host() else {
            return vec![PluginView {
                name: "plugins".to_owned(),
                problem: Some("The plugins are still being loaded.".to_owned()),
                ..PluginView::default()
            }];
        };
        let loaded = host.loaded.loaded();
        let settings = &host.settings;
        let plugins = loaded
            .plugins
            .iter()
            .map(|served| Self::plugin(served, settings));
        let mut views: Vec<PluginView> = plugins.collect();
        views.extend(host.view_servers(|server| self.server(server, settings)));
        views.extend(loaded.broken.iter().map(|broken| broken_plugin(broken)));
        views
    }

    fn config_file(&self) -> Option<PathBuf> {
        config_file(&self.host()?.settings)
    }

    fn files(&self) -> Option<Arc<dyn FileHistory>> {
        let staging = staging::open_in_store(self.kernel.store()?).ok()?;
        Some(Arc::new(StoredFiles(staging)))
    }
}

fn broken_plugin(broken: &BrokenPlugin) -> PluginView {
    let path = &broken.path;
    let name = path.file_name().unwrap_or(path.as_os_str());
    PluginView {
        name: name.to_string_lossy().into_owned(),
        kind: PluginKind::Broken,
        source: path.to_string_lossy().into_owned(),
        problem: Some(broken.reason.clone()),
        ..PluginView::default()
    }
}

/// Who signed a plugin, in words. The host has checked the signature when it loaded the file.
fn signature(served: &ServedPlugin, settings: &CliSettings) -> String {
    let packages = settings.core.packages.as_ref();
    let installed = packages.and_then(|store| store.installed().ok());
    let locked = installed.as_ref().and_then(|lock| {
        let mut plugins = lock.plugins().iter();
        plugins.find(|locked| locked.content == served.digest)
    });
    let signer = match locked {
        Some(locked) => locked.signer.clone(),
        None => match settings.core.trust.check(&served.path, served.digest) {
            Ok(signer) => signer,
            Err(error) => return error.to_string(),
        },
    };
    match signer {
        Some(_) => format!("signed {}", describe_signer(signer.as_ref())),
        None => "not signed, or no author is trusted".to_owned(),
    }
}

/// What a plugin was granted, one sentence each.
fn grants(served: &ServedPlugin) -> Vec<String> {
    let directories = served.directories.iter().map(describe_directory);
    let variables = served
        .env
        .iter()
        .map(|name| format!("read the environment variable {name}"));
    let others = served
        .capability_names
        .iter()
        .map(|name| describe_capability(name));
    directories.chain(variables).chain(others).collect()
}

fn describe_directory(directory: &GrantedDirectory) -> String {
    let verb = match directory.access {
        "rw" => "read and change",
        _ => "read",
    };
    format!(
        "{verb} files in {} (as {})",
        directory.host.to_string_lossy(),
        directory.guest
    )
}

fn describe_capability(name: &str) -> String {
    match (name, name.split_once(':')) {
        (_, Some(("program", program))) => format!("start the program {program}"),
        (_, Some(("tool", tool))) => format!("call the tool {tool}"),
        ("session", _) => "keep data during a session".to_owned(),
        ("user", _) => "ask you questions".to_owned(),
        ("agents", _) => "start other agents".to_owned(),
        ("resources", _) => "read resources of MCP servers".to_owned(),
        ("tools", _) => "call other tools, each with its own approval".to_owned(),
        ("net", _) => "connect to the hosts that it asks for and you allow".to_owned(),
        (other, _) => other.to_owned(),
    }
}

/// The last lines of a server's log, which are escaped already.
fn log_tail(settings: &CliSettings, server: &str) -> Vec<String> {
    let state = settings.core.host_paths.state.as_deref();
    let path = state.map(|state| state.join("mcp/logs").join(format!("{server}.log")));
    path.and_then(|path| read_tail(&path).ok())
        .unwrap_or_default()
}

fn read_tail(path: &Path) -> std::io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let start = size.saturating_sub(LOG_TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL).read_to_end(&mut bytes)?;
    let tail = String::from_utf8_lossy(&bytes);
    // The first line is incomplete unless it is the first of the file.
    let lines = tail.lines().skip(usize::from(start > 0));
    Ok(lines.map(|line| text::escape_line(line, 500)).collect())
}

/// The saved content of changed files, in the store.
struct StoredFiles(Staging);

impl CommitRecovery for StoredFiles {
    fn recover(&self, id: &str, entry: &Value) -> Result<RecoveryOutcome, CallError> {
        self.0.recover(id, entry)
    }

    fn inverse_entry(&self, entry: &Value) -> Result<Value, CallError> {
        self.0.inverse_entry(entry)
    }

    fn undo(&self, id: &str, entry: &Value) -> Result<(), CommitError> {
        self.0.undo(id, entry)
    }
}

impl FileHistory for StoredFiles {
    fn describe_commit(&self, entry: &Value) -> Result<ChangeSet, CallError> {
        self.0.describe_commit(entry)
    }

    fn preview_undo(&self, entry: &Value) -> Result<UndoPreview, CallError> {
        let preview = self.0.preview_undo(entry)?;
        Ok(UndoPreview {
            changes: preview.changes,
            conflicts: preview.conflicts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_starts_with_a_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        std::fs::write(&path, "one\ntwo\u{1b}\n").unwrap();
        assert_eq!(read_tail(&path).unwrap(), ["one", "two\\u{1b}"]);
        let long = "0123456789\n".repeat(2_000);
        std::fs::write(&path, &long).unwrap();
        let lines = read_tail(&path).unwrap();
        assert!(lines.len() < 1_000 && lines.iter().all(|line| line == "0123456789"));
        assert!(read_tail(&dir.path().join("missing")).is_err());
    }

    #[test]
    fn grants_are_sentences() {
        for (name, expected) in [
            ("program:git", "start the program git"),
            ("tool:grep", "call the tool grep"),
            ("user", "ask you questions"),
            ("new", "new"),
        ] {
            assert_eq!(describe_capability(name), expected);
        }
        let directory = GrantedDirectory {
            guest: "/workspace".to_owned(),
            host: "/home/me".into(),
            access: "rw",
        };
        let sentence = "read and change files in /home/me (as /workspace)";
        assert_eq!(describe_directory(&directory), sentence);
    }
}
