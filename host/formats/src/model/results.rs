//! Messages that return results to the model.

mod anthropic;
mod gemini;
mod mcp;
mod openai;
mod part_content;

use serde_json::Value;

use super::{AnsweredCall, Format};

pub(super) fn format_results(format: Format, answered: &[AnsweredCall]) -> Value {
    match format {
        Format::Anthropic => anthropic::message(answered),
        Format::OpenAi => openai::messages(answered),
        Format::OpenAiResponses => openai::items(answered),
        Format::Gemini => gemini::content(answered),
        Format::Mcp => mcp::responses(answered),
    }
}
