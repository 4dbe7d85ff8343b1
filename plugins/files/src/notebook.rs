//! Jupyter notebooks: the cells and their positions in the file's text.

use std::ops::Range;
use std::path::Path;

use toolhost_sdk::prelude::*;
use toolhost_sdk::serde_json::{self, Map};

mod json_ranges;
pub mod notebook_text;
mod notebook_writer;

pub struct Notebook<'a> {
    /// The text of the file.
    pub text: &'a str,
    pub cells: Vec<Cell>,
    /// The range of the cell list in `text`, including brackets.
    pub list: Range<usize>,
    /// The programming language, if stated.
    pub language: Option<String>,
    /// Since format 4.5 each cell has an id.
    pub has_ids: bool,
}

pub struct Cell {
    pub members: Map<String, Value>,
    /// Its range in the text.
    pub span: Range<usize>,
}

/// Whether the file extension is that of a notebook.
pub fn is_notebook(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

impl<'a> Notebook<'a> {
    /// Parses a notebook. `shown` is the file name for messages.
    pub fn parse(text: &'a str, shown: &str) -> Result<Self> {
        let invalid = |reason: String| {
            Error::invalid_input(format!("{shown} is not a notebook: {reason}"))
                .code("invalid_notebook")
                .recommend(format!(
                    "read it as text: read_file with path {shown:?} and encoding \"utf-8\""
                ))
        };
        let mut data: Value = serde_json::from_str(text)
            .map_err(|error| invalid(format!("it is not valid JSON: {error}")))?;
        let Some(list) = json_ranges::member(text, "cells").filter(|_| data["cells"].is_array())
        else {
            let old = if data["worksheets"].is_array() {
                "; it has the format from before 2015, convert it with `jupyter nbconvert`"
            } else {
                ""
            };
            return Err(invalid(format!("it has no list `cells`{old}")));
        };
        let spans = json_ranges::elements(text, list.start);
        let version = |name: &str| data[name].as_u64().unwrap_or(4);
        let has_ids = (
            version("nbformat"),
            data["nbformat_minor"].as_u64().unwrap_or(0),
        ) >= (4, 5);
        let metadata = &data["metadata"];
        let language = metadata["kernelspec"]["language"]
            .as_str()
            .or_else(|| metadata["language_info"]["name"].as_str())
            .map(str::to_owned);
        // Moved, not cloned, because a notebook with many images is large.
        let cells = match data["cells"].take() {
            Value::Array(cells) => cells,
            _ => Vec::new(),
        };
        let cells = cells
            .into_iter()
            .zip(spans)
            .enumerate()
            .map(|(index, (cell, span))| match cell {
                Value::Object(members) => Ok(Cell { members, span }),
                _ => Err(invalid(format!("cell {index} is not an object"))),
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            text,
            cells,
            list,
            language,
            has_ids,
        })
    }

    /// The `cell_id` of `notebook_edit` for the cell at `index`.
    pub fn id(&self, index: usize) -> String {
        let id = self.cells.get(index).and_then(Cell::id);
        id.map_or_else(|| format!("cell-{index}"), str::to_owned)
    }
}

impl Cell {
    pub fn id(&self) -> Option<&str> {
        self.members.get("id")?.as_str()
    }

    /// `code`, `markdown`, `raw`, or another type from the file.
    pub fn kind(&self) -> &str {
        let kind = self.members.get("cell_type").and_then(Value::as_str);
        kind.unwrap_or("unknown")
    }

    pub fn source(&self) -> String {
        self.members.get("source").map(joined).unwrap_or_default()
    }
}

/// Notebooks store a text as a string or as a list of lines with line breaks.
pub fn joined(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}
