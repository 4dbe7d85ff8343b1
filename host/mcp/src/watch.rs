//! Tells clients that the list of tools is another one now.

use rmcp::service::SubscriptionContext;
use rmcp::{Peer, RoleServer};
use tokio::sync::watch::Receiver;

/// To a client with a session, until it has gone or the kernel has.
pub(crate) async fn tell(mut changes: Receiver<()>, peer: Peer<RoleServer>) {
    // Several changes before the client has read of the first are one to it.
    while changes.changed().await.is_ok() {
        if peer.notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}

/// To a client that asked to hear it, until it wants to hear no more.
pub(crate) async fn tell_listener(mut changes: Receiver<()>, context: &SubscriptionContext) {
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
