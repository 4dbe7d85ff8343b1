//! `--watch`: reloads plugins when their files change.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::commands::packages::refresh_revocations;
use crate::control::{ControlRequest, ControlSocket};
use crate::exit::{CliError, Exit, OrExit as _};
use crate::load::RunningHost;

/// A build writes its output in several steps. Files are read once nothing has changed for this long.
const QUIET: Duration = Duration::from_millis(300);

/// When registries are first asked for revoked versions, and how often later.
const FIRST_REVOCATION_CHECK: Duration = Duration::from_mins(1);
const REVOCATION_CHECK: Duration = Duration::from_hours(6);

/// How often the date is checked: descriptions are at most this much behind.
const DATE_CHECK: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default, Args)]
pub struct WatchArgs {
    /// Load plugins again when their files change. A version that cannot be loaded is reported, and the old one stays
    #[arg(help_heading = "Other options", long)]
    pub watch: bool,
}

/// Accepts changes to a running host until it is dropped: on its control socket, and from its plugin directories.
pub struct LiveChanges {
    _socket: Option<ControlSocket>,
    watching: Option<(RecommendedWatcher, JoinHandle<()>)>,
    following: [JoinHandle<()>; 2],
}

impl LiveChanges {
    /// Must be called within a Tokio runtime.
    pub fn accept(host: &Arc<RunningHost>, args: &WatchArgs) -> Result<Self, CliError> {
        if let Some(page) = host.page() {
            page.set_host(host);
        }
        // First, so that a client that finds the socket knows that the directories are watched.
        let watching = args.watch.then(|| watch(host)).transpose()?;
        Ok(Self {
            _socket: ControlSocket::open(host),
            watching,
            following: [
                tokio::spawn(follow_date(Arc::clone(host))),
                tokio::spawn(follow_revocations(Arc::clone(host))),
            ],
        })
    }
}

impl Drop for LiveChanges {
    fn drop(&mut self) {
        self.following.iter().for_each(JoinHandle::abort);
        if let Some((_, task)) = &self.watching {
            task.abort();
        }
    }
}

fn watch(host: &Arc<RunningHost>) -> Result<(RecommendedWatcher, JoinHandle<()>), CliError> {
    // One pending signal is enough: a reload reads all files.
    let (changed, mut changes) = mpsc::channel(1);
    let initial = changed.clone();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // An error can mean that events were lost.
        if event.is_ok_and(|event| event.kind.is_access()) {
            return;
        }
        let _ = changed.try_send(());
    })
    .or_exit(Exit::Internal)?;
    for directory in directories(&host.settings.core.plugins) {
        watcher
            .watch(&directory, RecursiveMode::NonRecursive)
            .map_err(|error| {
                let message = format!("--watch {}: {error}", directory.display());
                CliError::new(Exit::Usage, message)
            })?;
    }
    // For files that changed after they were loaded and before they were watched.
    let _ = initial.try_send(());
    let host = Arc::clone(host);
    let task = tokio::spawn(async move {
        while changes.recv().await.is_some() {
            while let Ok(Some(())) = timeout(QUIET, changes.recv()).await {}
            host.reload_changed_plugins().await;
        }
    });
    Ok((watcher, task))
}

/// Gets the descriptions of tools again when the date changes, because they can contain it.
async fn follow_date(host: Arc<RunningHost>) {
    let core = &host.settings.core;
    let environment = || toolhost::environment::describe(core.policy.mode(), core.profile_view.0);
    let mut last = environment();
    loop {
        tokio::time::sleep(DATE_CHECK).await;
        let now = environment();
        if now != last {
            last.clone_from(&now);
            host.refresh_descriptions(now).await;
        }
    }
}

/// Gets the lists of revoked versions of installed packages, and stops plugins that are in them.
async fn follow_revocations(host: Arc<RunningHost>) {
    tokio::time::sleep(FIRST_REVOCATION_CHECK).await;
    loop {
        refresh_revocations(&host.settings).await;
        // Also for revocations that another process has stored.
        host.control(ControlRequest::ReloadPackages).await;
        tokio::time::sleep(REVOCATION_CHECK).await;
    }
}

/// The directories to watch. A file is watched in its directory, because builds replace it.
fn directories(plugins: &[PathBuf]) -> BTreeSet<PathBuf> {
    let directory = |path: &PathBuf| match path.parent().filter(|_| path.is_file()) {
        Some(parent) => parent.to_owned(),
        None => path.clone(),
    };
    let existing = plugins.iter().map(directory);
    existing
        .filter(|path: &PathBuf| Path::exists(path))
        .collect()
}
