//! Blocks inside a host call, where epoch interruption has no effect.

use toolhost_sdk::prelude::*;

/// Blocks inside a host call.
#[tool(pure)]
fn sleep_for_ever() -> &'static str {
    std::thread::sleep(std::time::Duration::from_secs(86_400));
    "awake"
}

export_tools![sleep_for_ever];
