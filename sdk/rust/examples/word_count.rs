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
    if text.is_empty() {
        return Err(Error::invalid_input("the text is empty").code("empty_text"));
    }
    cx.check()?;
    cx.info(&format!(
        "counting within {} ms",
        cx.remaining().as_millis()
    ));
    let words = u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX);
    cx.progress_with("counted", 1.0, 1.0);
    Ok(Outcome::text(format!("{words} words")).structured(&Count { words }))
}

export_tools![word_count_rs];
