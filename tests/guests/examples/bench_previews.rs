//! Equal tools: without previews and hooks, with previews, and with hooks.

use toolhost_sdk::prelude::*;

/// Return a text.
#[tool(pure)]
fn plain(
    /// The text.
    text: String,
) -> String {
    text
}

/// Return a text.
#[tool(
    pure,
    validate = validate,
    describe_call = describe,
    locations = locations,
    confirm = confirm
)]
fn described(
    /// The text.
    text: String,
) -> String {
    text
}

/// Return a text.
#[tool(pure, hooks = ["pre-tool-use"])]
fn guarded_before(
    /// The text.
    text: String,
) -> String {
    text
}

/// Return a text.
#[tool(pure, hooks = ["pre-tool-use", "post-tool-use"])]
fn guarded(
    /// The text.
    text: String,
) -> String {
    text
}

fn validate(text: String) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid_input("text is empty"));
    }
    Ok(())
}

fn describe(text: String) -> String {
    format!("Return {} bytes", text.len())
}

fn locations(_text: String) -> Vec<Location> {
    Vec::new()
}

fn confirm(text: String) -> Option<String> {
    (text.len() > 1_000_000).then(|| "it is long".to_owned())
}

fn before(_: &Context, call: &HookCall) -> Before {
    if call.input["text"] == "" {
        return Before::deny("text is empty");
    }
    Before::proceed()
}

fn after(_: &Context, _: &HookCall, _: &Outcome) -> After {
    After::keep()
}

export_tools![plain, described, guarded_before, guarded];
export_previews![described];
export_hooks! { before: before, after: after }
