//! Rendering of the results of `grep`.

use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::{file_name, plural};

use super::collector::MOST_SORTED;
use super::search::{GrepResults, MatchingFile};
use super::{FileMatches, Input, Output, OutputMode};
use crate::result_limit;
use crate::search_path::SearchPath;

pub fn write(input: &Input, start: &SearchPath, mut findings: GrepResults) -> Outcome {
    let found = findings.total_files;
    let mut files = std::mem::take(&mut findings.files);
    if input.output_mode == OutputMode::FilesWithMatches {
        files = newest(std::mem::take(&mut findings.newest), input);
    }
    let mut text = if input.output_mode == OutputMode::Content {
        content(input, files.iter())
    } else {
        let mut lines: Vec<String> = files.iter().map(|file| line(input, file)).collect();
        lines.truncate(result_limit::fitting(lines.iter().map(String::as_str)));
        files.truncate(lines.len());
        findings.truncated |= found > u64::from(input.offset) + files.len() as u64;
        lines
            .iter()
            .fold(String::new(), |text, line| text + line + "\n")
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
        .chain(notes(input, &files, &findings))
    {
        let _ = writeln!(text, "[{line}]");
    }
    Outcome::text(text.trim_end())
        .summary(summary)
        .structured(&Output {
            mode: input.output_mode,
            files,
            total_matches: findings.total_matches,
            total_files: findings.total_files,
            truncated: findings.truncated,
            timed_out: findings.timed_out,
        })
}

/// The files of the result, newest first.
fn newest(found: BinaryHeap<MatchingFile>, input: &Input) -> Vec<FileMatches> {
    let sorted = found.into_sorted_vec().into_iter();
    let shown = sorted
        .skip(input.offset as usize)
        .take(input.head_limit as usize);
    let file = |found: MatchingFile| FileMatches {
        path: found.path,
        count: None,
        matches: Vec::new(),
    };
    shown.map(file).collect()
}

/// A file's line in a list.
pub fn line(input: &Input, file: &FileMatches) -> String {
    match input.output_mode {
        OutputMode::Count => {
            format!("{}:{}", file_name(&file.path), file.count.unwrap_or(0))
        }
        OutputMode::FilesWithMatches | OutputMode::Content => file_name(&file.path).into_owned(),
    }
}

/// The lines of files, grouped by file.
pub fn content<'a>(input: &Input, files: impl Iterator<Item = &'a FileMatches>) -> String {
    let mut text = String::new();
    for file in files {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "File: {}", file_name(&file.path));
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

/// Every line once, by number, because context of neighbouring matches overlaps.
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

fn searched(start: &SearchPath, findings: &GrepResults) -> String {
    let mut text = format!(
        "searched {} in {}",
        plural(findings.searched.files, "file", "files"),
        start.shown()
    );
    let tally = findings.searched.tally;
    if tally.git + tally.tool > 0 {
        let _ = write!(
            text,
            "; {} ignored (git: {}, tool: {})",
            tally.git + tally.tool,
            tally.git,
            tally.tool
        );
    }
    for (count, label) in [
        (findings.searched.binary, "binary skipped"),
        (tally.unreadable, "unreadable"),
    ] {
        if count > 0 {
            let _ = write!(text, "; {count} {label}");
        }
    }
    text
}

fn notes(input: &Input, files: &[FileMatches], findings: &GrepResults) -> Vec<String> {
    let mut notes = findings.notes.clone();
    if findings.timed_out {
        notes.push(
            "the search stopped at the time limit; narrow it with `path`, `glob` or `type`"
                .to_owned(),
        );
    }
    if findings.searched.shortened > 0 {
        let names = findings.searched.shortened_names.iter();
        let mut names: Vec<String> = names.map(|name| file_name(name).into_owned()).collect();
        let more = findings.searched.shortened - names.len() as u64;
        if more > 0 {
            names.push(format!("{more} more"));
        }
        notes.push(format!(
            "only the first 32 MiB were searched, because of a longer line or because a match may cover several lines: {}",
            names.join(", ")
        ));
    }
    let shown: u64 = match input.output_mode {
        OutputMode::Content => files.iter().map(|file| file.matches.len() as u64).sum(),
        OutputMode::FilesWithMatches | OutputMode::Count => files.len() as u64,
    };
    let is_past_sorted = input.output_mode == OutputMode::FilesWithMatches
        && input.offset as usize >= MOST_SORTED
        && findings.total_files > MOST_SORTED as u64;
    if is_past_sorted {
        notes.push(format!(
            "only the newest {MOST_SORTED} files are listed; narrow the search with `path`, `glob` or `type`"
        ));
    } else if findings.truncated {
        let next = u64::from(input.offset) + shown;
        let advice = match input.max_per_file {
            Some(_) => "raise `max_per_file` or set `path` to a file".to_owned(),
            None => format!("continue with `offset = {next}`"),
        };
        notes.push(format!(
            "showing {shown} from {}; more exist: {advice}",
            input.offset
        ));
    } else if input.offset > 0 && shown == 0 && findings.total_files > 0 {
        notes.push(format!("no results from `offset = {}`", input.offset));
    }
    notes
}
