//! `--watch`: reloads plugins when their files change.

mod directories;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use self::directories::WatchedDirectories;
use crate::commands::packages::refresh_revocations;
use crate::control::{ControlRequest, ControlSocket};
use crate::exit::{CliError, Exit, OrExit as _};
use crate::load::RunningHost;

/// A build writes its output in several steps. Files are read once nothing has changed for this long.
const QUIET: Duration = Duration::from_millis(300);

/// Files that change all the time do not delay a reload for longer than this.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// How often directories are checked that are missing, or that were replaced through a link or a parent directory, for
/// which there is no event.
const DIRECTORY_CHECK: Duration = Duration::from_secs(2);

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
    watching: Option<JoinHandle<()>>,
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
        let tasks = self.following.iter().chain(&self.watching);
        tasks.for_each(JoinHandle::abort);
    }
}

fn watch(host: &Arc<RunningHost>) -> Result<JoinHandle<()>, CliError> {
    // One pending signal is enough: a reload reads all files.
    let (changed, mut changes) = mpsc::channel(1);
    let initial = changed.clone();
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // An error can mean that events were lost.
        if event.is_ok_and(|event| event.kind.is_access()) {
            return;
        }
        let _ = changed.try_send(());
    })
    .or_exit(Exit::Internal)?;
    let mut directories = WatchedDirectories::new(watcher, &host.settings.core.plugins)?;
    // For files that changed after they were loaded and before they were watched.
    let _ = initial.try_send(());
    let host = Arc::clone(host);
    Ok(tokio::spawn(async move {
        loop {
            let has_event = timeout(DIRECTORY_CHECK, changes.recv()).await.is_ok();
            if has_event || directories.watch_again() {
                wait_until_quiet(&mut changes).await;
                // Before files are read, so that later changes are not missed.
                directories.watch_again();
                host.reload_changed_plugins().await;
            }
        }
    }))
}

/// Waits until there is no event for some time.
async fn wait_until_quiet(changes: &mut mpsc::Receiver<()>) {
    let end = Instant::now() + MAX_DELAY;
    loop {
        let now = Instant::now();
        let has_event = timeout_at(end.min(now + QUIET), changes.recv()).await;
        if has_event.is_err() || now >= end {
            return;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn constant_changes_delay_a_reload_for_a_limited_time() {
        for (interval, expected) in [(QUIET * 2, QUIET), (QUIET / 2, MAX_DELAY)] {
            let (changed, mut changes) = mpsc::channel(1);
            let events = tokio::spawn(async move {
                loop {
                    tokio::time::sleep(interval).await;
                    let _ = changed.try_send(());
                }
            });
            let start = Instant::now();
            wait_until_quiet(&mut changes).await;
            let waited = start.elapsed();
            assert!(
                waited >= expected && waited < expected + QUIET,
                "{interval:?}: {waited:?}"
            );
            events.abort();
        }
    }
}
