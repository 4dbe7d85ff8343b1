//! Writes to standard output without end.

use std::io::Write as _;

use toolhost_sdk::prelude::*;

/// Writes to standard output forever.
#[tool(pure)]
fn stdout_flood() -> u32 {
    loop {
        println!("{}", "x".repeat(60_000));
    }
}

/// Writes to standard output until that fails, and reports the error.
#[tool(pure)]
fn stdout_full() -> Result<u32> {
    loop {
        writeln!(std::io::stdout(), "{}", "x".repeat(60_000))?;
    }
}

export_tools![stdout_flood, stdout_full];
