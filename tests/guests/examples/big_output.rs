//! Returns 100 MB.

use toolhost_sdk::prelude::*;

/// Returns 100 MB.
#[tool(pure)]
fn big_output() -> String {
    "x".repeat(100_000_000)
}

export_tools![big_output];
