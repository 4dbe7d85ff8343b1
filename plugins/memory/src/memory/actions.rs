//! The actions of the `memory` tool.

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::{count, inline};

use super::store::NoteStore;
use super::{Action, Entry, INDEX, Match, MemoryOutput, Scope, index, invalid, name};

const MOST_MATCHES: usize = 50;

/// The parameters of one call.
pub struct MemoryRequest {
    pub action: Action,
    pub file: Option<String>,
    pub content: Option<String>,
    pub old_string: Option<String>,
    pub new_string: Option<String>,
    pub summary: Option<String>,
    pub query: Option<String>,
    pub fact: Option<String>,
}

impl MemoryRequest {
    /// `list` and `search`, which can use several scopes.
    pub fn list_or_search(&self, stores: &[NoteStore], scope: Option<Scope>) -> Result<Outcome> {
        if self.action == Action::Search {
            self.search(stores, scope)
        } else {
            list(stores, scope)
        }
    }

    /// All other actions, which affect one file.
    pub fn act(&self, store: &NoteStore) -> Result<Outcome> {
        let file = match (&self.file, self.action) {
            (Some(file), _) => name::checked(file)?,
            (None, Action::Delete) => return Err(invalid("no `file`; name the file to delete")),
            (None, _) => INDEX.to_owned(),
        };
        let before = store.read(&file)?;
        let after = match self.action {
            Action::Read => {
                let content = before.ok_or_else(|| store.no_file(&file))?;
                let text = if content.trim().is_empty() {
                    "(file is empty)".to_owned()
                } else {
                    content.clone()
                };
                let data = MemoryOutput {
                    size: Some(content.len()),
                    content: Some(content),
                    ..self.done(store, &file)
                };
                return Ok(Outcome::text(text)
                    .summary(format!("read {file}"))
                    .structured(&data));
            }
            Action::Delete => {
                before.ok_or_else(|| store.no_file(&file))?;
                store.remove(&file)?;
                index::note(store, &file, None)?;
                let data = MemoryOutput {
                    changed: true,
                    ..self.done(store, &file)
                };
                return Ok(change_outcome(store, &file, "deleted").structured(&data));
            }
            Action::Append => self.appended(before.as_deref(), &file)?,
            Action::Edit => {
                Some(self.edited(&before.clone().ok_or_else(|| store.no_file(&file))?, &file)?)
            }
            Action::Write | Action::List | Action::Search => Some(
                self.content
                    .clone()
                    .ok_or_else(|| invalid("no `content`; pass the complete text of the file"))?,
            ),
        };
        let after = after.filter(|after| before.as_ref() != Some(after));
        if let Some(after) = &after {
            if file == INDEX {
                index::check(after)?;
            }
            store.write(&file, after)?;
        }
        let noted = match &self.summary {
            Some(summary) => index::note(store, &file, Some(summary))?,
            None => false,
        };
        let change = match (&after, &before) {
            (None, _) if noted => "noted in the index what is in",
            (None, _) => "no change in",
            (Some(_), None) => "created",
            (Some(_), Some(_)) => "changed",
        };
        let size = after.as_ref().or(before.as_ref()).map(String::len);
        let data = MemoryOutput {
            changed: after.is_some() || noted,
            size,
            ..self.done(store, &file)
        };
        Ok(change_outcome(store, &file, change).structured(&data))
    }

    fn appended(&self, before: Option<&str>, file: &str) -> Result<Option<String>> {
        let before = before.unwrap_or_default();
        match (&self.fact, &self.content) {
            (Some(fact), None) if file == INDEX => Ok(index::with_fact(before, fact)),
            (Some(_), None) => Err(invalid(format!(
                "a fact goes into {INDEX}; omit `file`, or pass `content`"
            ))),
            (None, Some(content)) => {
                let gap = if before.is_empty() || before.ends_with('\n') {
                    ""
                } else {
                    "\n"
                };
                let end = if content.ends_with('\n') { "" } else { "\n" };
                Ok(Some(format!("{before}{gap}{content}{end}")))
            }
            (Some(_), Some(_)) => Err(invalid(
                "`fact` and `content` are mutually exclusive; omit one",
            )),
            (None, None) => Err(invalid("nothing to append; pass `content` or `fact`")),
        }
    }

