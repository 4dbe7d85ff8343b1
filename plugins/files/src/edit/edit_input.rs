//! The input forms of an edit, normalized to one.

use toolhost_sdk::prelude::*;

use super::draft::Edit;
use super::errors;

/// One replacement.
#[data]
pub struct Replacement {
    /// Exact text, unique in the file.
    #[arg(aliases = ["oldText", "old_text", "old", "find", "search"])]
    pub old_string: String,
    /// Replacement.
    #[arg(aliases = ["newText", "new_text", "new", "replace"])]
    pub new_string: String,
    /// Replace every match.
    #[arg(default = false, aliases = ["allow_multiple", "replaceAll"])]
    pub replace_all: bool,
}

impl Replacement {
    pub fn into_edit(self) -> Edit {
        Edit {
            old: self.old_string,
            new: self.new_string,
            all: self.replace_all,
            expected: None,
        }
    }
}

/// The edit parameters of `edit_file`: a single edit or a list.
#[derive(Debug, Default)]
pub struct EditInput {
    pub old: Option<String>,
    pub new: Option<String>,
    pub all: bool,
    pub expected: Option<usize>,
}

impl EditInput {
    pub fn edits(self, list: Vec<Replacement>) -> Result<Vec<Edit>> {
        let Self {
            old,
            new,
            all,
            expected,
        } = self;
        match (old, new) {
            (None, None) if list.is_empty() => Err(errors::invalid_edit(
                "no edit given; pass `old_string` and `new_string`, or a list of `edits`",
            )),
            (None, None) if expected.is_some() => Err(errors::invalid_edit(
                "`expected_replacements` requires `old_string`; in `edits` use `replace_all`",
            )),
            (None, None) => {
                let edits: Vec<Edit> = list
                    .into_iter()
                    .map(Replacement::into_edit)
                    .map(|edit| Edit {
                        all: edit.all || all,
                        ..edit
                    })
                    .collect();
                check_order(&edits)?;
                Ok(edits)
            }
            (Some(_), _) | (_, Some(_)) if !list.is_empty() => Err(errors::invalid_edit(
                "`edits` and `old_string` are mutually exclusive; put all edits into `edits`",
            )),
            (None, Some(_)) => Err(errors::invalid_edit(
                "`old_string` is missing; pass the text to replace, or an empty string to create a file",
            )),
            (Some(old), None) => Err(errors::invalid_edit(format!(
                "`new_string` is missing; pass the replacement for {:?}, or an empty string to delete it",
                old.chars().take(60).collect::<String>()
            ))),
            (Some(old), Some(new)) => Ok(vec![Edit {
                old,
                new,
                all,
                expected,
            }]),
        }
    }
}

/// Only the first edit of a file can create it.
pub fn check_order(edits: &[Edit]) -> Result<()> {
    match edits.iter().skip(1).position(|edit| edit.old.is_empty()) {
        Some(index) => Err(errors::invalid_edit(format!(
            "`old_string` of edit {} is empty, but only the first edit may create the file",
            index + 2
        ))),
        None => Ok(()),
    }
}
