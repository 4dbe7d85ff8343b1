//! What the pages show about a host beyond its kernel and its records. The program implements it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolhost_contract::{CallError, ChangeSet, CommitRecovery, ToolName};

/// A running host.
pub trait HostView: Send + Sync {
    /// The loaded plugins and servers, and those that could not be loaded.
    fn plugins(&self) -> Vec<PluginView>;

    /// The configuration file of the user's rules, which may not exist yet.
    fn config_file(&self) -> Option<PathBuf>;

    /// The saved content of changed files. `None` if nothing can be undone.
    fn files(&self) -> Option<Arc<dyn FileHistory>>;
}

/// The file changes of past calls. The functions read files and may block.
pub trait FileHistory: CommitRecovery {
    /// Describes the changes of the commit with this journal entry.
    fn describe_commit(&self, entry: &Value) -> Result<ChangeSet, CallError>;

    /// Describes what an undo of the commit would do now.
    fn preview_undo(&self, entry: &Value) -> Result<UndoPreview, CallError>;
}

/// What an undo would do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UndoPreview {
    pub changes: ChangeSet,
    /// The paths that have changed since. The undo is refused while there are any.
    pub conflicts: Vec<String>,
}

/// A plugin or a server. Texts can contain what its author wrote.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PluginView {
    pub name: String,
    pub kind: PluginKind,
    pub version: String,
    pub description: String,
    /// The file of a plugin, or the command or address of a server.
    pub source: String,
    pub digest: Option<String>,
    pub size: Option<u64>,
    /// Who signed it, in words.
    pub signature: String,
    /// What it asks for, in words.
    pub needs: Vec<Need>,
    /// What it was granted, in words.
    pub grants: Vec<String>,
    pub limits: Option<PluginLimits>,
    /// The names of its tools, as callers use them.
    pub tools: Vec<ToolName>,
    /// Why it does not work, or what it waits for.
    pub problem: Option<String>,
    /// The last lines of its log, if the host keeps one.
    pub log: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PluginKind {
    #[default]
    Plugin,
    /// Another MCP server.
    Server,
    /// A file that could not be loaded.
    Broken,
}

/// A need with the reason that the author states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    pub what: String,
    pub why: String,
}

/// The limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginLimits {
    /// Bytes.
    pub memory: u64,
    /// Bytes.
    pub output: u64,
    pub timeout: Option<Duration>,
}
