//! Puts what was found into words.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::time::SystemTime;

use toolhost_sdk::prelude::*;

use super::search::Findings;
use super::{FileMatches, Input, Output, OutputMode};
use crate::place::Place;

pub fn write(input: &Input, start: &Place, mut findings: Findings) -> Outcome {
    let found = findings.total_files;
    if input.output_mode != OutputMode::Content {
        if input.output_mode == OutputMode::FilesWithMatches {
            newest_first(&mut findings.files, start);
        }
        let offset = input.offset as usize;
        let limit = input.head_limit as usize;
        findings.truncated |= findings.files.len() > offset.saturating_add(limit);
        findings.files = findings
            .files
            .into_iter()
            .skip(offset)
            .take(limit)
            .collect();
    }
    let mut text = match input.output_mode {
        OutputMode::FilesWithMatches => list(&findings.files, |file| file.path.clone()),
        OutputMode::Count => list(&findings.files, |file| {
            format!("{}:{}", file.path, file.count.unwrap_or(0))
        }),
        OutputMode::Content => content(input, &findings.files),
    };
    if !text.is_empty() {
        text.push('\n');
    }
    let summary = if found == 0 {
        format!("no matches for `{}`", input.pattern)
    } else if input.output_mode == OutputMode::FilesWithMatches {
        plural(found, "file contains a match", "files contain matches")
    } else {
        let matches = plural(findings.total_matches, "matching line", "matching lines");
        format!("{matches} in {}", plural(found, "file", "files"))
    };
    for line in std::iter::once(format!("{summary} ({})", searched(start, &findings)))
        .chain(notes(input, &findings))
    {
        let _ = writeln!(text, "[{line}]");
    }
    Outcome::text(text.trim_end())
        .summary(summary)
        .structured(&Output {
            mode: input.output_mode,
            files: findings.files,
            total_matches: findings.total_matches,
            total_files: findings.total_files,
            truncated: findings.truncated,
            timed_out: findings.timed_out,
        })
}

fn list(files: &[FileMatches], line: impl Fn(&FileMatches) -> String) -> String {
    files
        .iter()
        .fold(String::new(), |text, file| text + &line(file) + "\n")
}

/// Only files with a match are asked for their time.
fn newest_first(files: &mut [FileMatches], start: &Place) {
    let time = |file: &FileMatches| {
        let modified =
            fs::metadata(start.absolute(&file.path)).and_then(|metadata| metadata.modified());
        modified.unwrap_or(SystemTime::UNIX_EPOCH)
    };
    files.sort_by_cached_key(|file| (std::cmp::Reverse(time(file)), file.path.clone()));
}

fn content(input: &Input, files: &[FileMatches]) -> String {
    let mut text = String::new();
    for file in files {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "File: {}", file.path);
        let gaps = file
            .matches
            .iter()
            .any(|found| !found.before.is_empty() || !found.after.is_empty());
        let mut last = None;
        for (number, (mark, line)) in lines(file) {
            if gaps && last.is_some_and(|last| number > last + 1) {
                text.push_str("--\n");
            }
            last = Some(number);
            let _ = if input.line_numbers {
                writeln!(text, "L{number}{mark} {line}")
            } else {
                writeln!(text, "{line}")
            };
        }
    }
    text
}

/// Every line once, by its number: the lines around neighbouring matches overlap.
fn lines(file: &FileMatches) -> BTreeMap<u64, (char, &str)> {
    let mut lines = BTreeMap::new();
    for found in &file.matches {
        let own = (found.line..).zip(found.text.split('\n'));
        let end = found.line + found.text.split('\n').count() as u64;
        let before = (found.line.saturating_sub(found.before.len() as u64)..).zip(&found.before);
        for (number, line) in before.chain((end..).zip(&found.after)) {
            lines.entry(number).or_insert((CONTEXT, line.as_str()));
        }
        lines.extend(own.map(|(number, line)| (number, (MATCH, line))));
    }
    lines
}

const MATCH: char = ':';
const CONTEXT: char = '-';

fn searched(start: &Place, findings: &Findings) -> String {
    let mut text = format!(
        "searched {} in {}",
        plural(findings.searched, "file", "files"),
        start.shown()
    );
    let tally = findings.tally;
    if tally.git + tally.tool > 0 {
        let _ = write!(
            text,
            "; {} ignored (git: {}, tool: {})",
            tally.git + tally.tool,
            tally.git,
            tally.tool
        );
    }
    for (count, what) in [
        (findings.binary, "binary skipped"),
        (tally.unreadable, "unreadable"),
    ] {
        if count > 0 {
            let _ = write!(text, "; {count} {what}");
        }
    }
    text
}

fn notes(input: &Input, findings: &Findings) -> Vec<String> {
    let mut notes = findings.notes.clone();
    if findings.timed_out {
        notes.push(
            "the time was up before all files were searched; narrow it down with `path`, `glob` or `type`".to_owned(),
        );
    }
    if findings.shortened > 0 {
        notes.push(format!(
            "of {} only the first 32 MiB were searched",
            plural(findings.shortened, "file", "files")
        ));
    }
    let shown: u64 = match input.output_mode {
        OutputMode::Content => findings
            .files
            .iter()
            .map(|file| file.matches.len() as u64)
            .sum(),
        OutputMode::FilesWithMatches | OutputMode::Count => findings.files.len() as u64,
    };
    if findings.truncated {
        let next = u64::from(input.offset) + shown;
        let advice = match input.max_per_file {
            Some(_) => "raise `max_per_file` or name a file in `path`".to_owned(),
            None => format!("continue with `offset = {next}`"),
        };
        notes.push(format!(
            "showing {shown} from {}; there are more: {advice}",
            input.offset
        ));
    } else if input.offset > 0 && shown == 0 && findings.total_files > 0 {
        notes.push(format!("nothing is left from `offset = {}`", input.offset));
    }
    notes
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
