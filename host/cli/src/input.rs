//! Parses command line arguments into the input of a tool, according to the tool's schema.

use std::collections::BTreeSet;
use std::io::Read;

use serde_json::{Map, Value};
use toolhost_contract::exact_integers::{self, InexactInteger};
use toolhost_contract::text;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("`{0}` is not `key=value`; use `key=value`, `key:=JSON` or a JSON object")]
    NotAPair(String),
    #[error("`{value}` has no name; write `{first}={value}`{}", others(first, .rest))]
    Nameless {
        value: String,
        first: String,
        rest: Vec<String>,
    },
    #[error("`{0}` is given twice; to pass a list, use `{0}:=[\"a\",\"b\"]`")]
    Duplicate(String),
    #[error("`{key}={value}` is not {expected}")]
    WrongType {
        key: String,
        value: String,
        expected: String,
    },
    #[error("`{value}` is not JSON; for text use `{key}={value}`")]
    NotJsonValue { key: String, value: String },
    #[error("`{key}={value}` cannot be passed on: {reason}")]
    InexactValue {
        key: String,
        value: String,
        reason: String,
    },
    #[error("the input is not JSON: {0}")]
    NotJson(String),
    #[error("the input cannot be passed on: {0}")]
    Inexact(#[from] InexactInteger),
    #[error("the input is {0}; expected a JSON object")]
    NotAnObject(&'static str),
    #[error("the input is longer than {limit} bytes")]
    TooLong { limit: u64 },
    #[error("cannot read the input: {0}")]
    Io(String),
}

/// The other parameters that a value could belong to.
fn others(first: &str, rest: &[String]) -> String {
    if rest.is_empty() {
        String::new()
    } else {
        format!(" (parameters: {first}, {})", rest.join(", "))
    }
}

/// `schema` is the tool's input schema, or `None` if the tool does not exist. Every value is a string then, and the input
/// is never wrong, because the kernel reports the unknown tool.
pub fn parse(
    arguments: &[String],
    schema: Option<&Value>,
    stdin: impl Read,
    limit: u64,
) -> Result<Value, InputError> {
    let parsed = match arguments {
        [] => Ok(Value::Object(Map::new())),
        [argument] if argument == "-" => {
            let mut json = String::new();
            stdin
                .take(limit + 1)
                .read_to_string(&mut json)
                .map_err(|error| InputError::Io(error.to_string()))?;
            if json.len() as u64 > limit {
                Err(InputError::TooLong { limit })
            } else {
                parse_object(&json)
            }
        }
        [argument] if argument.trim_start().starts_with(['{', '[']) => parse_object(argument),
        arguments => parse_pairs(arguments, schema),
    };
    match schema {
        Some(_) => parsed,
        None => parsed.or_else(|_| Ok(Value::Object(Map::new()))),
    }
}

fn parse_object(json: &str) -> Result<Value, InputError> {
    exact_integers::check_integers(json.as_bytes())?;
    let value: Value =
        serde_json::from_str(json).map_err(|error| InputError::NotJson(error.to_string()))?;
    match describe_type(&value) {
        "an object" => Ok(value),
        other => Err(InputError::NotAnObject(other)),
    }
}

fn parse_pairs(arguments: &[String], schema: Option<&Value>) -> Result<Value, InputError> {
    let mut input = Map::new();
    for (index, argument) in arguments.iter().enumerate() {
        let is_first = index == 0;
        let (key, value) = match schema.filter(|_| is_first && !is_pair(argument)) {
            Some(schema) => parse_nameless(argument, schema)?,
            None => parse_pair(argument, schema)?,
        };
        if input.insert(key.clone(), value).is_some() {
            return Err(InputError::Duplicate(key));
        }
    }
    Ok(Value::Object(input))
}

/// Whether the argument starts with a name and `=`.
fn is_pair(argument: &str) -> bool {
    let Some((key, _)) = argument.split_once('=') else {
        return false;
    };
    let name = key.strip_suffix(':').unwrap_or(key);
    let is_part = |c: char| c.is_alphanumeric() || "_-.$".contains(c);
    !name.is_empty() && name.chars().all(is_part)
}

/// A value without a name, for the parameter that needs none.
fn parse_nameless(argument: &str, schema: &Value) -> Result<(String, Value), InputError> {
    if let Some(name) = nameless_parameter(schema) {
        return parse_value(name, argument, Some(schema));
    }
    let value = text::escape_line(argument, 80);
    let optional = properties(schema).filter(|_| required(schema).next().is_none());
    let optional = optional.into_iter().flat_map(Map::keys).map(String::as_str);
    let mut names = required(schema)
        .chain(optional)
        .take(MAX_NAMED)
        .map(|name| text::escape_line(name, 80));
    Err(match names.next() {
        None => InputError::NotAPair(value),
        Some(first) => InputError::Nameless {
            value,
            first,
            rest: names.collect(),
        },
    })
}

/// Maximum number of parameters that an error names.
const MAX_NAMED: usize = 6;

/// The parameter whose name can be left out: the only required one. If none is required, it is the only one, or else the
/// text `path` or `url`.
pub fn nameless_parameter(schema: &Value) -> Option<&str> {
    let mut required = required(schema);
    match (required.next(), required.next()) {
        (Some(name), None) => Some(name),
        (Some(_), Some(_)) => None,
        (None, _) => {
            let properties = properties(schema)?;
            if properties.len() == 1 {
                return properties.keys().next().map(String::as_str);
            }
            let is_text = |name: &&str| types_of(schema, name) == BTreeSet::from(["string"]);
            let known = |name: &&str| properties.contains_key(*name);
            ["path", "url"].into_iter().filter(known).find(is_text)
        }
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

fn parse_pair(argument: &str, schema: Option<&Value>) -> Result<(String, Value), InputError> {
    let (key, value) = argument
        .split_once('=')
        .filter(|(key, _)| !key.is_empty() && *key != ":")
        .ok_or_else(|| InputError::NotAPair(text::escape_line(argument, 80)))?;
    let (key, json) = match key.strip_suffix(':') {
        Some(key) => (key, true),
        None => (key, false),
    };
    if json {
        check_exact(key, value)?;
        let parsed = serde_json::from_str(value).map_err(|_| InputError::NotJsonValue {
            key: text::escape_line(key, 80),
            value: text::escape_line(value, 80),
        })?;
        return Ok((key.to_owned(), parsed));
    }
    parse_value(key, value, schema)
}

/// Refuses JSON with integers that would change.
fn check_exact(key: &str, value: &str) -> Result<(), InputError> {
    exact_integers::check_integers(value.as_bytes()).map_err(|error| InputError::InexactValue {
        key: text::escape_line(key, 80),
        value: text::escape_line(value, 80),
        reason: error.to_string(),
    })
}

/// Names the types that a value can have, with the way to pass a list or an object.
fn describe_expected(key: &str, types: &BTreeSet<&str>) -> String {
    let key = text::escape_line(key, 80);
    let noun = |name: &&str| match *name {
        "array" => "a JSON array".to_owned(),
        "object" => "a JSON object".to_owned(),
        "integer" => "an integer".to_owned(),
        "null" => "null".to_owned(),
        other => format!("a {}", text::escape_line(other, 40)),
    };
    let nouns: Vec<String> = types.iter().map(noun).collect();
    let nouns = nouns.join(" or ");
    if types.contains("array") {
        format!("{nouns}; use `{key}:=[…]`")
    } else if types.contains("object") {
        format!("{nouns}; use `{key}:={{…}}`")
    } else {
        nouns
    }
}

/// Parses a text as the type of its parameter.
fn parse_value(
    key: &str,
    value: &str,
    schema: Option<&Value>,
) -> Result<(String, Value), InputError> {
    let types = match schema {
        Some(schema) => types_of(schema, key),
        None => BTreeSet::from(["string"]),
    };
    if types.contains("string") {
        return Ok((key.to_owned(), Value::String(value.to_owned())));
    }
    if types.is_empty() {
        // The schema accepts any type: valid JSON is parsed as JSON.
        check_exact(key, value)?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        return Ok((key.to_owned(), value));
    }
    check_exact(key, value)?;
    match serde_json::from_str(value) {
        Ok(parsed) if types.iter().any(|wanted| has_type(&parsed, wanted)) => {
            Ok((key.to_owned(), parsed))
        }
        _ => Err(InputError::WrongType {
            key: text::escape_line(key, 80),
            value: text::escape_line(value, 80),
            expected: describe_expected(key, &types),
        }),
    }
}

/// The types that the schema allows for one property; empty if any. A parameter that is not in the schema is a string:
/// the kernel knows all accepted spellings and reports an unknown one.
fn types_of<'a>(schema: &'a Value, key: &str) -> BTreeSet<&'a str> {
    let properties = properties(schema);
    let named = |(_, property): &(&String, &Value)| {
        property
            .get("x-aliases")
            .and_then(Value::as_array)
            .is_some_and(|names| names.iter().any(|name| name == key))
    };
    let property = properties.and_then(|all| {
        all.get(key)
            .or_else(|| all.iter().find(named).map(|(_, property)| property))
    });
    let mut types = BTreeSet::new();
    match property {
        Some(property) => collect_types(schema, property, &mut types, 0),
        None => {
            types.insert("string");
        }
    }
    types
}

fn collect_types<'a>(
    root: &'a Value,
    schema: &'a Value,
    types: &mut BTreeSet<&'a str>,
    depth: usize,
) {
    // A guest provides the schema, which can be recursive.
    if depth > 8 {
        return;
    }
    match schema.get("type") {
        Some(Value::String(name)) => {
            types.insert(name);
        }
        Some(Value::Array(names)) => types.extend(names.iter().filter_map(Value::as_str)),
        _ => {}
    }
    let values = schema
        .get("enum")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    if !types.is_empty() {
        return;
    }
    types.extend(
        values
            .chain(schema.get("const"))
            .map(|value| type_of(value)),
    );
    for keyword in ["anyOf", "oneOf", "allOf"] {
        for part in schema
            .get(keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let mut inner = BTreeSet::new();
            collect_types(root, part, &mut inner, depth + 1);
            types.extend(inner);
        }
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str)
        && let Some(target) = target
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer))
    {
        collect_types(root, target, types, depth + 1);
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_type(value: &Value, wanted: &str) -> bool {
    type_of(value) == wanted
        || (wanted == "integer" && value.as_f64().is_some_and(|number| number.fract() == 0.0))
}

fn describe_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
