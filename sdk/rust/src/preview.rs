//! Functions with which a tool describes its own calls to the host and its user.

use serde_json::Value;

use crate::{Context, Display, Outcome, Result};

/// A function that describes a call with this input.
pub type PreviewFn<T> = fn(&Context, Value) -> Result<T>;

/// A function that renders the outcome of the call with this input.
pub type RenderResultFn = fn(&Context, Value, &Outcome) -> Result<Vec<Display>>;

/// The functions of one tool for describing its calls; `None` for those that it lacks.
///
/// Options of [`#[tool]`](crate::tool) create it. Each function gets the input of the call, which the host has validated
/// against the schema, and runs without files and other capabilities.
#[derive(Clone, Copy, Debug, Default)]
pub struct Previews {
    /// Refuses the call with an error.
    pub validate: Option<PreviewFn<()>>,
    /// The call in one line.
    pub describe_call: Option<PreviewFn<String>>,
    /// Paths that the call will use and the input does not name.
    pub locations: Option<PreviewFn<Vec<Location>>>,
    /// The reason why the user must approve the call.
    pub confirm: Option<PreviewFn<Option<String>>>,
    /// Content for the prompt in which the user decides.
    pub render_permission: Option<PreviewFn<Vec<Display>>>,
    /// Content for the user in place of the display of the outcome.
    pub render_result: Option<RenderResultFn>,
}

impl Previews {
    pub const NONE: Self = Self {
        validate: None,
        describe_call: None,
        locations: None,
        confirm: None,
        render_permission: None,
        render_result: None,
    };

    /// The functions by their names in the contract.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let names = [
            ("validate", self.validate.is_some()),
            ("describe-call", self.describe_call.is_some()),
            ("locations", self.locations.is_some()),
            ("confirm", self.confirm.is_some()),
            ("render-permission", self.render_permission.is_some()),
            ("render-result", self.render_result.is_some()),
        ];
        names
            .into_iter()
            .filter_map(|(name, present)| present.then_some(name))
    }
}

/// A path that a call will use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// As the input of the tool would name it; relative to `/workspace`.
    pub path: String,
    pub write: bool,
    /// The line that the call concerns, from 1.
    pub line: Option<u32>,
}

impl Location {
    /// The call reads this path.
    pub fn read(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            write: false,
            line: None,
        }
    }

    /// The call changes this path.
    pub fn write(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            write: true,
            line: None,
        }
    }

    /// Names the line that the call concerns, from 1.
    #[must_use]
    pub fn at_line(mut self, line: u32) -> Self {
        self.line = Some(line);
        self
    }
}
