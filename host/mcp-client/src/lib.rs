//! Tools of other MCP servers and of discovery commands.
//!
//! A server is an external program in a sandbox or with all rights of the user, or a remote machine. Its data is not trusted without checks:
//! names are converted, annotations are used only if the operator trusts the server, definitions are compared with
//! those that the user approved, and results are bounded. Misbehavior of a server affects only its own calls.
//!
//! Read in this order: `config.rs` (the configuration), `server.rs` (the lifecycle of one server), `connection.rs` (one
//! connection), `listing.rs` and `tool_conversion.rs` (its tools), `backend.rs` (a call).

mod approvals;
mod backend;
mod config;
mod connection;
mod definition;
mod dial;
mod directory_limits;
mod discovery;
mod elicitation;
mod error;
mod expanded;
#[cfg(test)]
mod fuzz;
mod handler;
mod line_filter;
mod listing;
mod log;
mod login;
mod private_files;
mod resources;
mod results;
mod running_calls;
mod sandbox;
mod server;
mod server_state;
mod stdio;
#[cfg(test)]
mod testing;
mod throttled_transport;
mod tool_conversion;
mod tool_names;
mod web;

pub use approvals::{
    ApprovalError, Approvals, ApprovedDefinition, ToolChange, ToolComparison, needs_approval,
};
pub use backend::ServerTools;
pub use config::{
    HiddenValue, OAuth, ServerAddress, ServerConfig, ServerProgram, TIMEOUT, TransportConfig,
};
pub use definition::Definition;
pub use dial::{ClientTransport, Dial, DialedConnection};
pub use directory_limits::NOT_LIMITED;
pub use discovery::{Discovered, DiscoveredTools, Discovery, DiscoveryContext};
pub use error::ServerError;
pub use expanded::ExpandedText;
pub use listing::{Listing, ListingChecks};
pub use log::{ServerLogger, WriteLine};
pub use login::{LoginPage, LoginStore};
pub use private_files::{private_file, private_folder};
pub use running_calls::AskUser;
pub use sandbox::{
    AccessLog, RefusedAccess, SandboxContext, ServeProxy, ServerNetwork, ServerProfile,
    ServerSandbox,
};
pub use server::{EventListener, Server, ServerContext, ServerEvent, ServerShared};
pub use server_state::ServerState;
pub use stdio::{INHERITED_VARIABLES, StdioDialer};
pub use tool_conversion::{AdoptedTool, ExcludedTool, ToolCheck};
pub use tool_names::{plugin_name, tool_name};
pub use web::HttpDialer;
