//! Opens special files that would block or never end.

use std::fs;

use toolhost_sdk::prelude::*;

/// Opens special files and reports which of them opened.
#[tool(reads)]
fn special_files(
    /// Names in the workspace.
    names: Vec<String>,
) -> Vec<String> {
    names
        .into_iter()
        .filter(|name| fs::File::open(name).is_ok())
        .collect()
}

export_tools![special_files];
