//! Calls itself until the stack is gone.

use toolhost_sdk::prelude::*;

#[allow(unconditional_recursion, reason = "that is what this guest is for")]
#[inline(never)]
fn deep(depth: u64) -> u64 {
    std::hint::black_box(deep(std::hint::black_box(depth + 1)) + 1)
}

/// Calls itself until the stack is gone.
#[tool(pure)]
fn recursion() -> u64 {
    deep(0)
}

export_tools![recursion];
