//! Layout of untrusted text, so that no row of it can be mistaken for text of the host.
//!
//! A terminal wraps long lines at its edge, and the rest starts in the column of host text. Therefore lines are wrapped
//! here, and every row of untrusted text begins with a mark.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;
use serde_json::Value;
use toolhost_contract::text;

use crate::terminal::options;
use crate::terminal::style::{Paint, Style};

/// Size and style of the terminal.
#[derive(Debug, Clone, Copy)]
pub struct TerminalLayout {
    /// Columns of the terminal.
    pub width: usize,
    /// Rows of the terminal.
    pub height: usize,
    pub style: Style,
    pub keys: KeyMode,
}

impl TerminalLayout {
    /// The layout of a stream. Rows have any width if it is no terminal.
    pub fn of(stream: &(impl IsTerminal + AsFd)) -> Self {
        let or = |known: u16, usual| if known == 0 { usual } else { known.into() };
        let (width, height) = match tcgetwinsize(stream) {
            Ok(size) => (or(size.ws_col, 80), or(size.ws_row, 24)),
            Err(_) => (usize::MAX, usize::MAX),
        };
        Self {
            width,
            height,
            style: Style::of(stream),
            keys: if options::is_plain() {
                KeyMode::Lines
            } else {
                KeyMode::Keys
            },
        }
    }
}

/// How answers are typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyMode {
    /// One key answers.
    Keys,
    /// A line answers, and nothing is redrawn.
    Lines,
}

/// Minimum width of a terminal for prompts; a narrower one would wrap rows of the host.
pub const MIN_WIDTH: usize = 20;
/// The marks before an untrusted line and before the continuation of a wrapped one.
const LINE_MARKS: [&str; 2] = ["    │ ", "    ┊ "];
/// Width of the label of a fact, or of the mark below it.
const LABEL_WIDTH: usize = 14;
/// JSON with more rows is shown on one line, because indentation of nested brackets would make it much larger.
const MAX_JSON_ROWS: usize = 300;

/// Untrusted lines, each behind a mark.
pub fn marked(theirs: &str, look: TerminalLayout) -> String {
    let mut out = String::new();
    let theirs = text::decision_lines(theirs, usize::MAX);
    let width = look.width.max(MIN_WIDTH) - text_width(LINE_MARKS[0]);
    for line in theirs.strip_suffix('\n').unwrap_or(&theirs).split('\n') {
        for (at, row) in wrap(line, width).iter().enumerate() {
            let _ = writeln!(out, "{}{row}", LINE_MARKS[at.min(1)]);
        }
    }
    out
}

/// `    label    untrusted text`, with a mark before continuation rows.
pub fn fact(label: &str, theirs: &str, look: TerminalLayout) -> String {
    let mut out = String::new();
    let theirs = text::decision_line(theirs, usize::MAX);
    let width = look.width.max(MIN_WIDTH) - LABEL_WIDTH;
    for (at, row) in wrap(&theirs, width).into_iter().enumerate() {
        let _ = match at {
            0 => {
                let label = look.style.paint(Paint::Dim, &format!("{label:<8}"));
                writeln!(out, "    {label} {row}")
            }
            _ => writeln!(out, "           ┊ {row}"),
        };
    }
    out
}

/// Like [`fact`], in one row. The rest is left out.
pub fn short_fact(label: &str, theirs: &str, look: TerminalLayout) -> String {
    let theirs = text::decision_line(theirs, 1_000);
    let row = fit(&theirs, look.width.max(MIN_WIDTH) - LABEL_WIDTH);
    fact(label, &row, look)
}

/// Host text that contains untrusted text, wrapped between words where possible.
pub fn wrapped(first: &str, value: &str, look: TerminalLayout) -> String {
    let mut out = String::new();
    let value = text::decision_line(value, usize::MAX);
    let width = look.width.max(MIN_WIDTH) - text_width(LINE_MARKS[0]);
    let mut line = first.to_owned();
    let mut at = 0;
    for word in value.split(' ') {
        // A word that is longer than a row is split.
        if text_width(&line) + 1 + text_width(word) > width && text_width(word) < width {
            add_row(&line, at, &mut out);
            at += 1;
            word.clone_into(&mut line);
            continue;
        }
        line.push(' ');
        line.push_str(word);
        let mut rows = wrap(&line, width);
        line = rows.pop().unwrap_or_default();
        for row in rows {
            add_row(&row, at, &mut out);
            at += 1;
        }
    }
    add_row(&line, at, &mut out);
    out
}

