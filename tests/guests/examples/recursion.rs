//! Recurses until the stack overflows.

use toolhost_sdk::prelude::*;

#[allow(unconditional_recursion, reason = "that is what this guest is for")]
#[inline(never)]
fn deep(depth: u64) -> u64 {
    std::hint::black_box(deep(std::hint::black_box(depth + 1)) + 1)
}

/// Recurses until the stack overflows.
#[tool(pure)]
fn recursion() -> u64 {
    deep(0)
}

#[allow(unconditional_recursion, reason = "that is what this guest is for")]
#[inline(never)]
fn wide(depth: u8) -> u8 {
    let room = std::hint::black_box([depth; 4096]);
    std::hint::black_box(wide(std::hint::black_box(depth.wrapping_add(1)))) ^ room[7]
}

/// Recurses until the shadow stack in linear memory overflows.
#[tool(pure)]
fn wide_recursion() -> u32 {
    u32::from(wide(0))
}

export_tools![recursion, wide_recursion];
