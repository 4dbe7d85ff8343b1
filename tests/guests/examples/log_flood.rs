//! Logs and emits events as fast as possible.

use toolhost_sdk::prelude::*;

/// Logs and emits events as fast as possible.
#[tool(pure)]
fn log_flood(cx: &Context) -> &'static str {
    for number in 0..200_000_u32 {
        cx.info("noise \u{1b}[31m");
        cx.progress(&number.to_string());
    }
    "done"
}

export_tools![log_flood];
