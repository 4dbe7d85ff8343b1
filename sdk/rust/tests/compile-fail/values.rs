use toolhost_sdk::prelude::*;

/// Bad time.
#[tool(pure, timeout = "1 hour")]
fn time() {}

/// Bad name.
#[tool(pure, name = "Read-File")]
fn name() {}

/// Bad name of a function.
#[tool(pure)]
#[expect(non_snake_case)]
fn Upper() {}

/// Not a text.
#[tool(pure, icon = 7)]
fn icon() {}

/// No value.
#[tool(pure, kind)]
fn kind() {}

/// A value too many.
#[tool(pure = true)]
fn flag() {}

/// Not a list.
#[tool(pure, tags = "a")]
fn tags() {}

/// No such order.
#[tool(pure, concurrency = "random")]
fn concurrency() {}

fn main() {}
