//! Persistent notes for agents. A separate plugin, so that it has access to nothing but the notes.

mod memory;
mod show;
#[cfg(test)]
mod testing;

toolhost_sdk::export_tools![memory::memory];