    fn edited(&self, before: &str, file: &str) -> Result<String> {
        let (Some(old), Some(new)) = (&self.old_string, &self.new_string) else {
            return Err(invalid("an edit needs `old_string` and `new_string`"));
        };
        let refuse = |code: &str, message: String| Err(Error::invalid_input(message).code(code));
        if old == new {
            return refuse(
                "edit_no_change",
                "`old_string` and `new_string` are the same".to_owned(),
            );
        }
        let advice = "read the file and copy the passage exactly";
        match before.matches(old.as_str()).count() {
            1 => Ok(before.replacen(old.as_str(), new, 1)),
            0 => {
                let message = format!("{file} does not contain {:?}; {advice}", inline(old, 100));
                refuse("edit_no_occurrence_found", message)
            }
            times => {
                let message = format!(
                    "{file} contains {:?} {times} times; include more of the surrounding text",
                    inline(old, 100)
                );
                refuse("edit_expected_occurrence_mismatch", message)
            }
        }
    }

    fn search(&self, stores: &[NoteStore], scope: Option<Scope>) -> Result<Outcome> {
        let query = self
            .query
            .as_ref()
            .ok_or_else(|| invalid("no `query`; pass search words"))?;
        let words: Vec<String> = query
            .to_lowercase()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        if words.is_empty() {
            return Err(invalid("`query` is empty; pass search words"));
        }
        let mut matches = Vec::new();
        let mut searched = 0;
        let mut total = 0;
        for store in stores {
            for file in store.files()?.into_keys() {
                // One unreadable file must not hide the matches of others.
                let Ok(Some(text)) = store.read(&file) else {
                    continue;
                };
                searched += 1;
                for (number, line) in text.lines().enumerate() {
                    let lower = line.to_lowercase();
                    if !words.iter().all(|word| lower.contains(word)) {
                        continue;
                    }
                    total += 1;
                    if matches.len() < MOST_MATCHES {
                        let (scope, file) = (store.scope, file.clone());
                        matches.push(Match {
                            scope,
                            file,
                            line: number + 1,
                            text: inline(line, 300),
                        });
                    }
                }
            }
        }
        let mut lines: Vec<String> = matches
            .iter()
            .map(|found| {
                format!(
                    "{}: {}:{}: {}",
                    found.scope.as_str(),
                    found.file,
                    found.line,
                    found.text
                )
            })
            .collect();
        let shown = lines.len();
        if total == 0 {
            lines.push(format!(
                "nothing found for {:?} in {}",
                inline(query, 200),
                count(searched, "file")
            ));
        } else if shown < total {
            lines.push(format!(
                "(showing {shown} of {total} lines; search for more words)"
            ));
        }
        let data = MemoryOutput {
            matches: Some(matches),
            truncated: shown < total,
            ..MemoryOutput::of(Action::Search, scope)
        };
        Ok(Outcome::text(lines.join("\n"))
            .summary(format!("{total} found"))
            .structured(&data))
    }

    fn done(&self, store: &NoteStore, file: &str) -> MemoryOutput {
        MemoryOutput {
            file: Some(file.to_owned()),
            ..MemoryOutput::of(self.action, Some(store.scope))
        }
    }
}

fn list(stores: &[NoteStore], scope: Option<Scope>) -> Result<Outcome> {
    let mut files = Vec::new();
    for store in stores {
        let index = store.read(INDEX).ok().flatten().unwrap_or_default();
        files.extend(store.files()?.into_iter().map(|(file, size)| Entry {
            scope: store.scope,
            summary: index::summary(&index, &file),
            file,
            size,
        }));
    }
    let mut lines: Vec<String> = files
        .iter()
        .map(|entry| {
            let line = format!(
                "{}: {} ({} bytes)",
                entry.scope.as_str(),
                entry.file,
                entry.size
            );
            match &entry.summary {
                Some(summary) => format!("{line}: {summary}"),
                None => line,
            }
        })
        .collect();
    let total = count(files.len(), "file");
    if files.is_empty() {
        let scopes: Vec<&str> = stores.iter().map(|store| store.scope.as_str()).collect();
        lines.push(format!("no notes yet ({})", scopes.join(", ")));
    }
    let data = MemoryOutput {
        files: Some(files),
        ..MemoryOutput::of(Action::List, scope)
    };
    Ok(Outcome::text(lines.join("\n"))
        .summary(total)
        .structured(&data))
}

impl MemoryOutput {
    fn of(action: Action, scope: Option<Scope>) -> Self {
        Self {
            action,
            scope,
            file: None,
            content: None,
            size: None,
            changed: false,
            files: None,
            matches: None,
            truncated: false,
        }
    }
}

fn change_outcome(store: &NoteStore, file: &str, change: &str) -> Outcome {
    let line = format!(
        "{change} {file} in the memory of the {}",
        store.scope.as_str()
    );
    Outcome::text(line.clone()).summary(line)
}
