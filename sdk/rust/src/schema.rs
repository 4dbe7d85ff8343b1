//! JSON Schemas of Rust types.

mod numbers;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::{Outcome, Result};

/// A type with a JSON Schema. [`data`](crate::data) implements this for structs and enums.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no JSON Schema",
    label = "a model would not know what to write here",
    note = "put `#[data]` on the type, or use `Value` for any JSON"
)]
pub trait Schema {
    fn schema() -> Value;

    /// The schema of a value that cannot be omitted, such as an item of a list: that of an `Option` also accepts `null`.
    fn element_schema() -> Value {
        Self::schema()
    }
}

macro_rules! plain {
    ($($type:ty => $schema:tt)*) => {$(
        impl Schema for $type {
            fn schema() -> Value {
                json!($schema)
            }
        }
    )*};
}

// Types of 32 and 64 bits, `usize` and `isize` have no bounds besides 0: models rarely get near them, each would cost about 10 tokens per
// parameter, and the error of serde names the value.
plain! {
    bool => {"type": "boolean"}
    u8 => {"type": "integer", "minimum": 0, "maximum": u8::MAX}
    u16 => {"type": "integer", "minimum": 0, "maximum": u16::MAX}
    u32 => {"type": "integer", "minimum": 0}
    u64 => {"type": "integer", "minimum": 0}
    usize => {"type": "integer", "minimum": 0}
    i8 => {"type": "integer", "minimum": i8::MIN, "maximum": i8::MAX}
    i16 => {"type": "integer", "minimum": i16::MIN, "maximum": i16::MAX}
    i32 => {"type": "integer"}
    i64 => {"type": "integer"}
    isize => {"type": "integer"}
    f32 => {"type": "number"}
    f64 => {"type": "number"}
    String => {"type": "string"}
    Value => {}
}

impl<T: Schema> Schema for Option<T> {
    fn schema() -> Value {
        T::element_schema()
    }

    fn element_schema() -> Value {
        json!({"anyOf": [T::element_schema(), {"type": "null"}]})
    }
}

impl<T: Schema> Schema for Vec<T> {
    fn schema() -> Value {
        json!({"type": "array", "items": T::element_schema()})
    }
}

impl<T: Schema> Schema for BTreeMap<String, T> {
    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": T::element_schema()})
    }
}

impl<T: Schema, S> Schema for HashMap<String, T, S> {
    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": T::element_schema()})
    }
}

/// Builds the schema of an object: `#[tool]` and `#[data]` use it, and so can a [`Tool`](crate::Tool) by hand.
///
/// ```
/// use toolhost_sdk::schema::{Object, Property};
///
/// let schema = Object::new()
///     .required("path", Property::of::<String>("Path of a file."))
///     .optional("limit", Property::of::<u32>("At most this many lines.").max(2000))
///     .finish();
/// assert_eq!(schema["required"][0], "path");
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct Object {
    description: Option<String>,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl Object {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn description(mut self, text: &str) -> Self {
        self.description = Some(text.to_owned());
        self
    }

    /// Adds a required property.
    pub fn required(mut self, name: &str, property: Property) -> Self {
        self.required.push(name.into());
        self.optional(name, property)
    }

    /// Adds an optional property.
    pub fn optional(mut self, name: &str, property: Property) -> Self {
        self.properties.insert(name.to_owned(), property.0.into());
        self
    }

    pub fn finish(self) -> Value {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        schema.extend(
            self.description
                .map(|text| ("description".to_owned(), text.into())),
        );
        schema.insert("properties".to_owned(), self.properties.into());
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), self.required.into());
        }
        schema.insert("additionalProperties".to_owned(), false.into());
        schema.into()
    }
}

/// The schema of one property of an [`Object`].
#[derive(Debug)]
#[must_use]
pub struct Property(Map<String, Value>);

