//! Conversion of JSON Schema to the OpenAPI subset that Gemini function declarations support.

use serde_json::{Map, Value, json};

use super::references::ReferenceResolver;
use crate::model::alternative_properties::merge_properties;
use crate::model::keywords::{MAX_DEPTH, single_type, strings};
use crate::model::root;

/// Maximum number of schemas that references can add. Above it, references are not followed.
const MAX_REFERENCED_SCHEMAS: usize = 10_000;

/// Returns the parameters of a function, or `None` if there are none, because the API refuses an object without
/// properties.
pub(in crate::model) fn parameters(schema: &Value) -> Option<Value> {
    let document = Value::Object(root::object(schema));
    let mut walk = SchemaConverter {
        reach: ReferenceResolver::new(&document, MAX_REFERENCED_SCHEMAS),
    };
    let mut made = walk.schema(&document, 0);
    if walk.reach.is_exhausted() {
        let reach = ReferenceResolver::new(&document, 0);
        made = SchemaConverter { reach }.schema(&document, 0);
    }
    let has_properties = made["properties"]
        .as_object()
        .is_some_and(|properties| !properties.is_empty());
    has_properties.then_some(made)
}

struct SchemaConverter<'a> {
    reach: ReferenceResolver<'a>,
}

impl SchemaConverter<'_> {
    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        let Value::Object(schema) = schema else {
            return any();
        };
        if depth > MAX_DEPTH {
            return json!({"type": "object"});
        }
        let (schema, opened) = self.reach.resolve(schema);
        let made = self.resolved(schema, depth);
        self.reach.close(opened);
        made
    }

    /// Converts a schema whose references are resolved.
    fn resolved(&mut self, mut schema: Map<String, Value>, depth: usize) -> Value {
        let mut nullable = schema.get("nullable") == Some(&json!(true));
        nullable |= stringify_enum(&mut schema);
        let mut alternatives = alternatives(&mut schema, &mut nullable);
        // Alternatives of an object constrain combinations of members, which the API does not support.
        if schema.contains_key("properties") {
            let resolved = self.reach.resolve_alternatives(&alternatives);
            merge_properties(&mut schema, &resolved);
            alternatives.clear();
        }
        // Replace a single alternative by its content.
        if let [only] = alternatives.as_slice() {
            let mut only = only.as_object().cloned().unwrap_or_default();
            for keyword in ["description", "title", "default"] {
                if let Some(value) = schema.shift_remove(keyword) {
                    only.insert(keyword.to_owned(), value);
                }
            }
            if nullable {
                only.insert("nullable".to_owned(), json!(true));
            }
            return self.schema(&Value::Object(only), depth + 1);
        }
        if !alternatives.is_empty() {
            return self.choice(&schema, alternatives, nullable, depth);
        }
        let mut made = self.plain(&schema, depth);
        if nullable {
            made.insert("nullable".to_owned(), json!(true));
        }
        Value::Object(made)
    }

    /// The API supports no keywords next to `anyOf`, so those of the whole schema are copied to each alternative.
    fn choice(
        &mut self,
        schema: &Map<String, Value>,
        alternatives: Vec<Value>,
        nullable: bool,
        depth: usize,
    ) -> Value {
        let mut made: Vec<Value> = Vec::new();
        for alternative in alternatives {
            let mut alternative = self.schema(&alternative, depth + 1);
            // Flatten nested alternatives.
            let inner = match alternative.get_mut("anyOf") {
                Some(Value::Array(inner)) => std::mem::take(inner),
                _ => vec![alternative],
            };
            for mut one in inner {
                if let Some(one) = one.as_object_mut() {
                    if nullable {
                        one.insert("nullable".to_owned(), json!(true));
                    }
                    if let Some(description) = schema
                        .get("description")
                        .filter(|description| description.is_string())
                    {
                        one.entry("description")
                            .or_insert_with(|| description.clone());
                    }
                }
                if !made.contains(&one) {
                    made.push(one);
                }
            }
        }
        match <[Value; 1]>::try_from(made) {
            Ok([only]) => only,
            Err(made) => json!({"anyOf": made}),
        }
    }

    fn plain(&mut self, schema: &Map<String, Value>, depth: usize) -> Map<String, Value> {
        let mut made = Map::new();
        let kind = type_of(schema);
        made.insert("type".to_owned(), json!(kind));
        for keyword in ["title", "description"] {
            if let Some(value) = schema.get(keyword).filter(|value| value.is_string()) {
                made.insert(keyword.to_owned(), value.clone());
            }
        }
        if let Some(format) = schema.get("format").and_then(Value::as_str) {
            let known: &[&str] = match kind {
                "string" => &["enum", "date-time"],
                "integer" => &["int32", "int64"],
                "number" => &["float", "double"],
                _ => &[],
            };
            if known.contains(&format) {
                made.insert("format".to_owned(), json!(format));
            }
        }
        for (of, keyword) in BOUNDS {
            let of = of.split('|').any(|of| of == kind);
            let fits = |value: &&Value| match kind {
                "integer" | "number" => value.is_number(),
                _ if *keyword == "pattern" => value.is_string(),
                _ => value.is_u64(),
            };
            if of && let Some(value) = schema.get(*keyword).filter(fits) {
                made.insert((*keyword).to_owned(), value.clone());
            }
        }
        if let Some(values) = schema.get("enum").filter(|_| kind == "string") {
            made.insert("enum".to_owned(), values.clone());
        }
        match kind {
            "array" => {
                let items = schema.get("items").filter(|items| items.is_object());
                let items = items.map_or_else(any, |items| self.schema(items, depth + 1));
                made.insert("items".to_owned(), items);
            }
            "object" => self.object(schema, &mut made, depth),
            _ => {}
        }
        if let Some(default) = schema.get("default").filter(|value| !value.is_null()) {
            made.insert("default".to_owned(), default.clone());
        }
        made
    }

    fn object(&mut self, schema: &Map<String, Value>, made: &mut Map<String, Value>, depth: usize) {
        let Some(Value::Object(own)) = schema.get("properties") else {
            return;
        };
        let mut properties = Map::new();
        for (name, property) in own {
            // Omit properties that accept no value.
            if *property != json!(false) {
                properties.insert(name.clone(), self.schema(property, depth + 1));
            }
        }
        // The API refuses required names that are not properties.
        let mut required: Vec<&str> = Vec::new();
        for name in strings(schema.get("required")) {
            if properties.contains_key(name) && !required.contains(&name) {
                required.push(name);
            }
        }
        if !required.is_empty() {
            made.insert("required".to_owned(), json!(required));
        }
        if !properties.is_empty() {
            made.insert("properties".to_owned(), Value::Object(properties));
        }
    }
}

