//! A hook that answers repeated reads from a cache while the files they read are unchanged.
//!
//! The cache should be the last hook: it then stores outcomes that the other hooks have processed, and they run before
//! it answers.

mod key;
mod shelf;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use toolhost_contract::hook::{After, Before, Decision, Patch};
use toolhost_contract::{BoxFuture, Concurrency, Descriptor, Effect, Outcome};

use self::key::key;
pub(crate) use self::shelf::weight;
use self::shelf::{Kept, Shelf};
use super::{Hook, HookCall, HookError};

const TTL: Duration = Duration::from_secs(300);
const MAX_ENTRIES: usize = 256;
const MAX_BYTES: usize = 16 << 20;

/// Caches outcomes, limited by age, number and bytes. The least recently used entries are evicted first.
pub struct ReadCache {
    shelf: Mutex<Shelf>,
}

impl Default for ReadCache {
    fn default() -> Self {
        Self::bounded(TTL, MAX_ENTRIES, MAX_BYTES)
    }
}

impl ReadCache {
    pub fn bounded(ttl: Duration, entries: usize, bytes: usize) -> Self {
        Self {
            shelf: Mutex::new(Shelf::new(ttl, entries, bytes)),
        }
    }

    // No foreign code runs under the lock, so a poisoned lock still protects a consistent value.
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the tool only reads files, so that its result depends on its read set alone. Undeclared properties count as
/// the less cacheable value.
fn repeats(tool: &Descriptor) -> bool {
    let hints = &tool.annotations;
    let closed = match tool.effect() {
        Effect::Reads => hints.open_world == Some(false),
        // A tool without reads may use the clock, and running it again is cheap.
        Effect::Pure | Effect::Writes | Effect::Destroys => false,
    };
    closed && hints.interactive != Some(true) && tool.concurrency == Concurrency::Parallel
}

impl Hook for ReadCache {
    fn wants_reads(&self, tool: &Descriptor) -> bool {
        repeats(tool)
    }

    fn before<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Result<Before, HookError>> {
        Box::pin(async move {
            if !repeats(&call.tool) {
                return Ok(Before::default());
            }
            let key = key(call);
            let kept = self.shelf().get(&key, Instant::now());
            let Some((kept, age)) = kept else {
                return Ok(Before::default());
            };
            if !kept.reads.still_hold().await {
                self.shelf().remove(&key);
                return Ok(Before::default());
            }
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            let mark = After::Update(Box::new(Patch {
                meta: Some(json!({"cached": true, "age_ms": age})),
                ..Patch::default()
            }));
            let outcome = mark.apply(kept.outcome.clone());
            Ok(Before {
                decision: Decision::Result(Box::new(outcome)),
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
            // The host makes a tail call each time, so the outcome is not cached.
            if !repeats(&call.tool) || outcome.is_error() || outcome.tail.is_some() {
                return Ok(After::Keep);
            }
            // `None`: the tool did not run or its reads are unknown.
            if let Some(reads) = &call.reads {
                reads.keep().await;
                let kept = Kept {
                    outcome: outcome.clone(),
                    reads: Arc::clone(reads),
                };
                self.shelf().put(key(call), kept, Instant::now());
            }
            Ok(After::Keep)
        })
    }
}

#[cfg(test)]
mod tests;
