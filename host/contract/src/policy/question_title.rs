//! A question in one sentence: what an approval would let happen.

use super::{PromptKind, Question};
use crate::{ChangeKind, ChangeSet, Effect, FileChange, FileKind, McpToolName, text};

/// Maximum length of a path in a list, in bytes. Longer ones are shortened in the middle.
const MAX_LISTED_PATH: usize = 40;
/// Maximum length of a command in a list, in bytes.
const MAX_LISTED_COMMAND: usize = 200;

/// Where a title is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TitlePlace {
    /// Above the details of the question, which contain the command.
    Question,
    /// In a list of questions.
    List,
}

/// How a title names what a call accesses.
#[derive(Clone, Copy)]
struct TitleFormat<'a> {
    place: TitlePlace,
    base: Option<&'a str>,
}

impl Question {
    /// States what would happen, such as ``Plugin `files` wants to create notes/a.txt``. Paths below `base` are shown
    /// relative to it.
    ///
    /// The result contains text of plugins and models, and has to be escaped.
    pub fn title(&self, place: TitlePlace, base: Option<&str>) -> String {
        let format = TitleFormat { place, base };
        let intent = match &self.changes {
            Some(changes) => describe_changes(changes, format),
            None => self.describe_call(format),
        };
        let requester = match self.kind {
            PromptKind::Mcp => "Server",
            PromptKind::Edit | PromptKind::Exec | PromptKind::Info => "Plugin",
        };
        format!("{requester} `{}` wants to {intent}", self.plugin)
    }

    fn describe_call(&self, format: TitleFormat<'_>) -> String {
        let subject = &self.subject;
        let tool = self.tool.as_str();
        match self.kind {
            PromptKind::Exec => {
                return match (format.place, &subject.command) {
                    (TitlePlace::List, Some(command)) => {
                        format!("run {}", text::head(command, MAX_LISTED_COMMAND))
                    }
                    (TitlePlace::Question, _) | (_, None) => "run a command".to_owned(),
                };
            }
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
                    [path] => return format!("{verb} {}", format.path(path)),
                    [..] => return format!("{verb} {} files", written.len()),
                }
            }
            PromptKind::Info => match (&subject.paths[..], &subject.urls[..]) {
                ([path], []) if self.effect == Effect::Reads => {
                    return format!("read {}", format.path(&path.path));
                }
                ([], [url]) if !url.is_empty() => return format!("access {url}"),
                _ => {}
            },
        }
        format!("call {tool}")
    }
}

impl TitleFormat<'_> {
    fn path(self, path: &str) -> String {
        let below = self
            .base
            .and_then(|base| path.strip_prefix(base)?.strip_prefix('/'));
        let path = below.unwrap_or(path);
        if self.place == TitlePlace::Question || path.len() <= MAX_LISTED_PATH {
            return path.to_owned();
        }
        // The end has the name of the file and of its directory.
        let start = text::head(path, MAX_LISTED_PATH / 4);
        format!("{start}…{}", text::tail(path, MAX_LISTED_PATH * 3 / 4))
    }
}

fn describe_changes(set: &ChangeSet, format: TitleFormat<'_>) -> String {
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
        let path = format.path(&change.path);
        return match &change.kind {
            ChangeKind::Moved { from } => format!("move {what}{} to {path}", format.path(from)),
            kind => format!("{} {what}{path}", kind.verb()),
        };
    }
    let Some(first) = set.changes.first() else {
        return "change nothing".to_owned();
    };
    let is_same = |change: &FileChange| change.kind.verb() == first.kind.verb();
    let is_deleted = |change: &&FileChange| change.kind == ChangeKind::Deleted;
    let (verb, deleted) = if set.changes.iter().all(is_same) {
        (first.kind.verb(), 0)
    } else {
        ("change", set.changes.iter().filter(is_deleted).count())
    };
    let is_file = |change: &FileChange| change.file_kind == FileKind::File;
    let noun = if set.changes.iter().all(is_file) {
        "files"
    } else {
        "files and directories"
    };
    let intent = format!("{verb} {} {noun}", set.changes.len());
    if deleted > 0 {
        format!("{intent}, deleting {deleted}")
    } else {
        intent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_described_in_one_phrase() {
        let created = |path| FileChange::new(path, ChangeKind::Created, FileKind::File);
        let dir = |path| FileChange::new(path, ChangeKind::Created, FileKind::Directory);
        let gone = |path| FileChange::new(path, ChangeKind::Deleted, FileKind::File);
        let moved = ChangeKind::Moved {
            from: "/w/a".to_owned(),
        };
        for (changes, expected) in [
            (vec![created("/w/n/a.txt")], "create n/a.txt"),
            (vec![created("/wide/a")], "create /wide/a"),
            (vec![dir("/w/n"), created("/w/n/a")], "create n/a"),
            (vec![dir("/w/n")], "create the directory n"),
            (vec![gone("/w/a")], "delete a"),
            (
                vec![FileChange::new("/w/b", moved, FileKind::File)],
                "move a to b",
            ),
            (vec![created("/w/a"), created("/w/b")], "create 2 files"),
            (
                vec![created("/w/a"), gone("/w/b")],
                "change 2 files, deleting 1",
            ),
            (
                vec![dir("/w/n"), created("/w/n/a"), created("/w/n/b")],
                "create 3 files and directories",
            ),
            (vec![], "change nothing"),
        ] {
            let set = ChangeSet { changes };
            let format = |place| TitleFormat {
                place,
                base: Some("/w"),
            };
            for place in [TitlePlace::Question, TitlePlace::List] {
                assert_eq!(describe_changes(&set, format(place)), expected);
            }
        }
    }

    #[test]
    fn long_paths_in_lists_keep_their_start_and_the_name_of_the_file() {
        let path = format!("/w/packages/{}/src/main.rs", "ä".repeat(40));
        let format = |place| TitleFormat { place, base: None };
        assert_eq!(format(TitlePlace::Question).path(&path), path);
        let shown = format(TitlePlace::List).path(&path);
        assert!(
            shown.starts_with("/w/package…ä") && shown.ends_with("ä/src/main.rs"),
            "{shown}"
        );
        assert!(shown.len() <= MAX_LISTED_PATH + 3, "{shown}");
    }
}
