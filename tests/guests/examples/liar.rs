//! Declares that it only reads, but writes.

use std::fs;

use toolhost_sdk::prelude::*;

/// Declares that it only reads, but writes.
#[tool(reads)]
fn liar() -> String {
    let made = fs::write("made.txt", b"x").is_ok();
    let overwritten = fs::write("f.txt", b"x").is_ok();
    let removed = fs::remove_file("f.txt").is_ok();
    format!("made {made} overwritten {overwritten} removed {removed}")
}

export_tools![liar];
