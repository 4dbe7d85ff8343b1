//! Answers a repeated read from memory, as long as what it read is still the same.
//!
//! The cache belongs at the end of the hooks: what it keeps is then what the others left of an outcome, and they are
//! heard before it answers.

mod key;
mod shelf;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use toolhost_contract::hook::{After, Before, Decision, Patch};
use toolhost_contract::{BoxFuture, CallId, Concurrency, Descriptor, Effect, Outcome};

use self::key::{Key, key};
use self::shelf::Shelf;
use super::{Hook, HookCall, HookError};

const TTL: Duration = Duration::from_secs(300);
const MAX_ENTRIES: usize = 256;
const MAX_BYTES: usize = 16 << 20;
/// Calls that missed and have not ended. Those that never end, because they were denied, must not pile up.
const MAX_OPEN: usize = 256;

/// Knows the state of the world that a call would read, such as the contents of the files that its input names.
pub trait Fingerprint: Send + Sync {
    /// A strong hash, different whenever the outcome could be; None when there is no telling. Tool, version, input and
    /// caller are added to it by the cache.
    fn of<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Option<[u8; 32]>>;
}

/// Bounded in time, entries and bytes; the least recently used go first.
pub struct ReadCache {
    fingerprint: Arc<dyn Fingerprint>,
    inner: Mutex<Inner>,
}

struct Inner {
    shelf: Shelf,
    open: VecDeque<(CallId, Key)>,
}

impl ReadCache {
    pub fn new(fingerprint: Arc<dyn Fingerprint>) -> Self {
        Self {
            fingerprint,
            inner: Mutex::new(Inner {
                shelf: Shelf::new(TTL, MAX_ENTRIES, MAX_BYTES),
                open: VecDeque::new(),
            }),
        }
    }

    /// The same cache with other bounds; what it held is dropped.
    #[must_use]
    pub fn bounded(self, ttl: Duration, entries: usize, bytes: usize) -> Self {
        self.lock().shelf = Shelf::new(ttl, entries, bytes);
        self
    }

    /// None: the call is not one to be cached.
    async fn key(&self, call: &HookCall) -> Option<Key> {
        if !repeats(&call.tool) {
            return None;
        }
        let fingerprint = self.fingerprint.of(call).await?;
        Some(key(call, fingerprint))
    }

    // No code of others runs under the lock, so a poisoned one still holds a whole value.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the tool does nothing but read what a fingerprint can see. What its author left open is read the careful
/// way.
fn repeats(tool: &Descriptor) -> bool {
    let hints = &tool.annotations;
    let closed = match tool.effect() {
        Effect::Pure => hints.open_world != Some(true),
        Effect::Reads => hints.open_world == Some(false),
        Effect::Writes | Effect::Destroys => false,
    };
    closed && hints.interactive != Some(true) && tool.concurrency == Concurrency::Parallel
}

impl Hook for ReadCache {
    fn before<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Result<Before, HookError>> {
        Box::pin(async move {
            let key = self.key(call).await;
            let mut inner = self.lock();
            inner.close(&call.call.id);
            let Some(key) = key else {
                return Ok(Before::default());
            };
            let Some((outcome, age)) = inner.shelf.get(&key, Instant::now()) else {
                inner.open(call.call.id.clone(), key);
                return Ok(Before::default());
            };
            drop(inner);
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            let mark = After::Update(Box::new(Patch {
                meta: Some(json!({"cached": true, "age_ms": age})),
                ..Patch::default()
            }));
            Ok(Before {
                decision: Decision::Result(Box::new(mark.apply(Outcome::clone(&outcome)))),
                updated_input: None,
            })
        })
    }

    fn after<'a>(
        &'a self,
        call: &'a HookCall,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<After, HookError>> {
        Box::pin(async move {
            let Some(missed) = self.lock().close(&call.call.id) else {
                return Ok(After::Keep);
            };
            // A tail call is for the host to make, once each time.
            if outcome.is_error() || outcome.tail.is_some() {
                return Ok(After::Keep);
            }
            // Two looks, one before and one after: a file that changed while the tool read it would otherwise be
            // remembered with a content that it does not have.
            if self.key(call).await == Some(missed) {
                let mut inner = self.lock();
                inner.shelf.put(missed, outcome, Instant::now());
            }
            Ok(After::Keep)
        })
    }
}

impl Inner {
    fn open(&mut self, id: CallId, key: Key) {
        if self.open.len() >= MAX_OPEN {
            self.open.pop_front();
        }
        self.open.push_back((id, key));
    }

    fn close(&mut self, id: &CallId) -> Option<Key> {
        let index = self.open.iter().position(|(open, _)| open == id)?;
        self.open.remove(index).map(|(_, key)| key)
    }
}

#[cfg(test)]
mod tests;
