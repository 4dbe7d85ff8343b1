//! The folders that a client says it works in. They only ever narrow what the operator granted.
//!
//! Only where the operator wants it, and then only protocols with sessions are served: a client is asked before its
//! first call and again when it says that they changed. One without a session would have to be asked in each request. Until it has said what they are, its calls may name no file:
//! whoever relies on them would not want the others to be open meanwhile.

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

/// So long a call waits for the client to say what its folders are.
const PATIENCE: Duration = Duration::from_secs(5);
/// A client that has not said it for so long is asked again.
const AGAIN: Duration = Duration::from_secs(30);
/// Folders that count.
const MOST: usize = 64;
/// Bytes of the name of one.
const MAX_NAME: usize = 4_096;
/// No file is in there: no name of one has this character.
const NOWHERE: &str = "/\0";

const SILENT: &str = "the client said that it has roots and has not answered `roots/list` yet; call again, or start the host without `roots = true` under [mcp]";
const ELSEWHERE: &str = "none of the roots that the client named is a folder of this machine (`file:///PATH`); open one there, or start the host without `roots = true` under [mcp]";

#[derive(Default)]
pub(crate) struct Roots {
    /// The client has said that it has some.
    declared: AtomicBool,
    /// How often it said that they changed.
    changes: AtomicU64,
    /// Whoever asks holds it, so that calls which begin at once ask once.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    said: Said,
    /// The change after which the client was asked what it said.
    at: Option<u64>,
    asked: Option<Asked>,
}

/// What the client said last.
#[derive(Default)]
enum Said {
    #[default]
    Nothing,
    /// Whoever has no folder open may still use those that the operator granted.
    NoFolders,
    Folders(Held),
}

/// What the folders of clients lie on.
pub(crate) struct Ground<'a> {
    pub(crate) policy: Arc<Policy>,
    /// Folders that nobody's folders narrow.
    pub(crate) own: &'a [String],
}

/// What calls are held to.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) restriction: Arc<Restriction>,
    /// What lets more files through.
    advice: Arc<str>,
}

/// The question that the client has not answered yet. An answer that comes late is an answer.
struct Asked {
    handle: RequestHandle<RoleServer>,
    at: u64,
    since: Instant,
    /// A call has waited for it already.
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

    /// What the calls of this client are held to. Asks in the task of a request, because only then does rmcp know
    /// where the question belongs.
    pub(crate) async fn held(&self, peer: &Peer<RoleServer>, ground: &Ground<'_>) -> Option<Held> {
        let mut known = self.known.lock().await;
        let now = self.changes.load(Relaxed);
        if known.at != Some(now) {
            known.ask(peer, ground, now).await;
        }
        match &known.said {
            // A client that does not say how they changed is held to what it said before, if that was anything.
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
            let why = "the answer is not waited for any more".to_owned();
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
            // The next call asks again.
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
            restriction: Arc::new(restriction.expect("a policy without rules has nothing wrong")),
            advice: why.into(),
        }
    }

    /// Adds to a refusal what the client's folders have to do with it.
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
    // A list that names only what we cannot read names something, and that is not everything.
    if folders.is_empty() {
        return Said::Folders(Held::nowhere(ELSEWHERE, ground));
    }
    let advice = format!(
        "name files below the folders that the client has open: {}; it opens others, or the host is started without `roots = true` under [mcp]",
        text::inline(&folders.join(", "), 1_000)
    );
    let within = Arc::clone(&ground.policy);
    let own = ground.own.to_vec();
    let made = tokio::task::spawn_blocking(move || {
        // Rules speak of folders by the names that they really have.
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

/// `file:///home/me/a%20b` is `/home/me/a b`. Other kinds of roots are no folders.
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
