//! State shared by all sessions of a host, which makes a handler per request cheap.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;
use toolhost_contract::CallId;
use toolhost_formats::profile::{Profile, UnmappedTools};
use toolhost_kernel::Kernel;

use crate::prompts::ElicitationPrompter;
use crate::result_store::ResultStore;
use crate::running_count::RunningCount;
use crate::tasks::TaskStore;
use crate::tool_list::{ListedTools, OutputSchemaPolicy, ToolListCache};
use crate::{Readiness, ServeOptions};

/// How long `tools/list` waits for tools that are still compiling. Clients wait 30 s or more for a server to start.
const LIST_TIMEOUT: Duration = Duration::from_secs(25);

pub(crate) struct ServerState {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) config: ServerConfig,
    /// Server info for the `_meta` of results.
    pub(crate) server_info: Value,
    pub(crate) profile: Profile,
    pub(crate) others: UnmappedTools,
    pub(crate) prompter: Option<Arc<ElicitationPrompter>>,
    pub(crate) roots: bool,
    pub(crate) schemas: OutputSchemaPolicy,
    own_folders: Arc<OnceLock<Vec<String>>>,
    readiness: Option<watch::Receiver<Readiness>>,
    /// A client received a tool list before all tools were loaded.
    listed_early: AtomicBool,
    pub(crate) results: ResultStore,
    /// Work that a stopping host waits for, within the grace period.
    pub(crate) running: RunningCount,
    pub(crate) tasks: TaskStore,
    pub(crate) tasks_after: Option<Duration>,
    list: ToolListCache,
    calls: AtomicU64,
}

impl ServerState {
    #[expect(
        deprecated,
        reason = "2026-07-28 keeps logging for a year, older clients know nothing else"
    )]
    pub(crate) fn new(kernel: Arc<Kernel>, info: ServeOptions) -> Arc<Self> {
        let name = json!({"name": info.name, "version": info.version});
        let mut capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_logging()
            .build();
        if info.tasks_after.is_some() {
            let tasks = ServerCapabilities::builder().enable_tasks().build();
            capabilities.extensions = tasks.extensions;
        }
        let mut config = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(info.name, info.version));
        config.instructions = info.instructions;
        Arc::new(Self {
            kernel,
            config,
            server_info: name,
            profile: info.profile,
            others: info.others,
            prompter: info.prompter,
            roots: info.roots,
            schemas: if info.structured {
                OutputSchemaPolicy::All
            } else {
                OutputSchemaPolicy::UnsandboxedOnly
            },
            own_folders: info.own_folders,
            readiness: info.readiness,
            listed_early: AtomicBool::new(false),
            results: ResultStore::default(),
            running: RunningCount::default(),
            tasks: TaskStore::default(),
            tasks_after: info.tasks_after,
            list: ToolListCache::default(),
            calls: AtomicU64::new(0),
        })
    }

    /// Removes expired results and tasks. The server calls this periodically, because clients may be idle.
    pub(crate) fn sweep(&self) {
        self.results.sweep();
        self.tasks.sweep();
    }

    /// Ends suspended calls and tasks when no client can return for them.
    pub(crate) fn end_waiting(&self, run: &str) {
        if let Some(prompter) = &self.prompter {
            prompter.drop_run(run);
        }
        self.tasks.shutdown();
    }

    /// Waits until the host has reached this state of its start.
    pub(crate) async fn wait_for(&self, wanted: Readiness) {
        if let Some(mut readiness) = self.readiness.clone() {
            // Fails if the host stopped during its start.
            let _ = readiness.wait_for(|reached| *reached >= wanted).await;
        }
    }

    /// Waits for all tools, up to [`LIST_TIMEOUT`]. Returns false if some are missing; a change notification follows.
    pub(crate) async fn wait_for_complete_list(&self) -> bool {
        let complete = timeout(LIST_TIMEOUT, self.wait_for(Readiness::Settled)).await;
        if complete.is_err() {
            self.listed_early.store(true, Relaxed);
        }
        complete.is_ok()
    }

    pub(crate) fn was_listed_early(&self) -> bool {
        self.listed_early.load(Relaxed)
    }

    /// The host's own folders. Set when the plugins are loaded.
    pub(crate) fn own_folders(&self) -> &[String] {
        self.own_folders.get().map_or(&[], Vec::as_slice)
    }

    /// Whether a tool has this name, in the registry or in the profile.
    pub(crate) fn has_tool(&self, tool: &str) -> bool {
        self.kernel.registry().get(tool).is_some() || self.tools().get(tool).is_some()
    }

    /// Returns the current tool list.
    pub(crate) fn tools(&self) -> Arc<ListedTools> {
        self.list
            .of(&self.kernel, self.profile, self.others, self.schemas)
    }

    pub(crate) fn next_call_id(&self, session: &str) -> CallId {
        let number = self.calls.fetch_add(1, Relaxed) + 1;
        CallId(format!("{session}-{number}"))
    }
}
