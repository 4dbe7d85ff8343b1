//! From folders of `*.wasm` to a kernel that serves their tools. One broken plugin never stops the others: it
//! becomes one line, and the rest is served.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use toolhost_contract::units::show_duration;
use toolhost_contract::{Backend, Digest, Limits, Manifest, ToolName, text};
use toolhost_kernel::{Kernel, PluginInfo, Prompter};
use toolhost_runtime::{Compiler, Loaded, PluginGrants, Runtime, RuntimeSettings};
use toolhost_store::Store;

use crate::exit::{Exit, Failure, OrExit};
use crate::grants::{Granter, plan};
use crate::settings::Settings;
use crate::terminal::note;
use crate::unused::unused;

/// Loading reads and hashes whole files, so only so many at once are in memory. How many of them may compile is the
/// runtime's own, lower, number.
const LOADERS: usize = 4;
/// Warnings about shared names that are shown unasked: the operator chose what happens to them.
const FEW: usize = 3;

pub struct Host {
    pub kernel: Arc<Kernel>,
    pub plugins: Vec<Served>,
    pub broken: Vec<Broken>,
    pub settings: Settings,
}

/// A plugin whose tools are registered, and what it was given.
pub struct Served {
    pub path: PathBuf,
    pub manifest: Manifest,
    pub digest: Digest,
    pub size: u64,
    pub tools: Vec<ToolName>,
    /// Guest name, folder and `ro` or `rw`, for people.
    pub folders: Vec<Folder>,
    pub env: Vec<String>,
    pub limits: Limits,
}

pub struct Folder {
    pub guest: String,
    pub host: PathBuf,
    pub access: &'static str,
}

pub struct Broken {
    pub path: PathBuf,
    pub reason: String,
}

/// Loads everything the settings name. Says on standard error what could not be loaded.
pub async fn load(
    settings: Settings,
    prompter: Arc<dyn Prompter>,
    purpose: Purpose,
) -> Result<Host, Failure> {
    load_with(settings, prompter, purpose, |_| {}).await
}

/// The same, for those who have to hear what happens from the first event on: `begin` gets the kernel before anything
/// is sealed or registered.
pub async fn load_with(
    settings: Settings,
    prompter: Arc<dyn Prompter>,
    purpose: Purpose,
    begin: impl FnOnce(&Kernel),
) -> Result<Host, Failure> {
    if settings.plugins.is_empty() {
        let where_else = match settings.places.config_file() {
            Some(file) => format!(", or put `plugins = [\"DIR\"]` into {}", file.display()),
            None => String::new(),
        };
        return Err(Failure::new(
            Exit::Usage,
            format!("no plugin folder given; write --plugins DIR{where_else}"),
        ));
    }
    let mut granter = Granter::new(&settings).or_exit(Exit::Config)?;
    let runtime = runtime(settings.places.cache.clone(), settings.pools.all)?;
    let (files, mut broken) = find(&settings.plugins);
    let kernel = kernel(&settings, prompter, purpose, begin).await?;

    let mut plugins = Vec::new();
    for (path, loaded, took) in read_all(&runtime, files).await {
        let placed = loaded.and_then(|loaded| {
            let from_cache = loaded.from_cache();
            place(&kernel, &settings, &mut granter, loaded).map(|served| (served, from_cache))
        });
        match placed {
            Ok((served, from_cache)) => {
                if settings.verbose {
                    let how = if from_cache {
                        "from the cache"
                    } else {
                        "compiled"
                    };
                    let Manifest { name, version, .. } = &served.manifest;
                    note(&format!(
                        "loaded {name} {version}: {} tools, {how}, {}",
                        served.tools.len(),
                        show_duration(took)
                    ));
                }
                plugins.push(served);
            }
            Err(reason) => broken.push(Broken { path, reason }),
        }
    }
    let host = Host {
        kernel: Arc::new(kernel),
        plugins,
        broken,
        settings,
    };
    host.keep_only_chosen_tools();
    host.report();
    Ok(host)
}

/// What the plugins are loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To list them. No record is made and none is needed.
    Look,
    Run,
}

