//! A configuration file as written, with every accepted spelling and position of each key.
//!
//! A setting that is given twice is an error, because one of the values would be ignored silently.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toolhost_contract::{PluginName, ToolSet};
use toolhost_formats::profile::Profile;

use super::external_access::{AgentTable, EntryName, ExternalAccess, ProgramName, SecretTable};
use super::other_systems::{McpServers, SettingsTable, WebSearch};
use super::tools::ToolsTable;
use super::values::{self, Milliseconds};
use super::{
    AbTestTable, CacheTable, Config, HookTable, McpTable, OnDuplicate, PathEntry, PermissionTable,
    PluginTable, PolicyTable, PoolsTable, RetentionTable, StoreTable, UseTools, Variable, key_case,
};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigFile {
    plugins: Vec<String>,
    allowed_paths: Option<Vec<PathEntry>>,
    exclude_paths: Vec<String>,
    default_excludes: Option<bool>,
    env: Vec<Variable>,
    allowed_hosts: Vec<String>,
    denied_hosts: Vec<String>,
    allowed_programs: Vec<ProgramName>,
    unconfined: bool,
    program_network: bool,
    memory: Option<String>,
    skills: Vec<String>,
    #[serde(deserialize_with = "values::profile")]
    profile: Option<Profile>,
    #[serde(deserialize_with = "values::unique_map")]
    agents: BTreeMap<EntryName, AgentTable>,
    #[serde(deserialize_with = "values::unique_map")]
    secrets: BTreeMap<EntryName, SecretTable>,
    #[serde(deserialize_with = "values::duration")]
    timeout: Option<Duration>,
    tool_timeout_ms: Option<Milliseconds>,
    concurrency: Option<NonZeroUsize>,
    on_duplicate: Option<OnDuplicate>,
    use_tools: Option<UseTools>,
    list_tools: Option<ToolSet>,
    #[serde(deserialize_with = "key_case::any_case")]
    policy: PolicyTable,
    #[serde(deserialize_with = "key_case::any_case")]
    permission: PermissionTable,
    rule: Vec<Value>,
    #[serde(deserialize_with = "key_case::list")]
    hook: Vec<HookTable>,
    #[serde(deserialize_with = "key_case::list")]
    ab_test: Vec<AbTestTable>,
    tools: ToolsTable,
    #[serde(deserialize_with = "values::unique_map")]
    plugin: BTreeMap<PluginName, PluginTable>,
    pools: PoolsTable,
    #[serde(deserialize_with = "key_case::any_case")]
    settings: SettingsTable,
    cache: CacheTable,
    store: StoreTable,
    retention: RetentionTable,
    mcp: McpTable,
    #[serde(deserialize_with = "key_case::optional")]
    web_search: Option<WebSearch>,
    mcp_servers: Option<McpServers>,
    tool_discovery_command: Option<String>,
    tool_call_command: Option<String>,
}

impl ConfigFile {
    /// Merges all spellings into one value per setting.
    pub fn into_config(self) -> Result<Config, String> {
        let tools = self.tools;
        let timeout = exactly_one([
            ("timeout", self.timeout),
            ("toolTimeoutMs", self.tool_timeout_ms.map(|time| time.0)),
            ("tools.timeout", tools.timeout),
        ])?;
        let all = exactly_one([
            ("pools.all", self.pools.all),
            ("concurrency", self.concurrency),
            ("tools.maxConcurrent", tools.max_concurrent),
            (
                "settings.agent.maxConcurrentTools",
                self.settings.agent.max_concurrent_tools,
            ),
        ])?;
        let allowed_paths = exactly_one([
            ("allowed_paths", self.allowed_paths),
            ("tools.allowedPaths", tools.allowed_paths),
        ])?;
        let use_tools = exactly_one([
            ("use_tools", self.use_tools),
            ("tools.useTools", tools.use_tools),
        ])?;
        exactly_one([
            ("policy.mode", self.policy.mode),
            ("permission.mode", self.permission.mode),
        ])?;
        let web_search = exactly_one([
            ("webSearch", self.web_search),
            ("tools.webSearch", tools.web_search),
        ])?;
        let mcp_servers = exactly_one([
            ("mcpServers", self.mcp_servers),
            ("tools.mcpServers", tools.mcp_servers),
        ])?;
        let discovery = exactly_one([
            ("toolDiscoveryCommand", self.tool_discovery_command),
            ("tools.discoveryCommand", tools.discovery_command),
        ])?;
        let call = exactly_one([
            ("toolCallCommand", self.tool_call_command),
            ("tools.callCommand", tools.call_command),
        ])?;
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
        Ok(Config {
            plugins: self.plugins,
            allowed_paths: allowed_paths.map(|(_, paths)| paths).unwrap_or_default(),
            exclude_paths: self.exclude_paths,
            default_excludes: self.default_excludes,
            env: self.env,
            timeout: timeout.map(|(_, time)| time),
            pools: PoolsTable {
                all: all.map(|(_, number)| number),
                ..self.pools
            },
            on_duplicate: self.on_duplicate,
            list_tools: self.list_tools,
            use_tools: use_tools.map(|(_, tools)| tools),
            policy: self.policy,
            permission: self.permission,
            unparsed_rules: self.rule,
            rules: Vec::new(),
            hooks: self.hook,
            ab_tests: self.ab_test,
            tools: tools.by_name,
            plugin: self.plugin,
            cache: self.cache,
            store: self.store,
            retention: self.retention,
            mcp: self.mcp,
            mcp_servers: mcp_servers
                .map(|(_, servers)| servers.0)
                .unwrap_or_default(),
            discovery_command: discovery.map(|(_, command)| command),
            call_command: call.map(|(_, command)| command),
            web_search: web_search.map(|(_, search)| search),
            profile: self.profile,
            external_access: ExternalAccess {
                hosts: self.allowed_hosts,
                denied_hosts: self.denied_hosts,
                programs: self.allowed_programs,
                unconfined: self.unconfined,
                program_network: self.program_network,
                memory: self.memory,
                skills: self.skills,
                agents: self.agents,
                secrets: self.secrets,
            },
        })
    }
}

/// The value that is present and its key. More than one is an error.
fn exactly_one<T, const N: usize>(
    spellings: [(&'static str, Option<T>); N],
) -> Result<Option<(&'static str, T)>, String> {
    let mut found: Option<(&'static str, T)> = None;
    for (key, value) in spellings {
        let Some(value) = value else { continue };
        if let Some((first, _)) = &found {
            return Err(key_case::duplicate_message(first, key));
        }
        found = Some((key, value));
    }
    Ok(found)
}
