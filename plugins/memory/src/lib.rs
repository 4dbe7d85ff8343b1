//! What an agent should still know next time. A plugin of its own, so that what can write there sees nothing else.

mod memory;
mod show;
#[cfg(test)]
mod testing;

toolhost_sdk::export_tools![memory::memory];
