//! The `Tool` trait, which `#[tool]` implements.

use std::borrow::Cow;

use serde_json::Value;

use crate::{Context, Descriptor, Outcome, Previews, Result};

/// A tool. `#[tool]` implements this for a function; implement it by hand for full control:
///
/// ```
/// use toolhost_sdk::prelude::*;
///
/// /// A point in the plane.
/// #[data]
/// struct Point {
///     /// To the right.
///     x: f64,
///     /// Upwards.
///     y: f64,
/// }
///
/// struct Length;
///
/// impl Tool for Length {
///     fn descriptor() -> Descriptor {
///         Descriptor::new("length", "How far a point is from the origin.").input::<Point>().pure()
///     }
///
///     fn call(_: &Context, input: Value) -> Result<Outcome> {
///         let Point { x, y } = toolhost_sdk::serde_json::from_value(input)?;
///         x.hypot(y).into_outcome()
///     }
/// }
///
/// export_tools![Length];
/// ```
pub trait Tool {
    fn descriptor() -> Descriptor;

    /// The descriptor for an environment, whose members `wit/v0.1/tool.wit` lists. Only its texts and schemas should
    /// depend on it.
    fn describe(_environment: &[(String, String)]) -> Descriptor {
        Self::descriptor()
    }

    /// Runs one call. The host has validated the input object against the tool's schema.
    fn call(cx: &Context, input: Value) -> Result<Outcome>;

    /// The name of the descriptor. Used by every call, so `#[tool]` avoids building a descriptor.
    fn name() -> Cow<'static, str> {
        Cow::Owned(Self::descriptor().name)
    }

    /// Functions that describe calls of the tool. If there is one, list the tool in `export_previews!` too.
    fn previews() -> Previews {
        Previews::NONE
    }
}
