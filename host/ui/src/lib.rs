//! The host's web page: approvals and history, served on loopback.
//!
//! Start with `server.rs` (connections and routes), then `access.rs` (who may send a request) and `inbox.rs` (pending
//! questions). `pages` has one file per page. Text of plugins, models and files is shown with `guest_text.rs` only.

mod access;
mod answers;
mod assets;
mod binary_view;
mod command_view;
mod diff_view;
mod edits;
mod error_page;
mod events;
mod form;
mod guest_text;
mod inbox;
mod interviews;
mod layout;
mod pages;
mod prompter;
mod question_view;
mod relative_time;
mod risk;
mod server;
mod state;
#[cfg(test)]
mod tests;
mod ticket;

pub use inbox::Inbox;
pub use prompter::UiPrompter;
pub use server::{UiServer, UiServerError};
pub use state::{Permission, UiOptions};
