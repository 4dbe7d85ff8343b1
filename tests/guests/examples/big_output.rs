//! Returns a text of any size.

use toolhost_sdk::prelude::*;

/// Return a text.
#[tool(pure)]
fn big_output(
    /// Its size.
    #[arg(default = 100_000_000)]
    bytes: u32,
) -> String {
    "x".repeat(bytes as usize)
}

export_tools![big_output];
