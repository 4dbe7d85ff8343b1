//! Edits of proposed files and of inputs in the text fields of a browser.
//!
//! A browser sends `\r\n` for every line break and may show characters that a user does not see, so only texts that
//! survive that are editable.

use serde_json::Value;
use toolhost_contract::exact_integers::parse_exact;
use toolhost_contract::{FileChange, UserEdit, text};

/// A proposed file whose text can be edited on the page.
pub struct EditableFile<'a> {
    /// The index in the list of changes.
    pub index: usize,
    pub path: &'a str,
    pub text: &'a str,
    line_break: LineBreak,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineBreak {
    Lf,
    CrLf,
}

/// Returns the file, or why it cannot be edited on the page.
pub fn editable(index: usize, change: &FileChange) -> Result<EditableFile<'_>, &'static str> {
    let diff = change
        .editable_diff()
        .ok_or("it is not a text file that exists after the change")?;
    let is_unsafe = |c: char| text::is_hidden(c) && !matches!(c, '\n' | '\r' | '\t');
    if diff.new.contains(is_unsafe) {
        return Err("it contains invisible characters; edit it at the terminal");
    }
    Ok(EditableFile {
        index,
        path: &change.path,
        text: &diff.new,
        line_break: LineBreak::of(&diff.new)
            .ok_or("its line breaks are not uniform; edit it at the terminal")?,
    })
}

impl LineBreak {
    /// `None`: a text field would change some of the line breaks.
    fn of(text: &str) -> Option<Self> {
        let breaks = text.matches('\n').count();
        let pairs = text.matches("\r\n").count();
        let returns = text.matches('\r').count();
        match (pairs, returns) {
            (0, 0) => Some(Self::Lf),
            _ if pairs == breaks && pairs == returns => Some(Self::CrLf),
            _ => None,
        }
    }
}

impl EditableFile<'_> {
    /// Returns the edit for the text that a browser has sent.
    pub fn edit(&self, sent: &str) -> UserEdit {
        let lines = sent.replace("\r\n", "\n").replace('\r', "\n");
        UserEdit {
            path: self.path.to_owned(),
            text: match self.line_break {
                LineBreak::Lf => lines,
                LineBreak::CrLf => lines.replace('\n', "\r\n"),
            },
        }
    }
}

/// Returns an input as JSON for a text field. Invisible characters, which occur in strings only, are escaped.
pub fn json_text(input: &Value) -> String {
    use std::fmt::Write as _;

    let mut out = String::new();
    for c in format!("{input:#}").chars() {
        if text::is_hidden(c) && c != '\n' {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Parses an edited input.
pub fn parse_input(sent: &str) -> Result<Value, String> {
    let input: Value = parse_exact(sent).map_err(|error| format!("not JSON: {error}"))?;
    match input {
        Value::Object(_) => Ok(input),
        _ => Err("the input must be a JSON object, {…}".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn line_breaks_of_the_file_are_kept() {
        for (text, sent, expected) in [
            ("a\nb\n", "a\r\nc\r\n", Some("a\nc\n")),
            ("a\r\nb\r\n", "a\r\nc\r\n", Some("a\r\nc\r\n")),
            ("a", "b\r\n", Some("b\n")),
            ("a\r\nb\n", "", None),
            ("a\rb", "", None),
        ] {
            let line_break = LineBreak::of(text);
            let edited = line_break.map(|line_break| {
                let file = EditableFile {
                    index: 0,
                    path: "a",
                    text,
                    line_break,
                };
                file.edit(sent).text
            });
            assert_eq!(edited.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn an_input_survives_the_text_field() {
        let input = json!({"a": "x\u{202e}\u{e0041}\r\n", "big": 3});
        let shown = json_text(&input);
        assert!(shown.contains("x\\u202e\\udb40\\udc41\\r\\n"), "{shown}");
        assert_eq!(parse_input(&shown.replace('\n', "\r\n")), Ok(input));
        assert!(parse_input("[]").is_err() && parse_input("{").is_err());
    }
}
