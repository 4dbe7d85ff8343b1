//! Lays out text that somebody else wrote, so that no row of the screen which could pass for ours is theirs.
//!
//! A terminal breaks long lines at its own edge, and what comes after the break starts where our words start. So lines
//! are broken here, and every row of theirs begins with a mark of ours.

use std::fmt::Write as _;

use serde_json::Value;
use toolhost_contract::text;

use crate::terminal::style::{Paint, Style};

/// Where and how it is shown.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Columns of the terminal.
    pub width: usize,
    pub style: Style,
}

/// A narrower terminal than this is treated as one of this width.
const MIN_WIDTH: usize = 40;
/// The mark before a line of theirs, and before the rest of one that was broken.
const FENCE: [&str; 2] = ["    │ ", "    ┊ "];
/// As wide as the label of a fact.
const LABEL: usize = 13;
/// Longer JSON is not spread over lines: brackets in brackets would make a large text from a small one.
const MAX_JSON_ROWS: usize = 300;

/// Lines of theirs behind a mark.
pub fn fenced(theirs: &str, look: Look) -> String {
    let mut out = String::new();
    let theirs = collapse(&text::block(theirs, usize::MAX));
    for line in theirs.strip_suffix('\n').unwrap_or(&theirs).split('\n') {
        fence(line, None, look, &mut out);
    }
    out
}

/// Lines of a difference behind a mark, at most `rows` of them.
pub fn fenced_diff(theirs: &str, rows: usize, rest: &str, look: Look) -> String {
    let mut out = String::new();
    let mut lines = theirs.split_inclusive('\n');
    for line in lines.by_ref().take(rows) {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let paint = match line.as_bytes().first() {
            Some(b'+') => Some(Paint::Green),
            Some(b'-') => Some(Paint::Red),
            Some(b'@') => Some(Paint::Cyan),
            _ => None,
        };
        let line = collapse(&text::block(line, usize::MAX));
        fence(&line, paint, look, &mut out);
    }
    let more = lines.count();
    if more > 0 {
        let _ = writeln!(out, "    … {more} more lines{rest}");
    }
    out
}

fn fence(line: &str, paint: Option<Paint>, look: Look, out: &mut String) {
    let width = look.width.max(MIN_WIDTH) - FENCE[0].chars().count();
    for (at, row) in rows(line, width).into_iter().enumerate() {
        let row = paint.map_or(row.clone(), |paint| look.style.paint(paint, &row));
        let _ = writeln!(out, "{}{row}", FENCE[at.min(1)]);
    }
}

/// `    label    their words`, on one line or on marked ones.
pub fn fact(label: &str, theirs: &str, look: Look) -> String {
    let mut out = String::new();
    let theirs = collapse(&text::inline(theirs, usize::MAX));
    let width = look.width.max(MIN_WIDTH) - LABEL;
    for (at, row) in rows(&theirs, width).into_iter().enumerate() {
        let _ = match at {
            0 => writeln!(out, "    {label:<8} {row}"),
            _ => writeln!(out, "           ┊ {row}"),
        };
    }
    out
}

/// Ours, with something of theirs in it: broken between words where that is possible.
pub fn broken(first: &str, words: &str, look: Look) -> String {
    let mut out = String::new();
    let words = collapse(&text::inline(words, usize::MAX));
    let width = look.width.max(MIN_WIDTH) - FENCE[0].chars().count();
    let mut line = first.to_owned();
    let mut at = 0;
    for word in words.split(' ') {
        // A word that is longer than a row is broken like everything else.
        if columns(&line) + 1 + columns(word) > width && columns(word) < width {
            continued(&line, at, &mut out);
            at += 1;
            word.clone_into(&mut line);
            continue;
        }
        line.push(' ');
        line.push_str(word);
        let mut rows = rows(&line, width);
        line = rows.pop().unwrap_or_default();
        for row in rows {
            continued(&row, at, &mut out);
            at += 1;
        }
    }
    continued(&line, at, &mut out);
    out
}

fn continued(row: &str, at: usize, out: &mut String) {
    let mark = if at == 0 { "  " } else { FENCE[1] };
    let _ = writeln!(out, "{mark}{row}");
}

