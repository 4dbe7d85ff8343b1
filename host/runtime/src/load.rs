//! Loads a plugin file: read, scan, compile, link, describe. What the cache or the file contains is not repeated, and code
//! in the cache is read when it is first used.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest as _, Sha256};
use toolhost_contract::{CallError, Concurrency, Descriptor, Digest, Limits, Manifest, text};
use wasmtime::Engine;
use wasmtime::component::{Component, InstancePre, Linker};

use crate::api::v0_1::{self, PluginPre, types};
use crate::compile::Compiler;
use crate::compile_cache::{CompileCache, EntryKind};
use crate::export::{Bindings, EXTRA_INSTANCES, Export, ReadyInstances};
use crate::files::{FilesView, HasFiles};
use crate::functions::{self, SkippedFunction};
use crate::instance::{self, CallEnvironment};
use crate::linked_code::{Linked, LinkedCode, Tools};
use crate::plugin::{Plugin, PluginGrants};
use crate::state::State;
use crate::{LoadError, RuntimeError, engine, request_limits};

mod code;
mod contract_check;
mod known;
mod packed_tools;
mod plugin_file;

pub(crate) use contract_check::exported;
use contract_check::{
    ToolSource, check_contract, check_imports, described_tools, has_hooks, link_error, tool_source,
};
pub use plugin_file::{file_digest, read_manifest};
use plugin_file::{file_version, manifest, read, read_with_outline};

/// Maximum number of concurrent compilations, because each can use gigabytes.
const MAX_COMPILERS: usize = 2;
/// Maximum number of plugins that are described at the same time while the maximum number of calls runs.
pub(crate) const MAX_DESCRIBED: usize = 16;

#[derive(Debug, Clone)]
pub struct RuntimeSettings {
    /// Directory of the compilation cache; `None` disables it.
    pub cache_dir: Option<PathBuf>,
    pub compiler: Compiler,
    /// Maximum number of concurrent calls.
    pub max_concurrent: usize,
    /// Facts on which descriptions of tools can depend.
    pub environment: Vec<(String, String)>,
}

/// Refuses a plugin file that the operator does not trust, with the reason.
pub type VerifyFile = dyn Fn(&Path, Digest) -> Result<(), String> + Send + Sync;
/// Whether the kernel accepts the schemas of a tool.
pub type CheckTool = fn(&Descriptor) -> bool;

pub struct PluginChecks {
    /// Called with the digest of each plugin file before the host compiles or runs the file.
    pub file: Box<VerifyFile>,
    /// Its result is stored with the descriptions of tools, so that a later start need not check them again.
    pub tool: CheckTool,
}

/// The engine and the state shared by all plugins. Cheap to clone.
#[derive(Clone)]
pub struct Runtime(Arc<Shared>);

struct Shared {
    engine: Engine,
    linker: Linker<State>,
    cache: Option<CompileCache>,
    compiler: Compiler,
    compilers: tokio::sync::Semaphore,
    ready_instances: Arc<ReadyInstances>,
    environment: RwLock<Environment>,
    warnings: Vec<String>,
    checks: Option<PluginChecks>,
}

/// Facts on which descriptions of tools can depend.
type Environment = Arc<[(String, String)]>;

impl Runtime {
    pub fn new(settings: RuntimeSettings) -> Result<Self, RuntimeError> {
        Self::create(settings, None)
    }

    pub fn with_checks(
        settings: RuntimeSettings,
        checks: PluginChecks,
    ) -> Result<Self, RuntimeError> {
        Self::create(settings, Some(checks))
    }

    fn create(
        settings: RuntimeSettings,
        checks: Option<PluginChecks>,
    ) -> Result<Self, RuntimeError> {
        // Describing plugins uses slots too.
        let slots = settings.max_concurrent.clamp(1, 1_000) + MAX_DESCRIBED + EXTRA_INSTANCES;
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        let engine = engine::running(slots)?;
        let linker = linker(&engine).map_err(|error| RuntimeError::Engine(format!("{error:#}")))?;
        let mut warnings = Vec::new();
        let cache = settings.cache_dir.and_then(|dir| {
            CompileCache::open(&dir, &engine)
                .map_err(|reason| warnings.push(format!("compiled code is not cached: {reason}")))
                .ok()
        });
        Ok(Self(Arc::new(Shared {
            engine,
            linker,
            cache,
            compiler: settings.compiler,
            compilers: tokio::sync::Semaphore::new(MAX_COMPILERS),
            ready_instances: Arc::default(),
            environment: RwLock::new(settings.environment.into()),
            warnings,
            checks,
        })))
    }

