//! Comparison of the schemas of two tools. Descriptions are ignored.

use serde_json::{Map, Value};
use toolhost_contract::{Descriptor, text};

/// Schema keywords without effect on validation.
const DESCRIPTIVE: [&str; 6] = [
    "$comment",
    "$schema",
    "description",
    "examples",
    "markdownDescription",
    "title",
];
/// Schema keywords whose members have arbitrary names.
const WITH_NAMED_MEMBERS: [&str; 5] = [
    "$defs",
    "definitions",
    "dependentSchemas",
    "patternProperties",
    "properties",
];

/// Returns the first difference that a caller of the first tool would notice in the second.
pub(super) fn difference(listed: &Descriptor, other: &Descriptor) -> Option<String> {
    let input = schemas(&listed.input_schema, &other.input_schema, "");
    let nothing = Value::Null;
    let output = || {
        let (a, b) = (&listed.output_schema, &other.output_schema);
        schemas(
            a.as_ref().unwrap_or(&nothing),
            b.as_ref().unwrap_or(&nothing),
            "",
        )
    };
    let strict = || {
        (listed.strict != other.strict)
            .then(|| "one of the two is strict about unknown members".to_owned())
    };
    input
        .map(|found| format!("its input schema differs {found}"))
        .or_else(|| output().map(|found| format!("its output schema differs {found}")))
        .or_else(strict)
}

fn schemas(a: &Value, b: &Value, at: &str) -> Option<String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => members(a, b, at, |name, a, b, at| {
            if DESCRIPTIVE.contains(&name) {
                return None;
            }
            match (name, a, b) {
                (name, Some(Value::Object(a)), Some(Value::Object(b)))
                    if WITH_NAMED_MEMBERS.contains(&name) =>
                {
                    members(a, b, at, |_, a, b, at| both(a, b, at))
                }
                // Lists in which the order is not significant.
                ("required" | "enum", Some(Value::Array(a)), Some(Value::Array(b)))
                    if a.len() == b.len() && a.iter().all(|item| b.contains(item)) =>
                {
                    None
                }
                // Data, which is compared exactly.
                ("const" | "default", Some(a), Some(b)) if a == b => None,
                ("const" | "default", _, _) => Some(describe(a, b, at)),
                _ => both(a, b, at),
            }
        }),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(index, (a, b))| schemas(a, b, &format!("{at}/{index}")))
        }
        (a, b) => (a != b).then(|| describe(Some(a), Some(b), at)),
    }
}

fn members(
    a: &Map<String, Value>,
    b: &Map<String, Value>,
    at: &str,
    compare: impl Fn(&str, Option<&Value>, Option<&Value>, &str) -> Option<String>,
) -> Option<String> {
    let more = b.keys().filter(|name| !a.contains_key(*name));
    let mut names = a.keys().chain(more);
    names.find_map(|name| compare(name, a.get(name), b.get(name), &format!("{at}/{name}")))
}

fn both(a: Option<&Value>, b: Option<&Value>, at: &str) -> Option<String> {
    match (a, b) {
        (Some(a), Some(b)) => schemas(a, b, at),
        (a, b) => Some(describe(a, b, at)),
    }
}

fn describe(a: Option<&Value>, b: Option<&Value>, at: &str) -> String {
    let shown = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "nothing".to_owned(),
        Some(value) => text::escape_line(&value.to_string(), 120),
    };
    let at = if at.is_empty() { "/" } else { at };
    let at = text::escape_line(at, 120);
    format!("at {at}: {} there, {} here", shown(a), shown(b))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;
    use toolhost_contract::ToolName;

    use super::*;

    fn check(a: Value, b: Value, expected: Expect) {
        let tool = |schema| Descriptor {
            input_schema: schema,
            ..Descriptor::new(ToolName::parse("x").unwrap(), "")
        };
        let found = difference(&tool(a), &tool(b)).unwrap_or_default();
        expected.assert_eq(&found);
    }

    // R-495
    #[test]
    fn descriptions_are_ignored_and_other_differences_are_reported() {
        let base = json!({"type": "object", "properties": {"title": {"type": "string", "title": "A"}}, "required": ["title", "b"]});
        check(
            base.clone(),
            json!({"required": ["b", "title"], "description": "other", "properties": {"title": {"type": "string", "description": "B"}}, "type": "object"}),
            expect![""],
        );
        check(
            base.clone(),
            json!({"type": "object", "properties": {"title": {"type": "integer"}}, "required": ["title", "b"]}),
            expect![[
                r#"its input schema differs at /properties/title/type: "string" there, "integer" here"#
            ]],
        );
        check(
            base.clone(),
            json!({"type": "object", "properties": {}, "required": ["title", "b"]}),
            expect![[
                r#"its input schema differs at /properties/title: {"type":"string","title":"A"} there, nothing here"#
            ]],
        );
        check(
            base,
            json!({"type": "object", "properties": {"title": {"type": "string", "default": "x"}}, "required": ["title", "b"]}),
            expect![[
                r#"its input schema differs at /properties/title/default: nothing there, "x" here"#
            ]],
        );
        let mut tools = ["a", "b"].map(|name| Descriptor::new(ToolName::parse(name).unwrap(), ""));
        tools[1].output_schema = Some(json!({"type": "object"}));
        expect![[r#"its output schema differs at /: nothing there, {"type":"object"} here"#]]
            .assert_eq(&difference(&tools[0], &tools[1]).unwrap_or_default());
    }
}
