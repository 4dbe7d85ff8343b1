//! How often each tool ran, how it went and how long it took.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use toolhost_contract::{PluginName, ToolName, Version};

/// Of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Registered tools, the disabled ones too.
    pub total: usize,
    pub by_category: BTreeMap<String, usize>,
    /// Tools that ran at least once. One that does not answer to its name alone is `name@version`, and one that stands
    /// in for another plugin's tool `plugin/name`.
    pub calls: BTreeMap<String, ToolStats>,
    /// What is compared, by tool and in the order of the configuration, whether or not it ran.
    pub variants: Vec<VariantStats>,
}

/// One of the implementations of a tool that are compared, and the calls that the comparison sent to it.
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
