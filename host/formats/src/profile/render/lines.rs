//! Formatting of file pages and search results from structured values.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// Maximum number of characters of a line, so that minified files do not fill the context. The text with line numbers
/// uses the same limit.
const MAX_LINE_CHARS: usize = 2000;

/// Returns the lines of a file, with long lines truncated.
pub(super) fn truncate_lines(text: &str) -> String {
    if text.len() <= MAX_LINE_CHARS {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.char_indices().nth(MAX_LINE_CHARS) {
            Some((cut, _)) if !line[cut..].trim_end_matches(['\r', '\n']).is_empty() => {
                let (shown, rest) = line.split_at(cut);
                let end = if rest.ends_with('\n') { "\n" } else { "" };
                let hidden = rest.trim_end_matches(['\r', '\n']).chars().count();
                out.push_str(shown);
                // Writing to a String cannot fail.
                let _ = write!(out, "… [+{hidden} chars]{end}");
            }
            _ => out.push_str(line),
        }
    }
    out
}

/// Returns the hint for reading the next page of a file, or `None` if there is no further page.
pub(super) fn continuation_hint(name: &str, parameter: &str, page: &Value) -> Option<String> {
    let (start, end) = (page["start_line"].as_u64()?, page["end_line"].as_u64()?);
    let total = page["total_lines"].as_u64()?;
    (page["truncated"] == true && end < total).then(|| {
        format!(
            "lines {start} to {end} of {total} are shown; call {name} with {parameter} {} to continue",
            end + 1
        )
    })
}

/// Returns the lines of one file by number, merging overlapping context. True marks a match.
pub(super) fn numbered_lines(file: &Value) -> BTreeMap<u64, (bool, &str)> {
    let mut lines = BTreeMap::new();
    for found in list(&file["matches"]) {
        let Some(first) = found["line"].as_u64() else {
            continue;
        };
        let texts = |name: &str| list(&found[name]).filter_map(Value::as_str);
        let before = texts("before").count() as u64;
        for (number, text) in (first.saturating_sub(before)..).zip(texts("before")) {
            lines.entry(number).or_insert((false, text));
        }
        let mut next = first;
        for text in found["text"].as_str().unwrap_or_default().lines() {
            lines.insert(next, (true, text));
            next += 1;
        }
        for (number, text) in (next..).zip(texts("after")) {
            lines.entry(number).or_insert((false, text));
        }
    }
    lines
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Parses `2026-01-31T09:30:00Z` (with or without a fraction) to milliseconds since the Unix epoch. The tools use no
/// other time zone.
pub(super) fn milliseconds(iso: &str) -> Option<i64> {
    let (date, time) = iso.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let fraction: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years start in March, so that the leap day is the last day.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let days = days - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + fraction)
}

fn numbers(text: &str, separator: char) -> Option<[i64; 3]> {
    let mut numbers = text
        .split(separator)
        .map(|number| number.parse::<u16>().ok().map(i64::from));
    let found = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(found)
}
