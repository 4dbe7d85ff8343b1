//! What the handlers of all pages share.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolhost_contract::lifecycle::Timestamp;
use toolhost_kernel::Kernel;
use toolhost_store::Store;

use crate::access::Access;
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
    pub permission: Permission,
    /// The user who opens the page, for the record.
    pub user: String,
}

pub struct AppState {
    pub options: UiOptions,
    pub access: Access,
    /// Bounds the open event streams.
    pub streams: Arc<Semaphore>,
    /// Cancelled when the server stops.
    pub stop: CancellationToken,
}

impl AppState {
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
