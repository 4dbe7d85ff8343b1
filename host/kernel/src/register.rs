//! Prepares the tools of a plugin for the registry: checks schemas and refuses repeated names.

use std::collections::BTreeSet;
use std::sync::Arc;

use toolhost_contract::version::split_version;
use toolhost_contract::{Backend, PluginName, ToolName, Version, VersionReq, text};
use toolhost_schema::{SchemaError, ToolSchemas};

use crate::KernelSettings;
use crate::registry::{PluginInfo, ToolEntry};

mod dependencies;
mod draft;
mod resolve;

pub(crate) use draft::Draft;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    #[error(
        "plugin `{plugin}` registers the name `{name}`, which is already used by tool `{tool}` of plugin `{owner}`; \
         remove one of the two plugins, or set on_duplicate to `replace` (the later tool takes the name) or `qualify` \
         (the later tool is named `{qualified}`)"
    )]
    Duplicate {
        plugin: PluginName,
        name: String,
        owner: PluginName,
        tool: ToolName,
        qualified: ToolName,
    },
    #[error(
        "plugin `{plugin}` uses the name `{name}` twice; names and aliases of its tools must be unique, ignoring \
         case"
    )]
    DuplicateInPlugin { plugin: PluginName, name: String },
    #[error(
        "plugin `{0}` is already registered; remove one of the two, or set on_duplicate to `replace`"
    )]
    AlreadyRegistered(PluginName),
    #[error("plugin `{plugin}`, tool `{tool}`: {error}")]
    Schema {
        plugin: PluginName,
        tool: ToolName,
        error: SchemaError,
    },
}

/// The tools of one plugin with all slow work done, so that the registry is locked only briefly.
pub(crate) struct PreparedPlugin {
    plugin: Arc<PluginInfo>,
    entries: Vec<ToolEntry>,
}

/// Checks the schemas and resolves the settings of each tool.
pub(crate) fn prepare(
    settings: &KernelSettings,
    plugin: PluginInfo,
    backend: &Arc<dyn Backend>,
) -> Result<PreparedPlugin, RegisterError> {
    let plugin = Arc::new(plugin);
    let lane = Arc::default();
    let mut entries = Vec::with_capacity(backend.tools().len());
    let mut claimed = BTreeSet::new();
    for tool in backend.tools() {
        // The only place where names and texts of plugins and servers enter the registry.
        let mut tool = tool.clone();
        tool.remove_invisible();
        let schema = if backend.has_checked_schemas() {
            ToolSchemas::default()
        } else {
            ToolSchemas::compile(&tool).map_err(|error| RegisterError::Schema {
                plugin: plugin.name.clone(),
                tool: tool.name.clone(),
                error,
            })?
        };
        let name = tool.name.clone();
        let keys = alias_keys(&plugin.name, &name, &tool.aliases);
        for key in [name.as_str()]
            .into_iter()
            .chain(keys.iter().map(String::as_str))
        {
            if !claimed.insert(key.to_owned()) {
                return Err(RegisterError::DuplicateInPlugin {
                    plugin: plugin.name.clone(),
                    name: text::escape_line(key, 80),
                });
            }
        }
        let version = Version::parse(&tool.version);
        let named = |selector: &str| selects(selector, &name, &keys, &version);
        let pin = settings
            .tool_versions
            .iter()
            .find(|(selector, _)| named(selector))
            .map(|(_, wanted)| wanted.clone());
        let own_timeout = settings
            .tool_timeouts
            .iter()
            .find(|(selector, _)| named(selector))
            .map(|(_, timeout)| *timeout);
        let timeout = own_timeout
            .or(plugin.timeout)
            .or(settings.timeout)
            .unwrap_or_else(|| tool.default_timeout())
            .min(settings.max_timeout);
        entries.push(ToolEntry {
            enabled: !settings
                .disabled_tools
                .iter()
                .any(|selector| named(selector)),
            turned_off: false,
            timeout,
            plugin: Arc::clone(&plugin),
            tool: Arc::new(tool),
            backend: Arc::clone(backend),
            schema: Arc::new(schema),
            counters: Arc::default(),
            lane: Arc::clone(&lane),
            found_cache: Arc::default(),
            pin,
            version,
            keys,
            name,
        });
    }
    Ok(PreparedPlugin { plugin, entries })
}

/// Whether a name in the settings refers to the tool. It may select versions, as in `grep@1.2.3`.
fn selects(word: &str, name: &ToolName, keys: &[String], version: &Version) -> bool {
    let word = word.to_lowercase();
    let (word, wanted) = split_version(&word);
    let wanted = wanted.map(VersionReq::parse);
    (word == name.as_str() || keys.iter().any(|key| key == word))
        && wanted.is_none_or(|wanted| wanted.is_ok_and(|wanted| wanted.selects(version)))
}

/// Returns the names of a tool that contain its plugin.
pub(crate) fn qualified_names(plugin: &PluginName, name: &ToolName) -> [String; 2] {
    [
        format!("{plugin}/{name}"),
        name.qualified(plugin).to_string(),
    ]
}

/// Returns the aliases and qualified names of a tool, in lower case and without duplicates.
fn alias_keys(plugin: &PluginName, name: &ToolName, aliases: &[String]) -> Vec<String> {
    let mut keys = qualified_names(plugin, name).to_vec();
    for alias in aliases.iter().map(|alias| alias.to_lowercase()) {
        if !alias.is_empty() && alias != name.as_str() && !keys.contains(&alias) {
            keys.push(alias);
        }
    }
    keys
}

#[cfg(test)]
#[expect(
    clippy::needless_pass_by_value,
    clippy::needless_raw_string_hashes,
    reason = "expectations are handed over where they stand, and written by expect-test"
)]
mod tests;
