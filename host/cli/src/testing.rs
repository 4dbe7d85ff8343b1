//! Helpers shared by unit tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use toolhost::HostPaths;
use toolhost_contract::{
    Backend, BoxFuture, Call, CallError, Descriptor, Grant, Outcome, PluginName, Sink,
};
use toolhost_kernel::{Kernel, NoPrompter, PluginInfo};

use crate::args::{Cli, Command};
use crate::config::{FileFormat, parse};
use crate::settings::{CliSettings, SettingsEnv};

/// The settings of `host run WORDS…` in /cwd with the home directory /home/me and the configuration file /etc/t.toml.
pub fn settings(arguments: &[&str], toml: &str) -> Result<CliSettings, String> {
    settings_with_files(arguments, toml, &[])
}

/// Like [`settings`], with further files that the configuration can refer to.
pub fn settings_with_files(
    arguments: &[&str],
    toml: &str,
    files: &[(&str, &str)],
) -> Result<CliSettings, String> {
    let arguments = ["host", "run"].iter().chain(arguments);
    let Command::Run(args) = Cli::try_parse_from(arguments).unwrap().command else {
        panic!("not `run`")
    };
    let file = PathBuf::from("/etc/t.toml");
    let config = parse(&file, FileFormat::Toml, toml).map_err(|error| error.to_string())?;
    let variable = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
    let world = SettingsEnv {
        directory: Path::new("/cwd"),
        variable: &variable,
        read: &|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found
                .map(|(_, text)| (*text).to_owned())
                .ok_or_else(|| format!("{}: no such file", path.display()))
        },
        interactive: true,
        shipped_plugins: Some(Path::new("/installed")),
    };
    CliSettings::resolve(
        &args.host,
        config,
        Some(file),
        HostPaths::from_env(variable),
        &world,
    )
}

/// A row with this record.
pub fn call_row(record: serde_json::Value) -> toolhost_store::CallRow {
    toolhost_store::CallRow {
        id: "c-1".to_owned(),
        session: "s-1".to_owned(),
        batch: None,
        parent: None,
        tool: None,
        plugin: None,
        state: "denied".to_owned(),
        finished: true,
        deferred: false,
        effectful: false,
        created_ms: 0,
        updated_ms: 0,
        record,
    }
}

/// A kernel with one plugin whose tools do nothing.
pub fn kernel(plugin: &str, tools: Vec<Descriptor>) -> Kernel {
    let kernel = Kernel::new(
        toolhost_kernel::KernelSettings::default(),
        Arc::new(NoPrompter),
    )
    .unwrap();
    register(&kernel, plugin, "1.0.0", tools);
    kernel
}

pub fn register(kernel: &Kernel, plugin: &str, version: &str, tools: Vec<Descriptor>) {
    let plugin = PluginInfo {
        name: PluginName::parse(plugin).unwrap(),
        version: version.to_owned(),
        digest: None,
        timeout: None,
    };
    kernel
        .register(plugin, Arc::new(IdleBackend(tools)))
        .unwrap();
}

struct IdleBackend(Vec<Descriptor>);

impl Backend for IdleBackend {
    fn tools(&self) -> &[Descriptor] {
        &self.0
    }

    fn invoke(
        &self,
        _: Call,
        _: Grant,
        _: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(std::future::ready(Ok(Outcome::default())))
    }
}
