//! Formats of other systems, without I/O: tool lists and turns of model APIs, tool profiles and event streams.

pub mod events;
#[cfg(test)]
mod fuzz;
pub mod model;
pub mod profile;
