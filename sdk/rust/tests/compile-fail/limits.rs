use toolhost_sdk::prelude::*;

/// Default of another type.
#[tool(pure)]
fn default(
    /// A number.
    #[arg(default = "ten")]
    number: u8,
    /// A text.
    #[arg(default = 10)]
    text: String,
) -> String {
    format!("{number}{text}")
}

/// Limits of another type.
#[tool(pure)]
fn limits(
    /// A number.
    #[arg(min_len = 1)]
    number: u8,
    /// A text.
    #[arg(max = 10)]
    text: Option<String>,
    /// A list.
    #[arg(pattern = ".*")]
    list: Vec<String>,
) -> String {
    format!("{number}{text:?}{list:?}")
}

fn main() {}
