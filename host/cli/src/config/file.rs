//! [`Config`], a configuration file as written, with every accepted spelling and position of each key.
//!
//! A setting that is given twice is an error, because one of the values would be ignored silently.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toolhost_contract::policy::RuleSpec;
use toolhost_contract::{PluginName, ToolSet};
use toolhost_formats::profile::Profile;
use toolhost_kernel::OnDuplicate;

use super::external_access::{AgentTable, EntryName, ProgramName, SecretTable};
use super::other_systems::{McpServers, SettingsTable, WebSearch};
use super::tools::ToolsTable;
use super::values::{self, Milliseconds};
use super::{
    AbTestTable, CacheTable, HookTable, McpTable, PathEntry, PermissionTable, PluginTable,
    PolicyTable, PoolsTable, ProjectTable, RetentionTable, SignaturesTable, StoreTable, UseTools,
    Variable, key_case,
};

/// After [`Config::merge_spellings`], a setting with several spellings is in the first of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Directories of plugins, or plugin files.
    pub plugins: Vec<String>,
    /// Whether the plugins that were installed with the program are loaded too; `None`: if no others are named.
    pub shipped_plugins: Option<bool>,
    /// By the absolute path of the directory.
    #[serde(deserialize_with = "values::unique_map")]
    pub project: BTreeMap<String, ProjectTable>,
    pub allowed_paths: Option<Vec<PathEntry>>,
    /// `.gitignore` patterns of files to hide in all directories.
    pub exclude_paths: Vec<String>,
    pub default_excludes: Option<bool>,
    /// Environment variables that plugins may request.
    pub env: Vec<Variable>,
    pub allowed_hosts: Vec<String>,
    pub denied_hosts: Vec<String>,
    pub allowed_programs: Vec<ProgramName>,
    pub unconfined: bool,
    pub program_network: bool,
    pub memory: Option<String>,
    pub skills: Vec<String>,
    #[serde(deserialize_with = "values::profile")]
    pub profile: Option<Profile>,
    #[serde(deserialize_with = "values::unique_map")]
    pub agents: BTreeMap<EntryName, AgentTable>,
    #[serde(deserialize_with = "values::unique_map")]
    pub secrets: BTreeMap<EntryName, SecretTable>,
    /// Maximum duration of one call.
    #[serde(deserialize_with = "values::duration")]
    pub timeout: Option<Duration>,
    tool_timeout_ms: Option<Milliseconds>,
    concurrency: Option<NonZeroUsize>,
    pub on_duplicate: Option<OnDuplicate>,
    pub use_tools: Option<UseTools>,
    pub list_tools: Option<ToolSet>,
    #[serde(deserialize_with = "key_case::any_case")]
    pub policy: PolicyTable,
    #[serde(deserialize_with = "key_case::any_case")]
    pub permission: PermissionTable,
    /// The rules as written, until they are parsed into `rules`.
    pub(super) rule: Vec<Value>,
    /// Every `[[rule]]`.
    #[serde(skip)]
    pub rules: Vec<RuleSpec>,
    #[serde(deserialize_with = "key_case::list")]
    pub hook: Vec<HookTable>,
    #[serde(deserialize_with = "key_case::list")]
    pub ab_test: Vec<AbTestTable>,
    pub tools: ToolsTable,
    #[serde(deserialize_with = "values::unique_map")]
    pub plugin: BTreeMap<PluginName, PluginTable>,
    pub pools: PoolsTable,
    #[serde(deserialize_with = "key_case::any_case")]
    settings: SettingsTable,
    pub cache: CacheTable,
    pub store: StoreTable,
    pub retention: RetentionTable,
    pub signatures: SignaturesTable,
    pub mcp: McpTable,
    #[serde(deserialize_with = "key_case::optional")]
    pub web_search: Option<WebSearch>,
    pub mcp_servers: Option<McpServers>,
    /// Command that lists tools.
    pub tool_discovery_command: Option<String>,
    /// Command that runs one of these tools.
    pub tool_call_command: Option<String>,
}

impl Config {
    /// Merges all spellings of each setting into the first one.
    pub(super) fn merge_spellings(&mut self) -> Result<(), String> {
        let tools = &mut self.tools;
        merge(
            ("timeout", &mut self.timeout),
            [
                (
                    "toolTimeoutMs",
                    self.tool_timeout_ms.take().map(|time| time.0),
                ),
                ("tools.timeout", tools.timeout.take()),
            ],
        )?;
        let agent = &mut self.settings.agent;
        merge(
            ("pools.all", &mut self.pools.all),
            [
                ("concurrency", self.concurrency.take()),
                ("tools.maxConcurrent", tools.max_concurrent.take()),
                (
                    "settings.agent.maxConcurrentTools",
                    agent.max_concurrent_tools.take(),
                ),
            ],
        )?;
        let of_tools = tools.allowed_paths.take();
        merge(
            ("allowed_paths", &mut self.allowed_paths),
            [("tools.allowedPaths", of_tools)],
        )?;
        let of_tools = tools.use_tools.take();
        merge(
            ("use_tools", &mut self.use_tools),
            [("tools.useTools", of_tools)],
        )?;
        // Both tables are read later, so this only refuses two modes.
        let mut mode = self.policy.mode;
        merge(
            ("policy.mode", &mut mode),
            [("permission.mode", self.permission.mode)],
        )?;
        let of_tools = tools.web_search.take();
        merge(
            ("webSearch", &mut self.web_search),
            [("tools.webSearch", of_tools)],
        )?;
        let of_tools = tools.mcp_servers.take();
        merge(
            ("mcpServers", &mut self.mcp_servers),
            [("tools.mcpServers", of_tools)],
        )?;
        let (discovery, call) = (tools.discovery_command.take(), tools.call_command.take());
        let own = ("toolDiscoveryCommand", &mut self.tool_discovery_command);
        merge(own, [("tools.discoveryCommand", discovery)])?;
        merge(
            ("toolCallCommand", &mut self.tool_call_command),
            [("tools.callCommand", call)],
        )?;
        let mut names = BTreeSet::new();
        for hook in &self.hook {
            if !names.insert(&hook.name) {
                return Err(format!(
                    "two hooks are named `{}`; give one a different `name`",
                    hook.name
                ));
            }
        }
        let mut compared = BTreeSet::new();
        for test in &self.ab_test {
            if !compared.insert(&test.tool) {
                return Err(format!(
                    "two ab_test tables are for `{}`; merge their variants into one",
                    test.tool
                ));
            }
        }
        Ok(())
    }
}

/// Sets the setting to the one value that is present. More than one is an error.
fn merge<T, const N: usize>(
    (mut first, own): (&'static str, &mut Option<T>),
    others: [(&'static str, Option<T>); N],
) -> Result<(), String> {
    for (key, value) in others {
        let Some(value) = value else { continue };
        if own.is_some() {
            return Err(key_case::duplicate_message(first, key));
        }
        (first, *own) = (key, Some(value));
    }
    Ok(())
}
