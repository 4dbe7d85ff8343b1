//! The commands of the prompt about changes, calls, rules and modes.

use std::path::{Path, PathBuf};

use toolhost_contract::policy::{Decision, Mode, RuleSource, RuleSpec};
use toolhost_contract::text;
use toolhost_store::{CallFilter, Store};

use super::PromptSession;
use super::completion::host_path;
use crate::commands::calls;
use crate::commands::plugins::{find, plugin_details};
use crate::commands::undo::{self, Confirmation, Direction, Selection, UndoCommands};
use crate::config::RuleText;
use crate::exit::{CliError, Exit, OrExit};
use crate::terminal::note;

/// What the user types to undo and to redo.
const COMMANDS: UndoCommands = UndoCommands {
    undo: "/undo",
    redo: "/redo",
};
/// Number of calls that `/calls` lists.
const MAX_CALLS: u32 = 50;

impl PromptSession<'_> {
    /// Undoes or redoes the last change of this session, or the named one.
    pub(super) fn revert(&self, what: Option<&str>, direction: Direction) -> Result<(), CliError> {
        let store = self.store()?;
        let path = what.map(|name| self.host_path(name));
        let selection = self.selection(what.zip(path.as_deref()));
        let reverting = undo::revert(store, selection, direction, Confirmation::Ask, COMMANDS);
        self.runtime.block_on(reverting).map(|_| ())
    }

    /// The difference of the last change of this session, or of the named one.
    pub(super) fn diff(&self, what: Option<&str>) -> Result<String, CliError> {
        let store = self.store()?;
        let path = what.map(|name| self.host_path(name));
        undo::format_selected(store, self.selection(what.zip(path.as_deref())))
    }

    pub(super) fn calls(&self, call: Option<&str>) -> Result<String, CliError> {
        let store = self.store()?;
        self.runtime
            .block_on(self.host.kernel.flush())
            .or_exit(Exit::Store)?;
        if let Some(call) = call {
            return calls::describe(store, call);
        }
        let filter = CallFilter {
            session: Some(self.key.session.to_string()),
            limit: MAX_CALLS,
            ..CallFilter::default()
        };
        let rows = store.calls(&filter).or_exit(Exit::Store)?;
        Ok(calls::call_table(&rows))
    }

    /// Shows or changes the mode of this session.
    pub(super) fn mode(&self, name: Option<&str>) -> Result<String, CliError> {
        if let Some(name) = name {
            let usage = |error: String| CliError::new(Exit::Usage, error);
            let mode: Mode = name
                .parse()
                .map_err(|error| CliError::new(Exit::Usage, error))?;
            self.host.kernel.set_mode(&self.key, mode).map_err(usage)?;
        }
        let current = self.host.kernel.mode(&self.key);
        let names: Vec<&str> = Mode::ALL.iter().map(|mode| mode.as_str()).collect();
        Ok(match name {
            Some(_) => format!("mode {current} until the host exits"),
            None => format!(
                "mode {current}; /mode changes it to one of {}",
                names.join(", ")
            ),
        })
    }

    /// Adds an allow rule until the host exits.
    pub(super) fn allow(&self, rule: &str) -> Result<String, CliError> {
        let rule: RuleText = rule
            .parse()
            .map_err(|error| CliError::new(Exit::Usage, error))?;
        let spec = RuleSpec::new(Decision::Allow, rule.as_str()).at(RuleSource::file("/allow"));
        let added = self.host.kernel.add_rule(spec);
        added.map_err(|error| CliError::new(Exit::Usage, error.message))?;
        let shown = text::escape_line(rule.as_str(), 200);
        Ok(format!(
            "`{shown}` is allowed until the host exits; `host policy allow '{shown}'` keeps it"
        ))
    }

    pub(super) fn plugin(&self, name: &str) -> Result<String, CliError> {
        let now = self.host.loaded.loaded();
        let served = find(&now.plugins, name)?;
        Ok(plugin_details(self.host, served))
    }

    /// Says in one line what a call changed and how to undo it.
    pub(super) fn note_changes(&self, commits: &[String]) {
        if let Some(store) = self.host.kernel.store() {
            let changed = undo::describe_commits(store, commits, &self.host.settings);
            if let Some(changed) = changed {
                note(&format!("{changed}; /undo reverts it"));
            }
        }
    }

    /// The path on the host of a path as the user, a tool or a completion names it.
    fn host_path(&self, name: &str) -> PathBuf {
        let named = PathBuf::from(name);
        let exists = |path: &Path| path.symlink_metadata().is_ok();
        match host_path(&named, &self.host.settings.core.paths) {
            Some(granted) if named.is_absolute() || !exists(&named) && exists(&granted) => granted,
            _ => named,
        }
    }

    fn selection<'a>(&'a self, named: Option<(&'a str, &'a Path)>) -> Selection<'a> {
        match named {
            Some((name, path)) => Selection::Named(name, path),
            None => Selection::LastOfSession(self.key.session.as_str()),
        }
    }

    fn store(&self) -> Result<&Store, CliError> {
        self.host.kernel.store().ok_or_else(|| {
            let message = "no records are kept, so calls and changes cannot be listed or undone; start without --no-store";
            CliError::new(Exit::Usage, message)
        })
    }
}
