//! The keys of `toolhost.toml` as typed values. `settings.rs` merges them with the command line.
//!
//! A file is read in two steps: `file.rs` accepts every key in every spelling, and [`Config`] has one of each.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toolhost_contract::policy::RuleSpec;
use toolhost_contract::{LimitsTable, PluginName, ToolName, ToolSet};
use toolhost_formats::profile::Profile;

mod ab_test;
mod expand;
mod external_access;
mod file;
#[cfg(test)]
mod fuzz;
mod hook;
mod key_case;
mod mcp;
mod other_systems;
mod policy;
mod positions;
mod read;
mod rule_text;
mod tools;
mod values;

pub use ab_test::AbTestTable;
pub use expand::expand_variables;
pub use external_access::{ExternalAccess, ProgramName};
pub use hook::{HookTable, HookTarget, OnFailure};
pub use mcp::McpTable;
pub use other_systems::{McpServer, Secret, WebSearch};
pub use policy::{ImportKind, PermissionTable, PolicyTable};
#[cfg(test)]
pub use read::parse;
pub use read::{FileFormat, parse_value, read, read_trusted};
pub use rule_text::RuleText;
pub use tools::ToolTable;
pub use values::{Bound, Durability, OnDuplicate, PathEntry, UseTools, Variable};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// Directories of plugins, or plugin files.
    pub plugins: Vec<String>,
    pub allowed_paths: Vec<PathEntry>,
    /// `.gitignore` patterns of files to hide in all of them.
    pub exclude_paths: Vec<String>,
    pub default_excludes: Option<bool>,
    /// Environment variables that plugins may request.
    pub env: Vec<Variable>,
    /// Maximum duration of one call.
    pub timeout: Option<Duration>,
    pub pools: PoolsTable,
    pub on_duplicate: Option<OnDuplicate>,
    pub use_tools: Option<UseTools>,
    pub list_tools: Option<ToolSet>,
    pub policy: PolicyTable,
    pub permission: PermissionTable,
    /// Every `[[rule]]`.
    pub rules: Vec<RuleSpec>,
    /// The rules as written, until they are parsed into `rules`.
    unparsed_rules: Vec<Value>,
    pub hooks: Vec<HookTable>,
    pub ab_tests: Vec<AbTestTable>,
    pub tools: BTreeMap<ToolName, ToolTable>,
    pub plugin: BTreeMap<PluginName, PluginTable>,
    pub cache: CacheTable,
    pub store: StoreTable,
    pub retention: RetentionTable,
    pub web_search: Option<WebSearch>,
    pub mcp: McpTable,
    pub external_access: ExternalAccess,
    pub profile: Option<Profile>,
    /// By name.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Command that lists tools.
    pub discovery_command: Option<String>,
    /// Command that runs one of these tools.
    pub call_command: Option<String>,
}

/// How many calls of each kind run concurrently.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolsTable {
    pub all: Option<NonZeroUsize>,
    pub network: Option<NonZeroUsize>,
    pub processes: Option<NonZeroUsize>,
    pub agents: Option<NonZeroUsize>,
    pub interactive: Option<NonZeroUsize>,
}

/// Settings of one plugin. A list that is present replaces the global one for this plugin, so a shorter list grants
/// less.
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

/// Limits on the age and size of stored data.
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