impl Property {
    /// A property of type `T`. `description` replaces that of the type, except for the descriptions of enum values.
    pub fn of<T: Schema>(description: &str) -> Self {
        let schema = match T::schema() {
            Value::Object(schema) => schema,
            // `true` and `false` are schemas too; only a manual implementation returns them.
            other => Map::from_iter([("allOf".to_owned(), json!([other]))]),
        };
        let meanings = schema
            .get("enum")
            .and(schema.get("description"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut lines = vec![description];
        lines.extend(
            meanings
                .lines()
                .filter(|line| line.starts_with(ENUM_VALUE_PREFIX)),
        );
        let description = lines.join("\n");
        Self(schema).with("description", description)
    }

    pub fn default(self, value: Value) -> Self {
        self.with("default", value)
    }

    pub fn min(self, least: impl Into<Value>) -> Self {
        self.with("minimum", least)
    }

    pub fn max(self, most: impl Into<Value>) -> Self {
        self.with("maximum", most)
    }

    /// Minimum number of characters of a string, or items of a list.
    pub fn min_len(self, least: usize) -> Self {
        let keyword = if self.is_list() {
            "minItems"
        } else {
            "minLength"
        };
        self.with(keyword, least)
    }

    /// Maximum number of characters of a string, or items of a list.
    pub fn max_len(self, most: usize) -> Self {
        let keyword = if self.is_list() {
            "maxItems"
        } else {
            "maxLength"
        };
        self.with(keyword, most)
    }

    /// A regular expression that the string must contain a match of.
    pub fn pattern(self, pattern: &str) -> Self {
        self.with("pattern", pattern)
    }

    /// Other names of the property, which the host renames before validation.
    pub fn aliases(self, names: &[&str]) -> Self {
        self.with("x-aliases", names)
    }

    fn is_list(&self) -> bool {
        self.0.get("type").is_some_and(|kind| kind == "array")
    }

    fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.0.insert(keyword.to_owned(), value.into());
        self
    }
}

/// Prefix of lines that describe an enum value.
const ENUM_VALUE_PREFIX: &str = "- `";

/// The schema of an enum without fields: its values and their descriptions.
#[doc(hidden)]
pub fn enum_schema(description: &str, values: &[(&str, &str)]) -> Value {
    let names: Vec<_> = values.iter().map(|(name, _)| name).collect();
    let mut schema = json!({"type": "string", "enum": names});
    let described = values.iter().filter(|(_, meaning)| !meaning.is_empty());
    let meanings =
        described.map(|(name, meaning)| format!("{ENUM_VALUE_PREFIX}{name}`: {meaning}"));
    let lines: Vec<_> = [description.to_owned()]
        .into_iter()
        .filter(|line| !line.is_empty())
        .chain(meanings)
        .collect();
    if !lines.is_empty() {
        schema["description"] = lines.join("\n").into();
    }
    schema
}

/// The outcome of a `#[data]` value.
#[doc(hidden)]
pub fn outcome_of<T: Schema + Serialize>(data: &T) -> Result<Outcome> {
    let outcome = Outcome::of_data(data)?;
    match &outcome.structured {
        Some(value) if numbers::contains_null(value) => numbers::check_finite(&T::schema(), value)?,
        _ => {}
    }
    Ok(outcome)
}

/// The default of a property as JSON.
#[doc(hidden)]
pub fn json_of<T: Serialize>(value: T) -> Value {
    serde_json::to_value(value).expect("the default of an #[arg] can be written as JSON")
}

/// The default of a property as its type.
#[doc(hidden)]
pub fn value_of<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("the default of an #[arg] fits the type of its field")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::data;

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check<T: Schema>(expected: Expect) {
        expected.assert_eq(&T::schema().to_string());
    }

