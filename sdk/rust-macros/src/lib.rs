//! The attributes `#[tool]` for functions and `#[data]` for types.
//!
//! They are documented in `toolhost-sdk`. Each attribute passes its tokens to a plain function, so that tests can
//! inspect expansions.

mod args;
mod data;
mod docs;
mod nearest;
mod tool;
mod tool_options;
mod types;

#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Makes a function a tool. Its name, doc comments and parameters form the descriptor.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(options.into(), &item.into()).into()
}

/// Makes a struct or enum usable in a tool's input or output: serde implementations, schema and outcome.
#[proc_macro_attribute]
pub fn data(options: TokenStream, item: TokenStream) -> TokenStream {
    data::expand(&options.into(), item.into()).into()
}
