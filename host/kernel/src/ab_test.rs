//! A/B tests: comparing implementations of one tool, with a stable assignment of calls to variants.

use std::sync::Arc;

use toolhost_contract::{CallId, PluginName, Principal, ToolName, VersionReq};

use crate::registry::{RegistrySnapshot, ToolEntry};
use crate::stats::VariantStats;

mod difference;

use difference::difference;

/// An A/B test of one tool. Calls that name a version or a plugin are not part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct AbTest {
    pub tool: ToolName,
    pub variants: Vec<Variant>,
    pub key: AbKey,
    /// The position in the configuration, for errors.
    pub at: String,
}

/// One implementation: a version of the tool, or the tool of the same name of another plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    pub version: Option<VersionReq>,
    pub plugin: Option<PluginName>,
    /// The weight of the variant relative to the others.
    pub weight: u32,
}

/// The key that determines the variant of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AbKey {
    #[default]
    Session,
    Task,
    Call,
}

impl AbTest {
    /// Returns the position of the plugin's variant.
    pub(crate) fn variant_index(&self, plugin: &PluginName) -> Option<usize> {
        let mut variants = self.variants.iter();
        variants.position(|variant| variant.plugin.as_ref() == Some(plugin))
    }

    pub(crate) fn includes(&self, plugin: &PluginName) -> bool {
        self.variant_index(plugin).is_some()
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.plugin, &self.version) {
            (Some(plugin), Some(version)) => write!(f, "plugin {plugin}, version {version}"),
            (Some(plugin), None) => write!(f, "plugin {plugin}"),
            (None, Some(version)) => write!(f, "version {version}"),
            (None, None) => f.write_str("as it is"),
        }
    }
}

/// An A/B test whose variants have been resolved.
pub(crate) struct ResolvedAbTest {
    pub(crate) tool: ToolName,
    key: AbKey,
    variants: Vec<(u32, Arc<ToolEntry>)>,
    total: u64,
    names: Vec<String>,
}

impl ResolvedAbTest {
    /// Resolves the variants. Returns the reason if the test is invalid.
    pub(crate) fn new(test: &AbTest, snapshot: &RegistrySnapshot) -> Result<Self, String> {
        let wrong = |reason: String| {
            let separator = if test.at.is_empty() { "" } else { ": " };
            let AbTest { at, tool, .. } = test;
            Err(format!("{at}{separator}ab_test of `{tool}`: {reason}"))
        };
        let Some(listed) = snapshot.find(test.tool.as_str()) else {
            return wrong(snapshot.unknown(test.tool.as_str()).to_string());
        };
        if listed.name != test.tool {
            return wrong(format!(
                "the tool is named `{}`; use that name",
                listed.name
            ));
        }
        let mut arms: Vec<(u32, Arc<ToolEntry>)> = Vec::with_capacity(test.variants.len());
        for (number, variant) in (1..).zip(&test.variants) {
            let wrong = |reason| wrong(format!("variant {number} ({variant}): {reason}"));
            let (plugin, tool) = match &variant.plugin {
                Some(plugin) => (plugin, &test.tool),
                None => (&listed.plugin.name, &listed.tool.name),
            };
            let name = format!("{plugin}/{tool}");
            let Some(entry) = snapshot.version(&name, variant.version.as_ref()) else {
                return wrong(snapshot.unavailable_reason(&name));
            };
            if entry.name != test.tool {
                return wrong(format!("it refers to tool `{}`", entry.name));
            }
            if let Some(difference) = difference(&listed.tool, &entry.tool) {
                return wrong(format!(
                    "callers see `{}` {} of plugin `{}`, but {difference}",
                    listed.name, listed.version, listed.plugin.name
                ));
            }
            if arms.iter().any(|(_, other)| other.is_same_tool(entry)) {
                return wrong("another variant already selects the same tool".to_owned());
            }
            arms.push((variant.weight, Arc::clone(entry)));
        }
        let total = arms.iter().map(|(weight, _)| u64::from(*weight)).sum();
        if total == 0 {
            return wrong("all variants have weight 0".to_owned());
        }
        let keys = listed.keys.iter().filter(|key| !listed.is_qualified(key));
        Ok(Self {
            tool: test.tool.clone(),
            key: test.key,
            total,
            names: keys.cloned().chain([listed.name.to_string()]).collect(),
            variants: arms,
        })
    }

    /// Returns the names that do not select an implementation.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    pub(crate) fn pick(&self, caller: &Principal, id: &CallId) -> &Arc<ToolEntry> {
        let key = match self.key {
            AbKey::Session => caller.session.as_str(),
            AbKey::Task => &caller.task,
            AbKey::Call => &id.0,
        };
        // The hash includes the tool, so that the first variants of all tests do not get the same sessions.
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.tool.as_str().as_bytes());
        hasher.update(&[0]);
        hasher.update(key.as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        let mut point = u64::from_le_bytes(bytes) % self.total;
        for (weight, entry) in &self.variants {
            match point.checked_sub(u64::from(*weight)) {
                Some(rest) => point = rest,
                None => return entry,
            }
        }
        let (_, last) = self
            .variants
            .last()
            .expect("the total weight is greater than 0");
        last
    }

    pub(crate) fn stats(&self) -> impl Iterator<Item = VariantStats> {
        self.variants.iter().map(|(weight, entry)| {
            let calls = entry.counters.read();
            VariantStats {
                tool: self.tool.clone(),
                plugin: entry.plugin.name.clone(),
                version: entry.version.clone(),
                weight: *weight,
                calls: calls.count,
                failures: calls.failures,
                total: entry.counters.total(),
            }
        })
    }
}

#[cfg(test)]
mod tests;
