//! The line of keys below a question, and the lists that open behind its keys.

use std::fmt::Write as _;

use toolhost_contract::policy::SAVED_APPROVAL_NOTE;

use super::choice::{Choice, more_choices, saved_offers};
use super::question_draft::QuestionDraft;
use super::untrusted_text::{self, KeyMode, TerminalLayout, text_width};
use crate::terminal::style::Paint;

/// Where a key is typed.
pub const KEY_PROMPT: &str = "› ";
/// Where a line is typed.
pub const LINE_PROMPT: &str = "  answer: ";

/// One line of keys, or in line mode a line of letters and the answer prompt.
pub fn format_keys(choices: &[Choice], look: TerminalLayout) -> String {
    let labels = choices.iter().map(|choice| (choice.key(), choice.label()));
    let labels: Vec<(char, String)> = labels.collect();
    if look.keys == KeyMode::Lines {
        let labels = labels.iter().map(|(key, label)| format!("{key} {label}"));
        let labels = labels.collect::<Vec<_>>().join(", ");
        return format!("  {labels}\n{LINE_PROMPT}");
    }
    let full: usize = labels
        .iter()
        .map(|(_, label)| text_width(label) + 4)
        .sum::<usize>();
    // In a narrow window only the two usual answers are named; `?` explains the others.
    let is_short = 2 + full + text_width(KEY_PROMPT) > look.width;
    let mut out = String::new();
    for (key, label) in labels {
        let key = look.style.paint(Paint::Bold, &key.to_string());
        let _ = if is_short && label != "once" && label != "no" {
            write!(out, "  {key}")
        } else {
            write!(out, "  {key} {label}")
        };
    }
    format!("{out} {KEY_PROMPT}")
}

/// All answers, each with what it does, and the keys of the question.
pub fn format_more(draft: &QuestionDraft, main: &[Choice], look: TerminalLayout) -> String {
    let mut out = "\n".to_owned();
    let listed = main
        .iter()
        .copied()
        .filter(|choice| *choice != Choice::More);
    for choice in listed.chain(more_choices(draft)) {
        out += &keyed(choice.key(), &choice.description(draft), look);
    }
    out + &format_keys(main, look)
}

/// The approvals that can be saved: what they cover, and below it how long they last.
pub fn format_offers(draft: &QuestionDraft, look: TerminalLayout) -> String {
    let mut out = "\n".to_owned();
    let mut keys = Vec::new();
    let mut above = "";
    for (key, at) in saved_offers(draft) {
        let Some(offer) = draft.question.offers.get(at) else {
            continue;
        };
        keys.push(key.to_string());
        let duration = offer.scope.label();
        let covered = offer.text.strip_suffix(duration).map(str::trim_end);
        let (covered, duration) = covered.map_or(("", &*offer.text), |text| (text, duration));
        if covered != above {
            let (first, rest) = covered.split_once(' ').unwrap_or((covered, ""));
            out += &untrusted_text::wrapped(first, rest, look);
            above = covered;
        }
        out += &keyed(key, duration, look);
    }
    let keys = match (keys.first(), keys.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(only), _) => only.clone(),
        (None, _) => String::new(),
    };
    let (first, rest) = SAVED_APPROVAL_NOTE.split_once(' ').unwrap_or_default();
    out += &untrusted_text::wrapped(first, rest, look);
    let prompt = match look.keys {
        KeyMode::Keys => KEY_PROMPT.to_owned(),
        KeyMode::Lines => format!("\n{LINE_PROMPT}"),
    };
    let _ = write!(out, "  {keys}, other keys go back {prompt}");
    out
}

/// `    s  text`, with the key emphasised.
fn keyed(key: char, text: &str, look: TerminalLayout) -> String {
    // Painted after wrapping, because escape codes have no width.
    let rows = untrusted_text::wrapped(&format!("  {key} "), text, look);
    let painted = look.style.paint(Paint::Bold, &key.to_string());
    rows.replacen(key, &painted, 1)
}
