//! MCP roots: the folders that a client works in. They only restrict what the operator granted.
//!
//! Roots are used only if the operator enables them. Then only protocols with sessions are served, because a stateless
//! client would have to be asked in each request. A client is asked before its first call and after each change.
//! Until it answers, its calls may not access any file, so that files outside of the roots are never accessible.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rmcp::model::{ClientResult, ErrorCode, ServerRequest};
#[expect(
    deprecated,
    reason = "2026-07-28 keeps roots for a year, older clients know nothing else"
)]
use rmcp::model::{ListRootsRequest, ListRootsResult, Root};
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};
use rmcp::{Peer, RoleServer};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use toolhost_contract::policy::{Policy, Restriction};
use toolhost_contract::{CallError, ErrorClass, text};

/// How long a call waits for the client's roots.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which an unanswered request is repeated.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// Maximum number of roots. More are ignored.
const MAX_ROOTS: usize = 64;
/// Maximum length of a root's path, in bytes.
const MAX_PATH: usize = 4_096;

const NO_ANSWER_ADVICE: &str = "the client declared roots but has not answered `roots/list` yet; call again, or start the host without `roots = true` under [mcp]";
const NO_LOCAL_ROOTS_ADVICE: &str = "none of the client's roots is a folder on this machine (`file:///PATH`); open a local folder, or start the host without `roots = true` under [mcp]";

#[derive(Default)]
pub(crate) struct Roots {
    /// The client declared the `roots` capability.
    declared: AtomicBool,
    /// Number of `roots/list_changed` notifications.
    changes: AtomicU64,
    /// Locked while a request is sent, so that concurrent calls send only one.
    state: Mutex<RootsState>,
}

#[derive(Default)]
struct RootsState {
    answer: RootsAnswer,
    /// Value of `changes` when the client was last asked.
    answered_change: Option<u64>,
    pending: Option<PendingRootsRequest>,
}

/// The client's last answer.
#[derive(Default)]
enum RootsAnswer {
    #[default]
    Unknown,
    /// The client has no roots. All granted folders are accessible.
    NoRoots,
    Restricted(RootsRestriction),
}

/// The policy and folders to which roots are applied.
pub(crate) struct RootsContext<'a> {
    pub(crate) policy: Arc<Policy>,
    /// The host's own folders, which roots never restrict.
    pub(crate) own_folders: &'a [String],
}

/// Restriction of calls to the client's roots.
#[derive(Clone)]
pub(crate) struct RootsRestriction {
    pub(crate) restriction: Arc<Restriction>,
    /// Advice for denied calls.
    advice: Arc<str>,
}

/// A pending `roots/list` request. A late answer is still used.
struct PendingRootsRequest {
    handle: RequestHandle<RoleServer>,
    at: u64,
    since: Instant,
    /// A call has already waited for it.
    waited: bool,
}

impl Roots {
    pub(crate) fn mark_declared(&self) {
        self.declared.store(true, Relaxed);
    }

    pub(crate) fn are_declared(&self) -> bool {
        self.declared.load(Relaxed)
    }

    pub(crate) fn mark_changed(&self) {
        self.changes.fetch_add(1, Relaxed);
    }

    /// Returns the restriction for this client's calls. Must run in the task of a request: rmcp uses it to choose the
    /// stream for the question.
    pub(crate) async fn restriction(
        &self,
        peer: &Peer<RoleServer>,
        context: &RootsContext<'_>,
    ) -> Option<RootsRestriction> {
        let mut known = self.state.lock().await;
        let now = self.changes.load(Relaxed);
        if known.answered_change != Some(now) {
            known.ask(peer, context, now).await;
        }
        match &known.answer {
            // Without an answer after a change, the previous roots apply.
            RootsAnswer::Restricted(held) => Some(held.clone()),
            RootsAnswer::NoRoots if known.answered_change == Some(now) => None,
            RootsAnswer::Unknown | RootsAnswer::NoRoots => {
                Some(RootsRestriction::deny_all(NO_ANSWER_ADVICE, context))
            }
        }
    }
}

