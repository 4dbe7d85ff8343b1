//! Notifications about changes of the tool list.

use std::sync::Arc;

use rmcp::service::SubscriptionContext;
use rmcp::{Peer, RoleServer};
use tokio::sync::watch::Receiver;

use crate::Readiness;
use crate::server_state::ServerState;

/// Notifies a client with a session until it disconnects or the kernel is dropped.
pub(crate) async fn notify_session(shared: Arc<ServerState>, peer: Peer<RoleServer>) {
    let mut changes = changes_after_loading(&shared).await;
    // Changes during a send are merged into one notification.
    while changes.changed().await.is_ok() {
        if peer.notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}

/// Notifies a subscriber until it cancels.
pub(crate) async fn notify_subscriber(shared: &ServerState, context: &SubscriptionContext) {
    let mut changes = tokio::select! {
        biased;
        () = context.cancelled() => return,
        changes = changes_after_loading(shared) => changes,
    };
    loop {
        tokio::select! {
            biased;
            () = context.cancelled() => return,
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
        if context.accepted().tools_list_changed == Some(true)
            && context.sink().notify_tool_list_changed().await.is_err()
        {
            return;
        }
    }
}

/// Skips the change caused by loading the plugins, unless a client already received a list without their tools.
async fn changes_after_loading(shared: &ServerState) -> Receiver<()> {
    let mut changes = shared.kernel.registry_changes();
    shared.wait_for(Readiness::Loaded).await;
    if !shared.was_listed_early() {
        changes.mark_unchanged();
    }
    changes
}
