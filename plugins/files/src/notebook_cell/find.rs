//! Resolution of `cell_id` and `cell_number` to a cell.

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::count;

use super::EditMode;
use crate::notebook::{Cell, Notebook};

/// Limit of cells listed in an error.
const MOST_NAMED: usize = 30;

/// The number of the target cell or of the new cell.
#[derive(Debug, Clone, Copy)]
pub struct Position {
    pub index: usize,
}

/// Finds the cell to replace or delete, or the position of a new one. An existing id takes precedence over `cell-N` and
/// numbers, because in some notebooks `cell-2` is the id of the seventh cell.
pub fn position(
    notebook: &Notebook,
    id: Option<&str>,
    number: Option<usize>,
    mode: EditMode,
    shown: &str,
) -> Result<Position> {
    let by_id = id.map(|id| by_id(notebook, id, shown)).transpose()?;
    let is_new = mode == EditMode::Insert;
    let count = notebook.cells.len();
    if let Some(number) = number
        && (number > count || (number == count && !is_new))
    {
        return Err(unknown(notebook, &format!("number {number}"), shown));
    }
    let refuse = |message: String| {
        Err(Error::invalid_input(message)
            .code("invalid_input")
            .recommend(cells(notebook, shown)))
    };
    let index = match (by_id, number) {
        (Some(index), None) if is_new => index + 1,
        (None, None) if is_new => 0,
        (Some(_), Some(_)) if is_new => {
            return refuse(
                "`cell_id` and `cell_number` are mutually exclusive for edit_mode \"insert\"; omit one"
                    .to_owned(),
            );
        }
        (Some(index), Some(number)) if index != number => {
            return refuse(format!(
                "`cell_id` is cell {index} and `cell_number` is cell {number}; omit one"
            ));
        }
        (Some(index), _) | (None, Some(index)) => index,
        (None, None) => {
            return refuse("`cell_id` or `cell_number` is missing".to_owned());
        }
    };
    Ok(Position { index })
}

fn by_id(notebook: &Notebook, id: &str, shown: &str) -> Result<usize> {
    let id = id.trim();
    let with_id = |(index, cell): (usize, &Cell)| (cell.id() == Some(id)).then_some(index);
    let real: Vec<usize> = notebook
        .cells
        .iter()
        .enumerate()
        .filter_map(with_id)
        .collect();
    match real.as_slice() {
        [index] => return Ok(*index),
        [] => {}
        several => {
            let message = format!(
                "the cells {several:?} of {shown} all have the id {id:?}; use `cell_number`"
            );
            return Err(Error::invalid_input(message).code("edit_expected_occurrence_mismatch"));
        }
    }
    id.strip_prefix("cell-")
        .unwrap_or(id)
        .parse()
        .ok()
        .filter(|index| *index < notebook.cells.len())
        .ok_or_else(|| unknown(notebook, &format!("{id:?}"), shown))
}

fn unknown(notebook: &Notebook, cell: &str, shown: &str) -> Error {
    let message = format!("no cell {cell}: {}", cells(notebook, shown));
    Error::invalid_input(message).code("edit_no_occurrence_found")
}

/// `a.ipynb has 2 cells: 0 "intro", 1 "b2"`
fn cells(notebook: &Notebook, shown: &str) -> String {
    let total = notebook.cells.len();
    let named: Vec<String> = (0..total.min(MOST_NAMED))
        .map(|index| format!("{index} {:?}", notebook.id(index)))
        .collect();
    let more = if total > MOST_NAMED { " …" } else { "" };
    let colon = if total > 0 { ": " } else { "" };
    format!(
        "{shown} has {}{colon}{}{more}",
        count(total, "cell"),
        named.join(", ")
    )
}
