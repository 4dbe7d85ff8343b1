//! The keys of `toolhost.toml`, each with a type that cannot be wrong. What they mean together: `settings.rs`.
//!
//! A file is read in two steps: `file.rs` knows every key in every spelling, and what comes out here has one of each.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toolhost_contract::policy::RuleSpec;
use toolhost_contract::profile::Profile;
use toolhost_contract::{LimitsTable, PluginName, ToolName};

mod ab_test;
mod beyond;
mod expand;
mod file;
mod foreign;
mod form;
#[cfg(test)]
mod fuzz;
mod hook;
mod mcp;
mod policy;
mod read;
mod rules;
mod spelling;
mod tools;
mod values;

pub use ab_test::AbTestTable;
pub use beyond::{Beyond, Program};
pub use expand::expand;
pub use foreign::{McpServer, Secret, WebSearch};
pub use form::Form;
pub use hook::{HookTable, OnFailure, Who};
pub use mcp::McpTable;
pub use policy::{ImportKind, PermissionTable, PolicyTable};
#[cfg(test)]
pub use read::parse;
pub use read::{Format, read, text_of, value_of};
pub use tools::ToolTable;
pub use values::{Bound, Durability, OnDuplicate, PathEntry, UseTools, Variable};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// Folders of plugins, or plugin files.
    pub plugins: Vec<String>,
    pub allowed_paths: Vec<PathEntry>,
    /// What to leave out of all of them, as in a `.gitignore`.
    pub exclude_paths: Vec<String>,
    pub default_excludes: Option<bool>,
    /// Variables that any plugin may see that asks for them.
    pub env: Vec<Variable>,
    /// Longest time of one call.
    pub timeout: Option<Duration>,
    pub pools: PoolsTable,
    pub on_duplicate: Option<OnDuplicate>,
    pub use_tools: Option<UseTools>,
    pub policy: PolicyTable,
    pub permission: PermissionTable,
    /// Every `[[rule]]`.
    pub rules: Vec<RuleSpec>,
    /// The same as they were written, until `rules` is made of them.
    raw_rules: Vec<Value>,
    pub hooks: Vec<HookTable>,
    pub ab_tests: Vec<AbTestTable>,
    pub tools: BTreeMap<ToolName, ToolTable>,
    pub plugin: BTreeMap<PluginName, PluginTable>,
    pub cache: CacheTable,
    pub store: StoreTable,
    pub retention: RetentionTable,
    pub web_search: Option<WebSearch>,
    pub mcp: McpTable,
    pub beyond: Beyond,
    pub profile: Option<Profile>,
    /// By name.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Prints what tools there are.
    pub discovery_command: Option<String>,
    /// Runs one of them.
    pub call_command: Option<String>,
}

/// How many calls of a kind run at the same time.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolsTable {
    pub all: Option<NonZeroUsize>,
    pub network: Option<NonZeroUsize>,
    pub processes: Option<NonZeroUsize>,
    pub agents: Option<NonZeroUsize>,
    pub interactive: Option<NonZeroUsize>,
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

/// How much of what the host keeps is kept, and how long.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionTable {
    pub records_age: Option<Bound<Duration>>,
    pub records_size: Option<Bound<u64>>,
    pub undo_age: Option<Bound<Duration>>,
    pub undo_size: Option<Bound<u64>>,
    pub cache_age: Option<Bound<Duration>>,
    pub cache_size: Option<Bound<u64>>,
    pub logs_age: Option<Bound<Duration>>,
}

#[cfg(test)]
mod tests;
