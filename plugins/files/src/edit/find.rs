//! Search for the text of an edit: exact first, then in increasingly lenient readings, each of which must be as
//! unambiguous as the exact one.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use memchr::memmem;

use super::indentation::{self, IndentMap};
use super::line_breaks::LineBreaks;
use super::{fuzzy_match, lines, normalized_text, pasted_prefixes, token_match};

/// Limit of matches for one edit.
pub const MAX_MATCHES: usize = 500_000;

const DATA: &[&str] = &[
    "geojson",
    "har",
    "ipynb",
    "json",
    "json5",
    "jsonc",
    "jsonl",
    "ndjson",
    "webmanifest",
];
const INDENTED: &[&str] = &[
    "coffee", "fs", "fsx", "haml", "hs", "jade", "mak", "markdown", "md", "mk", "nim", "pug", "py",
    "pyi", "pyw", "pyx", "rst", "sass", "slim", "styl", "tsv", "yaml", "yml",
];
const INDENTED_NAMES: &[&str] = &["gnumakefile", "makefile", "justfile"];

/// How much a match may differ from the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leniency {
    /// White space is ignored, and a few letters may differ.
    Free,
    /// White space is significant.
    Indented,
    /// Data: every character counts, except the indentation of whole lines.
    Data,
}

impl Leniency {
    pub fn for_path(path: &Path) -> Self {
        let lower = |part: Option<&OsStr>| part.map(|part| part.to_string_lossy().to_lowercase());
        let extension = lower(path.extension()).unwrap_or_default();
        let name = lower(path.file_name()).unwrap_or_default();
        if DATA.contains(&extension.as_str()) {
            Self::Data
        } else if INDENTED.contains(&extension.as_str()) || INDENTED_NAMES.contains(&name.as_str())
        {
            Self::Indented
        } else {
            Self::Free
        }
    }
}

/// A range of the text and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextReplacement {
    pub range: Range<usize>,
    pub new: Rc<str>,
}

impl TextReplacement {
    pub fn new(range: Range<usize>, new: impl Into<Rc<str>>) -> Self {
        let new = new.into();
        Self { range, new }
    }
}

/// The matches, and the reading that found them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchResult {
    /// `exact`, or the readings that were needed.
    pub strategy: String,
    pub replacements: Vec<TextReplacement>,
}

/// Finds `old` in `text`. An empty list means no match; the caller handles several matches.
pub fn find(text: &str, old: &str, new: &str, leniency: Leniency) -> MatchResult {
    let breaks = LineBreaks::of(text);
    let found = |strategy: &str, replacements: Vec<TextReplacement>| MatchResult {
        strategy: strategy.to_owned(),
        replacements,
    };
    let exact = exact(text, old, new, breaks);
    if !exact.is_empty() {
        return found("exact", exact);
    }
    let as_meant = pasted_prefixes::without_numbers(old, new);
    let first = match &as_meant {
        Some((old, new)) => strict(text, old, new, breaks, leniency, "line_numbers"),
        None => strict(text, old, new, breaks, leniency, ""),
    };
    if let Some(found) = first {
        return found;
    }
    let (old, new) = as_meant
        .as_ref()
        .map_or((old, new), |(old, new)| (old.as_str(), new.as_str()));
    if let Some((old, new)) = pasted_prefixes::without_escapes(old, new)
        && let Some(found) = strict(text, &old, &new, breaks, leniency, "escapes")
    {
        return found;
    }
    if leniency != Leniency::Free {
        return found("none", Vec::new());
    }
    let replacements = token_match::find(text, old, new);
    if !replacements.is_empty() {
        return found("whitespace", breaks.adapt(text, replacements));
    }
    let replacements = fuzzy_match::find(text, old, new);
    found("fuzzy", breaks.adapt(text, replacements))
}

