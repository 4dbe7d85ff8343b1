//! Findings about the parameters of a tool.

use toolhost_contract::units::format_size;

use super::{Descriptor, Finding, Value, text};

/// Above this size, a schema costs about a thousand tokens in every request to a model.
const LARGE_SCHEMA: usize = 4_000;
const MAX_PARAMETERS: usize = 15;
/// Nested objects are reviewed to this depth.
const MAX_DEPTH: usize = 4;
/// Findings about parameters of one tool; a schema can have thousands.
const MAX_FINDINGS: usize = 20;
/// Names of parameters that tell a model nothing.
const VAGUE_PARAMETERS: [&str; 14] = [
    "arg", "args", "argument", "bar", "data", "foo", "input", "obj", "param", "params", "stuff",
    "thing", "tmp", "val",
];

pub fn findings(tool: &Descriptor) -> Vec<Finding> {
    let mut findings = Vec::new();
    let size = tool.input_schema.to_string().len();
    if size > LARGE_SCHEMA {
        let message = format!(
            "the input schema has {}, which every request to a model contains",
            format_size(size as u64)
        );
        findings.push(Finding::warning("schema-size", message));
    }
    let count = properties(&tool.input_schema).count();
    if count > MAX_PARAMETERS {
        let message =
            format!("{count} parameters; models choose better among at most {MAX_PARAMETERS}");
        findings.push(Finding::warning("parameters", message));
    }
    parameters("", &tool.input_schema, MAX_DEPTH, &mut findings);
    findings.truncate(MAX_FINDINGS);
    findings
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

/// Reviews the parameters below `parent`, such as `options.`.
fn parameters(parent: &str, schema: &Value, depth: usize, findings: &mut Vec<Finding>) {
    if depth == 0 {
        return;
    }
    for (name, parameter) in properties(schema) {
        if findings.len() >= MAX_FINDINGS {
            return;
        }
        let shown = format!("{parent}{}", text::escape_line(name, 80));
        let mut warn = |code, message: &str| {
            findings.push(Finding::warning(
                code,
                format!("parameter `{shown}` {message}"),
            ));
        };
        let described = parameter.get("description").and_then(Value::as_str);
        match described.map(str::trim) {
            None | Some("") => warn("parameter-description", "has no description"),
            Some(description) if description.eq_ignore_ascii_case(name) => {
                warn("parameter-description", "is described by its own name");
            }
            Some(_) => {}
        }
        if name.len() < 2 || VAGUE_PARAMETERS.contains(&name.as_str()) {
            warn("parameter-name", "has a name that does not say what it is");
        }
        let typed = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"];
        if !typed.iter().any(|keyword| parameter.get(keyword).is_some()) {
            warn("parameter-type", "has no type");
        }
        parameters(&format!("{shown}."), parameter, depth - 1, findings);
        if let Some(items) = parameter.get("items") {
            parameters(&format!("{shown}[]."), items, depth - 1, findings);
        }
    }
}
