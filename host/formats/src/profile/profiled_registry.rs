//! The tool registry as seen through a profile.

use super::Profile;
use super::mapping::{BUILT_IN, ToolMapping};
use toolhost_contract::{Descriptor, ToolName};

/// The tools of a session in a profile. Cheap to create, because it borrows all data.
#[derive(Debug, Clone)]
pub struct ProfiledRegistry<'a> {
    pub(super) profile: Profile,
    unmapped: UnmappedTools,
    tools: Vec<(&'a ToolName, &'a Descriptor)>,
}

/// Visibility of tools that the profile's agent does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum UnmappedTools {
    /// Hides built-in tools without a counterpart, and shows tools that the operator installed.
    #[default]
    Installed,
    /// Shows all tools, under their canonical names.
    All,
    /// Hides all of them.
    Hidden,
}

/// A tool as listed for the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfiledTool {
    /// The canonical name, used by rules, records and the store.
    pub canonical: ToolName,
    /// The name for the model. Not a [`ToolName`], because names such as `Read` are not valid canonical names.
    pub name: String,
    /// The descriptor with the profile's description, schema and examples. Its own name stays canonical.
    pub descriptor: Descriptor,
}

impl<'a> ProfiledRegistry<'a> {
    /// Creates the view. `tools` contains the names under which tools are called, qualified in case of a conflict, and
    /// their descriptors.
    pub fn new(
        profile: Profile,
        others: UnmappedTools,
        tools: impl IntoIterator<Item = (&'a ToolName, &'a Descriptor)>,
    ) -> Self {
        Self {
            profile,
            unmapped: others,
            tools: tools.into_iter().collect(),
        }
    }

    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Returns the tools for the model, in the order of registration.
    pub fn list(&self) -> Vec<ProfiledTool> {
        let mut shown = Vec::new();
        for (name, tool) in &self.tools {
            let mut rows = self.mappings(name.as_str()).peekable();
            if rows.peek().is_none() && self.is_listed_unmapped(name.as_str()) {
                shown.push(ProfiledTool {
                    canonical: (*name).clone(),
                    name: name.to_string(),
                    descriptor: (*tool).clone(),
                });
            }
            shown.extend(rows.map(|row| ProfiledTool {
                canonical: (*name).clone(),
                name: row.name.to_owned(),
                descriptor: self.descriptor(tool, row),
            }));
        }
        shown
    }

    /// Returns the name of a tool for the model: the first one if it has several, or the canonical name if it has none.
    pub fn name<'n>(&self, canonical: &'n str) -> &'n str {
        self.mappings(canonical)
            .next()
            .map_or(canonical, |row| row.name)
    }

    /// Returns whether a tool without a visible mapping is shown under its canonical name. A tool is also shown if its
    /// mapped name conflicts with another tool.
    pub(super) fn is_listed_unmapped(&self, name: &str) -> bool {
        if self
            .profile
            .mappings()
            .iter()
            .any(|row| row.canonical == name)
        {
            return true;
        }
        match (self.profile, self.unmapped) {
            (Profile::Native, _) | (_, UnmappedTools::All) => true,
            (_, UnmappedTools::Installed) => !BUILT_IN.contains(&name),
            (_, UnmappedTools::Hidden) => false,
        }
    }

    pub(super) fn tool(&self, name: &str) -> Option<&'a Descriptor> {
        let found = self.tools.iter().find(|(own, _)| own.as_str() == name);
        found.map(|(_, tool)| *tool)
    }

    /// Returns the mappings of a tool. A mapping whose name belongs to another tool is ignored: names take precedence
    /// over aliases, so no tool receives the calls of another.
    pub(super) fn mappings(&self, canonical: &str) -> impl Iterator<Item = &'static ToolMapping> {
        let rows = self.profile.mappings().iter();
        rows.filter(move |row| row.canonical == canonical && !self.is_taken(row))
    }

    fn is_taken(&self, row: &ToolMapping) -> bool {
        row.name != row.canonical
            && self
                .tool(row.name)
                .is_some_and(|_| !self.is_renamed(row.name))
    }

    /// Returns whether the agent uses another name for this tool, which makes the canonical name available.
    fn is_renamed(&self, name: &str) -> bool {
        let mut rows = self
            .profile
            .mappings()
            .iter()
            .filter(|row| row.canonical == name);
        rows.clone().next().is_some() && rows.all(|row| row.name != name)
    }

    /// Returns the mapping for a name that the model used, if it is one of the agent's names.
    pub(super) fn mapping(&self, name: &str) -> Option<&'static ToolMapping> {
        let present =
            |row: &&'static ToolMapping| self.tool(row.canonical).is_some() && !self.is_taken(row);
        let mut rows = self.profile.mappings().iter().filter(present);
        let exact = rows.clone().find(|row| row.is_called(name));
        if exact.is_some_and(|row| row.name == name || self.tool(name).is_none()) {
            return exact;
        }
        if self.tool(name).is_some() {
            return None;
        }
        rows.find(|row| row.name.eq_ignore_ascii_case(name))
    }
}
