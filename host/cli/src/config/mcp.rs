//! `[mcp]`: which features of MCP clients the server uses, and the key that protects its questions.

use serde::Deserialize;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct McpTable {
    /// Send permission prompts and questions of tools to the client's user.
    pub ask: Option<bool>,
    /// Allow the client's model as a sub-agent, via MCP sampling.
    pub sampling: Option<bool>,
    /// Restrict calls to the roots of the client. Only protocol versions with sessions are served then.
    pub roots: Option<bool>,
    /// Send structured results too, for clients that read them.
    pub structured: Option<bool>,
    /// File with the key that protects the state of questions, shared by all hosts behind one address.
    #[serde(alias = "stateKey")]
    pub state_key: Option<String>,
}
