//! How often each tool ran, how it went and how long it took.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Registered tools, the disabled ones too.
    pub total: usize,
    pub by_category: BTreeMap<String, usize>,
    /// Tools that ran at least once.
    pub calls: BTreeMap<String, ToolStats>,
}

/// Calls that were refused before they started do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolStats {
    pub count: u64,
    /// Of `count`: calls that ended in an error of the host or of the tool.
    pub failures: u64,
    pub avg_duration: Duration,
}

/// Shared by all snapshots, so that a new snapshot neither copies nor loses a count.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    count: AtomicU64,
    failures: AtomicU64,
    nanos: AtomicU64,
}

impl Counters {
    pub(crate) fn record(&self, duration: Duration, failed: bool) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Relaxed);
        self.failures.fetch_add(u64::from(failed), Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    pub(crate) fn read(&self) -> ToolStats {
        let count = self.count.load(Relaxed);
        ToolStats {
            count,
            failures: self.failures.load(Relaxed),
            avg_duration: Duration::from_nanos(
                self.nanos.load(Relaxed).checked_div(count).unwrap_or(0),
            ),
        }
    }
}
