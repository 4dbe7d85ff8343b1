use std::time::Duration;

use toolhost_sdk::prelude::*;

/// Takes what has no schema.
#[tool(pure)]
fn takes(
    /// How long.
    time: Duration,
) -> String {
    format!("{time:?}")
}

/// Returns what is no outcome.
#[tool(pure)]
fn returns() -> Result<Duration> {
    Ok(Duration::ZERO)
}

fn not_a_tool() {}

export_tools![takes, returns, not_a_tool];

fn main() {}
