//! The tool registry as seen through a profile.

use super::Profile;
use super::table::{BUILT_IN, Row};
use crate::{Descriptor, ToolName};

/// The tools of a session in a profile. Cheap to create, because it borrows all data.
#[derive(Debug, Clone)]
pub struct Lens<'a> {
    pub(super) profile: Profile,
    others: Others,
    tools: Vec<(&'a ToolName, &'a Descriptor)>,
}

/// Visibility of tools that the profile's agent does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Others {
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
pub struct Shown {
    /// The canonical name, used by rules, records and the store.
    pub canonical: ToolName,
    /// The name for the model. Not a [`ToolName`], because names such as `Read` are not valid canonical names.
    pub name: String,
    /// The descriptor with the profile's description, schema and examples. Its own name stays canonical.
    pub descriptor: Descriptor,
}

impl<'a> Lens<'a> {
    /// Creates the view. `tools` contains the names under which tools are called, qualified in case of a conflict, and
    /// their descriptors.
    pub fn new(
        profile: Profile,
        others: Others,
        tools: impl IntoIterator<Item = (&'a ToolName, &'a Descriptor)>,
    ) -> Self {
        Self {
            profile,
            others,
            tools: tools.into_iter().collect(),
        }
    }

    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Returns the tools for the model, in the order of registration.
    pub fn show(&self) -> Vec<Shown> {
        let mut shown = Vec::new();
        for (name, tool) in &self.tools {
            let mut rows = self.rows(name.as_str()).peekable();
            if rows.peek().is_none() && self.is_shown_as_it_is(name.as_str()) {
                shown.push(Shown {
                    canonical: (*name).clone(),
                    name: name.to_string(),
                    descriptor: (*tool).clone(),
                });
            }
            shown.extend(rows.map(|row| Shown {
                canonical: (*name).clone(),
                name: row.name.to_owned(),
                descriptor: self.descriptor(tool, row),
            }));
        }
        shown
    }

    /// Returns the name of a tool for the model: the first one if it has several, or the canonical name if it has none.
    pub fn name<'n>(&self, canonical: &'n str) -> &'n str {
        self.rows(canonical)
            .next()
            .map_or(canonical, |row| row.name)
    }

    /// Returns whether a tool without a visible mapping is shown under its canonical name. A tool is also shown if its
    /// mapped name conflicts with another tool.
    fn is_shown_as_it_is(&self, name: &str) -> bool {
        if self.profile.rows().iter().any(|row| row.tool == name) {
            return true;
        }
        match (self.profile, self.others) {
            (Profile::Native, _) | (_, Others::All) => true,
            (_, Others::Installed) => !BUILT_IN.contains(&name),
            (_, Others::Hidden) => false,
        }
    }

    pub(super) fn tool(&self, name: &str) -> Option<&'a Descriptor> {
        let found = self.tools.iter().find(|(own, _)| own.as_str() == name);
        found.map(|(_, tool)| *tool)
    }

    /// Returns the mappings of a tool. A mapping whose name belongs to another tool is ignored: names take precedence
    /// over aliases, so no tool receives the calls of another.
    pub(super) fn rows(&self, canonical: &str) -> impl Iterator<Item = &'static Row> {
        let rows = self.profile.rows().iter();
        rows.filter(move |row| row.tool == canonical && !self.is_taken(row))
    }

    fn is_taken(&self, row: &Row) -> bool {
        row.name != row.tool
            && self
                .tool(row.name)
                .is_some_and(|_| !self.is_moved(row.name))
    }

    /// Returns whether the agent uses another name for this tool, which makes the canonical name available.
    fn is_moved(&self, name: &str) -> bool {
        let mut rows = self.profile.rows().iter().filter(|row| row.tool == name);
        rows.clone().next().is_some() && rows.all(|row| row.name != name)
    }

    /// Returns the mapping for a name that the model used, if it is one of the agent's names.
    pub(super) fn row(&self, name: &str) -> Option<&'static Row> {
        let present = |row: &&'static Row| self.tool(row.tool).is_some() && !self.is_taken(row);
        let mut rows = self.profile.rows().iter().filter(present);
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
