//! Textual description of a tool: its effect, parameters and examples.

use serde_json::{Map, Value};
use toolhost_contract::units::show_duration;
use toolhost_contract::{Descriptor, text};

use crate::terminal::style::{Paint, Style};

/// `name` is the registered name, which differs from the tool's own name after qualification.
pub fn tool(name: &str, tool: &Descriptor, style: Style) -> String {
    let mut facts = vec![tool.effect().as_str().to_owned()];
    if tool.annotations.open_world == Some(true) {
        facts.push("network".to_owned());
    }
    if tool.annotations.interactive == Some(true) {
        facts.push("asks the user".to_owned());
    }
    facts.extend(
        tool.timeout
            .map(|timeout| format!("up to {}", show_duration(timeout))),
    );
    if !tool.aliases.is_empty() {
        facts.push(format!(
            "also {}",
            text::inline(&tool.aliases.join(", "), 200)
        ));
    }
    let mut lines = vec![format!(
        "{} ({})",
        style.paint(Paint::Bold, name),
        facts.join(", ")
    )];
    lines.extend(
        text::block(&tool.description, 4_000)
            .lines()
            .map(|line| format!("  {line}")),
    );
    lines.extend(
        parameters(&tool.input_schema)
            .into_iter()
            .map(|line| format!("    {line}")),
    );
    for example in &tool.examples {
        let words = text::inline(&example.description, 200);
        let input = text::inline(&example.input.to_string(), 1_000);
        lines.push(style.paint(Paint::Dim, &format!("  e.g. {words}: {name} '{input}'")));
    }
    lines.join("\n")
}

fn parameters(schema: &Value) -> Vec<String> {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let line = |(name, property): (&String, &Value)| {
        let optional = if required.contains(&name.as_str()) {
            ""
        } else {
            "?"
        };
        let default = property
            .get("default")
            .map(|default| text::inline(&default.to_string(), 80));
        let default = default
            .map(|default| format!(" = {default}"))
            .unwrap_or_default();
        let description = property.get("description").and_then(Value::as_str);
        let description = description
            .map(|words| format!("  {}", text::inline(words, 300)))
            .unwrap_or_default();
        format!(
            "{}{optional}: {}{default}{description}",
            text::inline(name, 80),
            kind(property)
        )
    };
    properties
        .into_iter()
        .flat_map(Map::iter)
        .map(line)
        .collect()
}

/// A short name of a property's type; `--json` prints the full schema.
fn kind(property: &Value) -> String {
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let words: Vec<String> = values
            .iter()
            .map(|value| text::inline(&value.to_string(), 40))
            .collect();
        return words.join(" | ");
    }
    match property.get("type") {
        Some(Value::String(kind)) if kind == "array" => {
            let items = property
                .get("items")
                .map_or("any".to_owned(), kind_of_items);
            format!("list of {items}")
        }
        Some(Value::String(kind)) => text::inline(kind, 40),
        Some(Value::Array(kinds)) => kinds
            .iter()
            .filter_map(Value::as_str)
            .map(|kind| text::inline(kind, 40))
            .collect::<Vec<_>>()
            .join(" | "),
        _ => "any".to_owned(),
    }
}

/// Nested lists end here, because a guest's schema can nest without limit.
fn kind_of_items(items: &Value) -> String {
    match items.get("type").and_then(Value::as_str) {
        Some("array") | None => "any".to_owned(),
        Some(kind) => text::inline(kind, 40),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolhost_contract::{Annotations, Example, ToolName};

    use super::*;

    #[test]
    fn a_tool_is_told_in_words() {
        let mut tool = Descriptor::new(
            ToolName::parse("grep").unwrap(),
            "Find text.\nFast.\u{1b}[2J",
        );
        tool.annotations = Annotations {
            read_only: Some(true),
            ..Annotations::default()
        };
        tool.aliases = vec!["search".to_owned()];
        tool.input_schema = json!({
            "type": "object",
            "required": ["pattern"],
            "properties": {
                "pattern": {"type": "string", "description": "What to find"},
                "paths": {"type": "array", "items": {"type": "string"}},
                "mode": {"enum": ["fast", "slow"], "default": "fast"},
                "limit": {"type": ["integer", "null"]},
                "any": {},
            },
        });
        tool.examples = vec![Example {
            description: "all".to_owned(),
            input: json!({"pattern": "x"}),
        }];
        expect_test::expect![[r#"
            grep (reads, also search)
              Find text.
              Fast.\u{1b}[2J
                pattern: string  What to find
                paths?: list of string
                mode?: "fast" | "slow" = "fast"
                limit?: integer | null
                any?: any
              e.g. all: grep '{"pattern":"x"}'"#]]
        .assert_eq(&super::tool("grep", &tool, Style::PLAIN));
    }
}
