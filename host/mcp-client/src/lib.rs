//! Tools of other MCP servers and of discovery commands, as tools of ours.
//!
//! A server is somebody else's program with its own rights, or somebody else's machine. So nothing of it is believed
//! that was not checked: names are made ours, hints count only where the operator trusts the server, definitions are
//! held against what a person approved, results are bounded, and whatever the server does wrong costs its own calls
//! and nobody else's.
//!
//! Read in this order: `config.rs` (what an operator says), `server.rs` (one server's life), `link.rs` (one
//! connection), `listing.rs` and `adopt.rs` (from its tools to ours), `backend.rs` (a call).

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
