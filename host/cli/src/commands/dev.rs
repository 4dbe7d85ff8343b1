//! `host dev`: serves a plugin while its author changes it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolhost_authoring::Project;
use toolhost_contract::Access;

use crate::authoring::{build, pack_project};
use crate::commands::run::{self, RunArgs};
use crate::events_file::EventsArgs;
use crate::exit::{CliError, Exit, OrExit as _};
use crate::host_args::HostArgs;
use crate::serve::http::HttpArgs;
use crate::serve::ui::UiArgs;
use crate::settings::CliSettings;
use crate::terminal::note;
use crate::watch::WatchArgs;

/// Editors save a file in several steps.
const QUIET: Duration = Duration::from_millis(50);

pub const HELP: &str = "\
Builds the project and starts `host run` with its plugin: a prompt at a terminal, otherwise an MCP server. When a source
changes, the project is built and the plugin is loaded again; calls that run are not affected. If a build fails, the
last version keeps serving. The options are those of `host run`. The project cannot be granted for writing, because the
build command runs with your privileges.";

#[derive(Debug, Args)]
pub struct DevArgs {
    /// Directory of the project
    #[arg(value_name = "PROJECT", default_value = ".", value_hint = ValueHint::DirPath)]
    pub project: PathBuf,

    // First, because its most common options have no heading.
    #[command(flatten)]
    pub host: HostArgs,

    #[command(flatten)]
    pub http: HttpArgs,

    #[command(flatten)]
    pub ui: UiArgs,
}

pub fn dev(runtime: &Runtime, args: DevArgs) -> Result<Exit, CliError> {
    let root = std::path::absolute(&args.project).or_exit(Exit::Usage)?;
    let project = Project::read(&root).or_exit(Exit::Config)?;
    refuse_writable_project(&root, &CliSettings::load(&args.host)?)?;
    let (manifest, _) = project.manifest().or_exit(Exit::Config)?;
    let directory = tempfile::tempdir().or_exit(Exit::Internal)?;
    let plugin = directory.path().join(format!("{}.wasm", manifest.name));
    let mut sources = Sources::watch(&project)?;
    runtime.block_on(first_build(&project, &plugin, &mut sources))?;

    let served = plugin.clone();
    let building = runtime.spawn(async move {
        while sources.changed().await {
            if let Err(error) = rebuild(&project, &plugin).await {
                note(&format!("error: {error}; the last version keeps serving"));
            }
        }
    });
    let mut host = args.host;
    host.plugins.push(served);
    let exit = run::run(
        runtime,
        &RunArgs {
            ask_client: false,
            events: EventsArgs::default(),
            http: args.http,
            ui: args.ui,
            watch: WatchArgs { watch: true },
            host,
        },
    );
    building.abort();
    exit
}

/// A tool that can write to the project could change what the build runs, outside of the sandbox.
fn refuse_writable_project(root: &Path, settings: &CliSettings) -> Result<(), CliError> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let root = real(root);
    let mut writable = settings
        .core
        .paths
        .iter()
        .filter(|path| path.access == Access::ReadWrite);
    let overlaps = |path: &Path| path.starts_with(&root) || root.starts_with(path);
    match writable.find(|path| overlaps(&real(&path.host))) {
        None => Ok(()),
        Some(path) => Err(CliError::new(
            Exit::Usage,
            format!(
                "tools could change the project, whose build runs with your privileges: grant {} as :ro, or another directory",
                path.host.display()
            ),
        )),
    }
}

/// Builds until a build succeeds.
async fn first_build(
    project: &Project,
    plugin: &Path,
    sources: &mut Sources,
) -> Result<(), CliError> {
    loop {
        match rebuild(project, plugin).await {
            // Without a toolchain, a change of a source does not help.
            Err(error) if error.exit != Exit::Usage => {
                note(&format!("error: {error}; waiting for a change"));
            }
            ended => return ended,
        }
        tokio::select! {
            _ = sources.changed() => {}
            _ = tokio::signal::ctrl_c() => return Err(CliError::new(Exit::ToolFailed, "interrupted")),
        }
    }
}

/// Builds and packs. `--watch` loads the plugin when its file changes.
async fn rebuild(project: &Project, plugin: &Path) -> Result<(), CliError> {
    build(project).await?;
    if !pack_project(project, plugin)? {
        note("the plugin has not changed");
    }
    Ok(())
}

/// Reports changes of the sources of a project.
struct Sources {
    _watcher: RecommendedWatcher,
    changes: mpsc::Receiver<()>,
}

impl Sources {
    fn watch(project: &Project) -> Result<Self, CliError> {
        // One pending signal is enough: a build reads all files.
        let (changed, changes) = mpsc::channel(1);
        let sources = project.sources.clone();
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                // An error can mean that events were lost.
                let matters = match event {
                    Ok(event) => {
                        !event.kind.is_access()
                            && event.paths.iter().any(|path| is_source(path, &sources))
                    }
                    Err(_) => true,
                };
                if matters {
                    let _ = changed.try_send(());
                }
            })
            .or_exit(Exit::Internal)?;
        for source in &project.sources {
            // A file is watched in its directory, because editors replace it.
            let (path, mode) = match source.parent() {
                Some(parent) if !source.is_dir() => (parent, RecursiveMode::NonRecursive),
                _ => (source.as_path(), RecursiveMode::Recursive),
            };
            watcher.watch(path, mode).map_err(|error| {
                CliError::new(
                    Exit::Config,
                    format!("cannot watch {}: {error}", path.display()),
                )
            })?;
        }
        Ok(Self {
            _watcher: watcher,
            changes,
        })
    }

    /// Waits for a change, and until nothing has changed for a moment.
    async fn changed(&mut self) -> bool {
        let is_open = self.changes.recv().await.is_some();
        while let Ok(Some(())) = timeout(QUIET, self.changes.recv()).await {}
        is_open
    }
}

/// Whether a build reads the file. Files of editors and of the Python compiler do not count.
fn is_source(path: &Path, sources: &[PathBuf]) -> bool {
    let below = |source: &PathBuf| path.strip_prefix(source).ok();
    let Some(rest) = sources.iter().find_map(below) else {
        return false;
    };
    let is_hidden = |part: &OsStr| {
        let name = part.to_string_lossy();
        name.starts_with('.') || name.ends_with('~') || name == "__pycache__"
    };
    !rest.iter().any(is_hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_a_build_reads_cause_one() {
        let sources = ["/p/src", "/p/plugin.toml"].map(PathBuf::from);
        for (path, expected) in [
            ("/p/src/lib.rs", true),
            ("/p/src/a/b.py", true),
            ("/p/plugin.toml", true),
            ("/p/src/.lib.rs.swp", false),
            ("/p/src/lib.rs~", false),
            ("/p/src/__pycache__/b.pyc", false),
            ("/p/target/x", false),
            ("/p/srcs/x", false),
        ] {
            assert_eq!(is_source(Path::new(path), &sources), expected, "{path}");
        }
    }
}