/// Validation keywords that the API supports, by type.
const BOUNDS: &[(&str, &str)] = &[
    ("string", "minLength"),
    ("string", "maxLength"),
    ("string", "pattern"),
    ("integer|number", "minimum"),
    ("integer|number", "maximum"),
    ("array", "minItems"),
    ("array", "maxItems"),
    ("object", "minProperties"),
    ("object", "maxProperties"),
];

/// The schema to use for an unconstrained value. The API requires a type in every schema.
fn any() -> Value {
    json!({"type": "string"})
}

const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "array", "object"];

fn type_of(schema: &Map<String, Value>) -> &'static str {
    let written = single_type(schema).unwrap_or_default();
    if schema.contains_key("enum") {
        return "string";
    }
    for kind in TYPES {
        if written.eq_ignore_ascii_case(kind) {
            return kind;
        }
    }
    if schema.contains_key("properties") {
        "object"
    } else if schema.contains_key("items") {
        "array"
    } else {
        "string"
    }
}

/// Converts enumerated values to strings. Returns whether null was one of them.
fn stringify_enum(schema: &mut Map<String, Value>) -> bool {
    if let Some(value) = schema.shift_remove("const") {
        schema.insert("enum".to_owned(), json!([value]));
    }
    let Some(Value::Array(values)) = schema.shift_remove("enum") else {
        return false;
    };
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut texts: Vec<String> = Vec::new();
    for value in values.iter().filter(|value| !value.is_null()) {
        let text = text(value);
        // The API refuses an empty value.
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }
    if values.iter().any(|value| value == "") && schema.get("default") == Some(&json!("")) {
        schema.shift_remove("default");
    }
    if !texts.is_empty() {
        schema.insert("enum".to_owned(), json!(texts));
        if let Some(default) = schema.get_mut("default") {
            *default = match &default {
                Value::Null => Value::Null,
                other => json!(text(other)),
            };
        }
    }
    values.contains(&Value::Null)
}

/// Returns the alternatives of a schema, without null.
fn alternatives(schema: &mut Map<String, Value>, nullable: &mut bool) -> Vec<Value> {
    let written = ["anyOf", "oneOf"]
        .iter()
        .find_map(|keyword| schema.get(*keyword));
    let typed = |one: &Value| {
        let one = one.as_object();
        one.is_some_and(|one| {
            TYPE_KEYWORDS
                .iter()
                .any(|keyword| one.contains_key(*keyword))
        })
    };
    let null = |one: &Value| one["type"] == "null" || *one == json!({"enum": [null]});
    let mut found: Vec<Value> = written
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|one| typed(one))
        .cloned()
        .collect();
    *nullable |= found.iter().any(null);
    found.retain(|one| !null(one));
    if !found.is_empty() {
        return found;
    }
    let Some(Value::Array(kinds)) = schema.get("type").cloned() else {
        return Vec::new();
    };
    *nullable |= kinds.contains(&json!("null"));
    // Use each known type once, because the rest of the schema is converted once per type.
    let kinds: Vec<Value> = TYPES
        .iter()
        .map(|kind| json!(kind))
        .filter(|kind| kinds.contains(kind))
        .collect();
    if kinds.len() < 2 || schema.contains_key("enum") {
        match kinds.into_iter().next() {
            Some(only) => schema.insert("type".to_owned(), only),
            None => schema.shift_remove("type"),
        };
        return Vec::new();
    }
    let of = |kind: Value| {
        let mut one = schema.clone();
        one.insert("type".to_owned(), kind);
        one.shift_remove("default");
        if one["type"] != "object" {
            one.shift_remove("properties");
        }
        if one["type"] != "array" {
            one.shift_remove("items");
        }
        Value::Object(one)
    };
    let found = kinds.into_iter().map(of).collect();
    schema.shift_remove("properties");
    found
}

/// Keywords that constrain the type of a value.
const TYPE_KEYWORDS: &[&str] = &[
    "$ref",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "items",
    "oneOf",
    "properties",
    "type",
];
