//! Expansion tests; each expansion is a file under `tests/expand`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use expect_test::{ExpectFile, expect_file};
use proc_macro2::TokenStream;

use crate::{data, tool};

/// Expands `#[tool(options)]` on `item`.
fn check_tool(options: &str, item: &str, expected: &ExpectFile) {
    expected.assert_eq(&pretty(tool::expand(tokens(options), &tokens(item))));
}

/// Expands `#[data]` on `item`.
fn check_data(item: &str, expected: &ExpectFile) {
    expected.assert_eq(&pretty(data::expand(&TokenStream::new(), tokens(item))));
}

fn tokens(text: &str) -> TokenStream {
    text.parse().expect("the test's own text is made of tokens")
}

fn pretty(expansion: TokenStream) -> String {
    let file = syn::parse2(expansion).expect("an expansion is a list of items");
    prettyplease::unparse(&file)
}

#[test]
fn a_tool_with_everything() {
    check_tool(
        r##"
        reads, category = "file", timeout = "60s", tags = ["text", "count"],
        example(description = "count this file", input = r#"{"path": "Cargo.toml"}"#)
        "##,
        r#"
        /// Count the words
        /// of a text file.
        pub(crate) fn word_count(
            cx: &Context,
            /// Path of a text file.
            #[arg(aliases = ["file"], min_len = 1)]
            path: String,
            /// At most this many words.
            #[arg(default = 100, min = 1, max = MAX_WORDS)]
            mut limit: u32,
            /// How to count.
            #[arg(default = How::Fast)]
            how: How,
            /// Only words like this one.
            r#type: Option<String>,
        ) -> Result<usize> {
            Ok(0)
        }
        "#,
        &expect_file!["../tests/expand/everything.rs"],
    );
}

#[test]
fn a_tool_that_describes_its_calls() {
    check_tool(
        r#"writes, validate = check, describe_call = describe, render_result = render::result, hooks = ["pre-tool-use"]"#,
        r#"
        /// Write.
        fn write(
            cx: &Context,
            /// Where.
            path: String,
            /// What.
            text: Option<String>,
        ) -> String {
            path
        }
        "#,
        &expect_file!["../tests/expand/previews.rs"],
    );
}

#[test]
fn a_tool_with_nothing() {
    check_tool(
        "pure",
        "/// Do nothing.\nfn nothing() {}",
        &expect_file!["../tests/expand/nothing.rs"],
    );
}

#[test]
fn a_tool_with_an_error_keeps_its_function() {
    check_tool(
        "reed",
        "/// Read.\nfn read(path: String) {}",
        &expect_file!["../tests/expand/error.rs"],
    );
}

#[test]
fn a_struct() {
    check_data(
        r#"
        /// A place in a text.
        #[derive(Debug)]
        pub struct Place {
            /// The line.
            #[arg(default = 1, min = 1)]
            pub line: u32,
            /// The column.
            #[arg(rename = "col", aliases = ["column"])]
            column: Option<u32>,
        }
        "#,
        &expect_file!["../tests/expand/struct.rs"],
    );
}

#[test]
fn an_enum() {
    check_data(
        "
        /// How to count.
        enum How {
            /// Quickly.
            Fast,
            VeryThorough,
        }
        ",
        &expect_file!["../tests/expand/enum.rs"],
    );
}

/// Editors expand half-written code on every key press, which must not panic.
#[test]
fn no_item_makes_a_macro_panic() {
    let items = [
        "",
        "fn",
        "fn f(",
        "fn f() {}",
        "fn f(self) {}",
        "fn f(&self, x: u8) -> u8 { x }",
        "/// F.\nasync unsafe fn f<T>((a, b): (T, T), _: u8, x: &str, cx: Context) {}",
        "/// F.\nfn f(/// X.\n#[arg] x: u8, /// Y.\n#[arg()] y: u8, /// Z.\n#[arg(default)] z: u8) {}",
        "struct S;",
        "struct S(u8);",
        "struct S<T> { t: T }",
        "/// S.\nstruct S { /// Itself.\ninner: Vec<S>, #[serde(skip)] other: u8 }",
        "enum E { A(u8), B { c: u8 } }",
        "union U { a: u8 }",
        "const X: u8 = 1;",
    ];
    let options = [
        "",
        "pure",
        "pure, reads",
        "name",
        "name = 1",
        "output =",
        "example",
        "example(x = 1)",
        "= =",
        "\"text\"",
    ];
    for item in items {
        let Ok(item_tokens) = item.parse::<TokenStream>() else {
            continue;
        };
        for options in options {
            let expand = || {
                tool::expand(tokens(options), &item_tokens);
                data::expand(&tokens(options), item_tokens.clone());
            };
            assert!(
                catch_unwind(AssertUnwindSafe(expand)).is_ok(),
                "#[tool({options})] on {item}"
            );
        }
    }
}
