//! Fixtures for tools and results.

use serde_json::Value;

use crate::model::{AnsweredCall, Format, ListedTool};
use crate::profile::RenderedResult;
use toolhost_contract::{Descriptor, EffectBounds, Part, ToolHints, ToolName};

pub(super) fn tool(name: &str, schema: Value) -> Descriptor {
    let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), format!("Does {name}."));
    tool.input_schema = schema;
    tool.annotations.read_only = Some(true);
    tool
}

/// Returns the list of a single tool.
pub(super) fn listed(format: Format, schema: Value, strict: bool) -> (Value, Vec<String>) {
    let tool = tool("look", schema);
    let reach = EffectBounds {
        sandboxed: true,
        can_change_files: true,
        can_reach_network: false,
    };
    let listed = format.tool_list(
        &[ListedTool {
            name: "look",
            tool: &tool,
            hints: ToolHints::new(&tool, reach),
        }],
        strict,
    );
    (listed.tools, listed.notes)
}

pub(super) fn text_result(text: &str) -> RenderedResult {
    RenderedResult {
        parts: vec![Part::Text(text.to_owned())],
        structured: None,
        is_error: false,
    }
}

pub(super) fn failed(text: &str) -> RenderedResult {
    RenderedResult {
        is_error: true,
        ..text_result(text)
    }
}

pub(super) fn with(parts: Vec<Part>) -> RenderedResult {
    RenderedResult {
        parts,
        structured: None,
        is_error: false,
    }
}

pub(super) fn image() -> Part {
    Part::Image {
        data: vec![1, 2, 3],
        media_type: "image/png".to_owned(),
    }
}

/// Returns the response to a turn whose calls had these results.
pub(super) fn answer(format: Format, turn: &Value, results: &[RenderedResult]) -> Value {
    let calls = format.read_turn(turn).unwrap();
    assert_eq!(calls.len(), results.len(), "{calls:?}");
    let answered: Vec<AnsweredCall> = calls
        .iter()
        .zip(results)
        .map(|(call, result)| AnsweredCall { call, result })
        .collect();
    format.format_results(&answered)
}
