//! Exits its own process.

use toolhost_sdk::prelude::*;

/// Exits its own process.
#[tool(pure)]
fn exit() -> u32 {
    std::process::exit(3)
}

export_tools![exit];
