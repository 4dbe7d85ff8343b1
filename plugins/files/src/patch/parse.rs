//! Parser of patches in the `*** Begin Patch` format; unified diffs are delegated.

use toolhost_sdk::prelude::*;

use super::section::{Action, Hunk, Section, hint};
use super::unified_diff;
use crate::edit::errors;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
/// Limit of files per patch.
const MOST_SECTIONS: usize = 500;

pub fn parse(patch: &str) -> Result<Vec<Section>> {
    let all: Vec<&str> = patch.split('\n').collect();
    // If every line ends in CR LF, that is the transport, not content.
    let is_crlf = all.len() > 1 && all[..all.len() - 1].iter().all(|line| line.ends_with('\r'));
    let all: Vec<&str> = if is_crlf {
        all.iter()
            .map(|line| line.strip_suffix('\r').unwrap_or(line))
            .collect()
    } else {
        all
    };
    let (first, lines) = unwrapped(&all);
    let sections = match lines.first() {
        Some(line) if line.trim() == BEGIN => Reader {
            lines,
            first,
            at: 1,
        }
        .sections()?,
        Some(_) if unified_diff::is_unified(lines) => unified_diff::parse(lines, first)?,
        _ => {
            return Err(errors::invalid_edit(format!(
                "the patch starts neither with `{BEGIN}` nor, as a unified diff, with `--- a/…` and `+++ b/…`"
            ))
            .recommend(format!(
                "write `{BEGIN}`, then `{UPDATE} PATH`, then hunks of lines that start with ` `, `-` or `+`, then `{END}`"
            )));
        }
    };
    if sections.is_empty() {
        return Err(errors::invalid_edit(format!(
            "the patch names no file; write `{UPDATE} PATH`, `{ADD} PATH` or `{DELETE} PATH`"
        )));
    }
    if sections.len() > MOST_SECTIONS {
        return Err(errors::invalid_edit(format!(
            "the patch has {} files; the limit is {MOST_SECTIONS}, split it",
            sections.len()
        )));
    }
    sections.iter().try_for_each(|section| {
        check_path(section, &section.path)?;
        match &section.action {
            Action::Update { to: Some(to), .. } => check_path(section, to),
            Action::Update { .. } | Action::Add { .. } | Action::Delete { .. } => Ok(()),
        }
    })?;
    Ok(sections)
}

/// Removes surrounding empty lines, Markdown fences and here-document markers; returns the number of lines removed
/// before the patch.
fn unwrapped<'a, 'b>(all: &'b [&'a str]) -> (usize, &'b [&'a str]) {
    let mut range = 0..all.len();
    loop {
        while range.start < range.end && all[range.start].trim().is_empty() {
            range.start += 1;
        }
        while range.start < range.end && all[range.end - 1].trim().is_empty() {
            range.end -= 1;
        }
        if range.len() < 2 {
            break;
        }
        let (first, last) = (all[range.start].trim(), all[range.end - 1].trim());
        let is_fence = first.starts_with("```") && last == "```";
        let here = first
            .rsplit_once("<<")
            .map(|(_, word)| word.trim_matches(['\'', '"', '-']));
        if !is_fence && here != Some(last) {
            break;
        }
        range = range.start + 1..range.end - 1;
    }
    (range.start, &all[range])
}

fn check_path(section: &Section, path: &str) -> Result<()> {
    if path.is_empty() {
        let message = format!("line {} of the patch names no file", section.line);
        return Err(errors::invalid_edit(message));
    }
    if path.starts_with('/') || path.starts_with('~') {
        let message = format!(
            "line {} of the patch: {path} is absolute; write it relative to the workspace",
            section.line
        );
        return Err(Error::invalid_input(message).code("invalid_path"));
    }
    Ok(())
}

struct Reader<'a, 'b> {
    lines: &'b [&'a str],
    /// Lines before the first one.
    first: usize,
    at: usize,
}