/// The readings in which every character counts, except white space at the ends of lines.
fn strict(
    text: &str,
    old: &str,
    new: &str,
    breaks: LineBreaks,
    leniency: Leniency,
    repair: &str,
) -> Option<MatchResult> {
    let found = |strategy: &str, replacements: Vec<TextReplacement>| {
        let parts = [repair, strategy];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        (!replacements.is_empty()).then(|| MatchResult {
            strategy: parts.join("+"),
            replacements: breaks.adapt(text, replacements),
        })
    };
    if !repair.is_empty() {
        // The exact reading already failed for the original text.
        let replacements = exact(text, old, new, breaks);
        if !replacements.is_empty() {
            return found("", replacements);
        }
    }
    found("line_endings", with_other_breaks(text, old, new, breaks))
        .or_else(|| found("characters", plain(text, old, new)))
        .or_else(|| found("indentation", trimmed(text, old, new, leniency)))
}

fn exact(text: &str, old: &str, new: &str, breaks: LineBreaks) -> Vec<TextReplacement> {
    let starts = occurrences(text, old).map(|range| range.start);
    let new: Rc<str> = new.into();
    let mut replacements: Vec<TextReplacement> = starts
        .map(|start| TextReplacement::new(start..start + old.len(), Rc::clone(&new)))
        .collect();
    // Text with a carriage return that matches is replaced in the file's form.
    if old.contains('\r') {
        breaks.take_whole_crlf(text, &mut replacements);
        return replacements;
    }
    breaks.adapt(text, replacements)
}

fn occurrences<'a>(text: &'a str, old: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    memmem::find_iter(text.as_bytes(), old.as_bytes())
        .take(MAX_MATCHES + 1)
        .map(|start| start..start + old.len())
}

/// The only match of `found` and the next one if it overlaps: `bb` matches `bbb` twice, and it is unclear which is
/// meant.
pub fn with_overlap(text: &str, found: &MatchResult) -> Option<MatchResult> {
    let [replacement] = found.replacements.as_slice() else {
        return None;
    };
    let Range { start, end } = replacement.range;
    let old = text.get(start..end).filter(|old| !old.is_empty())?;
    let next = start + 1 + memmem::find(&text.as_bytes()[start + 1..], old.as_bytes())?;
    (next < end).then(|| MatchResult {
        strategy: found.strategy.clone(),
        replacements: vec![
            replacement.clone(),
            TextReplacement::new(next..next + old.len(), Rc::clone(&replacement.new)),
        ],
    })
}

fn with_other_breaks(text: &str, old: &str, new: &str, breaks: LineBreaks) -> Vec<TextReplacement> {
    if !old.contains('\n') || (!breaks.has_crlf() && !old.contains("\r\n")) {
        return Vec::new();
    }
    let wanted = normalized_text::read(old, normalized_text::breaks);
    let view = normalized_text::NormalizedText::of(text, normalized_text::breaks);
    let new: Rc<str> = new.into();
    occurrences(&view.text, &wanted)
        .map(|range| TextReplacement::new(view.original(&range), Rc::clone(&new)))
        .collect()
}

/// Treats typographic quotes, dashes and spaces as plain ones.
fn plain(text: &str, old: &str, new: &str) -> Vec<TextReplacement> {
    let wanted = normalized_text::read(old, normalized_text::plain);
    // If both are plain, the exact reading has already covered it.
    if wanted.is_empty() || (text.is_ascii() && wanted == old) {
        return Vec::new();
    }
    let view = normalized_text::NormalizedText::of(text, normalized_text::plain);
    occurrences(&view.text, &wanted)
        .map(|range| {
            let range = view.original(&range);
            keep_ends(text, range, &wanted, new)
        })
        .collect()
}

