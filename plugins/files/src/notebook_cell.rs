//! `notebook_edit`: replaces, inserts or deletes one cell of a Jupyter notebook.

use std::fmt::Write as _;

use toolhost_sdk::prelude::*;
use toolhost_sdk::serde_json::Map;
use toolhost_sdk::text::count;

use crate::edit::diff::DiffStat;
use crate::file_reader::{SizeLimit, open};
use crate::file_writer::store;
use crate::notebook::{Cell, Notebook, is_notebook};
use crate::pasted_output;
use crate::path::{Target, resolve};
use crate::read::sha256;
use crate::read_state;
use crate::text::{self, Encoding};
use crate::text_change::TextChange;

use find::{Position, position};

mod find;

/// Size limit; a notebook is in memory several times while it is edited.
const LIMIT: SizeLimit = SizeLimit {
    bytes: 20_000_000,
    tool: "notebook_edit",
    advice: "clear its outputs first, for example with jupyter nbconvert --clear-output",
};

/// Kind of edit.
#[data]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditMode {
    Replace,
    Insert,
    Delete,
}

/// Type of a cell.
#[data]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellType {
    Code,
    Markdown,
    Raw,
}

impl CellType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
            Self::Raw => "raw",
        }
    }
}

/// Result of the edit.
#[data]
pub struct EditedCell {
    /// Absolute path.
    path: String,
    /// Kind of edit.
    edit_mode: EditMode,
    /// Id of the cell, or `cell-N`.
    cell_id: String,
    /// Number of the cell from 0; for a deleted cell, its former number.
    cell_number: usize,
    /// `code`, `markdown` or `raw`.
    cell_type: String,
    /// Number of cells after the edit.
    total_cells: usize,
    /// The file changed.
    changed: bool,
    /// Lines added and removed; absent if the file is too large to compare.
    diff_stat: Option<DiffStat>,
    /// New SHA-256 of the file, in hexadecimal.
    sha256: String,
    /// Possible mistakes in the source, which was written unchanged.
    warnings: Option<Vec<String>>,
}