impl<'a> Reader<'a, '_> {
    fn sections(mut self) -> Result<Vec<Section>> {
        let mut sections = Vec::new();
        while let Some(text) = self.peek() {
            let line = self.number();
            self.at += 1;
            if text.trim() == END {
                return match self.lines[self.at..]
                    .iter()
                    .position(|rest| !rest.trim().is_empty())
                {
                    Some(more) => {
                        self.at += more;
                        Err(self.unexpected(&format!("nothing after `{END}`")))
                    }
                    None => Ok(sections),
                };
            }
            let header = |name: &str| text.strip_prefix(name).map(|path| path.trim().to_owned());
            let (path, action) = if let Some(path) = header(ADD) {
                (path, self.add()?)
            } else if let Some(path) = header(DELETE) {
                (path, Action::Delete { hunks: Vec::new() })
            } else if let Some(path) = header(UPDATE) {
                let action = self.update(&path)?;
                (path, action)
            } else if text.trim().is_empty() {
                continue;
            } else {
                self.at -= 1;
                return Err(
                    self.unexpected(&format!("`{ADD} …`, `{UPDATE} …`, `{DELETE} …` or `{END}`"))
                );
            };
            sections.push(Section {
                path,
                action,
                mode: None,
                line,
            });
        }
        Err(errors::invalid_edit(format!(
            "the patch does not end with `{END}` and may be truncated; resend it completely"
        )))
    }

    fn add(&mut self) -> Result<Action> {
        let mut content = String::new();
        // Empty lines count only if more of the file follows.
        let mut blank = 0;
        while let Some(text) = self.peek() {
            if let Some(line) = text.strip_prefix('+') {
                content.push_str(&"\n".repeat(std::mem::take(&mut blank)));
                content.push_str(line);
                content.push('\n');
            } else if text.trim().is_empty() {
                blank += 1;
            } else if text.starts_with("***") {
                break;
            } else {
                return Err(
                    self.unexpected("a line that starts with `+`, like all lines of a new file")
                );
            }
            self.at += 1;
        }
        Ok(Action::Add { content })
    }

    fn update(&mut self, path: &str) -> Result<Action> {
        let mut to = None;
        if let Some(target) = self.peek().and_then(|text| text.strip_prefix(MOVE)) {
            to = Some(target.trim().to_owned());
            self.at += 1;
        }
        let mut hunks = Vec::new();
        let mut hunk = Hunk {
            line: self.number(),
            ..Hunk::default()
        };
        let mut blank = 0;
        while let Some(text) = self.peek() {
            if let Some(rest) = text.strip_prefix("@@") {
                if !hunk.lines.is_empty() {
                    hunk.drop_blank(blank);
                    hunks.push(std::mem::take(&mut hunk));
                    hunk.line = self.number();
                }
                hunk.hint = hint(rest).or(hunk.hint);
                let context = rest.strip_prefix(' ').unwrap_or(rest).trim_end();
                if hint(rest).is_none() && !context.trim().is_empty() {
                    hunk.contexts.push(context.to_owned());
                }
            } else if text.trim_end() == END_OF_FILE {
                hunk.at_end = true;
            } else if text.starts_with("***") {
                break;
            } else if !hunk.push(text) {
                return Err(self.unexpected("a line that starts with ` `, `-`, `+` or `@@`"));
            }
            blank = if text.is_empty() { blank + 1 } else { 0 };
            self.at += 1;
        }
        hunk.drop_blank(blank);
        if !hunk.lines.is_empty() {
            hunks.push(hunk);
        }
        if hunks.is_empty() && to.is_none() {
            let message =
                format!("the patch has no changes for {path}; add hunks or omit the file");
            return Err(errors::invalid_edit(message));
        }
        Ok(Action::Update { to, hunks })
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    /// The number of the next line in the original patch.
    fn number(&self) -> usize {
        self.first + self.at + 1
    }

    fn unexpected(&self, expected: &str) -> Error {
        unexpected(self.number(), self.peek().unwrap_or_default(), expected)
    }
}

pub fn unexpected(number: usize, text: &str, expected: &str) -> Error {
    let text: String = text.chars().take(80).collect();
    errors::invalid_edit(format!(
        "line {number} of the patch: expected {expected}, found {text:?}"
    ))
}

#[cfg(test)]
mod tests;
