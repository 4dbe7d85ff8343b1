//! The life of a call in the words of other systems: Gemini CLI, Kode-SDK, Sema and Pegasus.
//!
//! A front end that was written for one of them listens to its view and finds the events, members and state words it
//! knows. A view reads [`BusEvent`]s and nothing else, so it can say nothing that the bus did not say.

pub mod gemini;
pub mod kode;
pub mod pegasus;
pub mod sema;
mod shown;

use serde_json::Value;

use crate::bus::BusEvent;

/// One system's way of telling what happens.
pub trait View: Send {
    /// The system's events for one of ours, in order. Most of ours have none or one.
    fn take(&mut self, event: &BusEvent) -> Vec<Value>;
}

/// The words for [`named`].
pub const NAMES: [&str; 4] = ["gemini", "kode", "sema", "pegasus"];

pub fn named(name: &str) -> Option<Box<dyn View>> {
    match name {
        "gemini" => Some(Box::new(gemini::Gemini::default())),
        "kode" => Some(Box::new(kode::Kode)),
        "sema" => Some(Box::new(sema::Sema)),
        "pegasus" => Some(Box::new(pegasus::Pegasus)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
