//! Tool lists for requests.

use serde_json::{Map, Value, json};

use super::keywords::{for_model, without_private_keywords};
use super::{Format, FormattedTools, ListedTool, NameMap, gemini, root, strict};
use toolhost_contract::{Descriptor, ToolHints, text};

pub(super) fn tools(format: Format, tools: &[ListedTool], strict: bool) -> FormattedTools {
    let names = NameMap::new(format, tools.iter().map(|tool| tool.name));
    let mut notes = Vec::new();
    let mut listed = Vec::new();
    for tool in tools {
        let name = names.to_listed(tool.name);
        if name != tool.name {
            notes.push(format!(
                "`{}` is listed as `{name}`: the format `{format}` does not support its name",
                text::escape_line(tool.name, 80)
            ));
        }
        listed.push(match format {
            Format::Anthropic => anthropic(name, tool.tool),
            Format::OpenAi => {
                let function = function(name, tool.tool, strict, &mut notes);
                json!({"type": "function", "function": function})
            }
            Format::OpenAiResponses => {
                let mut listed = Map::new();
                listed.insert("type".to_owned(), json!("function"));
                listed.extend(function(name, tool.tool, strict, &mut notes));
                Value::Object(listed)
            }
            Format::Gemini => declaration(name, tool.tool),
            Format::Mcp => mcp(name, tool.tool, tool.hints),
        });
    }
    let tools = match format {
        // The API refuses an empty list of functions.
        Format::Gemini if listed.is_empty() => json!([]),
        Format::Gemini => json!([{"functionDeclarations": listed}]),
        Format::Anthropic | Format::OpenAi | Format::OpenAiResponses | Format::Mcp => {
            Value::Array(listed)
        }
    };
    FormattedTools { tools, notes }
}

fn anthropic(name: &str, tool: &Descriptor) -> Value {
    json!({
        "name": name,
        "description": tool.description,
        "input_schema": for_model(root::object(&tool.input_schema)),
    })
}

fn function(
    name: &str,
    tool: &Descriptor,
    strict: bool,
    notes: &mut Vec<String>,
) -> Map<String, Value> {
    let bound = strict.then(|| strict::schema(&tool.input_schema));
    let (schema, strict) = match bound {
        Some(Ok(schema)) => (schema, true),
        Some(Err(reason)) => {
            notes.push(format!("`{name}` cannot be strict: {reason}"));
            (for_model(root::object(&tool.input_schema)), false)
        }
        None => (for_model(root::object(&tool.input_schema)), false),
    };
    let mut schema = schema;
    schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    let mut function = Map::new();
    function.insert("name".to_owned(), json!(name));
    function.insert("description".to_owned(), json!(tool.description));
    function.insert("parameters".to_owned(), Value::Object(schema));
    // Always included, because one of the two APIs defaults to true.
    function.insert("strict".to_owned(), json!(strict));
    function
}

fn declaration(name: &str, tool: &Descriptor) -> Value {
    let mut declaration = json!({"name": name, "description": tool.description});
    if let Some(parameters) = gemini::parameters(&tool.input_schema) {
        declaration["parameters"] = parameters;
    }
    declaration
}

fn mcp(name: &str, tool: &Descriptor, hints: ToolHints) -> Value {
    let object = |schema: &Value| {
        let mut schema = match without_private_keywords(schema) {
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        schema.insert("type".to_owned(), json!("object"));
        schema
    };
    let mut listed = json!({
        "name": name,
        "title": tool.display_name,
        "description": tool.description,
        "inputSchema": object(&tool.input_schema),
    });
    let output = tool.output_schema.as_ref();
    if let Some(output) = output.filter(|schema| schema["type"] == "object") {
        listed["outputSchema"] = Value::Object(object(output));
    }
    listed["annotations"] = json!({
        "readOnlyHint": hints.read_only,
        "destructiveHint": hints.destructive,
        "idempotentHint": hints.idempotent,
        "openWorldHint": hints.open_world,
    });
    listed
}