    /// Sets the facts for plugins that are loaded from now on.
    pub fn set_environment(&self, environment: Vec<(String, String)>) {
        let current = self.0.environment.write();
        *current.unwrap_or_else(PoisonError::into_inner) = environment.into();
    }

    fn environment(&self) -> Environment {
        let environment = self.0.environment.read();
        Arc::clone(&environment.unwrap_or_else(PoisonError::into_inner))
    }

    /// Warnings about the setup, for the operator.
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    #[cfg(test)]
    pub(crate) fn engine_and_linker(&self) -> (&Engine, &Linker<State>) {
        (&self.0.engine, &self.0.linker)
    }

    /// Loads a component and gets its tool descriptions. The component runs only without grants until this returns.
    pub async fn load(&self, path: &Path) -> Result<Loaded, LoadError> {
        self.load_with(path, false).await
    }

    /// Like [`Runtime::load`], but does not compile a component whose file describes its tools: its code is compiled by
    /// [`Plugin::compile`] or the first call. Without a cache, it is compiled now.
    pub async fn load_described(&self, path: &Path) -> Result<Loaded, LoadError> {
        self.load_with(path, true).await
    }

    async fn load_with(&self, path: &Path, defers_compilation: bool) -> Result<Loaded, LoadError> {
        let environment = self.environment();
        // Hashing takes a while, and the threads of the executor also answer clients.
        let (runtime, file, known) = (self.clone(), path.to_owned(), Arc::clone(&environment));
        let known = move || runtime.known(&file, &known, defers_compilation);
        let known = tokio::task::spawn_blocking(known).await;
        if let Some(loaded) = known.ok().transpose()?.flatten() {
            return Ok(loaded);
        }
        let (bytes, outline) = read_with_outline(path)?;
        let manifest = manifest(path, outline.manifest.as_deref())?;
        let digest = Digest(Sha256::digest(&bytes).into());
        self.verify(path, digest)?;
        // Before compiling, which can fail because of an interface that this host does not have.
        check_imports(path, &outline.imports)?;
        let (component, code_state) = self.component(path, &bytes, digest).await?;
        let (imports, exports) = check_contract(path, &self.0.engine, &component)?;
        let linked = self.linked(path, &component, &exports)?;
        let docs = outline.docs.as_deref();
        let (described, skipped) = match &linked.tools {
            Some(Tools::Interface(tools)) => {
                let tools = describe(path, tools.bindings(), &environment).await?;
                (tools, Vec::new())
            }
            Some(Tools::Functions(tools)) => {
                functions::describe(path, tools.bindings(), &manifest, docs)?
            }
            None => Default::default(),
        };
        packed_tools::check(path, outline.tools.as_deref(), &described)?;
        let description = Description {
            host_version: env!("CARGO_PKG_VERSION").into(),
            environment: Cow::Borrowed(&environment),
            size: bytes.len() as u64,
            manifest: outline.manifest,
            imports,
            exports,
            has_checked_tools: self.accepts_tools(&described, &manifest.version),
            tools: described,
            skipped,
        };
        let json = serde_json::to_vec(&description);
        let loaded = self.loaded(
            path,
            digest,
            manifest,
            description,
            code_state,
            Some(linked),
        )?;
        if let (Some(cache), Ok(json)) = (&self.0.cache, json) {
            // Without the entry, the next start describes again.
            let _ = cache.put(EntryKind::Description, digest, &json);
        }
        Ok(loaded)
    }

    fn verify(&self, path: &Path, digest: Digest) -> Result<(), LoadError> {
        let Some(checks) = &self.0.checks else {
            return Ok(());
        };
        (checks.file)(path, digest).map_err(|reason| LoadError::Untrusted {
            path: path.to_owned(),
            reason,
        })
    }

    /// Whether all of these tools pass the check.
    fn accepts_tools(&self, tools: &[types::Descriptor], version: &str) -> bool {
        let Some(checks) = &self.0.checks else {
            return false;
        };
        v0_1::descriptors(tools.to_vec(), version).is_ok_and(|tools| tools.iter().all(checks.tool))
    }

