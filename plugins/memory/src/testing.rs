//! Calls a tool as a host would and writes down what came of it, as text that is the same on every run.

use std::fs;
use std::path::Path;

use expect_test::Expect;
use toolhost_sdk::prelude::*;
use toolhost_sdk::testing;

/// What the model reads, then the summary, the data and the error.
pub fn check<T: Tool>(cx: &Context, input: Value, expected: Expect) {
    expected.assert_eq(&shown::<T>(cx, input));
}

pub fn shown<T: Tool>(cx: &Context, input: Value) -> String {
    match testing::call::<T>(cx, input) {
        Ok(outcome) => show(outcome),
        Err(error) => failure(&error),
    }
}

/// The text alone, for steps on the way to what a test is about.
pub fn text<T: Tool>(cx: &Context, input: Value) -> String {
    match testing::call::<T>(cx, input) {
        Ok(outcome) => outcome
            .llm
            .into_iter()
            .filter_map(|part| part.text)
            .collect(),
        Err(error) => failure(&error),
    }
}

/// Each example is an input, and the tool takes it.
pub fn run_examples<T: Tool>(cx: impl Fn() -> Context) {
    testing::check_examples::<T>().unwrap();
    let examples = T::descriptor().examples;
    assert!(!examples.is_empty());
    for example in examples {
        let input = toolhost_sdk::serde_json::from_str(&example.input).unwrap();
        let outcome = testing::call::<T>(&cx(), input);
        assert!(
            outcome.is_ok_and(|outcome| outcome.error.is_none()),
            "{}",
            example.description
        );
    }
}

fn show(outcome: Outcome) -> String {
    let mut lines: Vec<String> = outcome
        .llm
        .into_iter()
        .filter_map(|part| part.text)
        .collect();
    lines.extend(outcome.summary.map(|summary| format!("summary: {summary}")));
    lines.extend(outcome.structured.map(|data| data.to_string()));
    lines.extend(
        outcome
            .error
            .map(|error| format!("error: {}", failure(&error))),
    );
    lines.join("\n")
}

fn failure(error: &Error) -> String {
    let mut text = format!(
        "{:?} {}: {error}",
        error.kind,
        error.code.as_deref().unwrap_or("-")
    );
    for advice in &error.recommendations {
        text.push_str("\n- ");
        text.push_str(advice);
    }
    text
}

/// Writes files below a directory.
pub fn write(dir: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}