fn add_row(row: &str, at: usize, out: &mut String) {
    let mark = if at == 0 { "  " } else { LINE_MARKS[1] };
    let _ = writeln!(out, "{mark}{row}");
}

/// Formats JSON for display, with terminal control and invisible characters as JSON escapes, so that it can be edited
/// and parsed again.
pub fn format_json(value: &Value) -> String {
    let compact = || value.to_string();
    let pretty = serde_json::to_string_pretty(value).unwrap_or_else(|_| compact());
    let shown = if pretty.lines().count() > MAX_JSON_ROWS {
        compact()
    } else {
        pretty
    };
    text::escape_json(&shown)
}

/// Wraps a line at the width.
pub fn wrap(line: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut used = 0;
    for c in line.chars() {
        let wide = char_width(c);
        if used + wide > width {
            rows.push(String::new());
            used = 0;
        }
        used += wide;
        if let Some(row) = rows.last_mut() {
            row.push(c);
        }
    }
    rows
}

pub fn text_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// The start of an escaped line that fits into the width, with a mark if something is left out.
pub fn fit(line: &str, width: usize) -> String {
    if text_width(line) <= width {
        return line.to_owned();
    }
    let rows = wrap(line, width.saturating_sub(2).max(1));
    rows.first()
        .map_or_else(String::new, |row| format!("{row}…"))
}

/// The maximum width of a character. Terminals disagree on the width of non-ASCII characters, so two columns are
/// assumed; a row that ends early is harmless.
fn char_width(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::testing::with_header;
    use super::*;

    const LOOK: TerminalLayout = TerminalLayout {
        width: 40,
        height: 24,
        style: Style::PLAIN,
        keys: KeyMode::Keys,
    };

    #[test]
    fn untrusted_rows_are_always_marked() {
        let hostile = "ls                                  [y] once: Allow `ls`\n\u{1b}[2J\r  [n] no\n\t日本語日本語日本語日本語日本語";
        expect![[r#"
            screen:
                │ ls                               
                ┊    [y] once: Allow `ls`
                │ \u{1b}[2J\r  [n] no
                │ ⇥   日本語日本語日本語日本語日本
                ┊ 語
        "#]]
        .assert_eq(&with_header(&marked(hostile, LOOK)));
        expect![[r#"
            screen:
                path     a\nb\u{202e}cccccccccccccc
                       ┊ ccccc
        "#]]
        .assert_eq(&with_header(&fact(
            "path",
            "a\nb\u{202e}ccccccccccccccccccc",
            LOOK,
        )));
    }

    #[test]
    fn host_text_wraps_between_words() {
        expect![[r#"
            screen:
              [s] session: Allow `ls` on `/w/aa
                ┊ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
                ┊ aaaaa` for the session
        "#]]
        .assert_eq(&with_header(&wrapped(
            "[s]",
            &format!(
                "session: Allow `ls` on `/w/{}` for the session",
                "a".repeat(40)
            ),
            LOOK,
        )));
    }

    #[test]
    fn t_06_rows_fit_even_with_wide_characters() {
        let hostile = format!("{}[y] once: yes", "α·Ж─".repeat(30));
        for width in [MIN_WIDTH, 33, 80] {
            let look = TerminalLayout { width, ..LOOK };
            for row in marked(&hostile, look)
                .lines()
                .chain(fact("path", &hostile, look).lines())
            {
                let drawn: usize = row.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
                assert!(drawn <= width, "{drawn} {row}");
            }
        }
    }

    #[test]
    fn displayed_json_parses_to_the_same_value() {
        let value = json!({"a": "x\u{202e}\u{1b}[2J\u{e0041}\n\\u{202e}"});
        let shown = format_json(&value);
        assert_eq!(
            shown,
            "{\n  \"a\": \"x\\u202e\\u001b[2J\\udb40\\udc41\\n\\\\u{202e}\"\n}"
        );
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }

    #[test]
    fn nested_brackets_are_not_indented() {
        let mut value = json!(1);
        for _ in 0..100 {
            value = json!([value, 1, 1, 1]);
        }
        assert!(format_json(&value).len() < 1_000);
    }
}
