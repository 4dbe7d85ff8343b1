//! A mistake is reported on the author's own word, in a sentence that says what to write instead.

#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/compile-fail/*.rs");
}
