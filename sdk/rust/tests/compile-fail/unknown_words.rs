use toolhost_sdk::prelude::*;

/// Nearly right.
#[tool(raeds)]
fn nearly() {}

/// Quite wrong.
#[tool(pure, mutates_everything)]
fn quite() {}

/// Wrong on a parameter.
#[tool(pure)]
fn parameter(
    /// A number.
    #[arg(defualt = 1)]
    number: u8,
) -> u8 {
    number
}

/// Wrong in an example.
#[tool(pure, example(description = "none", inptu = "{}"))]
fn example() {}

fn main() {}
