//! Conversion to the schemas of OpenAI's strict mode: objects are closed, all properties are required, and optional
//! ones are nullable instead.

mod alternatives;
mod keywords;
mod nullable;
mod references;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::keywords::strings;
use super::root;
use toolhost_contract::text;

use alternatives::alternatives;
use keywords::{default_value, describe_default, has_valid_type, type_of_values};

use nullable::accepts_null;
pub(super) use nullable::accepts_within;

/// Limits of the API for the whole schema.
const MAX_PROPERTIES: usize = 5_000;
const MAX_LEVELS: usize = 10;
const MAX_ENUM_VALUES: usize = 1_000;
const MAX_NAMES: usize = 120_000;
/// Maximum nesting of schemas, including those that are not objects.
const MAX_DEPTH: usize = 64;

/// String formats that the API supports.
const FORMATS: &[&str] = &[
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
];

/// Keywords that affect validation and that the API does not support.
const UNSUPPORTED: &[&str] = &[
    "additionalItems",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "$dynamicRef",
];

/// Keywords that are copied unchanged.
const COPIED: &[&str] = &[
    "description",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "title",
];

/// Returns the strict form of a schema, or the reason why it has none.
///
/// A value that satisfies the strict schema also satisfies the tool's own schema after [`restore`](super::restore())
/// has removed nulls, except for constraints that the API does not support, such as string lengths.
pub(super) fn schema(own: &Value) -> Result<Map<String, Value>, String> {
    if let Some(keyword) = root::unsupported_keyword(own) {
        return Err(format!("its schema has `{keyword}` at the root"));
    }
    let document = Value::Object(root::object(own));
    let mut walk = StrictConverter {
        document: &document,
        pending: Vec::new(),
        known: HashSet::new(),
        properties: 0,
        enum_values: 0,
        names: 0,
    };
    let at = SchemaPosition {
        path: "",
        depth: 0,
        levels: 0,
    };
    let Value::Object(mut whole) = walk.schema(&document, at)? else {
        return Err("its schema is not an object schema".to_owned());
    };
    let mut definitions = Map::new();
    while let Some(name) = walk.pending.pop() {
        let found = ["$defs", "definitions"].into_iter().find_map(|keyword| {
            let definitions = document.get(keyword)?;
            definitions.get(&name)
        });
        let Some(found) = found else {
            return Err(format!(
                "the definition `{}` is missing",
                text::escape_line(&name, 80)
            ));
        };
        walk.names += name.len();
        let made = walk.schema(found, SchemaPosition { path: &name, ..at })?;
        definitions.insert(name, made);
    }
    if !definitions.is_empty() {
        whole.insert("$defs".to_owned(), Value::Object(definitions));
    }
    walk.check_limits()?;
    Ok(whole)
}

struct StrictConverter<'a> {
    document: &'a Value,
    /// Referenced definitions that have not been converted yet.
    pending: Vec<String>,
    known: HashSet<String>,
    properties: usize,
    enum_values: usize,
    names: usize,
}

/// The position in the schema.
#[derive(Clone, Copy)]
struct SchemaPosition<'a> {
    path: &'a str,
    depth: usize,
    /// Number of enclosing objects.
    levels: usize,
}

impl SchemaPosition<'_> {
    fn refuse<T>(self, problem: &str) -> Result<T, String> {
        Err(match self.path {
            "" => format!("its schema {problem}"),
            path => format!("`{}` {problem}", text::escape_line(path, 120)),
        })
    }
}

