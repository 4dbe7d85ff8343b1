//! What the handlers of all pages share.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolhost_contract::lifecycle::Timestamp;
use toolhost_kernel::Kernel;
use toolhost_store::Store;

use crate::access::Access;
use crate::history::HistorySources;
use crate::host_view::HostView;
use crate::inbox::Inbox;
use crate::render_cache::RenderCache;

/// Maximum number of files that are downloaded at once.
const MAX_DOWNLOADS: usize = 4;

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
    pub rendered: RenderCache,
    /// Bounds the open event streams.
    pub streams: Arc<Semaphore>,
    /// Bounds the downloads of files.
    pub downloads: Arc<Semaphore>,
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
            rendered: RenderCache::default(),
            streams: Arc::new(Semaphore::new(max_streams)),
            downloads: Arc::new(Semaphore::new(MAX_DOWNLOADS)),
            stop: CancellationToken::new(),
        }
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
