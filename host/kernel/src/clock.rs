//! The wall clock, injected so that tests can replace it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use toolhost_contract::lifecycle::Timestamp;

/// The source of time for records. Durations and deadlines use a monotonic clock instead.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn system() -> Self {
        Self::new(|| {
            let since = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
        })
    }

    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}
