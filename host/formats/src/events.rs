//! Event formats of other systems: Gemini CLI, Kode-SDK, Sema and Pegasus.
//!
//! A front end that was written for one of these systems consumes its event format and finds the events, members and
//! state names that it expects. Formats are derived only from [`BusEvent`]s, so they contain no further information.

pub mod gemini;
pub mod kode;
pub mod pegasus;
pub mod sema;
mod snapshot_view;

use serde_json::Value;

use toolhost_contract::bus::BusEvent;

/// The event format of one system.
pub trait EventFormat: Send {
    /// Converts an event to events of the system, in order. Most events convert to none or one.
    fn convert(&mut self, event: &BusEvent) -> Vec<Value>;
}

/// The names for [`by_name`].
pub const NAMES: [&str; 4] = ["gemini", "kode", "sema", "pegasus"];

/// Returns the event format with this name.
pub fn by_name(name: &str) -> Option<Box<dyn EventFormat>> {
    match name {
        "gemini" => Some(Box::new(gemini::GeminiEvents::default())),
        "kode" => Some(Box::new(kode::KodeEvents)),
        "sema" => Some(Box::new(sema::SemaEvents)),
        "pegasus" => Some(Box::new(pegasus::PegasusEvents)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
