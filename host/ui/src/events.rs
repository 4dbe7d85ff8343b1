//! The event stream: tells open pages that the inbox has changed or that the host exits.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use futures::stream::unfold;
use http::StatusCode;
use tokio::sync::watch;

use crate::access::Session;
use crate::error_page::ErrorPage;
use crate::state::AppState;

/// A connection that ended without a message is found within this time.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Minimum time between two events: a page loads the inbox for each.
const MIN_INTERVAL: Duration = Duration::from_millis(200);

struct Follower {
    versions: watch::Receiver<u64>,
    state: Arc<AppState>,
    is_over: bool,
    _slot: tokio::sync::OwnedSemaphorePermit,
}

pub async fn serve(
    State(state): State<Arc<AppState>>,
    _session: Session,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ErrorPage> {
    let slot = Arc::clone(&state.streams)
        .try_acquire_owned()
        .map_err(|_| {
            ErrorPage::new(StatusCode::SERVICE_UNAVAILABLE, "Too many pages are open")
                .because("Close other tabs of this host.")
        })?;
    let mut versions = state.inbox().versions();
    // A page that reconnects has missed changes.
    versions.mark_changed();
    let follower = Follower {
        versions,
        state,
        is_over: false,
        _slot: slot,
    };
    let events = unfold(follower, |mut follower| async move {
        if follower.is_over {
            return None;
        }
        let stop = follower.state.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                follower.is_over = true;
                // Browsers ignore an event without data.
                Some((Ok(Event::default().event("exit").data("exit")), follower))
            }
            changed = follower.versions.changed() => {
                changed.ok()?;
                tokio::time::sleep(MIN_INTERVAL).await;
                let version = *follower.versions.borrow_and_update();
                Some((Ok(Event::default().event("inbox").data(version.to_string())), follower))
            }
        }
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}
