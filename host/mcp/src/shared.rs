//! What all sessions with one host have in common, so that a handler for one request costs next to nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;
use toolhost_contract::CallId;
use toolhost_contract::profile::{Others, Profile};
use toolhost_kernel::Kernel;

use crate::ask::Desk;
use crate::keep::Kept;
use crate::running::Count;
use crate::tasks::Tasks;
use crate::tools::{Schemas, ToolList, Tools};
use crate::{Readiness, ServerInfo};

/// So long a list waits for tools that are still compiled. Clients wait 30 s or more for their servers to start.
const LIST_PATIENCE: Duration = Duration::from_secs(25);

pub(crate) struct Shared {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) config: ServerConfig,
    /// Who we say we are, as results carry it.
    pub(crate) name: Value,
    pub(crate) profile: Profile,
    pub(crate) others: Others,
    pub(crate) desk: Option<Arc<Desk>>,
    pub(crate) roots: bool,
    pub(crate) schemas: Schemas,
    own_folders: Arc<OnceLock<Vec<String>>>,
    readiness: Option<watch::Receiver<Readiness>>,
    /// A client was given a list before all tools were there.
    listed_early: AtomicBool,
    pub(crate) kept: Kept,
    /// What a host that stops lets go on for a while.
    pub(crate) running: Count,
    pub(crate) tasks: Tasks,
    pub(crate) tasks_after: Option<Duration>,
    list: ToolList,
    calls: AtomicU64,
}

impl Shared {
    #[expect(
        deprecated,
        reason = "2026-07-28 keeps logging for a year, older clients know nothing else"
    )]
    pub(crate) fn new(kernel: Arc<Kernel>, info: ServerInfo) -> Arc<Self> {
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
            name,
            profile: info.profile,
            others: info.others,
            desk: info.desk,
            roots: info.roots,
            schemas: if info.structured {
                Schemas::All
            } else {
                Schemas::OfOthers
            },
            own_folders: info.own_folders,
            readiness: info.readiness,
            listed_early: AtomicBool::new(false),
            kept: Kept::default(),
            running: Count::default(),
            tasks: Tasks::default(),
            tasks_after: info.tasks_after,
            list: ToolList::default(),
            calls: AtomicU64::new(0),
        })
    }

    /// Lets go what was kept long enough. For whoever serves to say now and then: nobody else may come for long.
    pub(crate) fn sweep(&self) {
        self.kept.sweep();
        self.tasks.sweep();
    }

    /// Ends what waits for clients that will not come any more.
    pub(crate) fn end(&self, run: &str) {
        if let Some(desk) = &self.desk {
            desk.close(run);
        }
        self.tasks.end();
    }

    /// Waits until the host has got so far in its start.
    pub(crate) async fn reached(&self, wanted: Readiness) {
        if let Some(mut readiness) = self.readiness.clone() {
            // A host that ends its start says nothing more.
            let _ = readiness.wait_for(|reached| *reached >= wanted).await;
        }
    }

    /// Waits for all tools, as long as clients wait for a list. False: some are missing, and will be told as a change.
    pub(crate) async fn list_is_complete(&self) -> bool {
        let complete = timeout(LIST_PATIENCE, self.reached(Readiness::Settled)).await;
        if complete.is_err() {
            self.listed_early.store(true, Relaxed);
        }
        complete.is_ok()
    }

    pub(crate) fn was_listed_early(&self) -> bool {
        self.listed_early.load(Relaxed)
    }

    /// The folders of the host's own. Known when the plugins are loaded.
    pub(crate) fn own_folders(&self) -> &[String] {
        self.own_folders.get().map_or(&[], Vec::as_slice)
    }

    /// Is there a tool of this name, in whosever words?
    pub(crate) fn knows(&self, tool: &str) -> bool {
        self.kernel.registry().get(tool).is_some() || self.tools().get(tool).is_some()
    }

    /// The tools as they are now.
    pub(crate) fn tools(&self) -> Arc<Tools> {
        self.list
            .of(&self.kernel, self.profile, self.others, self.schemas)
    }

    pub(crate) fn next_call(&self, session: &str) -> CallId {
        let number = self.calls.fetch_add(1, Relaxed) + 1;
        CallId(format!("{session}-{number}"))
    }
}
