//! Text that somebody else wrote, made safe to show: escaped, never stripped, and cut at character boundaries.
//!
//! Stripping would make the shown text differ from the real one, which is how a prompt gets spoofed. The exception is
//! text for a model, which reads characters that a person does not see: [`clean`] takes them out of what describes a
//! tool, and [`remove_tags`] takes hidden text out of results. Both count what they removed, so that it can be said.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use unicode_width::UnicodeWidthChar as _;

/// Characters that move a cursor, reorder text or are invisible: control characters, the property
/// `Default_Ignorable_Code_Point` of Unicode 16 without the two variation selectors of emoji, separators of lines, and
/// what is no character.
pub(crate) fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
            | '\u{fdd0}'..='\u{fdef}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// A character that nobody would see as it is, wherever it stands.
pub fn is_hidden(c: char) -> bool {
    is_hostile(c) || is_selector(c)
}

/// Marks on one letter. No script in use today has more; a pile of them covers the lines around it.
const MAX_MARKS: usize = 6;

/// It is drawn over the character before it.
fn is_mark(c: char) -> bool {
    !c.is_ascii() && c.width() == Some(0)
}

/// The variation selectors that choose how an emoji looks.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}')
}

/// Can a variation selector follow it? One after each is no place to hide text.
fn takes_selector(c: char) -> bool {
    !is_hostile(c) && !is_selector(c) && (!c.is_ascii() || c.is_ascii_digit() || "#*".contains(c))
}

/// Does this character belong to what stands around it: a selector after an emoji, or a joiner between two letters of a
/// script that joins them, or two emoji? `before` was kept.
fn belongs(before: Option<char>, c: char, after: Option<char>) -> bool {
    let is_visible = |c: char| !c.is_ascii() && !is_hostile(c);
    match c {
        c if is_selector(c) => before.is_some_and(takes_selector),
        '\u{200c}' | '\u{200d}' => {
            before.is_some_and(is_visible)
                && after.is_some_and(|after| is_visible(after) && !is_selector(after))
        }
        c => !is_hostile(c),
    }
}

/// Text for a model with the invisible characters removed, and how many they were. None when it has none. Line breaks
/// and tabs stay; `\r\n` becomes `\n`, uncounted.
///
/// Characters that belong to visible ones stay: variation selectors of emoji, and joiners between letters or emoji.
pub fn clean(text: &str) -> Option<(String, usize)> {
    clean_as(text, Use::Prose)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// For reading.
    Prose,
    /// A value that a tool compares with, such as `\r\n`. JSON shows its control characters.
    Data,
}

fn clean_as(text: &str, wanted: Use) -> Option<(String, usize)> {
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
            '\r' if wanted == Use::Prose && after == Some('\n') => {
                changed = true;
                continue;
            }
            '\0'..='\u{1f}' if wanted == Use::Data => true,
            c => belongs(before, c, after),
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

/// Members of a schema that people and models read as sentences.
const PROSE: [&str; 3] = ["description", "title", "$comment"];

/// Cleans every text of a schema, names of members too, and says how many characters that took away. A name that would
/// then stand for two members is escaped instead.
pub fn clean_schema(schema: &mut Value) -> usize {
    match schema {
        Value::String(text) => clean_string(text, Use::Data),
        Value::Array(items) => items.iter_mut().map(clean_schema).sum(),
        Value::Object(members) => clean_members(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn clean_members(members: &mut Map<String, Value>) -> usize {
    let mut removed = 0;
    for (name, member) in members.iter_mut() {
        removed += match member {
            Value::String(text) if PROSE.contains(&name.as_str()) => clean_string(text, Use::Prose),
            other => clean_schema(other),
        };
    }
    if members
        .keys()
        .all(|name| clean_as(name, Use::Data).is_none())
    {
        return removed;
    }
    let (changed, kept): (Vec<_>, Vec<_>) = std::mem::take(members)
        .into_iter()
        .partition(|(name, _)| clean_as(name, Use::Data).is_some());
    // First those that stay: none of them is replaced.
    members.extend(kept);
    for (name, member) in changed {
        let mut shown = name.clone();
        removed += clean_string(&mut shown, Use::Data);
        if members.contains_key(&shown) {
            shown = inline(&name, usize::MAX);
        }
        members.insert(shown, member);
    }
    removed
}

fn clean_string(text: &mut String, wanted: Use) -> usize {
    let Some((cleaned, removed)) = clean_as(text, wanted) else {
        return 0;
    };
    *text = cleaned;
    removed
}

/// Takes tags and the supplementary variation selectors (U+E0000 to U+E0FFF) out of a result: a model reads text in
/// them that no program shows. Everything else of a result is as the tool wrote it. None when there are none.
pub fn remove_tags(text: &str) -> Option<(String, usize)> {
    // The first byte of each.
    if !text.bytes().any(|b| b == 0xf3) {
        return None;
    }
    let is_tag = |c: &char| ('\u{e0000}'..='\u{e0fff}').contains(c);
    let removed = text.chars().filter(is_tag).count();
    (removed > 0).then(|| (text.chars().filter(|c| !is_tag(c)).collect(), removed))
}

/// One line of at most `max` characters; whatever is hostile is shown as `\u{…}`.
pub fn inline(text: &str, max: usize) -> String {
    escape(text, max, false)
}

/// Several lines: newlines and tabs stay.
pub fn block(text: &str, max: usize) -> String {
    escape(text, max, true)
}

fn escape(text: &str, max: usize, lines: bool) -> String {
    let mut out = String::with_capacity(text.len().min(max) + 8);
    let mut before = None;
    // None is drawn over what stands before the text, at the start of a line, or over an escape.
    let mut marks = MAX_MARKS;
    for (index, c) in text.chars().enumerate() {
        if index >= max {
            let _ = write!(out, "… (+{} characters)", text.chars().count() - max);
            break;
        }
        marks = if is_mark(c) { marks + 1 } else { 0 };
        match c {
            '\n' | '\t' if lines => {
                marks = MAX_MARKS;
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_hostile(c)
                || is_selector(c) && !before.is_some_and(takes_selector)
                || marks > MAX_MARKS =>
            {
                marks = MAX_MARKS;
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
        before = Some(c);
    }
    out
}

/// The longest prefix of at most `max` bytes that ends between characters.
pub fn head(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// The longest suffix of at most `max` bytes that starts between characters.
pub fn tail(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}

#[cfg(test)]
mod tests;
