//! Writes to standard output forever.

use toolhost_sdk::prelude::*;

/// Writes to standard output forever.
#[tool(pure)]
fn stdout_flood() -> u32 {
    loop {
        println!("{}", "x".repeat(60_000));
    }
}

export_tools![stdout_flood];
