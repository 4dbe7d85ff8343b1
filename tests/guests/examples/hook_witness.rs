//! A hook that reports what it can observe and access. It also exports a tool.

use std::fs;

use toolhost_sdk::prelude::*;

/// The received call, and the results of accessing files and variables of the host.
fn before(cx: &Context, call: &HookCall) -> Before {
    let variables = std::env::vars().count();
    let roots: Vec<String> = cx
        .roots()
        .iter()
        .map(|root| format!("{} {}", root.path, root.access))
        .collect();
    let observations = json!({
        "call": format!("{call:?}"),
        "event": cx.extra().map(|extra| extra["event"].clone()),
        "mode": cx.mode(),
        "roots": roots,
        "variables": variables,
        "read": fs::read_to_string("f.txt").ok(),
        "written": fs::write("made.txt", "x").is_ok(),
        "called": cx.call_tool("hook_witness", &json!({})).err().and_then(|error| error.code),
    });
    Before::ask("look at what I saw")
        .with_input(json!({"seen": true}))
        .meta(observations)
}

fn after(_: &Context, call: &HookCall, outcome: &Outcome) -> After {
    if call.is("never") {
        return After::keep();
    }
    let summary = format!("{} parts", outcome.llm.len());
    After::replace(outcome.clone().summary(summary))
}

/// Confirm that it is loaded.
#[tool(pure)]
fn hook_witness() -> String {
    "here".to_owned()
}

export_tools![hook_witness];
export_hooks! { before: before, after: after }