    fn loaded(
        &self,
        path: &Path,
        digest: Digest,
        manifest: Manifest,
        description: Description<'_>,
        code_state: CodeState,
        linked: Option<Linked>,
    ) -> Result<Loaded, LoadError> {
        let exports = description.exports;
        if !manifest.functions.is_empty() && tool_source(&exports) != ToolSource::Functions {
            return Err(LoadError::Manifest {
                path: path.to_owned(),
                reason: "`[[functions]]` in the manifest are for components without the plugin interface; this one describes its own tools".to_owned(),
            });
        }
        let tools = described_tools(path, description.tools, &manifest.version, &exports)?;
        Ok(Loaded {
            path: path.to_owned(),
            manifest,
            digest,
            size: description.size,
            tools,
            has_checked_tools: description.has_checked_tools,
            imports: description.imports,
            exports,
            skipped: description.skipped,
            code_state,
            code: LinkedCode::new(self.clone(), path.to_owned(), digest, linked),
        })
    }

    fn linked(
        &self,
        path: &Path,
        component: &Component,
        exports: &[String],
    ) -> Result<Linked, LoadError> {
        let failed = |error| link_error(path, &error);
        let linked = self.0.linker.instantiate_pre(component).map_err(failed)?;
        // A plugin can have hooks and no tools.
        let tools = match tool_source(exports) {
            ToolSource::Interface => Some(Tools::Interface(self.export(&linked).map_err(failed)?)),
            ToolSource::Functions => Some(Tools::Functions(self.export(&linked).map_err(failed)?)),
            ToolSource::Nothing => None,
        };
        let has = |interface| exports.contains(&exported(interface));
        let has_guards = has("hooks") || has("preview");
        let guards = has_guards.then(|| self.export(&linked)).transpose();
        Ok(Linked {
            tools,
            guards: guards.map_err(failed)?,
        })
    }

    fn export<B: Bindings>(&self, linked: &InstancePre<State>) -> wasmtime::Result<Export<B>> {
        Export::new(linked.clone(), Arc::clone(&self.0.ready_instances))
    }

    /// Links a component that was loaded with its description only. Compiles it if the cache has lost its code.
    pub(crate) async fn link_again(
        &self,
        path: &Path,
        digest: Digest,
    ) -> Result<Linked, LoadError> {
        let runtime = self.clone();
        let cached = tokio::task::spawn_blocking(move || runtime.cached(digest)).await;
        let component = if let Some(component) = cached.ok().flatten() {
            component
        } else {
            self.compile(path, digest).await?
        };
        let (_, exports) = check_contract(path, &self.0.engine, &component)?;
        self.linked(path, &component, &exports)
    }

    /// Compiles a component whose bytes must be those that were loaded.
    async fn compile(&self, path: &Path, digest: Digest) -> Result<Component, LoadError> {
        let (runtime, file) = (self.clone(), path.to_owned());
        let read = move || {
            let bytes = read(&file)?;
            if Sha256::digest(&bytes)[..] != digest.0 {
                // The next start hashes the file.
                if let (Some(cache), Some(version)) = (&runtime.0.cache, file_version(&file)) {
                    cache.remove(EntryKind::FileDigest, version);
                }
                return Err(LoadError::Changed { path: file });
            }
            Ok(bytes)
        };
        let bytes = tokio::task::spawn_blocking(read).await;
        let bytes = bytes.unwrap_or_else(|_| {
            Err(LoadError::Changed {
                path: path.to_owned(),
            })
        })?;
        Ok(self.component(path, &bytes, digest).await?.0)
    }

    pub(crate) async fn compile_to_cache(
        &self,
        path: &Path,
        digest: Digest,
    ) -> Result<(), LoadError> {
        if self.0.cache.is_none() || self.code_state(digest) == CodeState::Cached {
            return Ok(());
        }
        let component = self.compile(path, digest).await?;
        let (_, exports) = check_contract(path, &self.0.engine, &component)?;
        self.linked(path, &component, &exports).map(drop)
    }

    /// Everything but the description, for tests of components without one.
    #[cfg(test)]
    pub(crate) async fn link(
        &self,
        path: &Path,
        bytes: &[u8],
    ) -> Result<Export<PluginPre<State>>, LoadError> {
        let (component, _) = self.component(path, bytes, Digest([0; 32])).await?;
        let linked = self.linked(path, &component, &[exported("tool")])?;
        let Some(Tools::Interface(tools)) = linked.tools else {
            panic!("linked above")
        };
        Ok(tools)
    }
}

