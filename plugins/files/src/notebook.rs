//! A Jupyter notebook: its cells, and where each of them stands in the text of the file.

use std::ops::Range;
use std::path::Path;

use toolhost_sdk::prelude::*;
use toolhost_sdk::serde_json::{self, Map};

mod scan;
pub mod view;
mod write;

pub struct Notebook<'a> {
    /// The file.
    pub text: &'a str,
    pub cells: Vec<Cell>,
    /// The list of cells in `text`, with its brackets.
    pub list: Range<usize>,
    /// The language of its code, where the file says it.
    pub language: Option<String>,
    /// Since format 4.5 each cell has an id.
    pub has_ids: bool,
}

pub struct Cell {
    pub members: Map<String, Value>,
    /// Where it stands in the file.
    pub span: Range<usize>,
}

/// By its name.
pub fn is_notebook(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

impl<'a> Notebook<'a> {
    /// `shown` is the name of the file, for messages.
    pub fn parse(text: &'a str, shown: &str) -> Result<Self> {
        let invalid = |reason: String| {
            Error::invalid_input(format!("{shown} is not a notebook: {reason}"))
                .code("invalid_notebook")
                .recommend(format!(
                    "look at it as text: read_file with path {shown:?} and encoding \"utf-8\""
                ))
        };
        let mut data: Value = serde_json::from_str(text)
            .map_err(|error| invalid(format!("it is not valid JSON: {error}")))?;
        let Some(list) = scan::member(text, "cells").filter(|_| data["cells"].is_array()) else {
            let old = if data["worksheets"].is_array() {
                "; it is in the format of before 2015, which `jupyter nbconvert` brings up to date"
            } else {
                ""
            };
            return Err(invalid(format!("it has no list `cells`{old}")));
        };
        let spans = scan::elements(text, list.start);
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
        // Taken and not cloned: a notebook with many pictures is large.
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

    /// What `notebook_edit` takes as `cell_id` for the cell at `index`.
    pub fn id(&self, index: usize) -> String {
        let id = self.cells.get(index).and_then(Cell::id);
        id.map_or_else(|| format!("cell-{index}"), str::to_owned)
    }
}

impl Cell {
    pub fn id(&self) -> Option<&str> {
        self.members.get("id")?.as_str()
    }

    /// `code`, `markdown`, `raw`, or what else the file says.
    pub fn kind(&self) -> &str {
        let kind = self.members.get("cell_type").and_then(Value::as_str);
        kind.unwrap_or("unknown")
    }

    pub fn source(&self) -> String {
        self.members.get("source").map(joined).unwrap_or_default()
    }
}

/// Notebooks keep a text as a list of lines, each with its line break, or as one string.
pub fn joined(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}
