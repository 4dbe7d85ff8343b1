//! Two equal tools, one of which describes its calls.

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

export_tools![plain, described];
export_previews![described];
