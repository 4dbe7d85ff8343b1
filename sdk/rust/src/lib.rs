//! SDK for Toolhost plugins: the `#[tool]` attribute turns a function into a tool.
//!
//! ```
//! use std::fs;
//! use toolhost_sdk::prelude::*;
//!
//! /// Count the words of a text file.
//! #[tool(reads, category = "file", kind = "read")]
//! fn word_count(
//!     cx: &Context,
//!     /// Path of a text file in the workspace, for example `src/main.rs`.
//!     path: String,
//!     /// Count at most this many words.
//!     #[arg(default = 1000, min = 1)]
//!     limit: usize,
//! ) -> Result<usize> {
//!     cx.progress(&format!("reading {path}"));
//!     Ok(fs::read_to_string(&path)?.split_whitespace().take(limit).count())
//! }
//!
//! export_tools![word_count];
//!
//! // It remains a function, which tests can call:
//! let error = word_count(&Context::test(), "missing.txt".into(), 10).unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::NotFound);
//!
//! // Or call it like a host, from JSON, with defaults:
//! let outcome = toolhost_sdk::testing::call::<word_count>(&Context::test(), json!({"path": "Cargo.toml"}))?;
//! assert!(outcome.structured.is_some_and(|count| count.as_u64() > Some(10)));
//! # Ok::<(), Error>(())
//! ```
//!
//! The function's name is the tool's name, its doc comment the description for models, its parameters the schema. One
//! keyword declares the effect of the tool, which the host enforces by narrowing the sandbox of each call:
//!
//! | effect | the tool |
//! |---|---|
//! | `pure` | depends only on its input |
//! | `reads` | changes nothing |
//! | `writes` | makes reversible changes |
//! | `destroys` | may destroy data |
//!
//! Further options: `network`, `interactive`, `idempotent`, `lenient` (drop unknown members of the input instead of
//! rejecting them), `streams`, `background`, `plain_text` (a terminal does not render the text as Markdown); `name`,
//! `display_name`, `icon`, `category`, `kind`, `version`, `concurrency` (each `= "text"`); `tags`, `aliases`,
//! `requires`, `depends_on`, `sinks`, `sources` (each `= ["one", "two"]`); `timeout` and `inactivity_timeout`
//! (`= "500ms"`, `"60s"`, `"2m"`); `output = Type`, the type of the structured output, which a returned text is too
//! then; `example(description = "…", input = r#"{…}"#)`, any number of times.
//!
//! Functions with which a tool describes its own calls, each a function with the parameters of the tool:
//!
//! | option | returns | effect |
//! |---|---|---|
//! | `validate = f` | `Result<()>` | an error refuses the call |
//! | `describe_call = f` | `String` | the call in one line, for prompts, logs and events |
//! | `locations = f` | `Vec<Location>` | paths that rules check in addition to those in the input |
//! | `confirm = f` | `Option<String>` | the user must approve the call for this reason |
//! | `render_permission = f` | `Vec<Display>` | content for the prompt |
//! | `render_result = f` | `Vec<Display>` | content for the user; `f` also gets the `&Outcome`, as its last parameter |
//!
//! They can make the host more careful, never less. List such tools in [`export_previews!`] as well. `hooks =
//! ["pre-tool-use"]` or `["post-tool-use"]` lets the functions of [`export_hooks!`] guard the tool without configuration.
//!
//! `#[arg(...)]` on a parameter or a field of a [`data`] struct: `default`, `min`, `max`, `min_len`, `max_len`,
//! `pattern`, `aliases`, `rename`.
//!
//! For full control, implement [`Tool`] by hand; `export_tools!` accepts both.

#[cfg(test)]
extern crate self as toolhost_sdk;

mod arguments;
#[cfg_attr(target_arch = "wasm32", path = "backend/host.rs")]
#[cfg_attr(not(target_arch = "wasm32"), path = "backend/recorder.rs")]
mod backend;
#[doc(hidden)]
pub mod bindings;
mod content;
mod context;
mod convert;
mod descriptor;
mod error;
#[doc(hidden)]
pub mod export;
mod hook;
mod into_outcome;
mod outcome;
mod preview;
pub mod schema;
pub mod services;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
pub mod text;
mod tool;

