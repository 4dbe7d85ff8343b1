//! Allocates memory until allocation fails.

use toolhost_sdk::prelude::*;

/// Allocates memory until allocation fails.
#[tool(pure)]
fn memory_bomb() -> usize {
    let mut hoard: Vec<Vec<u8>> = Vec::new();
    loop {
        hoard.push(vec![1; 1 << 20]);
    }
}

export_tools![memory_bomb];
