//! Lock files: the exact plugins of a project, or of a user. They pin plugins and grant nothing.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toolhost_contract::policy::definition;
use toolhost_contract::{Descriptor, Digest, Manifest, PluginName, ToolName, text};

use crate::error::PackageError;
use crate::reference::Reference;
use crate::signer::Signer;

/// Name of the lock file of a project.
pub const LOCK_FILE: &str = "toolhost.lock";
const VERSION: u32 = 1;
const MAX_BYTES: u64 = 1 << 20;
const MAX_PLUGINS: usize = 1_000;
/// Maximum length of a version or a need in bytes.
const MAX_NEED: usize = 16 << 10;
const HEADER: &str = "# Written by `host`; it pins plugins and grants nothing.\n";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockFile {
    version: u32,
    /// Sorted by name.
    #[serde(default, rename = "plugin")]
    plugins: Vec<LockedPlugin>,
}

/// One version of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPlugin {
    pub name: PluginName,
    pub version: String,
    /// As it was requested.
    pub source: Reference,
    /// The digest of the manifest in the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<Digest>,
    /// The digest of the file that runs.
    pub content: Digest,
    pub size: u64,
    /// Whose signature was verified; a plugin without one is not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<Signer>,
    /// What it requests, sorted.
    pub needs: Vec<String>,
    #[serde(default, rename = "tool")]
    pub tools: Vec<LockedTool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedTool {
    pub name: ToolName,
    /// Further names by which it is called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    pub effect: String,
    /// The digest of its description, its parameters and what it declares to use.
    pub definition: Digest,
}

impl LockedTool {
    fn of(tool: &Descriptor) -> Self {
        // The output schema is not part of what an approval covers.
        let text = format!(
            "{}\n{}",
            definition(tool),
            tool.output_schema
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default()
        );
        Self {
            name: tool.name.clone(),
            aliases: tool.aliases.clone(),
            effect: tool.effect().as_str().to_owned(),
            definition: crate::sha256(text.as_bytes()),
        }
    }
}

impl LockedPlugin {
    /// Refuses a version or a need that a lock file cannot contain. They are shown.
    pub fn check_texts(&self) -> Result<(), String> {
        let texts = [("version", &self.version)];
        let needs = self.needs.iter().map(|need| ("need", need));
        for (kind, text) in texts.into_iter().chain(needs) {
            if text.len() > MAX_NEED {
                let size = text.len();
                return Err(format!(
                    "a {kind} has {size} bytes, more than {MAX_NEED}; name fewer or shorter values"
                ));
            }
            if text.chars().any(text::is_hidden) {
                return Err(format!("a {kind} has hidden characters; remove them"));
            }
        }
        Ok(())
    }

    /// All names that its tools take.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().flat_map(|tool| {
            let aliases = tool.aliases.iter().map(String::as_str);
            aliases.chain([tool.name.as_str()])
        })
    }
}

/// The needs of a manifest, one line each.
pub fn needs(manifest: &Manifest) -> Vec<String> {
    let needs = manifest.needs.iter().map(|need| {
        let mut names = need.names.clone();
        names.sort();
        let parts = std::iter::once(need.capability.as_str().to_owned()).chain(names);
        parts.collect::<Vec<_>>().join(" ")
    });
    let mut needs: Vec<String> = needs.collect();
    needs.sort();
    needs
}

pub fn tools(tools: &[Descriptor]) -> Vec<LockedTool> {
    let mut tools: Vec<_> = tools.iter().map(LockedTool::of).collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools
}

impl Default for LockFile {
    fn default() -> Self {
        Self {
            version: VERSION,
            plugins: Vec::new(),
        }
    }
}

impl LockFile {
    pub fn plugins(&self) -> &[LockedPlugin] {
        &self.plugins
    }

    pub fn get(&self, name: &str) -> Option<&LockedPlugin> {
        self.plugins.iter().find(|one| one.name.as_str() == name)
    }

    /// A tool of this plugin that has the name of a tool of another plugin.
    pub fn conflict(&self, plugin: &LockedPlugin) -> Option<PackageError> {
        let mut others = self.plugins.iter().filter(|one| one.name != plugin.name);
        others.find_map(|other| {
            let mut names = plugin.tool_names();
            let taken = names.find(|name| other.tool_names().any(|one| one == *name))?;
            Some(PackageError::ToolNameTaken {
                plugin: plugin.name.clone(),
                tool: taken.to_owned(),
                owner: other.name.clone(),
            })
        })
    }

    /// Adds a plugin in place of the one with its name.
    pub fn insert(&mut self, plugin: LockedPlugin) {
        self.remove(plugin.name.as_str());
        self.plugins.push(plugin);
        self.plugins.sort_by(|a, b| a.name.cmp(&b.name));
    }

    pub fn remove(&mut self, name: &str) -> Option<LockedPlugin> {
        let index = self
            .plugins
            .iter()
            .position(|one| one.name.as_str() == name)?;
        Some(self.plugins.remove(index))
    }

    /// Reads a lock file. A file that does not exist is `None`.
    pub fn read(path: &Path) -> Result<Option<Self>, PackageError> {
        let text = match toolhost_hostfiles::read_text(path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(PackageError::io("read", path, error)),
        };
        Self::parse(path, &text).map(Some)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, PackageError> {
        let invalid = |reason: String| PackageError::LockFormat {
            path: path.to_owned(),
            reason,
        };
        if text.len() as u64 > MAX_BYTES {
            return Err(invalid(format!("longer than {MAX_BYTES} bytes")));
        }
        let lock: Self = toml::from_str(text)
            .map_err(|error| invalid(text::escape_lines(error.to_string().trim_end(), 800)))?;
        if lock.version != VERSION {
            return Err(invalid(format!(
                "version {} is not supported (supported: {VERSION}); update `host`",
                lock.version
            )));
        }
        if lock.plugins.len() > MAX_PLUGINS {
            return Err(invalid(format!("more than {MAX_PLUGINS} plugins")));
        }
        if !lock.plugins.is_sorted_by(|a, b| a.name < b.name) {
            return Err(invalid("plugins must be sorted, each name once".to_owned()));
        }
        for plugin in &lock.plugins {
            let checked = plugin.check_texts();
            checked.map_err(|reason| invalid(format!("{}: {reason}", plugin.name)))?;
        }
        Ok(lock)
    }

    /// Replaces the file atomically and durably.
    pub fn write(&self, path: &Path) -> Result<(), PackageError> {
        let text = toml::to_string(self).expect("lock files serialize to TOML");
        // What cannot be read later is not written.
        Self::parse(path, &text)?;
        toolhost_hostfiles::replace_file(path, format!("{HEADER}{text}").as_bytes())
            .map_err(|error| PackageError::io("write", path, error))
    }
}
