//! The host's web page: approvals and history, served on loopback.
//!
//! Start with `server.rs` (connections and routes), then `access.rs` (who may send a request) and `inbox.rs` (pending
//! questions). `pages` has one file per page. Text of plugins, models and files is shown with `guest_text.rs` only.

mod access;
mod answers;
mod assets;
mod binary_view;
mod charts;
mod command_view;
mod commit_view;
mod decision_view;
mod diff_view;
mod edits;
mod error_page;
mod events;
mod flame;
mod form;
mod guest_text;
mod history;
mod host_view;
mod inbox;
mod interviews;
mod layout;
mod links;
mod log_view;
mod outcome;
mod pages;
mod prompter;
mod question_details;
mod question_view;
mod record_pages;
mod relative_time;
mod render_cache;
mod server;
mod state;
#[cfg(test)]
mod tests;
mod ticket;
mod times;

pub use host_view::{
    FileHistory, HostView, Need, PluginKind, PluginLimits, PluginView, UndoPreview,
};
pub use inbox::Inbox;
pub use prompter::UiPrompter;
pub use server::{UiServer, UiServerError};
pub use state::{Permission, UiOptions};