/// Replaces only the difference between `old` and `new`, so that their common text stays as in the file.
fn keep_ends(text: &str, range: Range<usize>, old: &str, new: &str) -> TextReplacement {
    let ours = &text[range.clone()];
    let plain_new = normalized_text::read(new, normalized_text::plain);
    // Characters correspond one to one only if none was dropped.
    let same_count = |a: &str, b: &str| a.chars().count() == b.chars().count();
    if !same_count(ours, old) || !same_count(new, &plain_new) {
        return TextReplacement::new(range, new);
    }
    let (old, plain_new): (Vec<char>, Vec<char>) =
        (old.chars().collect(), plain_new.chars().collect());
    let head = old
        .iter()
        .zip(&plain_new)
        .take_while(|(a, b)| a == b)
        .count();
    let tail = old[head..]
        .iter()
        .rev()
        .zip(plain_new[head..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let cut = |text: &str, chars: usize| {
        text.char_indices()
            .nth(chars)
            .map_or(text.len(), |(at, _)| at)
    };
    let (ours_start, ours_end) = (cut(ours, head), cut(ours, old.len() - tail));
    let middle = &new[cut(new, head)..cut(new, plain_new.len() - tail)];
    let has = |text: &str, sign: char| {
        let typographic = normalized_text::CharMapping::As(sign);
        text.chars()
            .any(|c| normalized_text::plain(c) == typographic)
    };
    // A pair of quotes is typographic as a whole or not at all.
    let quotes = old[..head].iter().filter(|c| **c == '"').count();
    let is_open = quotes % 2 == 1 && has(&ours[..ours_start], '"');
    let becomes_plain = |sign| middle.contains(sign) && has(&ours[ours_start..ours_end], sign);
    if is_open && middle.contains('"') || ['"', '\'', '-'].into_iter().any(becomes_plain) {
        return TextReplacement::new(range, new);
    }
    let new = format!("{}{middle}{}", &ours[..ours_start], &ours[ours_end..]);
    TextReplacement::new(range, new)
}

/// Whole lines that are equal except for white space at their ends; new lines adopt the indentation of the old ones.
fn trimmed(text: &str, old: &str, new: &str, leniency: Leniency) -> Vec<TextReplacement> {
    if old.trim().is_empty() {
        return Vec::new();
    }
    let theirs: Vec<&str> = old.lines().collect();
    let wanted: Vec<&str> = theirs.iter().map(|line| line.trim()).collect();
    let all = lines::split(text);
    let line = |index: usize| &text[all[index].start..all[index].end];
    let found = lines::positions(&wanted, (0..all.len()).map(|index| line(index).trim()));
    let mut free = 0;
    found
        .into_iter()
        .filter(|range| {
            let is_free = range.start >= free;
            free = if is_free { range.end } else { free };
            is_free
        })
        .take(MAX_MATCHES + 1)
        .filter_map(|range| {
            let pairs = theirs.iter().copied().zip(range.clone().map(line));
            let indents = IndentMap::of(pairs);
            (leniency == Leniency::Free || indents.is_consistent())
                .then(|| whole_lines(text, &all[range], old, &indents.apply(new)))
        })
        .collect()
}

/// Replaces whole lines with `new`. `old` and `new` may or may not end with a line break.
pub fn whole_lines(text: &str, range: &[lines::Line], old: &str, new: &str) -> TextReplacement {
    let (first, last) = (range[0], range[range.len() - 1]);
    let is_broken = last.next > last.end;
    match (old.ends_with('\n'), is_broken) {
        (true, true) => TextReplacement::new(first.start..last.next, new),
        (true, false) => {
            let new = new.strip_suffix('\n').unwrap_or(new);
            TextReplacement::new(first.start..text.len(), new)
        }
        (false, _) => TextReplacement::new(first.start..last.end, new),
    }
}

/// Deletes the whole line if an edit deletes all of its text, so that no empty line remains.
pub fn delete_lines(text: &str, old: &str, replacements: &mut [TextReplacement]) {
    if old.ends_with('\n') || old.trim().is_empty() {
        return;
    }
    // Edits must not overlap: each stays between the end of the previous and the start of the next edit.
    let mut least = 0;
    for index in 0..replacements.len() {
        let most = replacements
            .get(index + 1)
            .map_or(text.len(), |next| next.range.start);
        let replacement = &mut replacements[index];
        let floor = std::mem::replace(&mut least, replacement.range.end);
        let after = &text[replacement.range.end..most];
        let line_break = ["\r\n", "\n"]
            .into_iter()
            .find(|one| after.starts_with(one));
        let Some(line_break) = line_break.filter(|_| replacement.new.is_empty()) else {
            continue;
        };
        let before = &text[..replacement.range.start];
        let line = &before[before.rfind('\n').map_or(0, |at| at + 1)..];
        if indentation::of(line).len() == line.len() {
            replacement.range.start = (replacement.range.start - line.len()).max(floor);
            replacement.range.end += line_break.len();
            least = replacement.range.end;
        }
    }
}

#[cfg(test)]
mod tests;
