//! The index `MEMORY.md`: facts as bullets, and one line per file with its summary.

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::inline;

use super::store::NoteStore;
use super::{INDEX, invalid};

const MOST_LINES: usize = 200;
const FACTS: &str = "## Facts";
const FILES: &str = "## Files";

/// Adds a bullet under a heading, which is created if needed. `None` if the bullet exists already.
fn with_bullet(text: &str, heading: &str, bullet: &str) -> Option<String> {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.contains(&bullet) {
        return None;
    }
    let start = lines
        .iter()
        .position(|line| line.trim_end() == heading)
        .map_or_else(
            || {
                if !lines.is_empty() {
                    lines.push("");
                }
                lines.push(heading);
                lines.len()
            },
            |index| index + 1,
        );
    let section = lines[start..]
        .iter()
        .take_while(|line| !line.starts_with('#'));
    let used = section
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .last();
    lines.insert(start + used.map_or(0, |(last, _)| last + 1), bullet);
    Some(lines.join("\n") + "\n")
}

pub fn with_fact(text: &str, fact: &str) -> Option<String> {
    with_bullet(text, FACTS, &format!("- {}", inline(fact, 2000)))
}

fn prefix(file: &str) -> String {
    format!("- [{file}]({file}): ")
}

fn without_file(text: &str, file: &str) -> String {
    let prefix = prefix(file);
    text.lines()
        .filter(|line| !line.starts_with(&prefix))
        .flat_map(|line| [line, "\n"])
        .collect()
}

/// Sets or removes the summary of a file in the index. Returns whether the index changed.
pub fn note(store: &NoteStore, file: &str, summary: Option<&str>) -> Result<bool> {
    if file == INDEX {
        return Ok(false);
    }
    let before = store.read(INDEX)?.unwrap_or_default();
    let mut after = without_file(&before, file);
    if let Some(summary) = summary {
        let bullet = format!("{}{}", prefix(file), inline(summary, 200));
        after = with_bullet(&after, FILES, &bullet).unwrap_or(after);
    }
    if after.lines().eq(before.lines()) {
        return Ok(false);
    }
    check(&after)?;
    store.write(INDEX, &after)?;
    Ok(true)
}

/// The summary of a file in the index.
pub fn summary(index: &str, file: &str) -> Option<String> {
    let prefix = prefix(file);
    index
        .lines()
        .find_map(|line| line.strip_prefix(&prefix))
        .map(|summary| inline(summary, 200))
}

pub fn check(text: &str) -> Result<()> {
    let lines = text.lines().count();
    if lines <= MOST_LINES {
        return Ok(());
    }
    let message = format!("{INDEX} would have {lines} lines; the index has at most {MOST_LINES}");
    Err(invalid(message).recommend("move details to separate files"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, fact: &str, expected: Option<&str>) {
        assert_eq!(with_fact(text, fact).as_deref(), expected);
    }

    #[test]
    fn a_fact_goes_where_the_facts_are() {
        check("", "a", Some("## Facts\n- a\n"));
        check("# M\n", " a\nb", Some("# M\n\n## Facts\n- a b\n"));
        check(
            "## Facts\n- a\n\n## Files\n- x\n",
            "b",
            Some("## Facts\n- a\n- b\n\n## Files\n- x\n"),
        );
        check("## Facts\n- a\n", "a", None);
    }

    #[test]
    fn a_file_has_one_line() {
        let text = with_bullet("", FILES, &format!("{}old", prefix("a.md"))).unwrap();
        assert_eq!(summary(&text, "a.md").as_deref(), Some("old"));
        assert_eq!(summary(&text, "b.md"), None);
        assert_eq!(without_file(&text, "a.md"), "## Files\n");
    }
}
