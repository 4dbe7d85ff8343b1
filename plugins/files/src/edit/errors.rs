//! Errors of failed edits, with what the next attempt needs.

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::plural;

use super::find::{MAX_MATCHES, MatchResult};
use super::{lines, similar_region, snippet};

/// Lines of the file shown with an error.
const MOST_LINES: usize = 15;
/// Similarity below which no region is shown.
const LEAST_LIKENESS: f64 = 0.3;
const MOST_NUMBERS: usize = 10;

pub fn no_change(message: impl Into<String>) -> Error {
    Error::invalid_input(message).code("edit_no_change")
}

/// The call is invalid regardless of the file.
pub fn invalid_edit(message: impl Into<String>) -> Error {
    Error::invalid_input(message).code("edit_preparation_failure")
}

pub fn is_notebook(shown: &str) -> Error {
    invalid_edit(format!(
        "{shown} is a notebook, which text edits could break; use notebook_edit"
    ))
}

pub fn exists(shown: &str) -> Error {
    Error::invalid_input(format!(
        "{shown} exists and is not empty; an empty `old_string` creates a new file"
    ))
    .code("attempt_to_create_existing_file")
    .recommend("to change it, pass the text to replace as `old_string`")
    .recommend("to replace its content, use write_file")
}

/// No text in the file matches `old`, which `description` names.
pub fn no_match(shown: &str, text: &str, old: &str, description: &str) -> Error {
    let all = lines::split(text);
    let nearest = similar_region::most_similar(text, &all, old)
        .into_iter()
        .next()
        .filter(|region| region.likeness >= LEAST_LIKENESS);
    let error = |message: String| Error::failed(message).code("edit_no_occurrence_found");
    let again = "if this fails again, write the whole file with write_file";
    let Some(nearest) = nearest else {
        let message = format!("0 matches for {description} in {shown}, and no similar lines");
        return error(message)
            .recommend("read the file and copy the text exactly, without line numbers")
            .recommend(again);
    };
    let (first, last) = (nearest.lines.start + 1, nearest.lines.end);
    let region = snippet::region(text, &all, &nearest.lines, MOST_LINES);
    let percent = nearest.likeness * 100.0;
    let ours = nearest
        .lines
        .clone()
        .map(|index| &text[all[index].start..all[index].end]);
    let difference = difference(ours, old, first);
    let (are, lines) = if first == last {
        ("is", format!("line {first}"))
    } else {
        ("are", format!("lines {first}-{last}"))
    };
    error(format!(
        "0 matches for {description} in {shown}; closest {are} {lines}, {percent:.0} % alike:\n{}{difference}",
        region.trim_end()
    ))
    .recommend(format!(
        "read {lines} again and copy the text exactly, without line numbers"
    ))
    .recommend(again)
}

/// The first line in which the file and `old` differ; `number` is the number of the first line.
fn difference<'a>(ours: impl Iterator<Item = &'a str>, old: &str, number: usize) -> String {
    const MOST_CHARS: usize = 120;
    let theirs = old.trim_matches('\n').lines();
    let pairs = ours.zip(theirs).enumerate();
    let Some((index, (ours, theirs))) = pairs.into_iter().find(|(_, (a, b))| a != b) else {
        return String::new();
    };
    let number = number + index;
    let shown: String = theirs.chars().take(MOST_CHARS).collect();
    let how = if ours.trim() == theirs.trim() {
        " (only white space differs)"
    } else {
        ""
    };
    format!("\nthe first difference is at line {number}: expected {shown:?}{how}")
}

/// The number of matches is not the one that the call allows.
pub fn wrong_count(shown: &str, text: &str, found: &MatchResult, expected: Option<usize>) -> Error {
    let count = found.replacements.len();
    let starts = found.replacements.iter().take(MOST_NUMBERS);
    let numbers = lines::numbers(text, starts.map(|replacement| replacement.range.start));
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let more = if count > numbers.len() { " …" } else { "" };
    let line = if count == 1 { "line" } else { "lines" };
    let at = format!(
        "{} for old_string in {shown}, at {line} {}{more}",
        plural(count, "match", "matches"),
        numbers.join(", ")
    );
    let how = match found.strategy.as_str() {
        "exact" => String::new(),
        strategy => format!(" (matched by {strategy})"),
    };
    let wanted = expected.map_or(String::new(), |expected| format!("; expected {expected}"));
    let error = Error::failed(format!("{at}{how}{wanted}"))
        .code("edit_expected_occurrence_mismatch")
        .recommend("add surrounding lines to `old_string` until it is unique");
    match expected {
        None => error.recommend("or set `replace_all` to change every match"),
        Some(_) => error.recommend("or correct `expected_replacements`"),
    }
}

pub fn too_many(shown: &str) -> Error {
    invalid_edit(format!(
        "more than {MAX_MATCHES} matches in {shown}; replace a longer text"
    ))
}

pub fn too_large(shown: &str, most: u64) -> Error {
    let most = crate::text::size(most);
    Error::failed(format!(
        "{shown} is, or would become, larger than the limit of {most}"
    ))
    .code("file_too_large")
}

/// The file is not the version that the model read.
pub fn stale(shown: &str, text: &str, first_line: Option<usize>) -> Error {
    let all = lines::split(text);
    let region = first_line.map_or(String::new(), |line| {
        let start = line.saturating_sub(5).min(all.len());
        let range = start..(start + MOST_LINES).min(all.len());
        let shown = snippet::region(text, &all, &range, MOST_LINES);
        format!(
            "; the current text at that position is:\n{}",
            shown.trim_end()
        )
    });
    stale_because(shown, &region)
}

/// The same, detected because an edit no longer applies.
pub fn stale_without(shown: &str, message: &str) -> Error {
    stale_because(shown, &format!(": {message}"))
}

fn stale_because(shown: &str, why: &str) -> Error {
    Error::failed(format!("{shown} changed since it was read{why}"))
        .code("edit_stale")
        .recommend("read the file again, then edit its current text")
}

pub fn not_read(shown: &str) -> Error {
    Error::failed(format!("{shown} was not read in this session"))
        .code("edit_not_read")
        .recommend("read the file before editing it")
}
