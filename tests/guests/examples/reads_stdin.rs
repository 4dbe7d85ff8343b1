//! Reports how much it reads from standard input.

use std::io::Read as _;

use toolhost_sdk::prelude::*;

/// Reads standard input and reports the number of bytes.
#[tool(reads)]
fn reads_stdin() -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(format!("read {} bytes", bytes.len()))
}

export_tools![reads_stdin];
