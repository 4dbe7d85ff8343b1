//! What an operator may choose about the road, fixed for the life of a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::policy::Policy;
use toolhost_contract::{Limits, Quotas, VersionReq};

use crate::ab::AbTest;
use crate::schedule;

#[derive(Debug, Clone)]
pub struct Settings {
    pub policy: Arc<Policy>,
    /// So many calls run at once; the others wait in the order they came.
    pub pools: schedule::Limits,
    pub on_duplicate: OnDuplicate,
    /// For every tool that has no nearer one in `tool_timeouts` or its [`crate::PluginInfo`].
    pub timeout: Option<Duration>,
    /// By any name of the tool: `grep`, an alias, or `search/grep`.
    pub tool_timeouts: BTreeMap<String, Duration>,
    /// By any name of the tool, as in `tool_timeouts`; `grep@1.2.3` is that version of it.
    pub disabled_tools: BTreeSet<String>,
    /// Which version answers to a tool's name, by any name of the tool; without one the highest that is finished.
    pub tool_versions: BTreeMap<String, VersionReq>,
    pub ab_tests: Vec<AbTest>,
    pub max_input_bytes: u64,
    pub quotas: Quotas,
    /// The folder that an approval "in this project" is for.
    pub project: Option<String>,
}

/// What happens when a plugin brings a name that another plugin has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDuplicate {
    /// The later plugin is refused.
    #[default]
    Error,
    /// The later tool takes the name, with a warning.
    Replace,
    /// The later tool is called `plugin__tool`.
    Qualify,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Arc::default(),
            pools: schedule::Limits::default(),
            on_duplicate: OnDuplicate::default(),
            timeout: None,
            tool_timeouts: BTreeMap::new(),
            disabled_tools: BTreeSet::new(),
            tool_versions: BTreeMap::new(),
            ab_tests: Vec::new(),
            max_input_bytes: Limits::default().input,
            quotas: Quotas::default(),
            project: None,
        }
    }
}
