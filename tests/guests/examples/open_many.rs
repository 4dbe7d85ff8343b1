//! Opens one file repeatedly until it fails.

use std::fs::File;

use toolhost_sdk::prelude::*;

/// Opens one file repeatedly until it fails.
#[tool(reads)]
fn open_many(
    /// A file that exists.
    path: String,
) -> usize {
    let mut open = Vec::new();
    while let Ok(file) = File::open(&path) {
        open.push(file);
    }
    open.len()
}

export_tools![open_many];
