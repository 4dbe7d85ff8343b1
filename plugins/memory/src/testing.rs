//! Test helpers that call a tool like a host and compare the result.

use std::fs;
use std::path::Path;

use expect_test::Expect;
use toolhost_sdk::prelude::*;
use toolhost_sdk::testing;

pub use testing::show as shown;

pub fn check<T: Tool>(cx: &Context, input: Value, expected: Expect) {
    expected.assert_eq(&shown::<T>(cx, input));
}

pub fn run_examples<T: Tool>(cx: impl Fn() -> Context) {
    testing::run_examples::<T>(cx).unwrap();
}

/// The text of a successful call, for the setup steps of a test.
pub fn text<T: Tool>(cx: &Context, input: Value) -> String {
    match testing::call::<T>(cx, input) {
        Ok(outcome) => {
            let parts = outcome.llm.into_iter();
            parts.filter_map(|part| part.text).collect()
        }
        Err(error) => error.to_string(),
    }
}

/// Writes files below a directory.
pub fn write(dir: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}
