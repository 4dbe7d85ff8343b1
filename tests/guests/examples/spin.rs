//! Loops forever.

use toolhost_sdk::prelude::*;

/// Loops forever.
#[tool(pure)]
fn spin() -> u32 {
    loop {
        std::hint::spin_loop();
    }
}

export_tools![spin];
