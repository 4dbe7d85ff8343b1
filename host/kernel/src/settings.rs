//! Settings of a kernel, fixed for its lifetime.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::policy::{Policy, Restriction};
use toolhost_contract::{Limits, Quotas, ToolSet, VersionReq};

use crate::ab_test::AbTest;
use crate::schedule;

#[derive(Debug, Clone)]
pub struct KernelSettings {
    pub policy: Arc<Policy>,
    /// Limits for concurrent calls; other calls wait in order of arrival.
    pub pools: schedule::PoolLimits,
    pub on_duplicate: OnDuplicate,
    /// For every tool without a more specific timeout in `tool_timeouts` or its [`crate::PluginInfo`].
    pub timeout: Option<Duration>,
    /// Maximum for every tool.
    pub max_timeout: Duration,
    /// Keyed by any name of the tool: `grep`, an alias, or `search/grep`.
    pub tool_timeouts: BTreeMap<String, Duration>,
    /// Any names of tools, as in `tool_timeouts`; `grep@1.2.3` refers to that version.
    pub disabled_tools: BTreeSet<String>,
    /// Tools that are not in all of these lists are disabled. Any names of tools, as in `tool_timeouts`.
    pub only_tools: Vec<Vec<String>>,
    /// The tools that are listed for models. All enabled tools can be called.
    pub listed_tools: ToolSet,
    /// Version requirement for a tool's name, keyed by any name. The default is the highest stable version.
    pub tool_versions: BTreeMap<String, VersionReq>,
    pub ab_tests: Vec<AbTest>,
    pub max_input_bytes: u64,
    pub quotas: Quotas,
    /// The folder that approvals for "this project" refer to.
    pub project: Option<String>,
    /// Directories that the host provides to tools, by the names in guests and on the host. A caller cannot narrow a
    /// call to exclude them.
    pub provided_directories: Arc<[String]>,
    /// Limits of every call, from the host of which this one is a sub-agent.
    pub inherited: Option<Arc<Restriction>>,
}

impl KernelSettings {
    /// The limits of a call together with the inherited ones.
    pub(crate) fn with_inherited(&self, own: Option<Arc<Restriction>>) -> Option<Arc<Restriction>> {
        match (own, &self.inherited) {
            (Some(own), Some(inherited)) => Some(Arc::new(own.and(inherited))),
            (own, inherited) => own.or_else(|| inherited.clone()),
        }
    }
}

/// The handling of a plugin that registers a name of another plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDuplicate {
    /// The later plugin is rejected.
    #[default]
    Error,
    /// The later tool takes the name, with a warning.
    Replace,
    /// The later tool is named `plugin__tool`.
    Qualify,
}

impl Default for KernelSettings {
    fn default() -> Self {
        Self {
            policy: Arc::default(),
            pools: schedule::PoolLimits::default(),
            on_duplicate: OnDuplicate::default(),
            timeout: None,
            max_timeout: Limits::MAX_TIMEOUT,
            tool_timeouts: BTreeMap::new(),
            disabled_tools: BTreeSet::new(),
            only_tools: Vec::new(),
            listed_tools: ToolSet::default(),
            tool_versions: BTreeMap::new(),
            ab_tests: Vec::new(),
            max_input_bytes: Limits::default().input,
            quotas: Quotas::default(),
            project: None,
            provided_directories: Arc::default(),
            inherited: None,
        }
    }
}