pub use arguments::Arguments;
#[cfg(not(target_arch = "wasm32"))]
pub use backend::{Progress, Recorded};
pub use content::{Display, FileDiff, Part};
pub use context::{Context, Level, Root};
pub use descriptor::{Annotations, Descriptor, Example};
pub use error::{Error, ErrorKind, Result};
pub use hook::{After, Before, Decision, HookCall, Patch};
pub use into_outcome::IntoOutcome;
pub use outcome::{Outcome, TailCall, Truncation};
pub use preview::{Location, PreviewFn, Previews, RenderResultFn};
pub use schema::Schema;
pub use serde;
pub use serde_json::{self, Value, json};
pub use tool::Tool;
pub use toolhost_sdk_macros::{data, tool};

/// Compiles the first plugin of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// The imports of a plugin: `use toolhost_sdk::prelude::*;`.
pub mod prelude {
    pub use crate::{
        After, Before, Context, Decision, Descriptor, Display, Error, ErrorKind, FileDiff,
        HookCall, IntoOutcome, Level, Location, Outcome, Part, Previews, Result, Root, Schema,
        Tool, Value, data, export_hooks, export_previews, export_tools, json, tool,
    };
}

/// Exports the tools of a plugin: `export_tools![word_count, line_count, MyTool];`, once in a plugin.
///
/// Natively it exports nothing and only checks that each name is a [`Tool`].
#[macro_export]
macro_rules! export_tools {
    ($($tool:ty),+ $(,)?) => {
        const _: () = {
            const TOOLS: &[$crate::export::Entry] = &[$($crate::export::Entry::of::<$tool>()),+];

            #[cfg(target_arch = "wasm32")]
            $crate::bindings::export!(Plugin with_types_in $crate::bindings);

            #[cfg(target_arch = "wasm32")]
            struct Plugin;

            #[cfg(target_arch = "wasm32")]
            impl $crate::bindings::exports::toolhost::plugin::tool::Guest for Plugin {
                fn describe(
                    environment: ::std::vec::Vec<(::std::string::String, ::std::string::String)>,
                ) -> ::std::vec::Vec<$crate::bindings::exports::toolhost::plugin::tool::Descriptor> {
                    $crate::export::describe(TOOLS, &environment)
                }

                fn call(
                    request: $crate::bindings::exports::toolhost::plugin::tool::Request,
                ) -> ::std::result::Result<
                    $crate::bindings::exports::toolhost::plugin::tool::Outcome,
                    $crate::bindings::exports::toolhost::plugin::tool::ToolError,
                > {
                    $crate::export::call(TOOLS, request)
                }
            }

            // Natively, tools are called only by tests; this prevents dead code warnings.
            _ = TOOLS;
        };
    };
}

