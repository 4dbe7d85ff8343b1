//! Lists a directory and counts its entries.

use std::fs;

use toolhost_sdk::prelude::*;

/// Lists a directory and counts its entries.
#[tool(reads)]
fn huge_directory(
    /// A directory.
    path: String,
) -> Result<usize> {
    Ok(fs::read_dir(path)?.count())
}

export_tools![huge_directory];
