//! Exits its own process.

use toolhost_sdk::prelude::*;

/// Ends its own process, as a program would.
#[tool(pure)]
fn exit() -> u32 {
    std::process::exit(3)
}

export_tools![exit];
