//! The sample that Python, JavaScript and C have too, in Rust.

use toolhost_sdk::prelude::*;

/// How many words there are.
#[data]
struct Count {
    /// Number of words.
    words: u32,
}

/// Count the words of a text.
#[tool(pure, category = "data", output = Count)]
fn word_count_rs(
    cx: &Context,
    /// The text, for example `to be or not to be`.
    text: String,
) -> Result<Outcome> {
    cx.info("counting words");
    cx.progress("counting");
    cx.check()?;
    if text.is_empty() {
        return Err(Error::invalid_input("the text is empty").code("empty_text"));
    }
    let words = u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX);
    Ok(Outcome::text(format!("{words} words")).structured(&Count { words }))
}

export_tools![word_count_rs];
