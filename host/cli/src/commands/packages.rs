//! Commands for packages: `host add`, `list`, `info`, `remove`, `search`, `update`, `lock`, `sync`, `publish`, `revoke`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueHint};
use tokio::sync::OnceCell;
use toolhost::HostPaths;
use toolhost_contract::text;
use toolhost_packages::{
    FetchOptions, LOCK_FILE, LockFile, LockedPlugin, PackageStore, Reference, Registry, Signer,
};

use crate::control::{ControlRequest, running_hosts};
use crate::exit::{CliError, Exit, OrExit, current_directory};
use crate::host_args::HostArgs;
use crate::settings::CliSettings;
use crate::terminal::note;
use crate::terminal::prompter::confirm;

use super::sign::AuthorArgs;
use configured::ConfiguredPlugin;

mod candidate;
mod configured;
mod install;
mod lock_file;
mod publish;
mod search;
mod show;

pub use install::{
    ADD_HELP, AddArgs, InfoArgs, ListArgs, RemoveArgs, UpdateArgs, add, info, list, remove, update,
};
pub use lock_file::{LockArgs, SyncArgs, lock, sync};
pub use publish::{PublishArgs, RevokeArgs, publish, revoke};
pub use search::{SearchArgs, search};
pub use show::{describe_need, describe_signer};

/// How long a running host may take to load new versions before the command goes on.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// What to accept, for commands that install.
#[derive(Debug, Clone, Default, Args)]
pub struct AcceptArgs {
    #[command(flatten)]
    pub author: AuthorArgs,

    /// Accept packages without a signature, or with one by an unknown author
    #[arg(long)]
    pub allow_unsigned: bool,

    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,

    /// Use this configuration file instead of the user's toolhost.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

impl AcceptArgs {
    fn options(&self, pinned: Option<Signer>) -> Result<FetchOptions, CliError> {
        Ok(FetchOptions {
            signers: self.author.signers()?,
            pinned,
            allow_unsigned: self.allow_unsigned,
        })
    }
}

/// What the commands work with.
struct Packages {
    store: PackageStore,
    registry: Registry,
    settings: CliSettings,
    /// The plugins of the configured directories, once they were read.
    configured: OnceCell<Vec<ConfiguredPlugin>>,
    /// Whether running hosts are told about new revocations. A host does that itself.
    notifies: bool,
}

impl Packages {
    fn open(config: Option<&PathBuf>) -> Result<Self, CliError> {
        let args = HostArgs {
            config: config.cloned(),
            ..HostArgs::default()
        };
        Ok(Self {
            store: store()?,
            registry: Registry::default(),
            settings: CliSettings::load(&args)?,
            configured: OnceCell::new(),
            notifies: true,
        })
    }

    /// What to accept from a source. The author of the package that was installed from it is known.
    fn options_for(
        &self,
        source: &Reference,
        accept: &AcceptArgs,
    ) -> Result<FetchOptions, CliError> {
        let installed = self.store.installed()?;
        let mut plugins = installed.plugins().iter();
        let same = plugins.find(|plugin| plugin.source == *source);
        accept.options(same.and_then(|plugin| plugin.signer.clone()))
    }

    /// Whether the files of an installed version are those that were installed.
    fn is_intact(&self, plugin: &LockedPlugin) -> bool {
        let digest = self.store.digest(&self.store.file(plugin));
        digest.is_ok_and(|digest| digest == plugin.content)
    }