    #[test]
    fn plain_types() {
        check::<bool>(expect![[r#"{"type":"boolean"}"#]]);
        check::<u8>(expect![[r#"{"type":"integer","minimum":0,"maximum":255}"#]]);
        check::<u32>(expect![[r#"{"type":"integer","minimum":0}"#]]);
        check::<i16>(expect![[
            r#"{"type":"integer","minimum":-32768,"maximum":32767}"#
        ]]);
        check::<i64>(expect![[r#"{"type":"integer"}"#]]);
        check::<f32>(expect![[r#"{"type":"number"}"#]]);
        check::<String>(expect![[r#"{"type":"string"}"#]]);
    }

    #[test]
    fn any_json() {
        check::<Value>(expect!["{}"]);
    }

    #[test]
    fn an_option_has_the_schema_of_its_content() {
        check::<Option<Vec<String>>>(expect![[r#"{"type":"array","items":{"type":"string"}}"#]]);
    }

    #[test]
    fn an_option_inside_a_list_or_map_can_be_null() {
        check::<Vec<Option<bool>>>(expect![[
            r#"{"type":"array","items":{"anyOf":[{"type":"boolean"},{"type":"null"}]}}"#
        ]]);
        check::<HashMap<String, Option<bool>>>(expect![[
            r#"{"type":"object","additionalProperties":{"anyOf":[{"type":"boolean"},{"type":"null"}]}}"#
        ]]);
    }

    #[test]
    fn maps_name_the_type_of_their_values() {
        check::<BTreeMap<String, u32>>(expect![[
            r#"{"type":"object","additionalProperties":{"type":"integer","minimum":0}}"#
        ]]);
        check::<HashMap<String, Value>>(expect![[
            r#"{"type":"object","additionalProperties":{}}"#
        ]]);
    }

    /// How to look.
    #[data]
    #[derive(Debug, PartialEq)]
    enum Depth {
        /// Only the top.
        Shallow,
        VeryDeep,
    }

    #[test]
    fn an_enum_schema_lists_its_values() {
        check::<Depth>(expect![[
            r#"{"type":"string","enum":["shallow","very_deep"],"description":"How to look.\n- `shallow`: Only the top."}"#
        ]]);
        assert_eq!(
            serde_json::from_value::<Depth>(json!("very_deep")).unwrap(),
            Depth::VeryDeep
        );
    }

    /// Where to look.
    #[data]
    #[derive(Debug, PartialEq)]
    struct Place {
        /// A directory.
        #[arg(min_len = 1, max_len = 4096, pattern = "^[^/]", aliases = ["directory"], rename = "dir")]
        folder: String,
        /// How deep.
        #[arg(default = Depth::VeryDeep)]
        depth: Depth,
        /// How many.
        #[arg(default = 10, min = 1, max = 100)]
        limit: u16,
        /// Which ones.
        #[arg(default = ["*.rs"], min_len = 1)]
        globs: Vec<String>,
        /// Share of them.
        #[arg(min = 0.5)]
        share: Option<f64>,
    }

    #[test]
    fn a_struct_schema_describes_its_fields() {
        let schema = serde_json::to_string_pretty(&Place::schema()).unwrap();
        expect![[r#"
            {
              "type": "object",
              "description": "Where to look.",
              "properties": {
                "dir": {
                  "type": "string",
                  "description": "A directory.",
                  "minLength": 1,
                  "maxLength": 4096,
                  "pattern": "^[^/]",
                  "x-aliases": [
                    "directory"
                  ]
                },
                "depth": {
                  "type": "string",
                  "enum": [
                    "shallow",
                    "very_deep"
                  ],
                  "description": "How deep.\n- `shallow`: Only the top.",
                  "default": "very_deep"
                },
                "limit": {
                  "type": "integer",
                  "minimum": 1,
                  "maximum": 100,
                  "description": "How many.",
                  "default": 10
                },
                "globs": {
                  "type": "array",
                  "items": {
                    "type": "string"
                  },
                  "description": "Which ones.",
                  "default": [
                    "*.rs"
                  ],
                  "minItems": 1
                },
                "share": {
                  "type": "number",
                  "description": "Share of them.",
                  "minimum": 0.5
                }
              },
              "required": [
                "dir"
              ],
              "additionalProperties": false
            }"#]]
        .assert_eq(&schema);
    }

    #[test]
    fn serde_agrees_with_the_schema() {
        let place: Place = serde_json::from_value(json!({"directory": "src"})).unwrap();
        let expected = Place {
            folder: "src".to_owned(),
            depth: Depth::VeryDeep,
            limit: 10,
            globs: vec!["*.rs".to_owned()],
            share: None,
        };
        assert_eq!(place, expected);
        expect![[r#"{"dir":"src","depth":"very_deep","limit":10,"globs":["*.rs"]}"#]]
            .assert_eq(&serde_json::to_string(&place).unwrap());
    }
}
