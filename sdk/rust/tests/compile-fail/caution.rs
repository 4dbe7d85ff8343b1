use toolhost_sdk::prelude::*;

/// Says nothing about itself.
#[tool]
fn forgotten() {}

/// Says something else about itself.
#[tool(category = "file")]
fn elsewhere() {}

/// Says two things about itself.
#[tool(reads, writes)]
fn both() {}

/// Says one thing twice.
#[tool(reads, network, network)]
fn twice() {}

export_tools![forgotten, elsewhere, both, twice];

fn main() {}
