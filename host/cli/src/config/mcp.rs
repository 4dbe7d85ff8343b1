//! `[mcp]`: what the clients of our MCP server may be asked for.

use serde::Deserialize;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct McpTable {
    /// Permissions and questions of tools go to the person at the client.
    pub ask: Option<bool>,
    /// The model of a client may be a sub-agent.
    pub sampling: Option<bool>,
    /// The folders that a client works in narrow its calls. Then only the protocols with sessions are served.
    pub roots: Option<bool>,
    /// The structured values of results are sent as well, for programs that read them.
    pub structured: Option<bool>,
    /// A file with the key for states of questions, the same for all hosts behind one address.
    #[serde(alias = "stateKey")]
    pub state_key: Option<String>,
}
