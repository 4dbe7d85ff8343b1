//! Event formats of other systems: Gemini CLI, Kode-SDK, Sema and Pegasus.
//!
//! A front end that was written for one of these systems consumes its event format and finds the events, members and
//! state names that it expects. Formats are derived only from [`BusEvent`]s, so they contain no further information.
//! Where a system has events that answer a question, its front end answers with them.

mod answer;
pub mod gemini;
pub mod kode;
pub mod pegasus;
pub mod sema;
mod snapshot_view;

use std::fmt;

use serde_json::Value;

use toolhost_contract::bus::BusEvent;

pub use answer::{AnswerError, AnswerTarget, ApprovalCoverage, FrontEndAnswer, FrontEndDecision};

/// The event format of one system.
pub trait EventFormat: Send {
    /// Converts an event to events of the system, in order. Most events convert to none or one.
    fn convert(&mut self, event: &BusEvent) -> Vec<Value>;

    /// Parses an event of the system that answers a question.
    fn parse_answer(&self, event: &Value) -> Result<FrontEndAnswer, AnswerError>;

    /// Returns the card that the system's front ends draw for one of its events, if it has cards.
    fn card(&self, _event: &Value) -> Option<Value> {
        None
    }
}

/// The system whose event format a front end uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrontEnd {
    Gemini,
    Kode,
    Sema,
    Pegasus,
}

impl FrontEnd {
    pub const ALL: [FrontEnd; 4] = [
        FrontEnd::Gemini,
        FrontEnd::Kode,
        FrontEnd::Sema,
        FrontEnd::Pegasus,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            FrontEnd::Gemini => "gemini",
            FrontEnd::Kode => "kode",
            FrontEnd::Sema => "sema",
            FrontEnd::Pegasus => "pegasus",
        }
    }

    /// Returns the front end with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }

    /// Returns the format, without events so far.
    pub fn format(self) -> Box<dyn EventFormat> {
        match self {
            FrontEnd::Gemini => Box::new(gemini::GeminiEvents::default()),
            FrontEnd::Kode => Box::new(kode::KodeEvents),
            FrontEnd::Sema => Box::new(sema::SemaEvents),
            FrontEnd::Pegasus => Box::new(pegasus::PegasusEvents),
        }
    }
}

impl fmt::Display for FrontEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests;
