//! A profile over the tools that there are: what the model is shown, and whom its words lead to.

use super::Profile;
use super::table::{BUILT_IN, Row};
use crate::{Descriptor, ToolName};

/// The tools of a session as one system's model sees them. Cheap to make; it borrows everything.
#[derive(Debug, Clone)]
pub struct Lens<'a> {
    pub(super) profile: Profile,
    others: Others,
    tools: Vec<(&'a ToolName, &'a Descriptor)>,
}

/// Tools that the profile's system does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Others {
    /// Built-in tools without a counterpart are hidden; what an operator installed beside them is shown.
    #[default]
    Installed,
    /// All are shown, under their canonical names.
    All,
    /// None: the model sees the system's tools and nothing else.
    Hidden,
}

/// One tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// What rules, records and the store call it.
    pub canonical: ToolName,
    /// What the model calls it; `Read` is no [`ToolName`].
    pub name: String,
    /// With the profile's description, schema and examples. Its own name stays canonical.
    pub descriptor: Descriptor,
}

impl<'a> Lens<'a> {
    /// `tools`: the names under which they are called, which a clash may have made longer, and what they are.
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

    /// The tools for the model, in the order in which they were handed in.
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

    /// What the model calls a tool; its first name when it has several, its own when it has none.
    pub fn name<'n>(&self, canonical: &'n str) -> &'n str {
        self.rows(canonical)
            .next()
            .map_or(canonical, |row| row.name)
    }

    /// A tool without a row. When it would have one, another tool bears that name, and its own has to do.
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

    /// The rows under which a tool is shown. A row whose name another tool bears is none: a name beats an alias
    /// everywhere, and here too no tool takes the calls of another one.
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

    /// Does the system call this tool of ours something else, so that its name is free?
    fn is_moved(&self, name: &str) -> bool {
        let mut rows = self.profile.rows().iter().filter(|row| row.tool == name);
        rows.clone().next().is_some() && rows.all(|row| row.name != name)
    }

    /// Whom a name that the model used leads to, when it is one of the system's.
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
