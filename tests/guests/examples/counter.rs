//! Counts its calls in a static; in a fresh instance the result is always 1.

use std::sync::atomic::{AtomicU32, Ordering};

use toolhost_sdk::prelude::*;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Counts its calls in a static: in a fresh instance the answer is always 1.
#[tool(pure)]
fn counter() -> u32 {
    COUNT.fetch_add(1, Ordering::Relaxed) + 1
}

export_tools![counter];
