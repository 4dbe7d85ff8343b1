use toolhost_sdk::prelude::*;

fn validates_nothing(_text: String) {}

fn describes_less() -> String {
    String::new()
}

fn locates_texts(text: String) -> Vec<String> {
    vec![text]
}

fn confirms_always(_text: String) -> bool {
    true
}

fn renders_one(text: String) -> Display {
    Display::text(text)
}

fn renders_no_outcome(text: String) -> Vec<Display> {
    vec![Display::text(text)]
}

/// Describes its calls with functions of other types.
#[tool(
    pure,
    validate = validates_nothing,
    describe_call = describes_less,
    locations = locates_texts,
    confirm = confirms_always,
    render_permission = renders_one,
    render_result = renders_no_outcome
)]
fn mistaken(
    /// A text.
    text: String,
) -> String {
    text
}

/// Names no function.
#[tool(pure, validate)]
fn nameless() {}

/// Names a function of the other interface.
#[tool(pure, hooks = ["validate"])]
fn confused() {}

/// Names no hook.
#[tool(pure, hooks = ["before"])]
fn unknown() {}

fn main() {}
