//! The keys of `toolhost.toml`, each with a type that cannot be wrong. What they mean together: `settings.rs`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use toolhost_contract::{LimitsTable, PluginName, ToolName};

mod expand;
mod read;
mod values;

pub use expand::expand;
pub use read::read;
#[cfg(test)]
pub use read::{Format, parse};
pub use values::{OnDuplicate, PathEntry, Pattern, UseTools, Variable};

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Folders of plugins, or plugin files.
    pub plugins: Vec<String>,
    pub allowed_paths: Vec<PathEntry>,
    /// Variables that any plugin may see that asks for them.
    pub env: Vec<Variable>,
    /// Longest time of one call.
    #[serde(deserialize_with = "values::duration")]
    pub timeout: Option<Duration>,
    /// Calls that run at the same time.
    pub concurrency: Option<NonZeroUsize>,
    pub on_duplicate: Option<OnDuplicate>,
    pub use_tools: Option<UseTools>,
    pub policy: PolicyTable,
    #[serde(deserialize_with = "values::unique")]
    pub tools: BTreeMap<ToolName, ToolTable>,
    #[serde(deserialize_with = "values::unique")]
    pub plugin: BTreeMap<PluginName, PluginTable>,
    pub cache: CacheTable,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyTable {
    pub allow: Vec<Pattern>,
    pub ask: Vec<Pattern>,
    pub deny: Vec<Pattern>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolTable {
    #[serde(deserialize_with = "values::duration")]
    pub timeout: Option<Duration>,
    pub enabled: Option<bool>,
}

/// What one plugin gets. A list that is present replaces the global one for this plugin, so that writing a shorter
/// list takes something away.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PluginTable {
    pub allowed_paths: Option<Vec<PathEntry>>,
    pub env: Option<Vec<Variable>>,
    pub limits: LimitsTable,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheTable {
    pub dir: Option<String>,
}

#[cfg(test)]
mod tests;
