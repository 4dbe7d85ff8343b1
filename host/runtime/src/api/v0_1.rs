//! `toolhost:plugin@0.1.0`: generated bindings and the `host` interface. The modules convert between WIT and host types.

use toolhost_contract::text;
use wasmtime::component::HasSelf;

use crate::state::State;

mod descriptors;
#[cfg(test)]
pub mod fuzz;
pub mod hooks;
mod outcomes;
pub mod preview;
pub mod services;

wasmtime::component::bindgen!({
    path: "../../wit/v0.1",
    world: "plugin",
    exports: { default: async },
    // Descriptions are cached.
    additional_derives: [serde::Serialize, serde::Deserialize],
});

pub use descriptors::{MAX_TEXT, MAX_TOOLS, descriptors};
pub use outcomes::{MAX_DETAILS, error, error_code, outcome, too_large};
pub use toolhost::plugin::types;

/// The version that components are built against.
pub const VERSION: &str = "0.1.0";
/// Functions of the interface `host`.
pub const HOST_FUNCTIONS: [&str; 6] = [
    "log",
    "progress",
    "output",
    "emit",
    "cancelled",
    "remaining-ms",
];

/// Overhead that is counted for each chunk of live output, in bytes.
const EVENT_OVERHEAD: usize = 64;
/// Member names of extensible JSON objects with this prefix belong to later versions of the contract.
const RESERVED_PREFIX: &str = "dev.toolhost/";

pub fn add_to_linker(linker: &mut wasmtime::component::Linker<State>) -> wasmtime::Result<()> {
    toolhost::plugin::host::add_to_linker::<State, HasSelf<State>>(linker, State::for_host_call)?;
    services::add_to_linker(linker)
}

impl types::Host for State {}

impl toolhost::plugin::host::Host for State {
    fn log(&mut self, level: String, message: String) {
        State::log(self, &level, &message);
    }

    fn progress(&mut self, update: toolhost::plugin::host::ProgressUpdate) {
        State::progress(self, update.message, update.progress, update.total);
    }

    fn output(&mut self, stream: String, bytes: Vec<u8>) {
        self.deadline.restart_inactivity();
        // An event costs the host more than its bytes, so its overhead counts too.
        if !bytes.is_empty() && self.stdout.count(bytes.len() + EVENT_OVERHEAD) {
            let stream = text::escape_line(&stream, 64);
            self.stdout.send_other(stream, bytes);
        }
    }

    fn emit(&mut self, event: String, data: String) {
        self.custom(event, &data);
    }

    fn cancelled(&mut self) -> bool {
        self.remaining().is_zero() || self.sink.is_cancelled()
    }

    fn remaining_ms(&mut self) -> f64 {
        self.remaining().as_secs_f64() * 1000.0
    }
}
