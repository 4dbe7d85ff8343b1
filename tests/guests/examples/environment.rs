//! Reports the visible environment variables and arguments.

use toolhost_sdk::prelude::*;

/// Reports the visible variables and arguments.
#[tool(reads, requires = ["env"])]
fn environment() -> String {
    let variables: Vec<String> = std::env::vars()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let arguments: Vec<String> = std::env::args().collect();
    format!("variables {variables:?} arguments {arguments:?}")
}

export_tools![environment];
