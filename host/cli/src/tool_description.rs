//! Textual description of a tool: its effect, parameters and examples.

use serde_json::{Map, Value};
use toolhost_contract::units::format_duration;
use toolhost_contract::{Descriptor, text};

use crate::terminal::style::{Paint, Style};

/// `name` is the registered name, which differs from the tool's own name after qualification. Lines are wrapped at words
/// if there is a `width`.
pub fn describe_tool(name: &str, tool: &Descriptor, style: Style, width: Option<usize>) -> String {
    let mut facts = vec![tool.effect().as_str().to_owned()];
    if tool.annotations.open_world == Some(true) {
        facts.push("network".to_owned());
    }
    if tool.annotations.interactive == Some(true) {
        facts.push("asks the user".to_owned());
    }
    facts.extend(
        tool.timeout
            .map(|timeout| format!("up to {}", format_duration(timeout))),
    );
    if !tool.aliases.is_empty() {
        facts.push(format!(
            "also {}",
            text::escape_line(&tool.aliases.join(", "), 200)
        ));
    }
    let mut lines = vec![format!(
        "{} ({})",
        style.paint(Paint::Bold, name),
        facts.join(", ")
    )];
    lines.extend(
        text::escape_lines(&tool.description, 4_000)
            .lines()
            .map(|line| wrap(line, "  ", "  ", width)),
    );
    lines.extend(
        parameters(&tool.input_schema)
            .into_iter()
            .map(|line| wrap(&line, "    ", "        ", width)),
    );
    for example in &tool.examples {
        let description = text::escape_line(&example.description, 200);
        let input = text::escape_line(&example.input.to_string(), 1_000);
        let example = format!("e.g. {description}: {name} '{input}'");
        let example = wrap(&example, "  ", "      ", width);
        lines.extend(example.lines().map(|line| style.paint(Paint::Dim, line)));
    }
    lines.join("\n")
}

/// Wraps a line at words. Words that are too long stay whole.
fn wrap(line: &str, first: &str, next: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return format!("{first}{line}");
    };
    let options = textwrap::Options::new(width)
        .initial_indent(first)
        .subsequent_indent(next)
        .break_words(false);
    textwrap::fill(line, options)
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
            .map(|default| text::escape_line(&default.to_string(), 80));
        let default = default
            .map(|default| format!(" = {default}"))
            .unwrap_or_default();
        let description = property.get("description").and_then(Value::as_str);
        // Lists become one paragraph.
        let words = description.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
        let description = words
            .map(|description| format!("  {}", text::escape_line(&description, 300)))
            .unwrap_or_default();
        format!(
            "{}{optional}: {}{default}{description}",
            text::escape_line(name, 80),
            type_name(property)
        )
    };
    properties
        .into_iter()
        .flat_map(Map::iter)
        .map(line)
        .collect()
}

/// A short name of a property's type; `--json` prints the full schema.
fn type_name(property: &Value) -> String {
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let literals: Vec<String> = values
            .iter()
            .map(|value| text::escape_line(&value.to_string(), 40))
            .collect();
        return literals.join(" | ");
    }
    match property.get("type") {
        Some(Value::String(kind)) if kind == "array" => {
            let items = property
                .get("items")
                .map_or("any".to_owned(), item_type_name);
            format!("list of {items}")
        }
        Some(Value::String(kind)) => text::escape_line(kind, 40),
        Some(Value::Array(kinds)) => kinds
            .iter()
            .filter_map(Value::as_str)
            .map(|kind| text::escape_line(kind, 40))
            .collect::<Vec<_>>()
            .join(" | "),
        _ => "any".to_owned(),
    }
}

/// Nested lists end here, because a guest's schema can nest without limit.
fn item_type_name(items: &Value) -> String {
    match items.get("type").and_then(Value::as_str) {
        Some("array") | None => "any".to_owned(),
        Some(kind) => text::escape_line(kind, 40),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolhost_contract::{Annotations, Example, ToolName};

    use super::*;

    #[test]
    fn a_tool_description_has_parameters_and_examples() {
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
        .assert_eq(&super::describe_tool("grep", &tool, Style::PLAIN, None));
    }

    #[test]
    fn lines_are_wrapped_at_words() {
        let mut tool = Descriptor::new(
            ToolName::parse("grep").unwrap(),
            "Finds text in files, and prints the matching lines.",
        );
        tool.input_schema = json!({"properties": {
            "pattern": {"type": "string", "description": "What to find, as a regular expression"},
        }});
        expect_test::expect![[r"
            grep (destroys)
              Finds text in files, and prints the
              matching lines.
                pattern?: string  What to find, as
                    a regular expression"]]
        .assert_eq(&super::describe_tool("grep", &tool, Style::PLAIN, Some(38)));
    }
}
