//! The part of an input that the rest of a question does not show.
//!
//! A member is left out only if its value is on the screen already: as the command, a path or an address, or as text of
//! the diff. The whole input can always be shown.

use std::collections::HashSet;

use serde_json::{Map, Value};
use toolhost_contract::policy::PromptKind;
use toolhost_contract::{ChangeSet, FileDiff, Question};

use super::claimed_diff::{self, CONTENT_MEMBERS, DIFF_MEMBERS, REPLACEMENT_MEMBERS};

/// Longer values, in bytes of JSON, are shown as a block.
const MAX_INLINE_VALUE: usize = 80;
/// Maximum length of all values in one line, in bytes.
const MAX_INLINE: usize = 200;

#[derive(Debug, PartialEq)]
pub enum LeftoverInput {
    /// Short members: `mode=overwrite create_dirs=true`. May be empty.
    Inline(String),
    Block(Value),
}

/// Returns what only the input states.
pub fn leftover_input(question: &Question, input: &Value) -> LeftoverInput {
    let Some(left) = leftover_members(question, input) else {
        return LeftoverInput::Block(input.clone());
    };
    let inline: Vec<String> = left.iter().filter_map(inline_member).collect();
    let line = inline.join("  ");
    if inline.len() == left.len() && line.len() <= MAX_INLINE {
        LeftoverInput::Inline(line)
    } else {
        LeftoverInput::Block(Value::Object(left))
    }
}

/// Returns the reason if what the input states beside a diff, which can be scrolled, is too long to review.
pub fn review_problem(question: &Question, input: &Value) -> Option<String> {
    let has_diff = question.changes.is_some() || question.kind == PromptKind::Edit;
    let left = leftover_members(question, input).filter(|_| has_diff);
    let left = left.map_or_else(|| input.clone(), Value::Object);
    question.review_problem(&left, "at a terminal")
}

/// The members that nothing else shows; `None` if the whole input is needed.
fn leftover_members(question: &Question, input: &Value) -> Option<Map<String, Value>> {
    let subject = &question.subject;
    // The question then refers to the input.
    let is_needed = subject.has_unknown_paths || subject.has_unknown_destinations;
    let members = input.as_object().filter(|_| !is_needed)?;
    let claim = match (&question.changes, question.kind) {
        (None, PromptKind::Edit) => claimed_diff::claimed_diff(input).unwrap_or_default(),
        _ => String::new(),
    };
    let shown = Shown {
        question,
        // The sign in front of a line is not a part of it; text of a diff has its signs.
        claimed: claim
            .lines()
            .flat_map(|line| [line, line.get(1..).unwrap_or_default()])
            .collect(),
    };
    let left = members
        .iter()
        .filter(|(name, value)| !shown.covers(name, value))
        .map(|(name, value)| (name.clone(), value.clone()));
    Some(left.collect())
}

/// `name=value`; `None` if it needs a block.
fn inline_member((name, value): (&String, &Value)) -> Option<String> {
    let json = value.to_string();
    let is_plain = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        !text.is_empty() && text.chars().all(plain)
    };
    let shown = match value {
        Value::String(text) if is_plain(text) => text.clone(),
        _ => json,
    };
    let fits = shown.len() <= MAX_INLINE_VALUE && is_plain(name);
    fits.then(|| format!("{name}={shown}"))
}

/// What is on the screen beside the input.
struct Shown<'a> {
    question: &'a Question,
    /// Lines of a claimed change.
    claimed: HashSet<&'a str>,
}

impl Shown<'_> {
    fn covers(&self, name: &str, value: &Value) -> bool {
        match value {
            // The changes are known, and these values ask for nothing.
            Value::Null | Value::Bool(false) if self.question.changes.is_some() => true,
            Value::Array(items) if items.is_empty() => self.question.changes.is_some(),
            Value::String(text) => self.covers_text(name, text),
            Value::Array(items) => items.iter().all(|item| self.covers(name, item)),
            Value::Object(members) if !members.is_empty() => {
                members.iter().all(|(name, value)| self.covers(name, value))
            }
            _ => false,
        }
    }

    fn covers_text(&self, name: &str, text: &str) -> bool {
        let subject = &self.question.subject;
        if subject.destinations.iter().any(|shown| shown == text) {
            return true;
        }
        if let Some(changes) = &self.question.changes {
            return covered_by_changes(changes, name, text);
        }
        if self.question.kind == PromptKind::Exec {
            return subject.command.as_deref() == Some(text);
        }
        let is_named = subject.paths.iter().any(|path| path.path == text)
            || subject.urls.iter().any(|url| url == text);
        is_named
            || is_content(name)
                && !self.claimed.is_empty()
                && text.lines().all(|line| self.claimed.contains(line))
    }
}

