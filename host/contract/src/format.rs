//! Tools, turns and results in the JSON of each model's API.
//!
//! An agent loop hands the list to the API as it is, hands what the model said back as it is, and gets what the API
//! takes next. A format says how the JSON is shaped; a [profile](crate::profile) says whose names and parameters stand
//! in it, and the two combine.
//!
//! ```
//! use serde_json::json;
//! use toolhost_contract::Part;
//! use toolhost_contract::format::{Answered, Format};
//! use toolhost_contract::profile::Rendered;
//!
//! let turn = json!({"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"at": "a"}}}]});
//! let calls = Format::Gemini.read_turn(&turn)?;
//! assert_eq!((calls[0].name.as_str(), &calls[0].input), ("look", &json!({"at": "a"})));
//!
//! let seen = Part::Text("a tree".to_owned());
//! let result = Rendered { parts: vec![seen], structured: None, is_error: false };
//! let answered = Answered { call: &calls[0], result: &result };
//! assert_eq!(
//!     Format::Gemini.answer(&[answered])["parts"][0]["functionResponse"]["response"],
//!     json!({"output": "a tree"}),
//! );
//! # Ok::<(), toolhost_contract::format::FormatError>(())
//! ```

mod answer;
mod gemini;
mod keywords;
mod list;
mod names;
mod restore;
mod root;
mod strict;
mod turn;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::names::nearest;
use crate::profile::Rendered;
use crate::{Descriptor, Hints, text};

pub use names::Names;
pub use restore::restore;
pub use turn::Wanted;

/// Whose JSON it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The Messages API of Anthropic.
    Anthropic,
    /// The Chat Completions API of OpenAI, which many others speak too.
    OpenAi,
    /// The Responses API of OpenAI.
    OpenAiResponses,
    /// `generateContent` of Google.
    Gemini,
    /// `tools/list` and `tools/call` of the Model Context Protocol.
    Mcp,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("`{name}` is not a format; {hint}")]
    Unknown {
        /// Escaped and cut.
        name: String,
        hint: String,
    },
    /// What was handed in holds no turn of a model.
    #[error("this is not a turn in the format `{format}`: {reason}")]
    NotATurn { format: Format, reason: String },
    /// The API answered with an error, and that was handed in.
    #[error("the API answered with an error instead of a turn: {message}")]
    ApiFailed {
        /// Escaped and cut.
        message: String,
    },
}

/// A tool by the name that the model will use.
#[derive(Debug, Clone, Copy)]
pub struct Tool<'a> {
    pub name: &'a str,
    pub tool: &'a Descriptor,
    pub hints: Hints,
}

/// The list for a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The value of the request's member `tools`.
    pub tools: Value,
    /// What an operator wants to know about it, a sentence each.
    pub notes: Vec<String>,
}

/// A call that was answered.
#[derive(Debug, Clone, Copy)]
pub struct Answered<'a> {
    pub call: &'a Wanted,
    pub result: &'a Rendered,
}

impl Format {
    pub const ALL: [Format; 5] = [
        Format::Anthropic,
        Format::OpenAi,
        Format::OpenAiResponses,
        Format::Gemini,
        Format::Mcp,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Format::Anthropic => "anthropic",
            Format::OpenAi => "openai",
            Format::OpenAiResponses => "openai-responses",
            Format::Gemini => "gemini",
            Format::Mcp => "mcp",
        }
    }

    /// Can a list bind the model to the schemas?
    pub fn has_strict(self) -> bool {
        matches!(self, Format::OpenAi | Format::OpenAiResponses)
    }

    /// The tools as a request takes them. `strict` binds the model to the schemas, where the API has that and the
    /// schema allows it.
    pub fn tools(self, tools: &[Tool], strict: bool) -> Listed {
        list::tools(self, tools, strict && self.has_strict())
    }

    /// The calls of one turn: of a message, of its content alone or of the whole body of a response.
    ///
    /// # Errors
    ///
    /// When it is no turn at all. A call that makes no sense is a call nevertheless, and is answered.
    pub fn read_turn(self, turn: &Value) -> Result<Vec<Wanted>, FormatError> {
        turn::read(self, turn)
    }

    /// The API's word for the end of a turn that did not end as usual, escaped and cut: `MALFORMED_FUNCTION_CALL`, say.
    /// A turn without calls that ended so is none after which the model is done.
    pub fn ended(self, turn: &Value) -> Option<String> {
        turn::ended(self, turn)
    }

    /// Whose turn it looks like, to say what was meant. Nothing is read by a guess.
    pub fn guess(turn: &Value) -> Option<Format> {
        turn::looks_like(turn)
    }

    /// What the API takes next: an answer for each call, in call order.
    pub fn answer(self, answered: &[Answered]) -> Value {
        answer::answer(self, answered)
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
            Some(near) => format!("did you mean `{near}`? there are {all}"),
            None => format!("write one of {all}"),
        };
        Err(FormatError::Unknown {
            name: text::inline(name, 40),
            hint,
        })
    }
}

#[cfg(test)]
mod tests;