async fn kernel(
    settings: &Settings,
    prompter: Arc<dyn Prompter>,
    purpose: Purpose,
    begin: impl FnOnce(&Kernel),
) -> Result<Kernel, Failure> {
    let mut builder = Kernel::builder(settings.kernel()).prompter(prompter);
    if let (Some(dir), Purpose::Run) = (&settings.store, purpose) {
        let store = Store::open(dir).or_exit(Exit::Store)?;
        builder = builder.store(store, settings.durability);
    }
    let kernel = builder.build().or_exit(Exit::Config)?;
    begin(&kernel);
    for sealed in kernel.seal().await.or_exit(Exit::Store)? {
        let tool = sealed.tool.as_deref().unwrap_or("a tool");
        note(&format!(
            "note: call {} of {} was left unfinished by a host that died: {}",
            text::inline(&sealed.id.0, 100),
            text::inline(tool, 100),
            sealed.advice
        ));
    }
    Ok(kernel)
}

/// The engine, with a cache if there is a place for it.
pub fn runtime(cache_dir: Option<PathBuf>, max_concurrent: usize) -> Result<Runtime, Failure> {
    // The compiler runs in a process of its own: it can be killed, and what it does to its memory is not ours.
    let program = std::env::current_exe().or_exit(Exit::Internal)?;
    let compiler = Compiler::Child {
        program,
        args: vec!["compile-worker".into()],
    };
    let runtime = Runtime::new(RuntimeSettings {
        cache_dir,
        compiler,
        max_concurrent,
    })
    .or_exit(Exit::Internal)?;
    for warning in runtime.warnings() {
        note(&format!("warning: {}", text::inline(warning, 500)));
    }
    Ok(runtime)
}

/// The plugin files, sorted within each folder and each once; and the places where there are none.
fn find(places: &[PathBuf]) -> (Vec<PathBuf>, Vec<Broken>) {
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    let mut broken = Vec::new();
    for place in places {
        match files_in(place) {
            Ok(found) => files.extend(found.into_iter().filter(|file| {
                // The same folder under two names is still one folder.
                seen.insert(file.canonicalize().unwrap_or_else(|_| file.clone()))
            })),
            Err(reason) => broken.push(Broken {
                path: place.clone(),
                reason,
            }),
        }
    }
    (files, broken)
}

fn files_in(place: &Path) -> Result<Vec<PathBuf>, String> {
    let metadata = place.metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "no such folder; correct --plugins, or build the plugins first".to_owned()
        }
        _ => format!("cannot be read: {error}"),
    })?;
    if !metadata.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let is_plugin = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "wasm")
    };
    let entries = place
        .read_dir()
        .map_err(|error| format!("cannot be read: {error}"))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_plugin)
        .collect();
    files.sort();
    if files.is_empty() {
        Err("there is no *.wasm in this folder".to_owned())
    } else {
        Ok(files)
    }
}

type Read = (PathBuf, Result<Loaded, String>, Duration);

/// Reads all files side by side and hands them back in their order, so that every start gives the same names.
async fn read_all(runtime: &Runtime, files: Vec<PathBuf>) -> Vec<Read> {
    let turns = Arc::new(Semaphore::new(LOADERS));
    let mut tasks = JoinSet::new();
    for (index, path) in files.iter().cloned().enumerate() {
        let (runtime, turns) = (runtime.clone(), Arc::clone(&turns));
        tasks.spawn(async move {
            let _turn = turns.acquire().await;
            let start = Instant::now();
            let loaded = runtime.load(&path).await.map_err(|error| error.to_string());
            (index, loaded, start.elapsed())
        });
    }
    let mut done = BTreeMap::new();
    while let Some(result) = tasks.join_next().await {
        if let Ok((index, loaded, took)) = result {
            done.insert(index, (loaded, took));
        }
    }
    let read = |(index, path)| {
        // A task that is missing has panicked; its plugin is broken and the others are not.
        let panicked = || {
            (
                Err("internal error of the host while loading".to_owned()),
                Duration::ZERO,
            )
        };
        let (loaded, took) = done.remove(&index).unwrap_or_else(panicked);
        (path, loaded, took)
    };
    files.into_iter().enumerate().map(read).collect()
}

