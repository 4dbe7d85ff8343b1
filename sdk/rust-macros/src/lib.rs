//! The two attributes a plugin author writes: `#[tool]` on a function, `#[data]` on a type.
//!
//! They are used through `toolhost-sdk`, whose documentation explains them. Here they are thin: each hands its
//! tokens to a plain function, so that tests can read an expansion without a compiler around it.

mod args;
mod data;
mod docs;
mod nearest;
mod tool;
mod types;
mod words;

#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Makes a function a tool: its name, doc comments and parameters become what the model reads.
#[proc_macro_attribute]
pub fn tool(words: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(words.into(), &item.into()).into()
}

/// Makes a struct or an enum part of a tool's input or output: serde's traits, a schema, an outcome.
#[proc_macro_attribute]
pub fn data(words: TokenStream, item: TokenStream) -> TokenStream {
    data::expand(&words.into(), item.into()).into()
}
