//! The folders that a client says it works in. They only ever narrow what the operator granted.
//!
//! Only a client with a session is asked, once before its first call and again when it says that they changed: one
//! without a session would have to be asked anew in each request.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

#[expect(
    deprecated,
    reason = "2026-07-28 keeps roots for a year, older clients know nothing else"
)]
use rmcp::model::{ListRootsResult, Root};
use rmcp::{Peer, RoleServer};
use tokio::sync::Mutex;
use toolhost_contract::policy::{Policy, Restriction};

/// A client that takes longer has none.
const PATIENCE: Duration = Duration::from_secs(5);
/// Folders that count.
const MOST: usize = 64;
/// Bytes of the name of one.
const MAX_NAME: usize = 4_096;

#[derive(Default)]
pub(crate) struct Roots {
    /// The client has said that it has some.
    declared: AtomicBool,
    /// What is known is what the client would say now.
    fresh: AtomicBool,
    /// Whoever asks holds it, so that calls which begin at once ask once.
    known: Mutex<Option<Arc<Restriction>>>,
}

impl Roots {
    pub(crate) fn declare(&self) {
        self.declared.store(true, Relaxed);
    }

    pub(crate) fn are_declared(&self) -> bool {
        self.declared.load(Relaxed)
    }

    pub(crate) fn changed(&self) {
        self.fresh.store(false, Relaxed);
    }

    /// What the calls of this client are held to. Asks in the task of a request, because only then does rmcp know
    /// where the question belongs.
    pub(crate) async fn restriction(
        &self,
        peer: &Peer<RoleServer>,
        policy: &Policy,
    ) -> Option<Arc<Restriction>> {
        let mut known = self.known.lock().await;
        if !self.fresh.swap(true, Relaxed) {
            #[expect(deprecated, reason = "see the use above")]
            let asked = tokio::time::timeout(PATIENCE, peer.list_roots()).await;
            // A client that does not say how they changed is held to what it said before.
            if let Ok(Ok(roots)) = asked {
                *known = restriction(roots, policy).await;
            }
        }
        known.clone()
    }
}

#[expect(deprecated, reason = "see the use above")]
async fn restriction(roots: ListRootsResult, policy: &Policy) -> Option<Arc<Restriction>> {
    let folders: Vec<String> = roots.roots.iter().take(MOST).filter_map(folder).collect();
    // An empty list says nothing: who has no folder open may still use those that the operator granted.
    if folders.is_empty() {
        return None;
    }
    let policy = policy.clone();
    let made = tokio::task::spawn_blocking(move || {
        // Rules speak of folders by the names that they really have.
        let real = folders
            .iter()
            .filter_map(|folder| Path::new(folder).canonicalize().ok())
            .filter_map(|real| real.into_os_string().into_string().ok());
        let all: Vec<String> = real.chain(folders.iter().cloned()).collect();
        Restriction::within(&all, &policy)
    });
    made.await.ok()?.ok().map(Arc::new)
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
