//! Test helpers that call a tool like a host and compare the result.

use expect_test::Expect;
use toolhost_sdk::prelude::*;
use toolhost_sdk::testing;

pub use testing::{show as shown, text, write_files as write};

pub fn check<T: Tool>(cx: &Context, input: Value, expected: Expect) {
    expected.assert_eq(&shown::<T>(cx, input));
}

pub fn run_examples<T: Tool>(cx: impl Fn() -> Context) {
    testing::run_examples::<T>(cx).unwrap();
}
