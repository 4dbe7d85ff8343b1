//! Fixtures for tools and results.

use serde_json::Value;

use crate::format::{Answered, Format, Tool};
use crate::profile::Rendered;
use crate::{Descriptor, Hints, Part, Reach, ToolName};

pub(super) fn tool(name: &str, schema: Value) -> Descriptor {
    let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), format!("Does {name}."));
    tool.input_schema = schema;
    tool.annotations.read_only = Some(true);
    tool
}

/// Returns the list of a single tool.
pub(super) fn listed(format: Format, schema: Value, strict: bool) -> (Value, Vec<String>) {
    let tool = tool("look", schema);
    let reach = Reach {
        sandboxed: true,
        files: true,
        world: false,
    };
    let listed = format.tools(
        &[Tool {
            name: "look",
            tool: &tool,
            hints: Hints::of(&tool, reach),
        }],
        strict,
    );
    (listed.tools, listed.notes)
}

pub(super) fn said(text: &str) -> Rendered {
    Rendered {
        parts: vec![Part::Text(text.to_owned())],
        structured: None,
        is_error: false,
    }
}

pub(super) fn failed(text: &str) -> Rendered {
    Rendered {
        is_error: true,
        ..said(text)
    }
}

pub(super) fn with(parts: Vec<Part>) -> Rendered {
    Rendered {
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
pub(super) fn answer(format: Format, turn: &Value, results: &[Rendered]) -> Value {
    let calls = format.read_turn(turn).unwrap();
    assert_eq!(calls.len(), results.len(), "{calls:?}");
    let answered: Vec<Answered> = calls
        .iter()
        .zip(results)
        .map(|(call, result)| Answered { call, result })
        .collect();
    format.answer(&answered)
}
