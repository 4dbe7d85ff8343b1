use toolhost_sdk::prelude::*;

struct Counter;

impl Counter {
    /// Has a receiver.
    #[tool(pure)]
    fn method(&self) {}
}

/// Waits.
#[tool(pure)]
async fn waits() {}

/// Knows no type.
#[tool(pure)]
fn generic<T>() {}

/// Takes things apart.
#[tool(pure)]
fn pattern(
    /// Two numbers.
    (left, right): (u8, u8),
) -> u8 {
    left + right
}

/// Borrows.
#[tool(pure)]
fn borrows(
    /// A text.
    text: &str,
) -> String {
    text.to_owned()
}

/// Has its context last.
#[tool(pure)]
fn last(
    /// A number.
    number: u8,
    cx: &Context,
) -> Result<u8> {
    cx.check()?;
    Ok(number)
}

/// Owns its context.
#[tool(pure)]
fn owns(cx: Context) -> Result<()> {
    cx.check()
}

/// Is not a function.
#[tool(pure)]
struct NotAFunction;

fn main() {}