/// JSON for people, with what a terminal would obey or hide written as the escapes that JSON has for it: what is shown
/// can be edited and read back.
pub fn json(value: &Value) -> String {
    let compact = || value.to_string();
    let pretty = serde_json::to_string_pretty(value).unwrap_or_else(|_| compact());
    let shown = if pretty.lines().count() > MAX_JSON_ROWS {
        compact()
    } else {
        pretty
    };
    let mut out = String::with_capacity(shown.len());
    for c in shown.chars() {
        let mut plain = [0; 4];
        let plain: &str = c.encode_utf8(&mut plain);
        if c == '\n' || text::inline(plain, 1) == plain {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

/// Long runs of white space would push what matters out of sight.
fn collapse(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let mut run = 1;
        while c.is_whitespace() && chars.next_if_eq(&c).is_some() {
            run += 1;
        }
        if run > 40 {
            let sign = if c == '\n' { '␤' } else { '␠' };
            let _ = write!(out, "{sign}×{run}");
        } else if c == '\t' {
            out.extend(std::iter::repeat_n("⇥   ", run));
        } else {
            out.extend(std::iter::repeat_n(c, run));
        }
    }
    out
}

/// Breaks a line at the width.
fn rows(line: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut used = 0;
    for c in line.chars() {
        let wide = wide(c);
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

fn columns(text: &str) -> usize {
    text.chars().map(wide).sum()
}

/// An East Asian character is two columns wide, and so is taken to be everything that might: a row that ends early
/// harms nobody.
fn wide(c: char) -> usize {
    if c < '\u{1100}' || matches!(c, '…' | '␠' | '␤' | '⇥') {
        1
    } else {
        2
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::testing::framed;
    use super::*;

    const LOOK: Look = Look {
        width: 40,
        style: Style::PLAIN,
    };

    #[test]
    fn no_row_of_theirs_looks_like_ours() {
        let hostile = "ls                                  [y] once: Allow `ls`\n\u{1b}[2J\r  [n] no\n\t日本語日本語日本語日本語日本語";
        expect![[r#"
            screen:
                │ ls                                
                ┊   [y] once: Allow `ls`
                │ \u{1b}[2J\u{d}  [n] no
                │ ⇥   日本語日本語日本語日本語日本語
        "#]]
        .assert_eq(&framed(&fenced(hostile, LOOK)));
        expect![[r#"
            screen:
                path     a\nb\u{202e}ccccccccccccccc
                       ┊ cccc
        "#]]
        .assert_eq(&framed(&fact(
            "path",
            "a\nb\u{202e}ccccccccccccccccccc",
            LOOK,
        )));
    }

    #[test]
    fn our_own_words_break_between_words() {
        expect![[r#"
            screen:
              [s] session: Allow `ls` on `/w/aaa
                ┊ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
                ┊ aaa` for the session
        "#]]
        .assert_eq(&framed(&broken(
            "[s]",
            &format!(
                "session: Allow `ls` on `/w/{}` for the session",
                "a".repeat(40)
            ),
            LOOK,
        )));
    }

    #[test]
    fn white_space_cannot_push_the_rest_away() {
        let spaces = format!("ls{}; curl evil", " ".repeat(5_000));
        assert_eq!(fenced(&spaces, LOOK), "    │ ls␠×5000; curl evil\n");
        let lines = format!("ls{}curl evil", "\n".repeat(5_000));
        assert_eq!(fenced(&lines, LOOK), "    │ ls␤×5000curl evil\n");
    }

    #[test]
    fn a_long_difference_is_cut_and_says_so() {
        let shown = fenced_diff("+a\n-b\n c\n", 1, "; all of it is in the input below", LOOK);
        assert_eq!(
            shown,
            "    │ +a\n    … 2 more lines; all of it is in the input below\n"
        );
    }

    #[test]
    fn json_that_is_shown_reads_back_as_the_same() {
        let value = json!({"a": "x\u{202e}\u{1b}[2J\u{e0041}\n\\u{202e}"});
        let shown = json(&value);
        assert_eq!(
            shown,
            "{\n  \"a\": \"x\\u202e\\u001b[2J\\udb40\\udc41\\n\\\\u{202e}\"\n}"
        );
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }

    #[test]
    fn brackets_in_brackets_stay_small() {
        let mut value = json!(1);
        for _ in 0..100 {
            value = json!([value, 1, 1, 1]);
        }
        assert!(json(&value).len() < 1_000);
    }
}
