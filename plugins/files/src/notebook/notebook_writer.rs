//! Insertion, replacement and removal of cells in the text of a notebook, leaving the bytes of other cells unchanged.

use std::io;
use std::ops::Range;

use toolhost_sdk::serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use toolhost_sdk::serde_json::{Map, Value};

use toolhost_sdk::serde::Serialize as _;

use super::Notebook;

/// The formatting of the file.
enum Style {
    /// On several lines: the line break and the indentation of one level.
    Lines(&'static str, String),
    /// On one line, with or without spaces after `,` and `:`.
    OneLine { spaced: bool },
}

impl Notebook<'_> {
    /// The text with the cell at `index` replaced.
    pub fn with(&self, index: usize, cell: &Map<String, Value>) -> String {
        let style = Style::of(self);
        self.spliced(self.cells[index].span.clone(), &style.cell(cell))
    }

    /// The text with `cell` inserted before the cell at `index` or at the end.
    pub fn with_new(&self, index: usize, cell: &Map<String, Value>) -> String {
        let style = Style::of(self);
        let (text, between) = (style.cell(cell), style.before_cell());
        let count = self.cells.len();
        if count == 0 {
            let list = format!("[{between}{text}{}]", style.before_end());
            return self.spliced(self.list.clone(), &list);
        }
        if index < count {
            let at = self.cells[index].span.start;
            return self.spliced(at..at, &format!("{text},{between}"));
        }
        let at = self.cells[count - 1].span.end;
        self.spliced(at..at, &format!(",{between}{text}"))
    }

    /// The text without the cell at `index`.
    pub fn without(&self, index: usize) -> String {
        let spans: Vec<Range<usize>> = self.cells.iter().map(|cell| cell.span.clone()).collect();
        match (index.checked_sub(1), spans.get(index + 1)) {
            (None, None) => self.spliced(self.list.clone(), "[]"),
            (_, Some(next)) => self.spliced(spans[index].start..next.start, ""),
            (Some(before), None) => self.spliced(spans[before].end..spans[index].end, ""),
        }
    }

    fn spliced(&self, span: Range<usize>, with: &str) -> String {
        format!(
            "{}{with}{}",
            &self.text[..span.start],
            &self.text[span.end..]
        )
    }
}

impl Style {
    /// Detects the style by the first line break and the indentation after it.
    fn of(notebook: &Notebook) -> Self {
        let text = notebook.text.trim_end();
        let Some((first, rest)) = text.split_once('\n') else {
            let spaced = text.contains("\": ");
            return Self::OneLine { spaced };
        };
        let line_break = if first.ends_with('\r') { "\r\n" } else { "\n" };
        let indent = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let indent = if indent == 0 { " " } else { &rest[..indent] };
        Self::Lines(line_break, indent.to_owned())
    }

    /// The text before a cell of a list.
    fn before_cell(&self) -> String {
        match self {
            Self::Lines(line_break, indent) => format!("{line_break}{}", indent.repeat(2)),
            Self::OneLine { spaced: true } => " ".to_owned(),
            Self::OneLine { spaced: false } => String::new(),
        }
    }

    /// The text before the `]` of a list with cells.
    fn before_end(&self) -> String {
        match self {
            Self::Lines(line_break, indent) => format!("{line_break}{indent}"),
            Self::OneLine { .. } => String::new(),
        }
    }

    fn cell(&self, cell: &Map<String, Value>) -> String {
        match self {
            Self::Lines(_, indent) => {
                let text = written(cell, PrettyFormatter::with_indent(indent.as_bytes()));
                // A line break in a string is written as `\n`, so actual line breaks are between values.
                text.replace('\n', &self.before_cell())
            }
            Self::OneLine { spaced: true } => written(cell, SpacedFormatter),
            Self::OneLine { spaced: false } => Value::Object(cell.clone()).to_string(),
        }
    }
}

fn written(cell: &Map<String, Value>, formatter: impl Formatter) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, formatter);
    cell.serialize(&mut serializer)
        .expect("a JSON value is written to memory");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// Single-line JSON as written by Python.
struct SpacedFormatter;

impl Formatter for SpacedFormatter {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
