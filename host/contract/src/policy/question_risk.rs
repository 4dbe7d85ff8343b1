//! The risk of a question, which decides its place in a list and is shown if it is high.

use serde_json::Value;
use toolhost_shell_syntax::{describe_danger, parse};

use super::{PromptKind, Question};
use crate::{ChangeKind, ChangeSet, Effect, FileChange, FileKind};

/// More changes than this cannot be reviewed at a glance.
const MANY_CHANGES: usize = 20;

/// A risk in words and as an order. Higher risks are listed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    Low,
    Medium,
    High,
}

impl Risk {
    pub fn as_str(self) -> &'static str {
        match self {
            Risk::Low => "low",
            Risk::Medium => "medium",
            Risk::High => "high",
        }
    }

    pub fn label(self) -> &'static str {
        match self {
            Risk::Low => "Low risk",
            Risk::Medium => "Medium risk",
            Risk::High => "High risk",
        }
    }
}

impl Question {
    /// Rates the question by what a hook reported, by the effect of the tool and by what is known about the call. Returns
    /// the reason too.
    pub fn risk(&self) -> (Risk, &'static str) {
        match hook_risk(self.meta.as_ref()) {
            Some(Risk::High) => return (Risk::High, "a hook reports a high risk"),
            Some(Risk::Medium) => return (Risk::Medium, "a hook reports a medium risk"),
            Some(Risk::Low) | None => {}
        }
        let subject = &self.subject;
        // The effect of staged changes is known exactly.
        if self.changes.is_none()
            && self.effect == Effect::Destroys
            && self.kind != PromptKind::Exec
        {
            return (Risk::High, "it may destroy data");
        }
        let staged = self.changes.as_deref().and_then(staged_risk);
        if let Some((Risk::High, reason)) = staged {
            return (Risk::High, reason);
        }
        if self.kind == PromptKind::Exec {
            return command_risk(subject.command.as_deref());
        }
        if subject.has_unknown_destinations {
            return (Risk::High, "its destination is not known");
        }
        if self.network || !subject.urls.is_empty() || !subject.destinations.is_empty() {
            return (Risk::Medium, "it uses the network");
        }
        if self.kind == PromptKind::Mcp {
            return (Risk::Medium, "another server runs it");
        }
        match (&self.changes, self.effect) {
            (Some(_), _) => staged.unwrap_or((Risk::Low, "it changes only the files shown")),
            (None, Effect::Pure | Effect::Reads) => (Risk::Low, "it only reads"),
            (None, _) => (Risk::Medium, "it has effects that are not known in advance"),
        }
    }
}

/// The risk of changes that are more than new or modified texts.
fn staged_risk(set: &ChangeSet) -> Option<(Risk, &'static str)> {
    let any = |is: fn(&FileChange) -> bool| set.changes.iter().any(is);
    let is_deleted = |change: &FileChange| {
        change.kind == ChangeKind::Deleted && change.file_kind != FileKind::Link
    };
    let is_program = |change: &FileChange| change.executable && change.kind != ChangeKind::Deleted;
    let reason = if any(is_deleted) {
        return Some((Risk::High, "it deletes files"));
    } else if any(is_program) {
        "it changes executable files"
    } else if any(|change| change.file_kind == FileKind::Link) {
        "it changes symbolic links"
    } else if set.has_unlisted_changes() {
        "it moves a directory with its files"
    } else if any(|change| change.no_diff_reason.is_some()) {
        "some content cannot be shown as text"
    } else if set.changes.len() > MANY_CHANGES {
        "it changes many files"
    } else {
        return None;
    };
    Some((Risk::Medium, reason))
}

fn command_risk(command: Option<&str>) -> (Risk, &'static str) {
    let Some(command) = command else {
        return (Risk::High, "it runs a command that the input does not show");
    };
    match parse(command) {
        Err(_) => (Risk::High, "it cannot be told what the command runs"),
        Ok(script) => match describe_danger(&script) {
            Some(danger) => (Risk::High, danger),
            None => (Risk::Medium, "it runs a command"),
        },
    }
}

/// The risk that a hook reported. An unknown word counts as high.
fn hook_risk(meta: Option<&Value>) -> Option<Risk> {
    match meta?.get("risk")? {
        Value::Null => None,
        Value::String(risk) => Some(match risk.as_str() {
            "none" | "low" => Risk::Low,
            "medium" => Risk::Medium,
            _ => Risk::High,
        }),
        _ => Some(Risk::High),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: ChangeKind, file_kind: FileKind) -> FileChange {
        FileChange::new("/w/a", kind, file_kind)
    }

    #[test]
    fn the_risk_of_staged_changes_depends_on_what_is_changed() {
        let file = || change(ChangeKind::Modified, FileKind::File);
        let program = FileChange {
            executable: true,
            ..file()
        };
        let large = FileChange {
            no_diff_reason: Some("too large to show"),
            ..file()
        };
        let from = "/w/b".to_owned();
        for (changes, expected) in [
            (vec![file()], None),
            (vec![file(); MANY_CHANGES], None),
            (vec![file(); MANY_CHANGES + 1], Some(Risk::Medium)),
            (vec![file(), program.clone()], Some(Risk::Medium)),
            (vec![large], Some(Risk::Medium)),
            (
                vec![change(ChangeKind::Created, FileKind::Link)],
                Some(Risk::Medium),
            ),
            (
                vec![change(ChangeKind::Deleted, FileKind::Link)],
                Some(Risk::Medium),
            ),
            (
                vec![change(ChangeKind::Moved { from }, FileKind::Directory)],
                Some(Risk::Medium),
            ),
            (
                vec![program, change(ChangeKind::Deleted, FileKind::File)],
                Some(Risk::High),
            ),
        ] {
            let set = ChangeSet { changes };
            let risk = staged_risk(&set).map(|(risk, _)| risk);
            assert_eq!(risk, expected, "{set:?}");
        }
    }
}