fn place(
    kernel: &Kernel,
    settings: &Settings,
    granter: &mut Granter,
    loaded: Loaded,
) -> Result<Served, String> {
    let manifest = loaded.manifest().clone();
    let plan = plan(&manifest, settings);
    let scope = granter.grant(&plan).map_err(|error| error.to_string())?;
    let folders = scope
        .roots()
        .iter()
        .map(|root| Folder {
            guest: root.guest().to_owned(),
            host: root.host().to_owned(),
            access: match root.access() {
                toolhost_vfs::Access::ReadOnly => "ro",
                toolhost_vfs::Access::ReadWrite => "rw",
            },
        })
        .collect();
    // A variable that is not set, or is not text, is not granted either.
    let env: Vec<(String, String)> = plan
        .env
        .into_iter()
        .filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)))
        .collect();
    let mut served = Served {
        path: loaded.path().to_owned(),
        digest: loaded.digest(),
        size: loaded.size(),
        tools: Vec::new(),
        folders,
        env: env.iter().map(|(name, _)| name.clone()).collect(),
        limits: plan.limits.clone(),
        manifest,
    };
    let info = PluginInfo {
        name: served.manifest.name.clone(),
        version: served.manifest.version.clone(),
        digest: Some(served.digest),
        timeout: plan.limits.timeout,
    };
    let backend = loaded
        .grant(PluginGrants {
            scope,
            env,
            limits: plan.limits,
        })
        .map_err(|error| error.to_string())?;
    let backend: Arc<dyn Backend> = Arc::new(backend);
    served.tools = kernel
        .register(info, backend)
        .map_err(|error| error.to_string())?;
    Ok(served)
}

impl Host {
    /// A host that cannot do anything is an error; one that can do less than it was told is not.
    pub fn require_plugins(&self) -> Result<(), Failure> {
        if self.plugins.is_empty() {
            return Err(Failure::new(
                Exit::NoPlugin,
                "no plugin could be loaded; the lines above say why",
            ));
        }
        Ok(())
    }

    /// Do plugins ask for files while no folder is granted? Then say it once: every path will be "not found".
    pub fn note_missing_folders(&self) {
        let asks = |served: &Served| plan(&served.manifest, &self.settings).files.is_some();
        if self.plugins.iter().any(asks)
            && self.plugins.iter().all(|served| served.folders.is_empty())
        {
            note(
                "note: no folder is granted, so tools see no files; grant one with --allow-path DIR or DIR:rw",
            );
        }
    }

    fn keep_only_chosen_tools(&self) {
        let Some(only) = &self.settings.only_tools else {
            return;
        };
        let registry = self.kernel.registry();
        let chosen: BTreeSet<&ToolName> = only
            .iter()
            .filter_map(|name| registry.get(name.as_str()))
            .map(|entry| &entry.name)
            .collect();
        for entry in registry
            .list_all()
            .filter(|entry| !chosen.contains(&entry.name))
        {
            // The name comes from the registry itself, so it is known.
            let _ = self.kernel.set_enabled(entry.name.as_str(), false);
        }
    }

    /// What went wrong, and which words of the operator had no effect.
    fn report(&self) {
        for Broken { path, reason } in &self.broken {
            let reason = text::inline(reason, 2_000);
            let named = reason.contains(&*path.to_string_lossy());
            let place = if named {
                String::new()
            } else {
                format!("{}: ", path.display())
            };
            note(&format!("error: {place}{reason}"));
        }
        let warnings = self.kernel.warnings();
        let shown = if self.settings.verbose {
            warnings.len()
        } else {
            FEW
        };
        for warning in warnings.iter().take(shown) {
            note(&format!("warning: {warning}"));
        }
        if warnings.len() > shown {
            note(&format!(
                "warning: {} more names are shared; --verbose lists them",
                warnings.len() - shown
            ));
        }
        // With a plugin missing, its rules have nothing to match either, and one error is enough.
        if self.broken.is_empty() {
            let plugins: Vec<&str> = self
                .plugins
                .iter()
                .map(|served| served.manifest.name.as_str())
                .collect();
            for word in unused(&self.settings, &self.kernel.registry(), &plugins) {
                note(&format!("warning: {word}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_files_are_found_once_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.wasm", "a.wasm", "readme.md"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let (at, empty) = (dir.path().to_owned(), dir.path().join("empty"));
        std::fs::create_dir(&empty).unwrap();
        let (files, broken) = find(&[
            at.clone(),
            at.join("empty/.."),
            at.join("a.wasm"),
            empty,
            at.join("missing"),
        ]);
        assert_eq!(files, [at.join("a.wasm"), at.join("b.wasm")]);
        let reasons: Vec<_> = broken.iter().map(|broken| broken.reason.as_str()).collect();
        assert_eq!(
            reasons,
            [
                "there is no *.wasm in this folder",
                "no such folder; correct --plugins, or build the plugins first"
            ]
        );
    }
}
