//! Why an edit cannot be made, told so that the next one can.

use toolhost_sdk::prelude::*;

use super::find::{Found, MOST_PLACES};
use super::{lines, region, snippet};

/// Lines of the file that are shown with an error.
const MOST_LINES: usize = 15;
/// Below this, a region is shown for no good.
const LEAST_LIKENESS: f64 = 0.3;
const MOST_NUMBERS: usize = 10;

pub fn no_change(message: impl Into<String>) -> Error {
    Error::invalid_input(message).code("edit_no_change")
}

/// The call makes no sense, whatever is in the file.
pub fn unprepared(message: impl Into<String>) -> Error {
    Error::invalid_input(message).code("edit_preparation_failure")
}

pub fn is_notebook(shown: &str) -> Error {
    unprepared(format!(
        "{shown} is a notebook, and a change of its text could break it; use notebook_edit"
    ))
}

pub fn exists(shown: &str) -> Error {
    Error::invalid_input(format!(
        "{shown} exists already and is not empty, and an empty `old_string` is for new files"
    ))
    .code("attempt_to_create_existing_file")
    .recommend("to change it, give the text to replace as `old_string`")
    .recommend("to replace all of it, use write_file")
}

/// Nothing in `text` is like `old`, which is named `what`.
pub fn no_match(shown: &str, text: &str, old: &str, what: &str) -> Error {
    let all = lines::split(text);
    let nearest = region::likest(text, &all, old)
        .into_iter()
        .next()
        .filter(|region| region.likeness >= LEAST_LIKENESS);
    let error = |message: String| Error::failed(message).code("edit_no_occurrence_found");
    let again = "if this goes wrong again, write the whole file with write_file";
    let Some(nearest) = nearest else {
        let message = format!("0 matches for {what} in {shown}, and no lines of it look similar");
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
        "0 matches for {what} in {shown}; closest {are} {lines}, {percent:.0} % alike:\n{}{difference}",
        region.trim_end()
    ))
    .recommend(format!(
        "read {lines} again and copy the text exactly, without line numbers"
    ))
    .recommend(again)
}

/// The first line in which the file and `old` are not the same; `number` is that of the first line.
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
    format!("\nthe first difference is in line {number}, where {shown:?} was expected{how}")
}

/// `found` has another number of places than the call allows.
pub fn wrong_count(shown: &str, text: &str, found: &Found, expected: Option<usize>) -> Error {
    let count = found.places.len();
    let starts = found.places.iter().take(MOST_NUMBERS);
    let numbers = lines::numbers(text, starts.map(|place| place.range.start));
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let more = if count > numbers.len() { " …" } else { "" };
    let noun = if count == 1 { "match" } else { "matches" };
    let line = if count == 1 { "line" } else { "lines" };
    let at = format!(
        "{count} {noun} for old_string in {shown}, at {line} {}{more}",
        numbers.join(", ")
    );
    let how = match found.strategy.as_str() {
        "exact" => String::new(),
        strategy => format!(" (read leniently: {strategy})"),
    };
    let wanted = expected.map_or(String::new(), |expected| format!("; expected {expected}"));
    let error = Error::failed(format!("{at}{how}{wanted}"))
        .code("edit_expected_occurrence_mismatch")
        .recommend("add lines from around the text to `old_string` until only one place is meant");
    match expected {
        None => error.recommend("or set `replace_all` to change every place"),
        Some(_) => error.recommend("or say the right number as `expected_replacements`"),
    }
}

pub fn too_many(shown: &str) -> Error {
    unprepared(format!(
        "more than {MOST_PLACES} matches in {shown}; replace a longer text"
    ))
}

pub fn too_large(shown: &str, most: u64) -> Error {
    let most = crate::text::size(most);
    Error::failed(format!(
        "{shown} is, or would become, larger than {most}, the most that is edited"
    ))
    .code("file_too_large")
}

/// The file is not what the model has read.
pub fn stale(shown: &str, text: &str, first_line: Option<usize>) -> Error {
    let all = lines::split(text);
    let region = first_line.map_or(String::new(), |line| {
        let start = line.saturating_sub(5).min(all.len());
        let range = start..(start + MOST_LINES).min(all.len());
        let shown = snippet::region(text, &all, &range, MOST_LINES);
        format!("; where the edit would go it is now:\n{}", shown.trim_end())
    });
    stale_because(shown, &region)
}

/// The same, found out because an edit does not fit any more.
pub fn stale_without(shown: &str, message: &str) -> Error {
    stale_because(shown, &format!(": {message}"))
}

fn stale_because(shown: &str, why: &str) -> Error {
    Error::failed(format!("{shown} has changed since it was read{why}"))
        .code("edit_stale")
        .recommend("read the file again, then make the edit that is right now")
}

pub fn not_read(shown: &str) -> Error {
    Error::failed(format!("{shown} has not been read in this session"))
        .code("edit_not_read")
        .recommend("read the file first, then edit what is there")
}
