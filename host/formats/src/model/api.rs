//! What is specific to the API of one vendor. Each implementation is one file of this directory.

use serde_json::Value;

use super::turn::{ModelCall, TurnParts};
use super::{AnsweredCall, FormatError, ListedTool};

pub(super) trait ModelApi: Sync {
    /// Returns the name of the format on the command line.
    fn name(&self) -> &'static str;

    /// Returns whether the API supports strict schemas.
    fn supports_strict(&self) -> bool {
        false
    }

    /// Returns whether names of tools can contain dots and begin with any character.
    fn supports_dotted_names(&self) -> bool {
        false
    }

    /// Returns whether a turn comes from a response body, which can be an error or a stream event instead.
    fn is_response(&self) -> bool {
        true
    }

    /// Returns the entry of one tool in the list of tools, or `None`, with a note, if the API would refuse it.
    fn list_tool(
        &self,
        name: &str,
        listed: &ListedTool,
        options: &mut ListOptions,
    ) -> Option<Value>;

    /// Returns the member `tools` of a request.
    fn tool_list(&self, tools: Vec<Value>) -> Value {
        Value::Array(tools)
    }

    /// Returns whether a turn, message or part has a member that only this format has.
    fn has_mark(&self, value: &Value) -> bool;

    /// Returns the parts of a turn that can contain calls. The turn is a message, its content alone, or a whole
    /// response body.
    fn locate_calls<'a>(&self, turn: &'a Value) -> Result<TurnParts<'a>, FormatError>;

    /// Returns the call in a part, if any. A call of another format is an error, because ignoring it would look as if
    /// the model were done.
    fn read_call(&self, part: &Value) -> Result<Option<ModelCall>, FormatError>;

    /// Returns the message to send next, with a result for each call, in call order.
    fn format_results(&self, answered: &[AnsweredCall]) -> Value;
}

pub(super) struct ListOptions {
    /// Request strict schemas where a schema allows it.
    pub strict: bool,
    /// Notes for the operator, one sentence each.
    pub notes: Vec<String>,
}
