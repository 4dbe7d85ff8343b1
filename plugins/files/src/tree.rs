//! `directory_tree`: a directory as nested data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolhost_sdk::prelude::*;
use toolhost_sdk::text::plural;

use crate::ignore_rules::AppliedRules;
use crate::listing::Ignored;
use crate::path::resolve_directory;
use crate::walk::{MOST_DEPTH, NOT_DESCENDED, Walk, WalkEntry, globs};

/// A directory as a tree.
#[data]
pub struct TreeOutput {
    /// Absolute path of the directory.
    path: String,
    /// The directory.
    tree: Node,
    /// Number of files and directories, without the root.
    count: usize,
    /// The tree was cut.
    truncated: bool,
    /// Number of ignored entries.
    ignored: Ignored,
}

/// A file or directory in a tree.
#[derive(Debug, Serialize, Deserialize)]
pub struct Node {
    name: String,
    #[serde(rename = "type")]
    kind: Kind,
    /// Absent for files and for directories that were not expanded.
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Vec<Node>>,
    /// Entries of this directory omitted because of `limit`.
    #[serde(default, skip_serializing_if = "is_zero")]
    omitted: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Directory,
    File,
    Symlink,
}

// By hand, because the type is recursive and an expanded schema must be finite.
impl Schema for Node {
    fn schema() -> Value {
        json!({
            "type": "object",
            "description": "A file or directory.",
            "properties": {
                "name": {"type": "string", "description": "Name."},
                "type": {"type": "string", "enum": ["directory", "file", "symlink"]},
                "children": {
                    "type": "array",
                    "description": "Entries of a directory, in this same form; absent if it was not expanded.",
                    "items": {"type": "object"},
                },
                "omitted": {
                    "type": "integer",
                    "description": "Entries of this directory left out by `limit`.",
                },
            },
            "required": ["name", "type"],
            "additionalProperties": false,
        })
    }
}

/// Show a directory as a JSON tree, upper levels first, without ignored entries. `node_modules`, `.git` and the like
/// are not expanded.
#[tool(
    reads,
    idempotent,
    plain_text,
    category = "file",
    kind = "read",
    icon = "tree",
    tags = ["file", "directory"],
    output = TreeOutput,
    example(description = "The workspace, three levels", input = "{}"),
    example(description = "Two levels of src without tests", input = r#"{"path": "src", "depth": 2, "exclude_patterns": ["tests"]}"#),
)]
pub fn directory_tree(
    cx: &Context,
    /// Workspace-relative or absolute.
    #[arg(default = ".", aliases = ["dir_path", "directory", "file_path", "filePath", "absolute_path", "target_file"])]
    path: String,
    /// Globs to exclude; without `/` they match at any depth.
    #[arg(aliases = ["exclude", "excludePatterns", "ignore"])]
    exclude_patterns: Option<Vec<String>>,
    /// Levels to show.
    #[arg(default = 3, min = 1, max = 56, aliases = ["max_depth"])]
    depth: u32,
    /// Maximum entries.
    #[arg(default = 500, min = 1, max = 5000)]
    limit: usize,
    /// Apply `.gitignore`.
    #[arg(default = true)]
    respect_git_ignore: bool,
) -> Result<Outcome> {
    let target = resolve_directory(cx, &path)?;
    let depth = depth.min(MOST_DEPTH);
    let respect = AppliedRules {
        git: respect_git_ignore,
        tool: true,
    };
    let mut walk = Walk {
        depth,
        leave_out: globs(&exclude_patterns.unwrap_or_default())?,
        ..Walk::below(cx, &target, respect)
    };
    walk.directory(&target.path, 1)?;
    let Walk {
        found,
        ignored,
        unread,
        is_complete,
        ..
    } = walk;

    let total = found.len();
    let name = target.path.file_name().map_or_else(
        || "/".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    let tree = build_tree(name, found, limit, depth);
    let count = total.min(limit);
    let shape = TreeOutput {
        path: target.path.display().to_string(),
        count,
        truncated: count < total || unread > 0 || !is_complete,
        ignored,
        tree,
    };
    let mut text = toolhost_sdk::serde_json::to_string(&shape.tree)?;
    for note in notes(count, total, ignored, unread, is_complete) {
        text.push_str("\n(");
        text.push_str(&note);
        text.push(')');
    }
    Ok(Outcome::text(text)
        .summary(format!(
            "{count} of {} below {}",
            plural(total, "entry", "entries"),
            target.shown
        ))
        .structured(&shape))
}

/// Remarks about entries that the tree does not contain.
fn notes(
    count: usize,
    total: usize,
    ignored: Ignored,
    unread: usize,
    is_complete: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    if count < total {
        notes.push(format!(
            "showing {count} of {total} entries, the upper levels first; for more: a larger `limit`, or \
             directory_tree of a directory in it"
        ));
    }
    if ignored.git + ignored.tool > 0 {
        let Ignored { git, tool } = ignored;
        notes.push(format!("{} ignored: git {git}, tool {tool}", git + tool));
    }
    if unread > 0 {
        notes.push(format!("directories that could not be read: {unread}"));
    }
    if !is_complete {
        notes.push(format!("stopped after {total} entries"));
    }
    notes
}

/// Builds the tree of `found`, cut to `limit` entries, upper levels first.
fn build_tree(name: String, mut found: Vec<WalkEntry>, limit: usize, depth: u32) -> Node {
    let level = |name: &str| name.matches('/').count();
    found.sort_by_cached_key(|entry| (level(&entry.name), entry.kind(), entry.name.clone()));
    let mut omitted: BTreeMap<String, usize> = BTreeMap::new();
    let mut below: BTreeMap<String, Vec<WalkEntry>> = BTreeMap::new();
    for (index, entry) in found.into_iter().enumerate() {
        let parent = entry.name.rsplit_once('/').map_or("", |(parent, _)| parent);
        if index < limit {
            below.entry(parent.to_owned()).or_default().push(entry);
        } else {
            *omitted.entry(parent.to_owned()).or_default() += 1;
        }
    }
    branch(name, "", 0, depth, &mut below, &omitted)
}

fn branch(
    name: String,
    path: &str,
    level: u32,
    depth: u32,
    below: &mut BTreeMap<String, Vec<WalkEntry>>,
    omitted: &BTreeMap<String, usize>,
) -> Node {
    let is_open = level < depth && (level == 0 || !NOT_DESCENDED.contains(&name.as_str()));
    let children = is_open.then(|| {
        below
            .remove(path)
            .unwrap_or_default()
            .into_iter()
            .map(|entry| {
                let (kind, path) = (entry.kind(), entry.name);
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                if kind == Kind::Directory {
                    return branch(name, &path, level + 1, depth, below, omitted);
                }
                Node {
                    name,
                    kind,
                    children: None,
                    omitted: 0,
                }
            })
            .collect()
    });
    Node {
        name,
        kind: Kind::Directory,
        children,
        omitted: omitted.get(path).copied().unwrap_or_default(),
    }
}

impl WalkEntry {
    fn kind(&self) -> Kind {
        if self.is_symlink {
            Kind::Symlink
        } else if self.is_dir {
            Kind::Directory
        } else {
            Kind::File
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