impl StrictConverter<'_> {
    fn check_limits(&self) -> Result<(), String> {
        for (count, limit, items) in [
            (self.properties, MAX_PROPERTIES, "properties"),
            (self.enum_values, MAX_ENUM_VALUES, "values of enumerations"),
            (
                self.names,
                MAX_NAMES,
                "bytes in names and values of enumerations",
            ),
        ] {
            if count > limit {
                return Err(format!(
                    "its schema has {count} {items}; the limit is {limit}"
                ));
            }
        }
        Ok(())
    }

    fn schema(&mut self, schema: &Value, at: SchemaPosition) -> Result<Value, String> {
        let Value::Object(schema) = schema else {
            return at.refuse("accepts any value or none");
        };
        if at.depth > MAX_DEPTH {
            return at.refuse("is nested too deeply");
        }
        if let Some(keyword) = UNSUPPORTED
            .iter()
            .find(|keyword| schema.contains_key(**keyword))
        {
            return at.refuse(&format!("uses `{keyword}`"));
        }
        if let Some(only) = schema.get("allOf") {
            return self.all_of(schema, only, at);
        }
        let mut strict = Map::new();
        for (keyword, value) in schema {
            if COPIED.contains(&keyword.as_str()) && has_valid_type(keyword, value) {
                strict.insert(keyword.clone(), value.clone());
            }
        }
        if let Some(reference) = schema.get("$ref") {
            return self.reference(schema, reference, strict, at);
        }
        if let Some(alternatives) = alternatives(schema) {
            if ["type", "properties", "items", "enum", "const"]
                .iter()
                .any(|keyword| schema.contains_key(*keyword))
            {
                return at.refuse("has alternatives and a type at the same level");
            }
            if !alternatives.is_exclusive {
                return at.refuse("uses `oneOf` with alternatives that can both match");
            }
            let mut made = Vec::new();
            for alternative in alternatives.schemas {
                let at = SchemaPosition {
                    depth: at.depth + 1,
                    ..at
                };
                made.push(self.schema(alternative, at)?);
            }
            if made.is_empty() {
                return at.refuse("accepts no value");
            }
            strict.retain(|keyword, _| matches!(keyword.as_str(), "description" | "title"));
            strict.insert("anyOf".to_owned(), Value::Array(made));
            return Ok(Value::Object(strict));
        }
        self.plain(schema, strict, at)
    }

    /// Converts a schema that has a type.
    fn plain(
        &mut self,
        schema: &Map<String, Value>,
        mut strict: Map<String, Value>,
        at: SchemaPosition,
    ) -> Result<Value, String> {
        for keyword in ["enum", "const"] {
            let Some(value) = schema.get(keyword) else {
                continue;
            };
            let values = value
                .as_array()
                .filter(|_| keyword == "enum")
                .map_or(std::slice::from_ref(value), Vec::as_slice);
            if values
                .iter()
                .any(|value| value.is_object() || value.is_array())
            {
                return at.refuse("lists values that are not scalars");
            }
            self.enum_values += values.len();
            self.names += values
                .iter()
                .map(|one| one.to_string().len())
                .sum::<usize>();
            strict.insert(keyword.to_owned(), value.clone());
        }
        let kind = match schema.get("type") {
            Some(kind) => kind.clone(),
            None if schema.contains_key("properties") => json!("object"),
            None if schema.contains_key("items") => json!("array"),
            None => match type_of_values(&strict) {
                Some(kind) => kind,
                None => return at.refuse("accepts any value"),
            },
        };
        let is = |name: &str| match &kind {
            Value::String(kind) => kind == name,
            kinds => strings(Some(kinds)).any(|kind| kind == name),
        };
        if is("string") {
            let known = |format: &&Value| format.as_str().is_some_and(|one| FORMATS.contains(&one));
            if let Some(format) = schema.get("format").filter(known) {
                strict.insert("format".to_owned(), format.clone());
            }
            // The API does not support lookaround.
            let plain = |pattern: &&Value| pattern.as_str().is_some_and(|one| !one.contains("(?"));
            if let Some(pattern) = schema.get("pattern").filter(plain) {
                strict.insert("pattern".to_owned(), pattern.clone());
            }
        }
        if is("array") {
            let Some(items @ Value::Object(_)) = schema.get("items") else {
                return at.refuse("is a list of any values");
            };
            let path = format!("{}[]", at.path);
            let at = SchemaPosition {
                path: &path,
                depth: at.depth + 1,
                ..at
            };
            strict.insert("items".to_owned(), self.schema(items, at)?);
        }
        if is("object") {
            self.object(schema, &mut strict, at)?;
        }
        strict.insert("type".to_owned(), kind);
        Ok(Value::Object(strict))
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        strict: &mut Map<String, Value>,
        at: SchemaPosition,
    ) -> Result<(), String> {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        match (schema.get("additionalProperties"), properties) {
            (Some(Value::Bool(false)), _) | (None, Some(_)) => {}
            // Strict mode restricts the model to the declared properties, although other callers can send more.
            (None, None) | (Some(Value::Bool(true)), Some(_)) if at.depth == 0 => {}
            (Some(_) | None, _) => return at.refuse("accepts members with any name"),
        }
        if at.levels >= MAX_LEVELS {
            return at.refuse(&format!("is nested in more than {MAX_LEVELS} objects"));
        }
        let properties = properties.unwrap_or(&none);
        let required: HashSet<&str> = strings(schema.get("required")).collect();
        if let Some(missing) = required
            .iter()
            .find(|name| !properties.contains_key(**name))
        {
            let missing = text::escape_line(missing, 80);
            return at.refuse(&format!("requires `{missing}` without defining it"));
        }
        self.properties += properties.len();
        // Checked during traversal, so that heavily recursive schemas terminate as well.
        self.check_limits()?;
        let mut made = Map::new();
        for (name, property) in properties {
            self.names += name.len();
            let path = match at.path {
                "" => name.clone(),
                path => format!("{path}.{name}"),
            };
            let at = SchemaPosition {
                path: &path,
                depth: at.depth + 1,
                levels: at.levels + 1,
            };
            let mut strict = self.schema(property, at)?;
            if !required.contains(name.as_str()) && !accepts_null(self.document, property) {
                strict = nullable::nullable(strict);
                describe_default(&mut strict, default_value(property));
            }
            made.insert(name.clone(), strict);
        }
        let names: Vec<Value> = made.keys().map(|name| json!(name)).collect();
        strict.insert("properties".to_owned(), Value::Object(made));
        strict.insert("required".to_owned(), Value::Array(names));
        strict.insert("additionalProperties".to_owned(), json!(false));
        Ok(())
    }
}
