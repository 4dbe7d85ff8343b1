//! Messages that return results to the model.

mod anthropic;
mod gemini;
mod mcp;
mod openai;
mod shown;

use serde_json::Value;

use super::{Answered, Format};

pub(super) fn answer(format: Format, answered: &[Answered]) -> Value {
    match format {
        Format::Anthropic => anthropic::message(answered),
        Format::OpenAi => openai::messages(answered),
        Format::OpenAiResponses => openai::items(answered),
        Format::Gemini => gemini::content(answered),
        Format::Mcp => mcp::responses(answered),
    }
}
