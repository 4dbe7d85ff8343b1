use toolhost_sdk::prelude::*;

#[data]
struct Tuple(u8);

#[data]
struct Generic<T> {
    /// Anything.
    value: T,
}

/// A tree.
#[data]
struct Tree {
    /// The trees below.
    children: Vec<Tree>,
}

/// Writes for serde.
#[data]
struct Own {
    /// A number.
    #[serde(rename = "n")]
    number: u8,
}

/// With fields.
#[data]
enum Fields {
    Plain,
    Rich { number: u8 },
}

#[data]
fn function() {}

#[data(strict)]
struct Words {}

fn main() {}