/// Whether a member of this name holds text of a file or a diff.
fn is_content(name: &str) -> bool {
    let replacements = REPLACEMENT_MEMBERS.into_iter();
    let mut names = replacements.flat_map(|(old, new)| [old, new]);
    names.any(|known| known == name)
        || CONTENT_MEMBERS.contains(&name)
        || DIFF_MEMBERS.contains(&name)
}

/// Whether the changes, which are all that an approval applies, show the text.
fn covered_by_changes(changes: &ChangeSet, name: &str, text: &str) -> bool {
    // `./a` and `/workspace/a` name the file whose path on the host ends like that.
    let guest = ["/workspace/", "./"]
        .into_iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(text);
    let names = |path: &&str| {
        let front = path.strip_suffix(guest);
        *path == text || front.is_some_and(|front| front.ends_with('/'))
    };
    if !guest.is_empty() && changes.paths().iter().any(names) {
        return true;
    }
    let diffs = || {
        changes
            .changes
            .iter()
            .filter_map(|change| change.diff.as_ref())
    };
    if !is_content(name) || diffs().count() == 0 {
        return false;
    }
    let contains = |diff: &FileDiff, text: &str| {
        diff.new.contains(text) || diff.original.as_ref().is_some_and(|old| old.contains(text))
    };
    if diffs().any(|diff| contains(diff, text)) {
        return true;
    }
    // The lines of a patch, without those that name files and positions.
    DIFF_MEMBERS.contains(&name)
        && text.lines().all(|line| match line.as_bytes() {
            [b'+' | b'-' | b' ', ..] if !line.starts_with("+++") && !line.starts_with("---") => {
                diffs().any(|diff| contains(diff, &line[1..]))
            }
            [] => true,
            _ => ["+++", "---", "@@", "***", "diff ", "index "]
                .iter()
                .any(|start| line.starts_with(start)),
        })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::super::testing::{command, question, staged_question, tool, write};
    use super::*;

    fn check(question: &Question, input: &Value, expected: Expect) {
        let shown = match leftover_input(question, input) {
            LeftoverInput::Inline(line) => line,
            LeftoverInput::Block(left) => format!("block {left}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn only_members_that_nothing_else_shows_are_left() {
        let (staged, _) = staged_question(&[("/w/src/a.rs", Some("a\nold\n"), "a\nnew\n")]);
        for (input, expected) in [
            (
                json!({"path": "src/a.rs", "old_string": "old", "new_string": "new", "replace_all": false, "edits": []}),
                expect![""],
            ),
            (
                json!({"path": "/workspace/src/a.rs", "content": "a\nnew\n", "mode": "overwrite"}),
                expect!["mode=overwrite"],
            ),
            (
                json!({"path": "/w/src/a.rs", "edits": [{"old": "old", "new": "new"}]}),
                expect![""],
            ),
            (
                json!({"patch": "--- a\n+++ b\n@@ -1 +1 @@\n a\n-old\n+new\n"}),
                expect![""],
            ),
            // Not what the call changed.
            (
                json!({"path": "b.rs", "content": "evil"}),
                expect!["path=b.rs  content=evil"],
            ),
            (
                json!({"path": "src/a.rs", "patch": "+evil\n"}),
                expect![[r#"patch="+evil\n""#]],
            ),
            // Text of the file in a member with another purpose.
            (
                json!({"path": "src/a.rs", "then": "new"}),
                expect!["then=new"],
            ),
            (
                json!({"path": "a.rs", "x": "l ".repeat(50)}),
                expect![[
                    r#"block {"x":"l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l l "}"#
                ]],
            ),
        ] {
            check(&staged, &input, expected);
        }
    }

    #[test]
    fn commands_paths_addresses_and_claimed_changes_are_not_repeated() {
        let check = |spec: &super::super::testing::QuestionSpec, expected: Expect| {
            let (question, call) = question(spec);
            check(&question, &call.input, expected);
        };
        check(&command("ls -l"), expect![""]);
        let mut run = command("ls -l");
        run.input["timeout_ms"] = json!(5000);
        check(&run, expect!["timeout_ms=5000"]);
        check(&write("src/a.rs", "one\ntwo\n"), expect![""]);
        let mut edit = write("", "");
        edit.input = json!({"path": "a", "edits": [{"old": "x", "new": "y"}], "n": false, "m": []});
        check(&edit, expect!["n=false  m=[]"]);
        let lines: Vec<String> = (0..20).map(|line| format!("line {line}\n")).collect();
        let long = lines.concat();
        edit.input = json!({"path": "a", "old": long, "new": format!("{long}end\n")});
        // The claimed change shows a few lines of them only.
        let (question, call) = question(&edit);
        assert!(matches!(
            leftover_input(&question, &call.input),
            LeftoverInput::Block(_)
        ));
        check(
            &tool("srv", "mcp__srv__look_up", json!({"query": "a b"})),
            expect![[r#"query="a b""#]],
        );
    }
}
