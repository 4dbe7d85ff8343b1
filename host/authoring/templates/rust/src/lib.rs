//! The plugin `@NAME@`.

use toolhost_sdk::prelude::*;

/// The number of words in a text.
#[data]
struct WordCount {
    /// Number of words, separated by white space.
    words: usize,
}

/// Count the words of a text, separated by white space.
#[tool(
    pure,
    name = "@TOOL@",
    category = "data",
    example(description = "a sentence of six words", input = r#"{"text": "to be or not to be"}"#)
)]
fn count_words(
    _cx: &Context,
    /// The text whose words are counted.
    text: String,
) -> WordCount {
    WordCount {
        words: text.split_whitespace().count(),
    }
}

export_tools![count_words];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_separated_by_white_space() {
        let outcome = toolhost_sdk::testing::call::<count_words>(&Context::test(), json!({"text": "one\ntwo"})).unwrap();
        assert_eq!(outcome.structured, Some(json!({"words": 2})));
    }
}
