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
const PATIENCE: Duration = Duration::from_secs(5);
/// Time after which an unanswered request is repeated.
const AGAIN: Duration = Duration::from_secs(30);
/// Maximum number of roots. More are ignored.
const MOST: usize = 64;
/// Maximum length of a root's path, in bytes.
const MAX_NAME: usize = 4_096;
/// A path that matches no file, because file names cannot contain NUL.
const NOWHERE: &str = "/\0";

const SILENT: &str = "the client declared roots but has not answered `roots/list` yet; call again, or start the host without `roots = true` under [mcp]";
const ELSEWHERE: &str = "none of the client's roots is a folder on this machine (`file:///PATH`); open a local folder, or start the host without `roots = true` under [mcp]";

#[derive(Default)]
pub(crate) struct Roots {
    /// The client declared the `roots` capability.
    declared: AtomicBool,
    /// Number of `roots/list_changed` notifications.
    changes: AtomicU64,
    /// Locked while a request is sent, so that concurrent calls send only one.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    said: Said,
    /// Value of `changes` when the client was last asked.
    at: Option<u64>,
    asked: Option<Asked>,
}

/// The client's last answer.
#[derive(Default)]
enum Said {
    #[default]
    Nothing,
    /// The client has no roots. All granted folders are accessible.
    NoFolders,
    Folders(Held),
}

/// The policy and folders to which roots are applied.
pub(crate) struct Ground<'a> {
    pub(crate) policy: Arc<Policy>,
    /// The host's own folders, which roots never restrict.
    pub(crate) own: &'a [String],
}

/// Restriction of calls to the client's roots.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) restriction: Arc<Restriction>,
    /// Advice for denied calls.
    advice: Arc<str>,
}

/// A pending `roots/list` request. A late answer is still used.
struct Asked {
    handle: RequestHandle<RoleServer>,
    at: u64,
    since: Instant,
    /// A call has already waited for it.
    waited: bool,
}

impl Roots {
    pub(crate) fn declare(&self) {
        self.declared.store(true, Relaxed);
    }

    pub(crate) fn are_declared(&self) -> bool {
        self.declared.load(Relaxed)
    }

    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Relaxed);
    }

    /// Returns the restriction for this client's calls. Must run in the task of a request: rmcp uses it to choose the
    /// stream for the question.
    pub(crate) async fn held(&self, peer: &Peer<RoleServer>, ground: &Ground<'_>) -> Option<Held> {
        let mut known = self.known.lock().await;
        let now = self.changes.load(Relaxed);
        if known.at != Some(now) {
            known.ask(peer, ground, now).await;
        }
        match &known.said {
            // Without an answer after a change, the previous roots apply.
            Said::Folders(held) => Some(held.clone()),
            Said::NoFolders if known.at == Some(now) => None,
            Said::Nothing | Said::NoFolders => Some(Held::nowhere(SILENT, ground)),
        }
    }
}

impl Known {
    async fn ask(&mut self, peer: &Peer<RoleServer>, ground: &Ground<'_>, now: u64) {
        let is_old = |asked: &mut Asked| asked.at != now || asked.since.elapsed() >= AGAIN;
        if let Some(old) = self.asked.take_if(is_old) {
            let why = "the answer is no longer needed".to_owned();
            tokio::spawn(old.handle.cancel(Some(why)));
        }
        if self.asked.is_none() {
            #[expect(deprecated, reason = "see the use above")]
            let request = ServerRequest::ListRootsRequest(ListRootsRequest::default());
            let options = PeerRequestOptions::no_options();
            let Ok(handle) = peer.send_cancellable_request(request, options).await else {
                return;
            };
            self.asked = Some(Asked {
                handle,
                at: now,
                since: Instant::now(),
                waited: false,
            });
        }
        let Some(asked) = &mut self.asked else { return };
        let patience = if asked.waited {
            Duration::ZERO
        } else {
            PATIENCE
        };
        let Ok(answer) = timeout(patience, &mut asked.handle.rx).await else {
            asked.waited = true;
            return;
        };
        self.asked = None;
        self.said = match answer {
            Ok(Ok(ClientResult::ListRootsResult(roots))) => said(roots, ground).await,
            Ok(Err(ServiceError::McpError(error))) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                Said::NoFolders
            }
            // The next call sends the request again.
            _ => return,
        };
        self.at = Some(now);
    }
}

impl Held {
    fn nowhere(why: &'static str, ground: &Ground<'_>) -> Self {
        let only = [&[NOWHERE.to_owned()], ground.own].concat();
        let restriction = Restriction::within(&only, &ground.policy);
        Self {
            restriction: Arc::new(restriction.expect("the restriction of a valid policy is valid")),
            advice: why.into(),
        }
    }

    /// Adds advice about roots to a denied call.
    pub(crate) fn explain(&self, error: CallError) -> CallError {
        if error.class != ErrorClass::Denied {
            return error;
        }
        error.recommend(&*self.advice)
    }
}

#[expect(deprecated, reason = "see the use above")]
async fn said(roots: ListRootsResult, ground: &Ground<'_>) -> Said {
    if roots.roots.is_empty() {
        return Said::NoFolders;
    }
    let folders: Vec<String> = roots.roots.iter().take(MOST).filter_map(folder).collect();
    // Unusable roots must not count as no roots, which would allow everything.
    if folders.is_empty() {
        return Said::Folders(Held::nowhere(ELSEWHERE, ground));
    }
    let advice = format!(
        "use files below the client's roots: {}; or open other folders in the client, or start the host without `roots = true` under [mcp]",
        text::inline(&folders.join(", "), 1_000)
    );
    let within = Arc::clone(&ground.policy);
    let own = ground.own.to_vec();
    let made = tokio::task::spawn_blocking(move || {
        // Rules match resolved paths.
        let real = folders
            .iter()
            .filter_map(|folder| Path::new(folder).canonicalize().ok())
            .filter_map(|real| real.into_os_string().into_string().ok());
        let all: Vec<String> = real.chain(folders.iter().cloned()).chain(own).collect();
        Restriction::within(&all, &within)
    });
    Said::Folders(match made.await {
        Ok(Ok(restriction)) => Held {
            restriction: Arc::new(restriction),
            advice: advice.into(),
        },
        Ok(Err(_)) | Err(_) => Held::nowhere(ELSEWHERE, ground),
    })
}

/// Returns the path of a `file:` root: `file:///home/me/a%20b` is `/home/me/a b`. Other URIs are ignored.
#[expect(deprecated, reason = "see the use above")]
fn folder(root: &Root) -> Option<String> {
    let rest = root.uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let is_plain = path.starts_with('/') && path.len() <= MAX_NAME && !path.contains(['?', '#']);
    is_plain.then(|| decoded(path))?
}

fn decoded(path: &str) -> Option<String> {
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
    fn only_folders_of_this_machine_count() {
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
            assert_eq!(folder(&root).as_deref(), path, "{uri}");
        }
    }
}
