//! What the handlers of all pages share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolhost_contract::lifecycle::Timestamp;
use toolhost_kernel::Kernel;
use toolhost_store::Store;

use crate::access::Access;
use crate::history::HistorySources;
use crate::host_view::HostView;
use crate::inbox::Inbox;

/// What the page may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Shows everything and changes nothing.
    ReadOnly,
    ReadWrite,
}

/// What a page serves.
pub struct UiOptions {
    pub inbox: Arc<Inbox>,
    /// `None`: only the history is shown.
    pub kernel: Option<Arc<Kernel>>,
    pub store: Option<Store>,
    /// `None`: only the history is shown.
    pub view: Option<Arc<dyn HostView>>,
    pub permission: Permission,
    /// The user who opens the page, for the record.
    pub user: String,
}

pub struct AppState {
    pub options: UiOptions,
    pub access: Access,
    pub history: Arc<HistorySources>,
    /// Tools that a page has turned off.
    disabled_tools: Mutex<BTreeSet<String>>,
    /// Bounds the open event streams.
    pub streams: Arc<Semaphore>,
    /// Cancelled when the server stops.
    pub stop: CancellationToken,
}

impl AppState {
    pub fn new(
        options: UiOptions,
        access: Access,
        history: Arc<HistorySources>,
        max_streams: usize,
    ) -> Self {
        Self {
            options,
            access,
            history,
            disabled_tools: Mutex::default(),
            streams: Arc::new(Semaphore::new(max_streams)),
            stop: CancellationToken::new(),
        }
    }

    /// The tools that a page has turned off, for as long as the host runs.
    pub fn disabled_tools(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.disabled_tools
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn inbox(&self) -> &Inbox {
        &self.options.inbox
    }

    pub fn now(&self) -> Timestamp {
        self.options.inbox.clock.now()
    }

    /// Returns the author of answers of the page, for the record.
    pub fn approver(&self) -> String {
        format!("ui ({})", self.options.user)
    }

    pub fn is_read_only(&self) -> bool {
        self.options.permission == Permission::ReadOnly
    }
}
