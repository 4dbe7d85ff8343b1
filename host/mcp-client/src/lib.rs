//! Tools of other MCP servers and of discovery commands.
//!
//! A server is an external program with its own rights, or a remote machine. Its data is not trusted without checks:
//! names are converted, annotations are used only if the operator trusts the server, definitions are compared with
//! those that the user approved, and results are bounded. Misbehavior of a server affects only its own calls.
//!
//! Read in this order: `config.rs` (the configuration), `server.rs` (the lifecycle of one server), `connection.rs` (one
//! connection), `listing.rs` and `tool_conversion.rs` (its tools), `backend.rs` (a call).

mod adopt;
mod approvals;
mod ask;
mod backend;
mod calls;
mod config;
mod definition;
mod dial;
mod discovery;
mod error;
mod expanded;
#[cfg(test)]
mod fuzz;
mod guard;
mod handler;
mod lines;
mod link;
mod listing;
mod log;
mod login;
mod names;
mod private;
mod resources;
mod results;
mod server;
mod shape;
mod state;
mod stdio;
#[cfg(test)]
mod testing;
mod web;

pub use adopt::{Accept, Adopted, LeftOut};
pub use approvals::{ApprovalError, Approvals, Change, Earlier, Judged};
pub use backend::ServerTools;
pub use calls::Ask;
pub use config::{Address, Hidden, OAuth, Program, ServerConfig, TIMEOUT, Way};
pub use definition::Definition;
pub use dial::{Dial, Dialed, Wire};
pub use discovery::{Discovered, DiscoveredTools, Discovery, Ground};
pub use error::ServerError;
pub use expanded::Expanded;
pub use listing::{Judges, Listing};
pub use login::{LoginPage, Logins};
pub use names::{plugin_name, tool_name};
pub use private::{private_file, private_folder};
pub use server::{Hear, News, Server, Shared, Surroundings};
pub use state::State;
pub use stdio::{Stdio, VARIABLES};
pub use web::Web;