/// Exports the functions with which tools describe their calls, once per plugin and next to `export_tools!`, which lists
/// the same tools.
///
/// ```
/// use toolhost_sdk::prelude::*;
///
/// fn describe(to: String) -> String {
///     format!("Send a postcard to {to}")
/// }
///
/// fn abroad(to: String) -> Option<String> {
///     to.contains("abroad").then(|| "postage is expensive".to_owned())
/// }
///
/// /// Send a postcard.
/// #[tool(writes, describe_call = describe, confirm = abroad)]
/// fn send_postcard(
///     /// The address.
///     to: String,
/// ) -> String {
///     format!("sent to {to}")
/// }
///
/// export_tools![send_postcard];
/// export_previews![send_postcard];
/// ```
///
/// Natively it exports nothing.
#[macro_export]
macro_rules! export_previews {
    ($($tool:ty),+ $(,)?) => {
        const _: () = {
            const TOOLS: &[$crate::export::Entry] = &[$($crate::export::Entry::of::<$tool>()),+];

            #[cfg(target_arch = "wasm32")]
            $crate::bindings::preview::export!(Plugin with_types_in $crate::bindings::preview);

            #[cfg(target_arch = "wasm32")]
            struct Plugin;

            #[cfg(target_arch = "wasm32")]
            impl $crate::export::previews::wit::Guest for Plugin {
                fn validate(request: $crate::export::previews::wit::Request) -> ::std::result::Result<(), $crate::export::previews::wit::Failure> {
                    $crate::export::previews::validate(TOOLS, request)
                }

                fn describe_call(request: $crate::export::previews::wit::Request) -> ::std::string::String {
                    $crate::export::previews::describe_call(TOOLS, request)
                }

                fn locations(request: $crate::export::previews::wit::Request) -> ::std::vec::Vec<$crate::export::previews::wit::Location> {
                    $crate::export::previews::locations(TOOLS, request)
                }

                fn confirm(request: $crate::export::previews::wit::Request) -> ::std::option::Option<::std::string::String> {
                    $crate::export::previews::confirm(TOOLS, request)
                }

                fn render_permission(request: $crate::export::previews::wit::Request) -> ::std::vec::Vec<$crate::export::previews::wit::Display> {
                    $crate::export::previews::render_permission(TOOLS, request)
                }

                fn render_result(
                    request: $crate::export::previews::wit::Request,
                    outcome: $crate::export::previews::wit::Outcome,
                ) -> ::std::vec::Vec<$crate::export::previews::wit::Display> {
                    $crate::export::previews::render_result(TOOLS, request, outcome)
                }
            }

            _ = TOOLS;
        };
    };
}

/// Exports the hooks of a plugin, once per plugin, with or without `export_tools!`.
///
/// ```
/// use toolhost_sdk::prelude::*;
///
/// fn not_at_night(_: &Context, call: &HookCall) -> Before {
///     if call.is("deploy") { Before::ask("is it the right time?") } else { Before::proceed() }
/// }
///
/// fn whisper(_: &Context, _: &HookCall, outcome: &Outcome) -> After {
///     match outcome.llm.first().and_then(|part| part.text.as_ref()) {
///         Some(text) => After::text(text.to_lowercase()),
///         None => After::keep(),
///     }
/// }
///
/// export_hooks! { before: not_at_night, after: whisper }
/// ```
///
/// Either line may be omitted. Natively it exports nothing and only checks that each name is such a function.
#[macro_export]
macro_rules! export_hooks {
    (before: $before:path $(,)?) => {
        $crate::export_hooks!(@ Some($before), None);
    };
    (after: $after:path $(,)?) => {
        $crate::export_hooks!(@ None, Some($after));
    };
    (before: $before:path, after: $after:path $(,)?) => {
        $crate::export_hooks!(@ Some($before), Some($after));
    };
    (@ $before:expr, $after:expr) => {
        const _: () = {
            const HOOKS: $crate::export::Hooks = $crate::export::Hooks {
                before: $before,
                after: $after,
            };

            #[cfg(target_arch = "wasm32")]
            $crate::bindings::hook::export!(Plugin with_types_in $crate::bindings::hook);

            #[cfg(target_arch = "wasm32")]
            struct Plugin;

            #[cfg(target_arch = "wasm32")]
            impl $crate::bindings::hook::exports::toolhost::plugin::hooks::Guest for Plugin {
                fn pre_tool_use(
                    request: $crate::bindings::hook::exports::toolhost::plugin::hooks::Request,
                ) -> $crate::bindings::hook::exports::toolhost::plugin::hooks::PreToolUseResult {
                    $crate::export::before(HOOKS, request)
                }

                fn post_tool_use(
                    request: $crate::bindings::hook::exports::toolhost::plugin::hooks::Request,
                    outcome: $crate::bindings::hook::exports::toolhost::plugin::hooks::Outcome,
                ) -> $crate::bindings::hook::exports::toolhost::plugin::hooks::PostToolUseResult {
                    $crate::export::after(HOOKS, request, outcome)
                }
            }

            // Natively, hooks are called only by tests; this prevents dead code warnings.
            _ = HOOKS;
        };
    };
}
