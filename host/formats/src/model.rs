//! Tool lists, turns and results in the JSON of model APIs.
//!
//! An agent loop passes the tool list to the API, passes the model's turn back unchanged, and gets the message to send
//! next. A format determines the shape of the JSON; a [profile](crate::profile) determines tool and parameter names.
//! The two are independent.
//!
//! ```
//! use serde_json::json;
//! use toolhost_contract::Part;
//! use toolhost_formats::model::{AnsweredCall, Format};
//! use toolhost_formats::profile::RenderedResult;
//!
//! let turn = json!({"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"at": "a"}}}]});
//! let calls = Format::Gemini.read_turn(&turn)?;
//! assert_eq!((calls[0].name.as_str(), &calls[0].input), ("look", &json!({"at": "a"})));
//!
//! let seen = Part::Text("a tree".to_owned());
//! let result = RenderedResult { parts: vec![seen], structured: None, is_error: false };
//! let answered = AnsweredCall { call: &calls[0], result: &result };
//! assert_eq!(
//!     Format::Gemini.format_results(&[answered])["parts"][0]["functionResponse"]["response"],
//!     json!({"output": "a tree"}),
//! );
//! # Ok::<(), toolhost_formats::model::FormatError>(())
//! ```

mod alternative_properties;
mod anthropic;
mod api;
mod gemini;
mod keywords;
mod mcp;
mod name_map;
mod openai;
mod openai_responses;
mod part_content;
mod restore;
mod root;
mod strict;
mod turn;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::profile::RenderedResult;
use toolhost_contract::nearest;
use toolhost_contract::{Descriptor, ToolHints, text};

use api::{ListOptions, ModelApi};
pub use name_map::NameMap;
pub use restore::restore;
pub use turn::ModelCall;

/// Declares [`Format`]. A new format needs only its file and a row here.
macro_rules! formats {
    ($($(#[$doc:meta])* $format:ident => $api:expr,)*) => {
        /// The API whose JSON is used.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Format {
            $($(#[$doc])* $format,)*
        }

        impl Format {
            pub const ALL: [Format; [$(Format::$format,)*].len()] = [$(Format::$format,)*];

            fn api(self) -> &'static dyn ModelApi {
                match self {
                    $(Format::$format => &$api,)*
                }
            }
        }
    };
}

formats! {
    /// The Anthropic Messages API.
    Anthropic => anthropic::Anthropic,
    /// The OpenAI Chat Completions API, which many other vendors implement.
    OpenAi => openai::OpenAi,
    /// The OpenAI Responses API.
    OpenAiResponses => openai_responses::OpenAiResponses,
    /// Google's `generateContent`.
    Gemini => gemini::Gemini,
    /// `tools/list` and `tools/call` of the Model Context Protocol.
    Mcp => mcp::Mcp,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("`{name}` is not a format; {hint}")]
    Unknown {
        /// Escaped and truncated.
        name: String,
        hint: String,
    },
    /// The value does not contain a model turn.
    #[error("this is not a turn in the format `{format}`: {reason}")]
    NotATurn { format: Format, reason: String },
    /// The value is an error response of the API.
    #[error("the API returned an error instead of a turn: {message}")]
    ApiFailed {
        /// Escaped and truncated.
        message: String,
    },
}

/// A tool with the name for the model.
#[derive(Debug, Clone, Copy)]
pub struct ListedTool<'a> {
    pub name: &'a str,
    pub tool: &'a Descriptor,
    pub hints: ToolHints,
}

/// A tool list for a request.
#[derive(Debug, Clone, PartialEq)]
pub struct FormattedTools {
    /// The value of the member `tools` of the request.
    pub tools: Value,
    /// Notes for the operator, one sentence each.
    pub notes: Vec<String>,
}

/// A call with its result.
#[derive(Debug, Clone, Copy)]
pub struct AnsweredCall<'a> {
    pub call: &'a ModelCall,
    pub result: &'a RenderedResult,
}

impl Format {
    pub fn as_str(self) -> &'static str {
        self.api().name()
    }

    /// Returns whether the format supports strict schemas.
    pub fn supports_strict(self) -> bool {
        self.api().supports_strict()
    }

    /// Returns the tool list of a request. `strict` requests strict schemas, where the API supports them and the schema
    /// allows it.
    pub fn tool_list(self, tools: &[ListedTool], strict: bool) -> FormattedTools {
        let names = NameMap::new(self, tools.iter().map(|tool| tool.name));
        let mut options = ListOptions {
            strict: strict && self.supports_strict(),
            notes: Vec::new(),
        };
        let mut listed = Vec::new();
        for tool in tools {
            let name = names.to_listed(tool.name);
            let Some(entry) = self.api().list_tool(name, tool, &mut options) else {
                continue;
            };
            if name != tool.name {
                options.notes.push(format!(
                    "`{}` is listed as `{name}`: the format `{self}` does not support its name",
                    text::escape_line(tool.name, 80)
                ));
            }
            listed.push(entry);
        }
        FormattedTools {
            tools: self.api().tool_list(listed),
            notes: options.notes,
        }
    }

    /// Reads the calls of a turn: of a message, its content alone, or a whole response body.
    ///
    /// # Errors
    ///
    /// Fails if the value is not a turn. An invalid call is not an error: it is returned and answered.
    pub fn read_turn(self, turn: &Value) -> Result<Vec<ModelCall>, FormatError> {
        turn::read(self, turn)
    }

    /// Returns the stop reason of a turn that did not end normally, escaped and truncated, for example
    /// `MALFORMED_FUNCTION_CALL`. After such a turn without calls, the model is not done.
    pub fn abnormal_stop_reason(self, turn: &Value) -> Option<String> {
        turn::abnormal_stop_reason(self, turn)
    }

    /// Detects the format of a turn, for hints in error messages. The result is never used to read a turn.
    pub fn detect(turn: &Value) -> Option<Format> {
        turn::detect_format(turn)
    }

    /// Returns the message to send next, with a result for each call, in call order.
    pub fn format_results(self, answered: &[AnsweredCall]) -> Value {
        self.api().format_results(answered)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        if let Some(found) = Format::ALL.into_iter().find(|one| one.as_str() == name) {
            return Ok(found);
        }
        let names = Format::ALL.map(Format::as_str);
        let all = names.join(", ");
        let hint = match nearest(text::head(name, 40), names, 1).first() {
            Some(near) => format!("did you mean `{near}`? the formats are {all}"),
            None => format!("use one of {all}"),
        };
        Err(FormatError::Unknown {
            name: text::escape_line(name, 40),
            hint,
        })
    }
}

#[cfg(test)]
mod tests;
