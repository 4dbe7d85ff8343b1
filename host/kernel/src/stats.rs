//! Statistics per tool: number of calls, failures and duration.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use toolhost_contract::{PluginName, ToolName, Version};

/// A snapshot of the statistics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Number of registered tools, including disabled ones.
    pub total: usize,
    pub by_category: BTreeMap<String, usize>,
    /// Tools that ran at least once. The key is `name@version` for a version that is not served under the name alone,
    /// and `plugin/name` for a variant from another plugin.
    pub calls: BTreeMap<String, ToolStats>,
    /// Variants of A/B tests, by tool and in configuration order, including variants that never ran.
    pub variants: Vec<VariantStats>,
}

/// A variant of an A/B test and the calls that were assigned to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariantStats {
    pub tool: ToolName,
    pub plugin: PluginName,
    pub version: Version,
    pub weight: u32,
    pub calls: u64,
    pub failures: u64,
    pub total: Duration,
}

/// Statistics of one tool. Calls that were refused before they started do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolStats {
    pub count: u64,
    /// The part of `count` that ended in an error of the host or the tool.
    pub failures: u64,
    pub avg_duration: Duration,
}

/// What a kernel is doing at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelLoad {
    /// Calls that have begun and not ended, in any phase.
    pub calls: usize,
    /// Calls that hold a permit.
    pub admitted: usize,
    /// Calls that wait for a permit, a lane or a path.
    pub queued: usize,
    /// Questions that wait for an answer.
    pub questions: usize,
}

/// Shared by all snapshots, so that no count is copied or lost.
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

    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Relaxed))
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