    fn installed(&self, name: &str) -> Result<LockedPlugin, CliError> {
        let installed = self.store.installed()?;
        installed
            .get(name)
            .cloned()
            .ok_or_else(|| not_installed(name, &installed))
    }
}

/// Gets the lists of revoked versions of all installed packages. A failure is reported and does not affect the others.
pub async fn refresh_revocations(settings: &CliSettings) {
    let Some(store) = settings.core.packages.clone() else {
        return;
    };
    let packages = Packages {
        store,
        registry: Registry::default(),
        settings: settings.clone(),
        configured: OnceCell::new(),
        notifies: false,
    };
    // Loading has reported a store that cannot be read.
    let installed = packages.store.installed().unwrap_or_default();
    for plugin in installed.plugins() {
        if let Err(CliError { error, .. }) = packages.refresh_revocations(plugin).await {
            let name = &plugin.name;
            note(&format!("warning: revoked versions of {name}: {error:#}"));
        }
    }
}

fn store() -> Result<PackageStore, CliError> {
    let paths = HostPaths::from_env(|name| std::env::var(name).ok());
    let state = paths.state.ok_or_else(|| {
        let message = "there is no state directory for packages; set HOME or TOOLHOST_STATE_DIR";
        CliError::new(Exit::Usage, message)
    })?;
    Ok(toolhost::package_store(&state))
}

fn not_installed(name: &str, installed: &LockFile) -> CliError {
    let names = installed.plugins().iter().map(|one| one.name.as_str());
    let names: Vec<_> = names.collect();
    let names = if names.is_empty() {
        "nothing is installed".to_owned()
    } else {
        format!("installed: {}", names.join(", "))
    };
    let name = text::escape_line(name, 80);
    CliError::new(Exit::Usage, format!("`{name}` is not installed; {names}"))
}

fn parse_reference(text: &str) -> Result<Reference, CliError> {
    let reference: Reference = text.parse().or_exit(Exit::Usage)?;
    Ok(match reference {
        // Installed from another directory later.
        Reference::File(path) => {
            let real = path
                .canonicalize()
                .with_context(|| format!("{}", path.display()))
                .or_exit(Exit::Usage)?;
            // The lock file contains it.
            let text = real.to_string_lossy();
            text.parse().or_exit(Exit::Usage)?
        }
        other => other,
    })
}

/// Refuses an unsigned package that is not a local file, if `--yes` is given without `--allow-unsigned`.
fn refuse_unsigned(plugin: &LockedPlugin, accept: &AcceptArgs) -> Result<(), CliError> {
    let is_remote = !matches!(plugin.source, Reference::File(_));
    if plugin.signer.is_none() && is_remote && accept.yes && !accept.allow_unsigned {
        let name = &plugin.name;
        let message =
            format!("{name} is not signed; pass --allow-unsigned with --yes to install it");
        return Err(CliError::new(Exit::Signature, message));
    }
    Ok(())
}

/// Asks unless `yes`. Without a terminal the answer must be on the command line.
fn ask(question: &str, yes: bool) -> Result<(), CliError> {
    if yes {
        return Ok(());
    }
    match confirm(question) {
        Some(true) => Ok(()),
        Some(false) => Err(CliError::new(Exit::Denied, "nothing was changed")),
        None => Err(CliError::new(
            Exit::Denied,
            "there is no terminal to ask at; check the above and pass --yes",
        )),
    }
}

/// Makes running hosts use what is installed now.
fn notify_running_hosts() {
    let paths = HostPaths::from_env(|name| std::env::var(name).ok());
    for host in running_hosts(paths.state.as_deref()) {
        let pid = host.pid;
        match host.send_within(ControlRequest::ReloadPackages, RELOAD_TIMEOUT) {
            Ok(answer) => {
                for error in answer.errors {
                    let error = text::escape_lines(&error, 2_000);
                    note(&format!("warning: host with process id {pid}: {error}"));
                }
                for change in answer.changes {
                    let change = text::escape_line(&change, 2_000);
                    note(&format!("host with process id {pid}: {change}"));
                }
            }
            Err(CliError { error, .. }) => note(&format!("warning: {error:#}")),
        }
    }
}

/// Changes the lock file of the project in the current directory, if there is one.
fn change_project_lock(change: impl FnOnce(&mut LockFile)) {
    let directory = current_directory();
    let changed = directory.and_then(|directory| {
        let path = directory.join(LOCK_FILE);
        let Some(mut lock) = LockFile::read(&path)? else {
            return Ok(());
        };
        let before = lock.clone();
        change(&mut lock);
        if lock != before {
            lock.write(&path)?;
            note(&format!("updated {}", path.display()));
        }
        Ok(())
    });
    // What is installed does not depend on it.
    if let Err(CliError { error, .. }) = changed {
        note(&format!(
            "warning: the lock file was not changed: {error:#}"
        ));
    }
}

/// The entry in a lock file in this directory: a file below it has a relative path.
fn relative_to(directory: &Path, mut plugin: LockedPlugin) -> LockedPlugin {
    if let Reference::File(path) = &plugin.source
        && let Ok(rest) = path.strip_prefix(directory)
    {
        plugin.source = Reference::File(Path::new(".").join(rest));
    }
    plugin
}
