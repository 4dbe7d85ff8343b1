//! From a name to a tool.

use std::sync::Arc;

use toolhost_contract::version::split;
use toolhost_contract::{CallId, Principal, ToolName, VersionReq, nearest, text};

use super::{Entry, Group, Snapshot};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Tool \"{name}\" not found{}", because(reason.as_deref(), nearest))]
pub struct UnknownTool {
    /// Escaped and cut, because a model chose it.
    pub name: String,
    /// There is one of that name, and this is why it cannot be called.
    pub reason: Option<String>,
    pub nearest: Vec<String>,
}

fn because(reason: Option<&str>, nearest: &[String]) -> String {
    match reason {
        Some(reason) => format!(": {reason}"),
        None if nearest.is_empty() => String::new(),
        None => format!(". Did you mean: {}?", nearest.join(", ")),
    }
}

impl Snapshot {
    /// By name, by alias, by `plugin/tool` or `plugin__tool`, in any case; each may have a version behind it, such as
    /// `grep@1.2.3` or `grep@^1`.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.find(name).map(Arc::as_ref)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Entry>> {
        if let Some(position) = self.index.get(name) {
            return self.groups.get(*position)?.served.as_ref();
        }
        let name = name.to_lowercase();
        let (name, wanted) = split(&name);
        let group = self.groups.get(*self.index.get(name)?)?;
        match wanted {
            None => group.served.as_ref(),
            Some(wanted) => group.version(wanted),
        }
    }

    /// The same for a call, which goes to one of those that are compared, unless its name says which is meant.
    pub(crate) fn choose(
        &self,
        name: &str,
        caller: &Principal,
        id: &CallId,
    ) -> Option<&Arc<Entry>> {
        if !self.trials.is_empty() {
            let trial = self.trials.get(name);
            if let Some(trial) = trial.or_else(|| self.trials.get(&name.to_lowercase())) {
                return Some(trial.pick(caller, id));
            }
        }
        self.find(name)
    }

    /// The tool that a name means, also when it is left out, and the one version of it that the name says.
    pub(crate) fn slot(&self, name: &str) -> Option<(&ToolName, Option<&Entry>)> {
        let name = name.to_lowercase();
        if let Some(entry) = self.get(&name) {
            let one = split(&name).1.is_some() || self.serves_beside(entry);
            return Some((&entry.name, Some(entry).filter(|_| one)));
        }
        let (slot, _) = self.slots.get_key_value(name.as_str())?;
        Some((slot, None))
    }

    /// The tool that a name means, whether or not it can be called.
    pub fn name_of(&self, name: &str) -> Option<&ToolName> {
        self.slot(name).map(|(slot, _)| slot)
    }

    /// It stands in for another plugin's tool.
    fn serves_beside(&self, entry: &Entry) -> bool {
        let mut stand_ins = self.groups.iter().filter(|group| group.stand_in);
        stand_ins.any(|group| group.entries.iter().any(|other| other.is(entry)))
    }

    /// Is there such a tool, enabled or not?
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// What to say of a name that leads nowhere.
    pub fn unknown(&self, name: &str) -> UnknownTool {
        UnknownTool {
            name: text::inline(name, 80),
            reason: self.why_not(name),
            nearest: self.nearest(name),
        }
    }

    /// Of the tool with this name, in lower case, the version that is meant.
    pub(crate) fn version(&self, name: &str, wanted: Option<&VersionReq>) -> Option<&Arc<Entry>> {
        let group = self.groups.get(*self.index.get(name)?)?;
        match wanted {
            None => group.served.as_ref(),
            Some(wanted) => {
                let mut entries = group.entries.iter();
                entries.find(|entry| wanted.means(&entry.version))
            }
        }
    }

    /// Why there is no such tool, or none in the version that is meant.
    pub(crate) fn absent(&self, name: &str) -> String {
        let position = self.index.get(name);
        let group = position.and_then(|position| self.groups.get(*position));
        match group.filter(|group| !group.entries.is_empty()) {
            Some(group) => format!("loaded is {}", group.list()),
            None => format!("no tool `{name}` is loaded, or it is left out"),
        }
    }

    fn why_not(&self, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        let (name, wanted) = split(&name);
        let position = self.index.get(name);
        let group = position.and_then(|position| self.groups.get(*position));
        if let Some(group) = group.filter(|group| !group.entries.is_empty())
            && wanted.is_some()
        {
            return Some(format!("loaded is {}", group.list()));
        }
        // Only names of its own: which tool an alias would lead to is not settled while it is left out.
        let left_out = self.left_out.iter().find(|one| one.tool.as_str() == name);
        left_out.map(|one| format!("it is left out: {}", one.reason))
    }

    /// At most three names of enabled tools that look like `name` or have an alias that does.
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

impl Group {
    /// The preferred one of those that are meant.
    pub(crate) fn version(&self, wanted: &str) -> Option<&Arc<Entry>> {
        let meant = VersionReq::parse(wanted).ok();
        self.entries.iter().find(|entry| match &meant {
            Some(meant) => meant.means(&entry.version),
            // No version at all, but a tool may have that word for one.
            None => entry.tool.version.eq_ignore_ascii_case(wanted),
        })
    }

    /// `1.0.0, 1.1.0`
    pub(crate) fn list(&self) -> String {
        list(&self.entries)
    }
}

/// Their versions.
pub(crate) fn list(entries: &[Arc<Entry>]) -> String {
    let versions: Vec<String> = entries
        .iter()
        .take(12)
        .map(|entry| entry.version.to_string())
        .collect();
    versions.join(", ")
}
