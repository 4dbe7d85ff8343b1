use toolhost_sdk::prelude::*;

/// Not JSON.
#[tool(pure, example(description = "broken", input = "{"))]
fn broken() {}

/// Not a parameter.
#[tool(pure, example(description = "misspelt", input = r#"{"pth": "a"}"#))]
fn misspelt(
    /// Path of a file.
    path: String,
) -> String {
    path
}

/// Not enough.
#[tool(pure, example(description = "empty", input = "{}"))]
fn empty(
    /// Path of a file.
    path: String,
) -> String {
    path
}

/// No input.
#[tool(pure, example(description = "half"))]
fn half() {}

fn main() {}
