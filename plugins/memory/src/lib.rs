//! Persistent notes for agents. A separate plugin, so that it has access to nothing but the notes.

mod memory;

toolhost_sdk::export_tools![memory::memory];
