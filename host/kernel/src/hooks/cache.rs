//! A hook that answers repeated reads from a cache while the files they read are unchanged.
//!
//! The cache should be the last hook: it then stores outcomes that the other hooks have processed, and they run before
//! it answers.

mod key;
mod result_cache;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use toolhost_contract::hook::{OutcomePatch, PostHookResponse, PreHookDecision, PreHookResponse};
use toolhost_contract::{BoxFuture, Concurrency, Descriptor, Effect, Outcome, PluginName};

use self::key::key;
use self::result_cache::{CachedOutcome, ResultCache};
pub(crate) use self::result_cache::{display_size, outcome_size, result_size};
use super::{Hook, HookCall, HookError, HookPoint};

const TTL: Duration = Duration::from_secs(300);
const MAX_ENTRIES: usize = 256;
const MAX_BYTES: usize = 16 << 20;

/// Caches outcomes, limited by age, number and bytes. The least recently used entries are evicted first.
pub struct ReadCache {
    cache: Mutex<ResultCache>,
}

impl Default for ReadCache {
    fn default() -> Self {
        Self::bounded(TTL, MAX_ENTRIES, MAX_BYTES)
    }
}

impl ReadCache {
    pub fn bounded(ttl: Duration, entries: usize, bytes: usize) -> Self {
        Self {
            cache: Mutex::new(ResultCache::new(ttl, entries, bytes)),
        }
    }

    // No foreign code runs under the lock, so a poisoned lock still protects a consistent value.
    fn cache(&self) -> MutexGuard<'_, ResultCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a result depends on the read set of its call alone, unless the call is narrowed: then it can lack what other calls
/// may read, and the other way round. Undeclared properties count as the less cacheable value.
fn only_reads_files(tool: &Descriptor) -> bool {
    let hints = &tool.annotations;
    let closed = match tool.effect() {
        Effect::Reads => hints.open_world == Some(false),
        // A tool without reads may use the clock, and running it again is cheap.
        Effect::Pure | Effect::Writes | Effect::Destroys => false,
    };
    closed && hints.interactive != Some(true) && tool.concurrency == Concurrency::Parallel
}

impl Hook for ReadCache {
    fn runs(&self, _: HookPoint, _: &PluginName, tool: &Descriptor) -> bool {
        only_reads_files(tool)
    }

    fn wants_reads(&self, tool: &Descriptor) -> bool {
        only_reads_files(tool)
    }

    fn before<'a>(
        &'a self,
        call: &'a HookCall,
    ) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(async move {
            if call.is_narrowed {
                return Ok(PreHookResponse::default());
            }
            let key = key(call);
            let cached = self.cache().get(&key, Instant::now());
            let Some((cached, age)) = cached else {
                return Ok(PreHookResponse::default());
            };
            if !cached.reads.is_unchanged().await {
                self.cache().remove(&key);
                return Ok(PreHookResponse::default());
            }
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            let mark = PostHookResponse::Update(Box::new(OutcomePatch {
                meta: Some(json!({"cached": true, "age_ms": age})),
                ..OutcomePatch::default()
            }));
            let outcome = mark.apply(cached.outcome.clone());
            Ok(PreHookResponse {
                decision: PreHookDecision::Result(Box::new(outcome)),
                updated_input: None,
            })
        })
    }

    fn after<'a>(
        &'a self,
        call: &'a HookCall,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        Box::pin(async move {
            // The host makes a tail call each time, so the outcome is not cached.
            if call.is_narrowed || outcome.is_error() || outcome.tail.is_some() {
                return Ok(PostHookResponse::Keep);
            }
            // `None`: the tool did not run or its reads are unknown.
            if let Some(reads) = &call.reads {
                reads.record_state().await;
                let cached = CachedOutcome {
                    outcome: outcome.clone(),
                    reads: Arc::clone(reads),
                };
                self.cache().put(key(call), cached, Instant::now());
            }
            Ok(PostHookResponse::Keep)
        })
    }
}

#[cfg(test)]
mod tests;
