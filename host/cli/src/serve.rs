//! Joins us to the MCP server: who we say we are, and what a model should know before its first call.

pub mod http;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use toolhost::Folder;
use toolhost_mcp::{ServerInfo, serve_stdio};

use crate::exit::{Exit, Failure, OrExit as _};
use crate::load::Host;
use crate::terminal::note;

/// A call that takes longer becomes a task, for clients that know tasks.
const TASKS_AFTER: Duration = Duration::from_secs(10);

/// Serves until the client goes away. Nothing else may write to standard output meanwhile.
pub async fn serve_mcp(host: &Host) -> anyhow::Result<()> {
    Ok(serve_stdio(Arc::clone(&host.kernel), info(host)).await?)
}

fn info(host: &Host) -> ServerInfo {
    ServerInfo {
        name: "toolhost".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        profile: host.settings.profile,
        others: host.settings.others,
        desk: host.settings.mcp.desk.clone(),
        roots: host.settings.mcp.roots,
        own_folders: own_folders(
            host.loaded
                .plugins
                .iter()
                .flat_map(|served| &served.folders),
        ),
        settled: Some(host.settled()),
        tasks_after: Some(TASKS_AFTER),
        instructions: Some(instructions(
            host.loaded
                .plugins
                .iter()
                .flat_map(|served| &served.folders),
            host.settings.servers.iter().any(|server| server.enabled)
                || host.settings.discovery.is_some(),
        )),
    }
}

/// The floor of the benchmark, for as long as its client wants it.
pub async fn serve_noop(over_http: bool) -> Result<Exit, Failure> {
    let served = if over_http {
        toolhost_mcp::serve_noop_http(|url| note(&format!("listening on {url}"))).await
    } else {
        toolhost_mcp::serve_noop().await
    };
    served.or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// By the names that guests know them by, and those that calls write to by their own: that is what changes are called.
fn own_folders<'a>(folders: impl Iterator<Item = &'a Folder>) -> Vec<String> {
    let own = folders.filter(|folder| folder.is_own());
    let names: BTreeSet<String> = own
        .flat_map(|folder| {
            let host = (folder.access == "rw").then(|| folder.host.to_string_lossy().into_owned());
            std::iter::once(folder.guest.clone()).chain(host)
        })
        .collect();
    names.into_iter().collect()
}

/// The guest names only: where a folder is on this machine is no business of a model. `others`: there are tools that
/// nothing holds back.
fn instructions<'a>(folders: impl Iterator<Item = &'a Folder>, others: bool) -> String {
    let names: BTreeSet<&str> = folders.map(|folder| folder.guest.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let (which, they) = if others {
        (
            "Tools named mcp__… and discovered__… are not sandboxed: other programs run them. Every other tool",
            "Those",
        )
    } else {
        ("Every tool", "Tools")
    };
    match names[..] {
        [] => format!(
            "{which} runs in a sandbox. No folder is granted: {} see no files.",
            they.to_lowercase()
        ),
        _ => format!(
            "{which} runs in a sandbox. {they} see files below these folders and nowhere else: {}.",
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_learns_the_names_of_folders_and_not_their_places() {
        let folder = |guest: &str| Folder {
            guest: guest.to_owned(),
            host: "/home/me/secret-project".into(),
            access: "ro",
        };
        let text = instructions(
            [
                folder("/workspace"),
                folder("/extra/1"),
                folder("/workspace"),
            ]
            .iter(),
            false,
        );
        assert!(
            text.ends_with("nowhere else: /extra/1, /workspace."),
            "{text}"
        );
        assert!(instructions([].iter(), false).contains("No folder"));
        let text = instructions([].iter(), true);
        assert!(
            text.starts_with("Tools named mcp__… and discovered__… are not sandboxed"),
            "{text}"
        );
    }
}
