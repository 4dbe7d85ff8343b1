//! What a new version of a package changes, and which of these changes a user must approve.

use std::fmt;

use toolhost_contract::ToolName;

use crate::lock::{LockedPlugin, LockedTool};
use crate::reference::Reference;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Source {
        old: Reference,
        new: Reference,
    },
    Downgrade {
        old: String,
        new: String,
    },
    SignerAdded,
    SignerRemoved,
    SignerReplaced,
    /// The content of a local file without a signature, which a tool may have replaced.
    UnsignedFile,
    NeedAdded(String),
    NeedRemoved(String),
    ToolAdded {
        name: ToolName,
        effect: String,
    },
    ToolRemoved(ToolName),
    /// Its description, its parameters, what it requires, or where its effects go.
    ToolChanged(ToolName),
    Effect {
        name: ToolName,
        old: String,
        new: String,
    },
}

impl Change {
    /// Whether the new version can do more, or can be from someone else.
    pub fn grows(&self) -> bool {
        match self {
            Self::Source { .. }
            | Self::Downgrade { .. }
            | Self::SignerAdded
            | Self::SignerRemoved
            | Self::SignerReplaced
            | Self::UnsignedFile
            | Self::NeedAdded(_)
            | Self::ToolAdded { .. }
            | Self::ToolChanged(_) => true,
            Self::NeedRemoved(_) | Self::ToolRemoved(_) => false,
            Self::Effect { old, new, .. } => effect_rank(new) > effect_rank(old),
        }
    }
}

/// An unknown effect is the strongest.
fn effect_rank(effect: &str) -> usize {
    let known = ["pure", "reads", "writes", "destroys"];
    known
        .iter()
        .position(|one| *one == effect)
        .unwrap_or(known.len())
}

/// The changes from the installed version of a plugin, if there is one, to another one.
pub fn changes(old: Option<&LockedPlugin>, new: &LockedPlugin) -> Vec<Change> {
    let mut changes = Vec::new();
    let Some(old) = old else { return changes };
    if old.source != new.source {
        changes.push(Change::Source {
            old: old.source.clone(),
            new: new.source.clone(),
        });
    }
    let is_older = match (
        semver::Version::parse(&old.version),
        semver::Version::parse(&new.version),
    ) {
        (Ok(from), Ok(to)) => to < from,
        // Their order is unknown.
        _ => old.version != new.version,
    };
    if is_older {
        changes.push(Change::Downgrade {
            old: old.version.clone(),
            new: new.version.clone(),
        });
    }
    match (&old.signer, &new.signer) {
        (old, new) if old == new => {}
        (None, _) => changes.push(Change::SignerAdded),
        (Some(_), None) => changes.push(Change::SignerRemoved),
        (Some(_), Some(_)) => changes.push(Change::SignerReplaced),
    }
    let is_file = matches!(new.source, Reference::File(_));
    if is_file && new.signer.is_none() && old.content != new.content {
        changes.push(Change::UnsignedFile);
    }
    let added = new.needs.iter().filter(|need| !old.needs.contains(need));
    changes.extend(added.cloned().map(Change::NeedAdded));
    let removed = old.needs.iter().filter(|need| !new.needs.contains(need));
    changes.extend(removed.cloned().map(Change::NeedRemoved));
    changes.extend(new.tools.iter().flat_map(|tool| tool_changes(old, tool)));
    let is_kept = |tool: &&LockedTool| new.tools.iter().any(|one| one.name == tool.name);
    let removed = old.tools.iter().filter(|tool| !is_kept(tool));
    changes.extend(removed.map(|tool| Change::ToolRemoved(tool.name.clone())));
    changes
}

fn tool_changes(old: &LockedPlugin, tool: &LockedTool) -> Vec<Change> {
    let name = tool.name.clone();
    let Some(before) = old.tools.iter().find(|one| one.name == name) else {
        let effect = tool.effect.clone();
        return vec![Change::ToolAdded { name, effect }];
    };
    let mut changes = Vec::new();
    if before.effect != tool.effect {
        changes.push(Change::Effect {
            name: name.clone(),
            old: before.effect.clone(),
            new: tool.effect.clone(),
        });
    }
    if before.definition != tool.definition {
        changes.push(Change::ToolChanged(name));
    }
    changes
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source { old, new } => write!(f, "source: {old} -> {new}"),
            Self::Downgrade { old, new } => write!(f, "older version: {old} -> {new}"),
            Self::SignerAdded => f.write_str("now signed"),
            Self::SignerRemoved => f.write_str("no longer signed"),
            Self::SignerReplaced => f.write_str("signed by someone else"),
            Self::UnsignedFile => f.write_str("changed file without a signature"),
            Self::NeedAdded(need) => write!(f, "new need: {need}"),
            Self::NeedRemoved(need) => write!(f, "no longer needed: {need}"),
            Self::ToolAdded { name, effect } => write!(f, "new tool: {name} ({effect})"),
            Self::ToolRemoved(name) => write!(f, "removed tool: {name}"),
            Self::ToolChanged(name) => {
                write!(f, "changed description, parameters or access: {name}")
            }
            Self::Effect { name, old, new } => write!(f, "effect of {name}: {old} -> {new}"),
        }
    }
}
