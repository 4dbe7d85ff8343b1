//! Errors point to the author's code and state the remedy.

#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/compile-fail/*.rs");
}