impl RootsState {
    async fn ask(&mut self, peer: &Peer<RoleServer>, context: &RootsContext<'_>, now: u64) {
        let is_old = |pending: &mut PendingRootsRequest| {
            pending.at != now || pending.since.elapsed() >= RETRY_AFTER
        };
        if let Some(old) = self.pending.take_if(is_old) {
            let why = "the answer is no longer needed".to_owned();
            tokio::spawn(old.handle.cancel(Some(why)));
        }
        if self.pending.is_none() {
            #[expect(deprecated, reason = "see the use above")]
            let request = ServerRequest::ListRootsRequest(ListRootsRequest::default());
            let options = PeerRequestOptions::no_options();
            let Ok(handle) = peer.send_cancellable_request(request, options).await else {
                return;
            };
            self.pending = Some(PendingRootsRequest {
                handle,
                at: now,
                since: Instant::now(),
                waited: false,
            });
        }
        let Some(pending) = &mut self.pending else {
            return;
        };
        let patience = if pending.waited {
            Duration::ZERO
        } else {
            ANSWER_TIMEOUT
        };
        let Ok(answer) = timeout(patience, &mut pending.handle.rx).await else {
            pending.waited = true;
            return;
        };
        self.pending = None;
        self.answer = match answer {
            Ok(Ok(ClientResult::ListRootsResult(roots))) => restriction_for(roots, context).await,
            Ok(Err(ServiceError::McpError(error))) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                RootsAnswer::NoRoots
            }
            // The next call sends the request again.
            _ => return,
        };
        self.answered_change = Some(now);
    }
}

impl RootsRestriction {
    fn deny_all(why: &'static str, context: &RootsContext<'_>) -> Self {
        let restriction = Restriction::to_directories(context.own_folders, &context.policy);
        Self {
            restriction: Arc::new(restriction.expect("the restriction of a valid policy is valid")),
            advice: why.into(),
        }
    }

    /// Adds advice about roots to a denied call.
    pub(crate) fn add_advice(&self, error: CallError) -> CallError {
        if error.class != ErrorClass::Denied {
            return error;
        }
        error.recommend(&*self.advice)
    }
}

#[expect(deprecated, reason = "see the use above")]
async fn restriction_for(roots: ListRootsResult, context: &RootsContext<'_>) -> RootsAnswer {
    if roots.roots.is_empty() {
        return RootsAnswer::NoRoots;
    }
    let folders: Vec<String> = roots
        .roots
        .iter()
        .take(MAX_ROOTS)
        .filter_map(root_path)
        .collect();
    // Unusable roots must not count as no roots, which would allow everything.
    if folders.is_empty() {
        return RootsAnswer::Restricted(RootsRestriction::deny_all(NO_LOCAL_ROOTS_ADVICE, context));
    }
    let advice = format!(
        "use files below the client's roots: {}; or open other folders in the client, or start the host without `roots = true` under [mcp]",
        text::escape_line(&folders.join(", "), 1_000)
    );
    let policy = Arc::clone(&context.policy);
    let own = context.own_folders.to_vec();
    let task = tokio::task::spawn_blocking(move || {
        // Rules match resolved paths.
        let real = folders
            .iter()
            .filter_map(|folder| Path::new(folder).canonicalize().ok())
            .filter_map(|real| real.into_os_string().into_string().ok());
        let all: Vec<String> = real.chain(folders.iter().cloned()).chain(own).collect();
        Restriction::to_directories(&all, &policy)
    });
    RootsAnswer::Restricted(match task.await {
        Ok(Ok(restriction)) => RootsRestriction {
            restriction: Arc::new(restriction),
            advice: advice.into(),
        },
        Ok(Err(_)) | Err(_) => RootsRestriction::deny_all(NO_LOCAL_ROOTS_ADVICE, context),
    })
}

/// Returns the path of a `file:` root: `file:///home/me/a%20b` is `/home/me/a b`. Other URIs are ignored.
#[expect(deprecated, reason = "see the use above")]
fn root_path(root: &Root) -> Option<String> {
    let rest = root.uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let is_plain = path.starts_with('/') && path.len() <= MAX_PATH && !path.contains(['?', '#']);
    is_plain.then(|| percent_decode(path))?
}

fn percent_decode(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let value = digit(rest.next()?)? * 16 + digit(rest.next()?)?;
        bytes.push(u8::try_from(value).ok()?);
    }
    let path = String::from_utf8(bytes).ok()?;
    let steps_back = path.split('/').any(|step| step == "..");
    (!steps_back && !path.contains('\0')).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_file_roots_are_used() {
        for (uri, path) in [
            ("file:///home/me/a%20b", Some("/home/me/a b")),
            ("file://localhost/tmp", Some("/tmp")),
            ("file:///", Some("/")),
            ("file://elsewhere/tmp", None),
            ("https://example.org/", None),
            ("/tmp", None),
            ("file:///a/../../etc", None),
            ("file:///a/%2e%2e/etc", None),
            ("file:///a%", None),
            ("file:///a%zz", None),
            ("file:///a%ff", None),
            ("file:///a%00", None),
            ("file:///a?b", None),
        ] {
            #[expect(deprecated, reason = "see the use above")]
            let root = Root::new(uri);
            assert_eq!(root_path(&root).as_deref(), path, "{uri}");
        }
    }
}
