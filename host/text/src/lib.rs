//! Escaping, truncation and cleaning of untrusted text.
//!
//! Text that is shown to users is escaped, not stripped, because stripped text differs from the original, which allows
//! prompts to be spoofed. Text for a model is an exception, because models read characters that users do not see:
//! [`remove_invisible`] removes them from tool descriptions, and [`remove_tags`] removes hidden text from results. Both
//! return the number of removed characters, so that it can be reported.

mod blanks;
mod diff;

use std::fmt::Write as _;

use serde_json::{Map, Value};
use unicode_width::UnicodeWidthChar as _;

pub use blanks::{decision_line, decision_lines};
pub use diff::{ChangedWords, UnifiedDiff, changed_words, diff_lines, hunk_start};

/// Returns whether a character moves the cursor, reorders text or is invisible: control characters, the property
/// `Default_Ignorable_Code_Point` of Unicode 16 except the two variation selectors of emoji, line separators and
/// noncharacters.
pub fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
            | '\u{fdd0}'..='\u{fdef}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Returns whether a character is invisible or unsafe to display, in any context.
pub fn is_hidden(c: char) -> bool {
    needs_escape(c) || is_variation_selector(c)
}

/// Maximum number of combining marks on a letter. No script in current use has more; stacked marks cover adjacent
/// lines.
const MAX_MARKS: usize = 6;

/// Returns whether the character combines with the preceding one.
fn is_mark(c: char) -> bool {
    !c.is_ascii() && c.width() == Some(0)
}

/// Returns whether the character is a variation selector that controls the presentation of emoji.
fn is_variation_selector(c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}')
}

/// Returns whether a variation selector can follow the character. A single selector after each character cannot hide
/// text.
fn accepts_variation_selector(c: char) -> bool {
    !needs_escape(c)
        && !is_variation_selector(c)
        && (!c.is_ascii() || c.is_ascii_digit() || "#*".contains(c))
}

/// Returns whether a character is part of visible text: a selector after an emoji, or a joiner between two letters of a
/// script that uses joiners, or between two emoji. `before` is the last character that was kept.
fn is_part_of_visible_text(before: Option<char>, c: char, after: Option<char>) -> bool {
    let is_visible = |c: char| !c.is_ascii() && !needs_escape(c);
    match c {
        c if is_variation_selector(c) => before.is_some_and(accepts_variation_selector),
        '\u{200c}' | '\u{200d}' => {
            before.is_some_and(is_visible)
                && after.is_some_and(|after| is_visible(after) && !is_variation_selector(after))
        }
        c => !needs_escape(c),
    }
}

/// Removes invisible characters from text for a model, and returns the text and the number of removed characters.
/// Returns `None` if there are none. Line breaks and tabs are kept; `\r\n` becomes `\n` and is not counted.
///
/// Characters that are part of visible text are kept: variation selectors of emoji, and joiners between letters or
/// emoji.
pub fn remove_invisible(text: &str) -> Option<(String, usize)> {
    remove_invisible_as(text, TextUse::Prose)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TextUse {
    /// Text that is read as prose.
    Prose,
    /// A value that a tool compares with, such as `\r\n`. JSON escapes its control characters.
    Data,
}

fn remove_invisible_as(text: &str, wanted: TextUse) -> Option<(String, usize)> {
    let plain = |b: u8| matches!(b, 0x20..=0x7e | b'\n' | b'\t');
    if text.bytes().all(plain) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let (mut removed, mut changed) = (0, false);
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let after = chars.peek().copied();
        let is_kept = match c {
            '\n' | '\t' => true,
            '\r' if wanted == TextUse::Prose && after == Some('\n') => {
                changed = true;
                continue;
            }
            '\0'..='\u{1f}' if wanted == TextUse::Data => true,
            c => is_part_of_visible_text(before, c, after),
        };
        if is_kept {
            out.push(c);
            before = Some(c);
        } else {
            removed += 1;
            if matches!(c, '\u{2028}' | '\u{2029}') {
                out.push('\n');
            }
        }
    }
    (changed || removed > 0).then_some((out, removed))
}

/// Schema keywords whose values are prose.
const PROSE_KEYWORDS: [&str; 3] = ["description", "title", "$comment"];

