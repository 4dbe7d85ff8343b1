use toolhost_sdk::prelude::*;

#[tool(pure)]
fn silent(
    /// Has one.
    spoken: String,
    unspoken: u32,
) -> String {
    format!("{spoken}{unspoken}")
}

#[data]
struct Data {
    unspoken: u32,
    ///
    blank: u32,
}

export_tools![silent];

fn main() {}