/// Replace, insert or delete a Jupyter notebook cell; read_file shows ids and numbers. Replacing a code cell clears its
/// outputs.
#[tool(
    writes,
    plain_text,
    category = "file",
    kind = "edit",
    icon = "pencil",
    aliases = ["notebookedit", "edit_notebook"],
    tags = ["file", "notebook"],
    requires = ["fs.read", "fs.write", "session"],
    output = EditedCell,
    example(description = "Replace a cell", input = r#"{"path": "a.ipynb", "cell_id": "b2", "new_source": "print(2)"}"#),
    example(description = "Insert a heading at the start", input = r##"{"path": "a.ipynb", "edit_mode": "insert", "cell_type": "markdown", "new_source": "# Title"}"##),
    example(description = "Delete the first cell", input = r#"{"path": "a.ipynb", "edit_mode": "delete", "cell_number": 0}"#),
)]
pub fn notebook_edit(
    cx: &Context,
    /// Workspace-relative or absolute.
    #[arg(aliases = ["notebook_path", "file_path", "filePath", "absolute_path", "target_file"])]
    path: String,
    /// Id, `cell-N`, or number from 0. For `insert`: the cell before the new one.
    cell_id: Option<String>,
    /// From 0. For `insert`: the new cell's number; by default it goes after `cell_id`, else first.
    #[arg(min = 0, aliases = ["cell_index", "index"])]
    cell_number: Option<usize>,
    /// Complete source; not needed for `delete`.
    #[arg(aliases = ["source", "content"])]
    new_source: Option<String>,
    /// Required for `insert`, else unchanged by default.
    cell_type: Option<CellType>,
    /// Kind of edit.
    #[arg(default = "replace", aliases = ["mode"])]
    edit_mode: EditMode,
) -> Result<Outcome> {
    let target = resolve(cx, &path)?;
    let shown = &target.shown;
    if !is_notebook(&target.path) {
        return Err(Error::invalid_input(format!(
            "{shown} is not a notebook: its name does not end in .ipynb"
        ))
        .code("not_a_notebook")
        .recommend("change a text file with edit_file"));
    }
    target.check_writable()?;
    let (old, _) = open(&target, &LIMIT)?;
    let decoded = text::decode(old.clone(), Encoding::Auto, shown)?;
    if decoded.guessed {
        let message = format!("{shown} is not a notebook: it is not UTF-8");
        return Err(Error::invalid_input(message).code("invalid_notebook"));
    }
    let notebook = Notebook::parse(&decoded.text, shown)?;
    let target_cell = position(&notebook, cell_id.as_deref(), cell_number, edit_mode, shown)?;
    // A cell id identifies the cell even if the file changed; a cell number may refer to another cell by now.
    let is_named = cell_id.is_some_and(|id| {
        notebook
            .cells
            .iter()
            .any(|cell| cell.id() == Some(id.trim()))
    });
    if !is_named && read_state::is_stale(cx, &target, &sha256(&old)) {
        let message = format!("{shown} changed since you read it, and its cells may have moved");
        return Err(Error::failed(message)
            .code("edit_stale")
            .recommend("read the notebook again and use `cell_id`"));
    }
    let source = match (new_source, edit_mode) {
        // Some models send a source with every call.
        (_, EditMode::Delete) => String::new(),
        (Some(source), EditMode::Replace | EditMode::Insert) => source,
        (None, EditMode::Replace | EditMode::Insert) => {
            return Err(refuse(
                "`new_source` is missing; pass the complete source of the cell",
            ));
        }
    };
    let known = match edit_mode {
        EditMode::Replace => notebook.cells[target_cell.index].source(),
        EditMode::Insert | EditMode::Delete => String::new(),
    };
    let suspects = pasted_output::suspects(&source, &known, &known);
    let warnings = pasted_output::reject_pasted(cx, &target, &suspects, "`new_source`")?;
    let done = edit(&notebook, edit_mode, target_cell, &source, cell_type)?;
    cx.check()?;
    let bytes = text::encode(&done.text, decoded.format)?;
    let changed = bytes != old;
    if changed {
        store(&target, Some(&old), &bytes, false)?;
    }
    read_state::record_seen(cx, &target, &sha256(&bytes), None);
    let edited = EditedCell {
        path: target.path.display().to_string(),
        edit_mode,
        cell_id: done.id,
        cell_number: target_cell.index,
        cell_type: done.kind,
        total_cells: done.total,
        changed,
        diff_stat: None,
        sha256: sha256(&bytes),
        warnings: pasted_output::output_member(&warnings),
    };
    let change = TextChange::new(shown, Some(decoded.text.clone()), done.text);
    Ok(report(&target, edited, change, &source))
}

fn refuse(message: impl Into<String>) -> Error {
    Error::invalid_input(message).code("invalid_input")
}

struct CellChange {
    text: String,
    id: String,
    kind: String,
    total: usize,
}

fn edit(
    notebook: &Notebook,
    mode: EditMode,
    Position { index }: Position,
    source: &str,
    cell_type: Option<CellType>,
) -> Result<CellChange> {
    let count = notebook.cells.len();
    match mode {
        EditMode::Replace => {
            let old = &notebook.cells[index];
            let cell = replaced(old, source, cell_type);
            let text = if cell == old.members {
                notebook.text.to_owned()
            } else {
                notebook.with(index, &cell)
            };
            Ok(CellChange {
                text,
                id: notebook.id(index),
                kind: kind(&cell),
                total: count,
            })
        }
        EditMode::Insert => {
            let Some(cell_type) = cell_type else {
                return Err(refuse(
                    "`cell_type` is missing: a new cell is \"code\", \"markdown\" or \"raw\"",
                ));
            };
            let id = notebook.has_ids.then(|| new_id(notebook, source));
            let cell = new_cell(id.as_deref(), source, cell_type);
            Ok(CellChange {
                text: notebook.with_new(index, &cell),
                id: id.unwrap_or_else(|| format!("cell-{index}")),
                kind: kind(&cell),
                total: count + 1,
            })
        }
        EditMode::Delete => Ok(CellChange {
            text: notebook.without(index),
            id: notebook.id(index),
            kind: notebook.cells[index].kind().to_owned(),
            total: count - 1,
        }),
    }
}

fn kind(cell: &Map<String, Value>) -> String {
    cell["cell_type"].as_str().unwrap_or_default().to_owned()
}

/// The cell with a new source. Members keep their order; outputs and execution count are cleared.
fn replaced(cell: &Cell, source: &str, cell_type: Option<CellType>) -> Map<String, Value> {
    let mut members = cell.members.clone();
    if let Some(cell_type) = cell_type {
        members.insert("cell_type".to_owned(), cell_type.as_str().into());
    }
    if members.get("cell_type").and_then(Value::as_str) == Some("code") {
        members.insert("execution_count".to_owned(), Value::Null);
        members.insert("outputs".to_owned(), json!([]));
        members.shift_remove("attachments");
    } else {
        members.shift_remove("execution_count");
        members.shift_remove("outputs");
    }
    // An unchanged source keeps its representation, so that repeating a call changes nothing.
    if cell.source() != source {
        members.insert("source".to_owned(), lines(source));
    }
    members
}

/// A new cell, with members in the order that Jupyter writes.
fn new_cell(id: Option<&str>, source: &str, cell_type: CellType) -> Map<String, Value> {
    let mut members = Map::new();
    let mut add = |name: &str, value: Value| members.insert(name.to_owned(), value);
    add("cell_type", cell_type.as_str().into());
    if cell_type == CellType::Code {
        add("execution_count", Value::Null);
    }
    if let Some(id) = id {
        add("id", id.into());
    }
    add("metadata", json!({}));
    if cell_type == CellType::Code {
        add("outputs", json!([]));
    }
    add("source", lines(source));
    members
}

/// A source in notebook form: a list of lines with their line breaks.
fn lines(source: &str) -> Value {
    source.split_inclusive('\n').map(Value::from).collect()
}

/// Eight letters and digits, unique in the notebook. Derived from the content, so that the same call has the same
/// result.
fn new_id(notebook: &Notebook, source: &str) -> String {
    let mut hash = sha256(format!("{}\n{source}", notebook.cells.len()).as_bytes());
    loop {
        let id = &hash[..8];
        if notebook.cells.iter().all(|cell| cell.id() != Some(id)) {
            return id.to_owned();
        }
        hash = sha256(hash.as_bytes());
    }
}

fn report(target: &Target, mut edited: EditedCell, change: TextChange, source: &str) -> Outcome {
    let EditedCell {
        cell_id,
        cell_number,
        cell_type,
        ..
    } = &edited;
    let cell = format!("cell {cell_number} ({cell_type}, cell_id {cell_id:?})");
    let (shown, total) = (&target.shown, count(edited.total_cells, "cell"));
    let summary = match edited.edit_mode {
        _ if !edited.changed => {
            format!("No change: {cell} of {shown} has this source already. Go on to the next step.")
        }
        EditMode::Replace => format!("Replaced {cell} of {shown}"),
        EditMode::Insert => format!("Inserted {cell} in {shown}, which has {total} now"),
        EditMode::Delete => format!("Deleted {cell} of {shown}, which has {total} now"),
    };
    edited.diff_stat = change.stat();
    let mut llm = summary.clone();
    pasted_output::append_warnings(&mut llm, edited.warnings.as_deref().unwrap_or_default());
    if edited.changed && !source.is_empty() {
        let shown: Vec<&str> = source.lines().take(MOST_LINES).collect();
        llm.push('\n');
        llm.push_str(&shown.join("\n"));
        let left = source.lines().count() - shown.len();
        if left > 0 {
            // Writing to a String cannot fail.
            let _ = write!(llm, "\n({} more)", count(left, "line"));
        }
    }
    let outcome = Outcome::text(llm).summary(summary).structured(&edited);
    match change.into_diff() {
        Some(diff) if edited.changed => outcome.display(Display::diff(diff)),
        _ => outcome,
    }
}

/// Lines of the new source shown in the result.
const MOST_LINES: usize = 40;

#[cfg(test)]
mod tests;