/// Removes invisible characters from all texts of a schema, including member names, and returns the number of removed
/// characters. If two names would become equal, the changed one is escaped instead.
pub fn remove_invisible_from_schema(schema: &mut Value) -> usize {
    match schema {
        Value::String(text) => remove_invisible_in_place(text, TextUse::Data),
        Value::Array(items) => items.iter_mut().map(remove_invisible_from_schema).sum(),
        Value::Object(members) => remove_invisible_from_members(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn remove_invisible_from_members(members: &mut Map<String, Value>) -> usize {
    let mut removed = 0;
    for (name, member) in members.iter_mut() {
        removed += match member {
            Value::String(text) if PROSE_KEYWORDS.contains(&name.as_str()) => {
                remove_invisible_in_place(text, TextUse::Prose)
            }
            other => remove_invisible_from_schema(other),
        };
    }
    if members
        .keys()
        .all(|name| remove_invisible_as(name, TextUse::Data).is_none())
    {
        return removed;
    }
    let (changed, unchanged): (Vec<_>, Vec<_>) = std::mem::take(members)
        .into_iter()
        .partition(|(name, _)| remove_invisible_as(name, TextUse::Data).is_some());
    // Insert unchanged members first, so that none of them is replaced.
    members.extend(unchanged);
    for (name, member) in changed {
        let mut shown = name.clone();
        removed += remove_invisible_in_place(&mut shown, TextUse::Data);
        if members.contains_key(&shown) {
            shown = escape_line(&name, usize::MAX);
        }
        members.insert(shown, member);
    }
    removed
}

fn remove_invisible_in_place(text: &mut String, wanted: TextUse) -> usize {
    let Some((cleaned, removed)) = remove_invisible_as(text, wanted) else {
        return 0;
    };
    *text = cleaned;
    removed
}

/// Removes tag characters and supplementary variation selectors (U+E0000 to U+E0FFF) from a result, because models read
/// text that is encoded in them and programs do not display it. The rest of the result is unchanged. Returns `None` if
/// there are none.
pub fn remove_tags(text: &str) -> Option<(String, usize)> {
    // The first UTF-8 byte of these characters.
    if !text.bytes().any(|b| b == 0xf3) {
        return None;
    }
    let is_tag = |c: &char| ('\u{e0000}'..='\u{e0fff}').contains(c);
    let removed = text.chars().filter(is_tag).count();
    (removed > 0).then(|| (text.chars().filter(|c| !is_tag(c)).collect(), removed))
}

/// Escapes text for one line, with at most `max` characters. Unsafe characters are shown as `\u{…}`.
pub fn escape_line(text: &str, max: usize) -> String {
    escape(text, max, EscapeForm::Line)
}

/// Escapes text for several lines, keeping newlines and tabs.
pub fn escape_lines(text: &str, max: usize) -> String {
    escape(text, max, EscapeForm::Lines)
}

/// Escapes JSON with the escapes of JSON, so that it is parsed to the same value. Newlines between values are kept. Escapes
/// everything that [`escape_lines`] would escape, and all characters of [`is_hidden`].
pub fn escape_json(json: &str) -> String {
    escape(json, usize::MAX, EscapeForm::Json)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EscapeForm {
    Line,
    Lines,
    Json,
}

impl EscapeForm {
    fn add(self, c: char, out: &mut String) {
        match (self, c) {
            (Self::Json, _) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            (_, '\n') => out.push_str("\\n"),
            (_, '\r') => out.push_str("\\r"),
            (_, '\t') => out.push_str("\\t"),
            _ => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
        }
    }
}

fn escape(text: &str, max: usize, form: EscapeForm) -> String {
    let mut out = String::with_capacity(text.len().min(max) + 8);
    let mut before = None;
    // Marks are not allowed at the start of the text or of a line, or after an escape.
    let mut marks = MAX_MARKS;
    for (index, c) in text.chars().enumerate() {
        if index >= max {
            let _ = write!(out, "… (+{} characters)", text.chars().count() - max);
            break;
        }
        marks = if is_mark(c) { marks + 1 } else { 0 };
        let is_kept = match (form, c) {
            (EscapeForm::Lines, '\n' | '\t') | (EscapeForm::Json, '\n') => {
                marks = MAX_MARKS;
                true
            }
            (EscapeForm::Json, c) if is_variation_selector(c) => false,
            (_, c) => {
                !needs_escape(c)
                    && (!is_variation_selector(c) || before.is_some_and(accepts_variation_selector))
                    && marks <= MAX_MARKS
            }
        };
        if is_kept {
            out.push(c);
        } else {
            marks = MAX_MARKS;
            form.add(c, &mut out);
        }
        before = Some(c);
    }
    out
}

/// Returns the longest prefix of at most `max` bytes that ends at a character boundary.
pub fn head(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Returns the longest suffix of at most `max` bytes that starts at a character boundary.
pub fn tail(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}

#[cfg(test)]
mod tests;
