//! Finds the tool for a name, an alias or `name@version`, and assigns calls to the variants of A/B tests.

use std::sync::Arc;

use toolhost_contract::version::split_version;
use toolhost_contract::{CallId, McpToolName, Principal, ToolName, VersionReq, nearest, text};

use super::{RegistrySnapshot, ToolEntry, VersionGroup};

/// Maximum length in bytes of a name that is tried in the spellings of other systems. Names of tools have at most 64.
const MAX_MCP_NAME: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Tool \"{name}\" not found{}", suffix(reason.as_deref(), nearest))]
pub struct UnknownTool {
    /// Escaped and shortened, because a model chose it.
    pub name: String,
    /// The reason why the tool with this name cannot be called, if there is one.
    pub reason: Option<String>,
    pub nearest: Vec<String>,
}

fn suffix(reason: Option<&str>, nearest: &[String]) -> String {
    match reason {
        Some(reason) => format!(": {reason}"),
        None if nearest.is_empty() => String::new(),
        None => format!(". Did you mean: {}?", nearest.join(", ")),
    }
}

impl RegistrySnapshot {
    /// Finds a tool by name, alias, `plugin/tool` or `plugin__tool`, ignoring case. A version may follow, as in
    /// `grep@1.2.3` or `grep@^1`. A tool of an MCP server is also found by `server__tool` and `mcp__server_tool`.
    pub fn get(&self, name: &str) -> Option<&ToolEntry> {
        self.find(name).map(Arc::as_ref)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<ToolEntry>> {
        if let Some(position) = self.index.get(name) {
            return self.groups.get(*position)?.served.as_ref();
        }
        let name = name.to_lowercase();
        let (name, wanted) = split_version(&name);
        let Some(position) = self.index.get(name) else {
            return self.find_mcp_tool(name).filter(|_| wanted.is_none());
        };
        let group = self.groups.get(*position)?;
        match wanted {
            None => group.served.as_ref(),
            Some(wanted) => group.version(wanted),
        }
    }

    /// Finds a tool of an MCP server by a name that other systems use for it: `server__tool`, `mcp__server_tool`, or
    /// with the server's own hyphens. `None` if the name fits several tools.
    fn find_mcp_tool(&self, name: &str) -> Option<&Arc<ToolEntry>> {
        // The effort below grows with the square of the length, which a client chooses.
        if name.len() > MAX_MCP_NAME {
            return None;
        }
        let name = name.replace(['-', '.'], "_");
        let named = |name: &str| self.groups.get(*self.index.get(name)?)?.served.as_ref();
        let found = match name.strip_prefix("mcp__") {
            None if name.contains("__") => named(&format!("mcp__{name}")),
            None => None,
            Some(rest) if rest.contains("__") => named(&name),
            Some(rest) => {
                let splits = rest.match_indices('_');
                let mut fitting = splits.filter_map(|(at, _)| {
                    let (server, tool) = (&rest[..at], &rest[at + 1..]);
                    named(&McpToolName { server, tool }.to_string())
                });
                let first = fitting.next();
                first.filter(|_| fitting.next().is_none())
            }
        };
        found.filter(|entry| entry.tool.category == "mcp")
    }

    /// Finds the tool for a call. A call that does not name an implementation is assigned to a variant of an A/B test.
    pub(crate) fn route(
        &self,
        name: &str,
        caller: &Principal,
        id: &CallId,
    ) -> Option<&Arc<ToolEntry>> {
        if !self.trials.is_empty() {
            let trial = self.trials.get(name);
            if let Some(trial) = trial.or_else(|| self.trials.get(&name.to_lowercase())) {
                return Some(trial.pick(caller, id));
            }
        }
        self.find(name)
    }

    /// Finds the slot of a name, even if the tool is unavailable, and the version that the name selects.
    pub(crate) fn slot(&self, name: &str) -> Option<(&ToolName, Option<&ToolEntry>)> {
        let name = name.to_lowercase();
        if let Some(entry) = self.get(&name) {
            let one = split_version(&name).1.is_some() || self.serves_beside(entry);
            return Some((&entry.name, Some(entry).filter(|_| one)));
        }
        let (slot, _) = self.slots.get_key_value(name.as_str())?;
        Some((slot, None))
    }

    /// Returns the tool to which a name refers, whether or not it can be called.
    pub fn name_of(&self, name: &str) -> Option<&ToolName> {
        self.slot(name).map(|(slot, _)| slot)
    }

    /// Whether the entry is a variant from another plugin.
    fn serves_beside(&self, entry: &ToolEntry) -> bool {
        let mut stand_ins = self.groups.iter().filter(|group| group.is_variant);
        stand_ins.any(|group| group.entries.iter().any(|other| other.is_same_tool(entry)))
    }

    /// Whether there is such a tool, enabled or not.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the error for an unknown name.
    pub fn unknown(&self, name: &str) -> UnknownTool {
        UnknownTool {
            name: text::escape_line(name, 80),
            reason: self.why_not(name),
            nearest: self.nearest(name),
        }
    }

    /// Returns the selected version of the tool with this lower-case name.
    pub(crate) fn version(
        &self,
        name: &str,
        wanted: Option<&VersionReq>,
    ) -> Option<&Arc<ToolEntry>> {
        let group = self.groups.get(*self.index.get(name)?)?;
        match wanted {
            None => group.served.as_ref(),
            Some(wanted) => {
                let mut entries = group.entries.iter();
                entries.find(|entry| wanted.selects(&entry.version))
            }
        }
    }

    /// Returns the reason why there is no such tool, or not in the selected version.
    pub(crate) fn unavailable_reason(&self, name: &str) -> String {
        let position = self.index.get(name);
        let group = position.and_then(|position| self.groups.get(*position));
        match group.filter(|group| !group.entries.is_empty()) {
            Some(group) => format!("only these versions are loaded: {}", group.list()),
            None => format!("tool `{name}` is not loaded or unavailable"),
        }
    }

    fn why_not(&self, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        let (name, wanted) = split_version(&name);
        let position = self.index.get(name);
        let group = position.and_then(|position| self.groups.get(*position));
        if let Some(group) = group.filter(|group| !group.entries.is_empty())
            && wanted.is_some()
        {
            return Some(format!("only these versions are loaded: {}", group.list()));
        }
        // Only its own names: the tool behind an alias is not resolved while it is unavailable.
        let left_out = self
            .unavailable
            .iter()
            .find(|one| one.tool.as_str() == name);
        left_out.map(|one| format!("it is unavailable: {}", one.reason))
    }

    /// Returns up to three names of enabled tools that are similar to `name` or have a similar alias.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        let spellings = self.list().flat_map(|entry| {
            entry
                .tool
                .aliases
                .iter()
                .map(String::as_str)
                .chain([entry.name.as_str()])
        });
        let mut names = Vec::new();
        for entry in nearest(name, spellings, 12)
            .into_iter()
            .filter_map(|spelling| self.get(spelling))
        {
            let name = entry.name.to_string();
            if names.len() < 3 && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

impl VersionGroup {
    /// Returns the preferred entry that matches a version or requirement.
    pub(crate) fn version(&self, wanted: &str) -> Option<&Arc<ToolEntry>> {
        let meant = VersionReq::parse(wanted).ok();
        self.entries.iter().find(|entry| match &meant {
            Some(meant) => meant.selects(&entry.version),
            // Not a requirement, but a tool may have that text as its version.
            None => entry.tool.version.eq_ignore_ascii_case(wanted),
        })
    }

    /// Formats the versions as `1.0.0, 1.1.0`.
    pub(crate) fn list(&self) -> String {
        list(&self.entries)
    }
}

/// Formats the versions of entries.
pub(crate) fn list(entries: &[Arc<ToolEntry>]) -> String {
    let versions: Vec<String> = entries
        .iter()
        .take(12)
        .map(|entry| entry.version.to_string())
        .collect();
    versions.join(", ")
}
