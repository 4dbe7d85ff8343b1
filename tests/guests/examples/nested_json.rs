//! Returns JSON with 100 000 levels of nesting.

use toolhost_sdk::prelude::*;

fn deep() -> Part {
    Part {
        kind: "json".into(),
        text: Some("[".repeat(100_000)),
        ..Part::text("")
    }
}

/// Returns JSON with 100 000 levels of nesting.
#[tool(pure)]
fn nested_json() -> Outcome {
    Outcome {
        structured: None,
        llm: vec![deep()],
        ..Outcome::text("")
    }
}

export_tools![nested_json];
