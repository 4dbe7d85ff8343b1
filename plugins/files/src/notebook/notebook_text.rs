//! Text view of a notebook for models: cells with ids, outputs and images.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use toolhost_sdk::prelude::*;
use toolhost_sdk::text::count;

use super::{Cell, Notebook, joined};
use crate::text::size;

/// A longer output is cut in the middle.
const MOST_CHARS: usize = 10_000;
/// Limit of all images together.
const MOST_PICTURE_BYTES: usize = 15_000_000;
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The text and the positions of images in it.
pub struct NotebookText {
    pub text: String,
    pub pictures: Vec<NotebookImage>,
}

pub struct NotebookImage {
    /// The line that stands for the image, from 1.
    pub line: usize,
    pub part: Part,
}

impl NotebookText {
    pub fn of(notebook: &Notebook) -> Self {
        let mut view = Self {
            text: String::new(),
            pictures: Vec::new(),
        };
        let language = notebook.language.as_deref().unwrap_or("unknown language");
        let cells = count(notebook.cells.len(), "cell");
        view.line(&format!("(notebook of {cells}, {language})"));
        let mut left = MOST_PICTURE_BYTES;
        for (index, cell) in notebook.cells.iter().enumerate() {
            let id = notebook.id(index);
            let run = match cell.members.get("execution_count").and_then(Value::as_u64) {
                Some(run) => format!(", run {run}"),
                None => String::new(),
            };
            view.line(&format!(
                "--- cell {index}: {}{run}, cell_id {id:?} ---",
                cell.kind()
            ));
            view.line(&cell.source());
            view.outputs(index, cell, &mut left);
        }
        view
    }

    fn outputs(&mut self, index: usize, cell: &Cell, left: &mut usize) {
        let outputs = cell.members.get("outputs").and_then(Value::as_array);
        for output in outputs.into_iter().flatten() {
            let kind = output["output_type"].as_str().unwrap_or_default();
            let named = match kind {
                "stream" => format!(" ({})", output["name"].as_str().unwrap_or("stream")),
                "error" => " (error)".to_owned(),
                _ => String::new(),
            };
            self.line(&format!("--- output of cell {index}{named} ---"));
            match kind {
                "stream" => self.line(&short(&plain(&joined(&output["text"])))),
                "error" => self.line(&short(&plain(&traceback(output)))),
                _ => self.data(index, &output["data"], left),
            }
        }
    }

    /// Adds an image, else plain text, else the names of the media types.
    fn data(&mut self, index: usize, data: &Value, left: &mut usize) {
        let picture = PICTURES.iter().find_map(|media_type| {
            let text = joined(data.get(media_type)?);
            let text: String = text.split_whitespace().collect();
            Some((*media_type, BASE64.decode(text).ok()?))
        });
        if let Some((media_type, bytes)) = picture {
            let described = format!("{media_type}, {}", size(bytes.len() as u64));
            if bytes.len() > *left {
                return self.line(&format!("[image: {described}: too large to show]"));
            }
            *left -= bytes.len();
            self.line(&format!("[image {}: {described}]", self.pictures.len() + 1));
            let line = self.text.lines().count();
            let extension = media_type.trim_start_matches("image/");
            let name = format!(
                "cell-{index}-picture-{}.{extension}",
                self.pictures.len() + 1
            );
            let part = Part {
                name: Some(name),
                ..Part::image(bytes, media_type)
            };
            return self.pictures.push(NotebookImage { line, part });
        }
        let texts = ["text/plain", "text/markdown", "text/latex"];
        if let Some(text) = texts.iter().find_map(|media_type| data.get(media_type)) {
            return self.line(&short(&plain(&joined(text))));
        }
        let kinds: Vec<&str> = data
            .as_object()
            .into_iter()
            .flat_map(|members| members.keys().map(String::as_str))
            .collect();
        self.line(&format!("[{}]", kinds.join(", ")));
    }

    /// Adds text as complete lines.
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        if !text.is_empty() && !text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

fn traceback(output: &Value) -> String {
    let lines: Vec<&str> = output["traceback"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if !lines.is_empty() {
        return lines.join("\n");
    }
    let part = |name: &str| output[name].as_str().unwrap_or_default();
    format!("{}: {}", part("ename"), part("evalue"))
}

/// Removes colours and overwritten progress bars.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        if next != '\u{1b}' {
            plain.push(next);
        } else if chars.as_str().starts_with('[') {
            // `ESC [ 0 ; 31 m` ends at the first letter.
            chars.find(|c| matches!(c, '@'..='Z' | '\\'..='~'));
        }
    }
    if !plain.contains('\r') {
        return plain;
    }
    let lines = plain.split_inclusive('\n').map(|line| {
        let body = line.trim_end_matches(['\r', '\n']);
        let last = body.rsplit('\r').next().unwrap_or_default();
        let end = if line.ends_with('\n') { "\n" } else { "" };
        format!("{last}{end}")
    });
    lines.collect()
}

/// One fifth from the beginning and the rest from the end, where errors usually are.
fn short(text: &str) -> String {
    let total = text.chars().count();
    if total <= MOST_CHARS {
        return text.to_owned();
    }
    let at = |nth: usize| {
        text.char_indices()
            .nth(nth)
            .map_or(text.len(), |(at, _)| at)
    };
    let (head, tail) = (MOST_CHARS / 5, MOST_CHARS - MOST_CHARS / 5);
    let mut short = text[..at(head)].to_owned();
    // Writing to a String cannot fail.
    let _ = write!(short, "\n[… {} chars omitted …]\n", total - MOST_CHARS);
    short.push_str(&text[at(total - tail)..]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_painted_over_progress_are_left_out() {
        for (text, expected) in [
            ("\u{1b}[0;31mred\u{1b}[0m", "red"),
            ("10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
            ("a\u{1b}b", "ab"),
            ("\u{1b}[", ""),
        ] {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_long_output_is_cut_in_its_middle() {
        assert_eq!(short("é"), "é");
        let text = format!("{}{}", "a".repeat(3_000), "é".repeat(9_000));
        let cut = short(&text);
        let expected = format!(
            "{}\n[… 2000 chars omitted …]\n{}",
            "a".repeat(2_000),
            "é".repeat(8_000)
        );
        assert_eq!(cut, expected);
    }
}
