//! Tells clients that the list of tools is another one now.

use std::sync::Arc;

use rmcp::service::SubscriptionContext;
use rmcp::{Peer, RoleServer};
use tokio::sync::watch::Receiver;

use crate::Readiness;
use crate::shared::Shared;

/// To a client with a session, until it has gone or the kernel has.
pub(crate) async fn tell(shared: Arc<Shared>, peer: Peer<RoleServer>) {
    let mut changes = changes_after_loading(&shared).await;
    // Several changes before the client has read of the first are one to it.
    while changes.changed().await.is_ok() {
        if peer.notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}

/// To a client that asked to hear it, until it wants to hear no more.
pub(crate) async fn tell_listener(shared: &Shared, context: &SubscriptionContext) {
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

/// The tools of the plugins are the first list and no change, except to clients that were given a list without them.
async fn changes_after_loading(shared: &Shared) -> Receiver<()> {
    let mut changes = shared.kernel.registry_changes();
    shared.reached(Readiness::Loaded).await;
    if !shared.was_listed_early() {
        changes.mark_unchanged();
    }
    changes
}
