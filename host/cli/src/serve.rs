//! Runs the MCP server: its identity, instructions for the model, and the loading of plugins.

mod host_view;
pub mod http;
pub mod ui;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use toolhost::{GrantedDirectory, LoadProgress};
use toolhost_contract::text;
use toolhost_mcp_server::{ServeOptions, SessionEnd, serve_stdio};

use crate::exit::{CliError, Exit, OrExit as _};
use crate::load::{RunningHost, StartingHost};
use crate::serve::http::HttpArgs;
use crate::terminal::note;
use crate::watch::{LiveChanges, WatchArgs};

/// Calls that take longer become MCP tasks, for clients that support tasks.
const TASK_THRESHOLD: Duration = Duration::from_secs(10);

/// Serves clients, also while plugins are compiled, until the client disconnects or a signal arrives. Nothing else may
/// write to standard output during that time.
pub async fn serve(
    starting: StartingHost,
    args: &HttpArgs,
    watch: &WatchArgs,
) -> Result<(), CliError> {
    let info = server_info(&starting);
    let own_folders = Arc::clone(&info.own_folders);
    let kernel = Arc::clone(starting.kernel());
    let settings = starting.settings.clone();
    let keep_off = starting.block_address();
    let mut loading = tokio::spawn(load_plugins(starting, own_folders));
    let served = Arc::clone(&kernel);
    let signals = http::count_signals().or_exit(Exit::Internal)?;
    let mut serving = pin!(async {
        match args.http {
            Some(address) => args.serve(address, served, info, &settings, keep_off).await,
            // Some clients stop their servers with a signal and never close the input.
            None => serve_stdio(
                served,
                info,
                Box::pin(http::wait_for_signals(1, signals.clone())),
            )
            .await
            .or_exit(Exit::Internal),
        }
    });
    let (host, is_over) = tokio::select! {
        loaded = &mut loading => (loaded.or_exit(Exit::Internal)??, false),
        ended = &mut serving => match ended? {
            // No client waits for the host to exit, so it can still report errors of plugins.
            SessionEnd::BeforeInitialize => tokio::select! {
                loaded = &mut loading => (loaded.or_exit(Exit::Internal)??, true),
                () = http::wait_for_signals(1, signals.clone()) => return kernel.flush().await.or_exit(Exit::Store),
            },
            SessionEnd::Ended => return kernel.flush().await.or_exit(Exit::Store),
        },
    };
    let host = Arc::new(host);
    if !is_over {
        host.compile_in_background();
        let _changes = LiveChanges::accept(&host, watch)?;
        serve_while_settling(&host, serving).await?;
    }
    host.shut_down().await
}

/// Loads the plugins, then connects to other servers, which updates the readiness that clients see.
async fn load_plugins(
    starting: StartingHost,
    own: Arc<OnceLock<Vec<String>>>,
) -> Result<RunningHost, CliError> {
    let host = starting.load(note_compiled).await?;
    if !host.settings.has_servers() {
        host.require_plugins()?;
    }
    let loaded = host.loaded.loaded();
    let folders = loaded.plugins.iter().flat_map(|served| &served.directories);
    own.get_or_init(|| provided_directories(folders));
    host.connect();
    if loaded.plugins.is_empty() {
        host.wait_for_servers().await;
        host.require_plugins()?;
    }
    host.note_missing_grants();
    Ok(host)
}

fn note_compiled(plugin: LoadProgress<'_>) {
    if !plugin.is_compiled {
        return;
    }
    let name = plugin.path.file_name().unwrap_or_default();
    note(&format!(
        "compiled {} ({} of {} plugins are ready)",
        text::escape_line(&name.to_string_lossy(), 100),
        plugin.done,
        plugin.total
    ));
}

/// Serves clients, and reports the problems of MCP servers once all of them have settled.
async fn serve_while_settling<F: Future>(host: &RunningHost, serving: F) -> F::Output {
    let settling = async {
        host.wait_for_servers().await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        output = serving => output,
        () = settling => unreachable!("it waits for ever"),
    }
}

fn server_info(starting: &StartingHost) -> ServeOptions {
    let settings = &starting.settings;
    let (profile, others) = settings.core.profile_view;
    ServeOptions {
        name: "toolhost".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        profile,
        others,
        prompter: settings.mcp.prompter.clone(),
        roots: settings.mcp.roots,
        structured: settings.mcp.structured,
        own_folders: Arc::default(),
        readiness: Some(starting.readiness()),
        tasks_after: Some(TASK_THRESHOLD),
        instructions: Some(instructions(
            &starting.guest_paths(),
            settings.servers.iter().any(|server| server.enabled) || settings.discovery.is_some(),
        )),
    }
}

/// The guest paths of the host's own directories, and the host paths of writable ones, which changes are reported with.
fn provided_directories<'a>(folders: impl Iterator<Item = &'a GrantedDirectory>) -> Vec<String> {
    let own = folders.filter(|folder| folder.is_provided());
    let names: BTreeSet<String> = own
        .flat_map(|folder| {
            let host = (folder.access == "rw").then(|| folder.host.to_string_lossy().into_owned());
            std::iter::once(folder.guest.clone()).chain(host)
        })
        .collect();
    names.into_iter().collect()
}

/// Advice that saves turns: the scheduler runs such calls at the same time.
const PARALLEL_READS: &str = "Make several read-only calls in one turn: they run in parallel.";

/// Instructions for the model. They contain only guest paths, because host paths must not be disclosed. `others` is
/// whether there are tools that are not components.
fn instructions(folders: &BTreeSet<String>, others: bool) -> String {
    let names: Vec<&str> = folders.iter().map(String::as_str).collect();
    let (which, they) = if others {
        (
            "Tools named mcp__… and discovered__… are run by other programs. Every other tool",
            "Those",
        )
    } else {
        ("Every tool", "Tools")
    };
    let files = match names[..] {
        [] => format!(
            "No directory is granted: {} see no files.",
            they.to_lowercase()
        ),
        _ => format!(
            "{they} see only files below these directories: {}.",
            names.join(", ")
        ),
    };
    format!("{which} runs in a sandbox. {files} {PARALLEL_READS}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_contain_guest_paths_only() {
        let folders = ["/workspace", "/extra/1"].map(str::to_owned);
        let text = instructions(&BTreeSet::from(folders), false);
        assert!(
            text.contains("these directories: /extra/1, /workspace. "),
            "{text}"
        );
        assert!(instructions(&BTreeSet::new(), false).contains("No directory"));
        let text = instructions(&BTreeSet::new(), true);
        assert!(
            text.starts_with("Tools named mcp__… and discovered__… are run by other programs"),
            "{text}"
        );
    }

    #[test]
    fn r_010_models_are_told_to_make_read_only_calls_together() {
        for folders in [BTreeSet::new(), BTreeSet::from(["/workspace".to_owned()])] {
            let text = instructions(&folders, false);
            assert!(
                text.ends_with("Make several read-only calls in one turn: they run in parallel."),
                "{text}"
            );
        }
    }
}
