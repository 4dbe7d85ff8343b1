//! A question in one sentence: what an approval would let happen.

use super::{PromptKind, Question};
use crate::{ChangeKind, ChangeSet, Effect, FileChange, FileKind, McpToolName};

impl Question {
    /// States what would happen, such as `files wants to create notes/a.txt`. Paths below `base` are shown relative to it.
    ///
    /// The result contains text of plugins and models, and has to be escaped.
    pub fn summary(&self, base: Option<&str>) -> String {
        let intent = match &self.changes {
            Some(changes) => describe_changes(changes, base),
            None => self.describe_call(),
        };
        format!("{} wants to {intent}", self.plugin)
    }

    fn describe_call(&self) -> String {
        let subject = &self.subject;
        let tool = self.tool.as_str();
        match self.kind {
            PromptKind::Exec => return "run a command".to_owned(),
            PromptKind::Mcp => {
                return match McpToolName::parse(tool) {
                    Some(name) if name.server == self.plugin.as_str() => {
                        format!("call {}", name.tool)
                    }
                    _ => format!("call {tool}"),
                };
            }
            PromptKind::Edit | PromptKind::Info if subject.has_unknown_paths => {}
            PromptKind::Edit => {
                let written: Vec<&str> = subject
                    .paths
                    .iter()
                    .filter(|path| path.write)
                    .map(|path| path.path.as_str())
                    .collect();
                let verb = match self.effect {
                    Effect::Destroys => "change or delete",
                    Effect::Pure | Effect::Reads | Effect::Writes => "change",
                };
                match written[..] {
                    [] => {}
                    [path] => return format!("{verb} {path}"),
                    [..] => return format!("{verb} {} files", written.len()),
                }
            }
            PromptKind::Info => match (&subject.paths[..], &subject.urls[..]) {
                ([path], []) if self.effect == Effect::Reads => {
                    return format!("read {}", path.path);
                }
                ([], [url]) if !url.is_empty() => return format!("access {url}"),
                _ => {}
            },
        }
        format!("call {tool}")
    }
}

fn describe_changes(set: &ChangeSet, base: Option<&str>) -> String {
    let relative = |path: &str| {
        let below = base.and_then(|base| path.strip_prefix(base)?.strip_prefix('/'));
        below.unwrap_or(path).to_owned()
    };
    let only = match &set.changes[..] {
        [change] => Some(change),
        _ => set.only_file(),
    };
    if let Some(change) = only {
        let what = match change.file_kind {
            FileKind::File => "",
            FileKind::Directory => "the directory ",
            FileKind::Link => "the link ",
        };
        let path = relative(&change.path);
        return match &change.kind {
            ChangeKind::Moved { from } => format!("move {what}{} to {path}", relative(from)),
            kind => format!("{} {what}{path}", verb(kind)),
        };
    }
    let Some(first) = set.changes.first() else {
        return "change nothing".to_owned();
    };
    let is_same = |change: &FileChange| verb(&change.kind) == verb(&first.kind);
    let verb = if set.changes.iter().all(is_same) {
        verb(&first.kind)
    } else {
        "change"
    };
    let is_file = |change: &FileChange| change.file_kind == FileKind::File;
    let noun = if set.changes.iter().all(is_file) {
        "files"
    } else {
        "files and directories"
    };
    format!("{verb} {} {noun}", set.changes.len())
}

fn verb(kind: &ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Created => "create",
        ChangeKind::Modified => "change",
        ChangeKind::Deleted => "delete",
        ChangeKind::Moved { .. } => "move",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, kind: ChangeKind, file_kind: FileKind) -> FileChange {
        FileChange {
            path: path.to_owned(),
            kind,
            file_kind,
            sizes: (None, None),
            link_targets: (None, None),
            modes: None,
            executable: false,
            diff: None,
            no_diff_reason: None,
            binary: None,
        }
    }

    #[test]
    fn changes_are_described_in_one_phrase() {
        let created = |path| change(path, ChangeKind::Created, FileKind::File);
        let dir = |path| change(path, ChangeKind::Created, FileKind::Directory);
        let gone = |path| change(path, ChangeKind::Deleted, FileKind::File);
        let moved = ChangeKind::Moved {
            from: "/w/a".to_owned(),
        };
        for (changes, expected) in [
            (vec![created("/w/n/a.txt")], "create n/a.txt"),
            (vec![created("/wide/a")], "create /wide/a"),
            (vec![dir("/w/n"), created("/w/n/a")], "create n/a"),
            (vec![dir("/w/n")], "create the directory n"),
            (vec![gone("/w/a")], "delete a"),
            (vec![change("/w/b", moved, FileKind::File)], "move a to b"),
            (vec![created("/w/a"), created("/w/b")], "create 2 files"),
            (vec![created("/w/a"), gone("/w/b")], "change 2 files"),
            (
                vec![dir("/w/n"), created("/w/n/a"), created("/w/n/b")],
                "create 3 files and directories",
            ),
            (vec![], "change nothing"),
        ] {
            let set = ChangeSet { changes };
            assert_eq!(describe_changes(&set, Some("/w")), expected);
        }
    }
}
