//! Panics with a message that contains cursor movements.

use toolhost_sdk::prelude::*;

/// Panics with a message that contains cursor movements.
#[tool(pure)]
fn panic() -> u32 {
    panic!("the reason\u{1b}[2J of the panic")
}

export_tools![panic];
