//! A tool of a plugin without previews and hooks, to compare with those of `bench_previews`.

use toolhost_sdk::prelude::*;

/// Return a text.
#[tool(pure)]
fn alone(
    /// The text.
    text: String,
) -> String {
    text
}

export_tools![alone];
