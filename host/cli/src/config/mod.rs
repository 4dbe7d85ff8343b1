//! The keys of `toolhost.toml`, each with a type that cannot be wrong. What they mean together: `settings.rs`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use toolhost_contract::policy::OnHeadlessAsk;
use toolhost_contract::{LimitsTable, Mode, PluginName, ToolName};

mod expand;
mod read;
mod values;

pub use expand::expand;
pub use read::read;
#[cfg(test)]
pub use read::{Format, parse};
pub use values::{Durability, OnDuplicate, PathEntry, Pattern, UseTools, Variable};

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
    pub store: StoreTable,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyTable {
    #[serde(deserialize_with = "values::text")]
    pub mode: Option<Mode>,
    #[serde(deserialize_with = "values::text")]
    pub on_headless_ask: Option<OnHeadlessAsk>,
    pub disable_yolo: bool,
    pub disable_always_allow: bool,
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

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreTable {
    pub enabled: Option<bool>,
    pub dir: Option<String>,
    pub durability: Option<Durability>,
}

#[cfg(test)]
mod tests;