/// What a component says about itself, as it is cached.
#[derive(serde::Serialize, serde::Deserialize)]
struct Description<'a> {
    host_version: Cow<'a, str>,
    environment: Cow<'a, [(String, String)]>,
    /// Size of the file in bytes.
    size: u64,
    manifest: Option<String>,
    imports: Vec<String>,
    exports: Vec<String>,
    tools: Vec<types::Descriptor>,
    /// Whether they passed [`PluginChecks::tool`].
    has_checked_tools: bool,
    #[serde(default)]
    skipped: Vec<SkippedFunction>,
}

/// Where the code of a component was when it was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeState {
    Cached,
    Compiled,
    NotCompiled,
}

/// A component without grants.
pub struct Loaded {
    path: PathBuf,
    manifest: Manifest,
    digest: Digest,
    size: u64,
    tools: Vec<Descriptor>,
    has_checked_tools: bool,
    imports: Vec<String>,
    exports: Vec<String>,
    skipped: Vec<SkippedFunction>,
    code_state: CodeState,
    pub(crate) code: LinkedCode,
}

impl Loaded {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn tools(&self) -> &[Descriptor] {
        &self.tools
    }

    /// Whether the tools passed [`PluginChecks::tool`].
    pub fn has_checked_tools(&self) -> bool {
        self.has_checked_tools
    }

    /// Makes exclusive tools serial, because the operator does not let them run alone.
    pub fn serialize_exclusive_tools(&mut self) {
        for tool in &mut self.tools {
            if tool.concurrency == Concurrency::Exclusive {
                tool.concurrency = Concurrency::Serial;
            }
        }
    }

    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    pub fn exports(&self) -> &[String] {
        &self.exports
    }

    /// Exported functions that are not tools, of a component without the interface `tool`. Empty if the descriptions are
    /// those stored in the file.
    pub fn skipped_functions(&self) -> &[SkippedFunction] {
        &self.skipped
    }

    pub fn code_state(&self) -> CodeState {
        self.code_state
    }

    pub fn grant(self, grants: PluginGrants) -> std::io::Result<Plugin> {
        Plugin::new(self, grants)
    }

    /// Whether it has hooks. They are called only if the operator configures the plugin as a hook.
    pub fn has_hooks(&self) -> bool {
        has_hooks(&self.exports)
    }

    pub(crate) async fn code(&self) -> Result<&Linked, CallError> {
        self.code.get().await
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.code.is_linked()
    }

    pub(crate) fn is_preparing(&self) -> bool {
        self.code.is_preparing()
    }

    pub(crate) async fn compile(&self) -> Result<(), CallError> {
        self.code.compile().await
    }
}

fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async::<State>(&mut linker)?;
    // Replaces wasmtime's file system, which checks access per handle only and does not bound listings or blocking
    // opens.
    linker.allow_shadowing(true);
    wasmtime_wasi::p2::bindings::filesystem::types::add_to_linker::<State, HasFiles>(
        &mut linker,
        |state| FilesView::of(state),
    )?;
    wasmtime_wasi::p2::bindings::filesystem::preopens::add_to_linker::<State, HasFiles>(
        &mut linker,
        |state| FilesView::of(state),
    )?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async::<State>(&mut linker)?;
    request_limits::add_to_linker(&mut linker)?;
    linker.allow_shadowing(false);
    v0_1::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// Omits recommendations, which are meant for callers of a tool.
pub(crate) fn without_recommendations(error: &CallError) -> String {
    match &error.stderr {
        Some(stderr) => format!(
            "{}; stderr: {}",
            error.message,
            text::escape_line(stderr.trim(), 300)
        ),
        None => match &error.cause {
            // Only here, because the message of a call goes to a model, and the cause to its log.
            Some(cause) => format!("{}: {}", error.message, text::escape_line(cause, 300)),
            None => error.message.clone(),
        },
    }
}

/// Gets the tool descriptions of a component, without grants.
async fn describe(
    path: &Path,
    pre: &PluginPre<State>,
    environment: &[(String, String)],
) -> Result<Vec<types::Descriptor>, LoadError> {
    let failed = |reason: String| LoadError::Describe {
        path: path.to_owned(),
        reason,
    };
    let limits = Limits {
        memory: Limits::MAX_MEMORY,
        ..Limits::default()
    };
    let without_grants = CallEnvironment::without_grants(&limits, Limits::DESCRIBE_TIMEOUT);
    instance::run(pre.engine(), without_grants, async |store| {
        let plugin = pre.instantiate_async(&mut *store).await?;
        plugin
            .toolhost_plugin_tool()
            .call_describe(store, environment)
            .await
    })
    .await
    .map_err(|error| failed(without_recommendations(&error)))
}
