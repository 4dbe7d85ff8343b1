//! References to definitions, and `allOf` with a single schema.

use serde_json::{Map, Value, json};

use super::{SchemaPosition, StrictConverter};

impl StrictConverter<'_> {
    /// Merges the only schema of an `allOf` into the schema.
    pub(super) fn all_of(
        &mut self,
        schema: &Map<String, Value>,
        parts: &Value,
        at: SchemaPosition,
    ) -> Result<Value, String> {
        let [Value::Object(only)] = parts.as_array().map_or(&[][..], Vec::as_slice) else {
            return at.refuse("uses `allOf`");
        };
        let mut whole = only.clone();
        for (keyword, value) in schema.iter().filter(|(keyword, _)| *keyword != "allOf") {
            let is_annotation = matches!(
                keyword.as_str(),
                "description" | "title" | "default" | "examples"
            );
            if !is_annotation && whole.contains_key(keyword) {
                return at.refuse("has conflicting keywords beside `allOf`");
            }
            whole.insert(keyword.clone(), value.clone());
        }
        let at = SchemaPosition {
            depth: at.depth + 1,
            ..at
        };
        self.schema(&Value::Object(whole), at)
    }

    pub(super) fn reference(
        &mut self,
        schema: &Map<String, Value>,
        reference: &Value,
        mut strict: Map<String, Value>,
        at: SchemaPosition,
    ) -> Result<Value, String> {
        let reference = reference.as_str().unwrap_or_default();
        let name = ["#/$defs/", "#/definitions/"]
            .iter()
            .find_map(|front| reference.strip_prefix(front))
            .filter(|name| !name.contains(['/', '~', '%']));
        if name.is_none() && reference != "#" {
            return at.refuse("refers to something that is not a definition");
        }
        let allowed = [
            "$ref",
            "description",
            "title",
            "default",
            "examples",
            "deprecated",
        ];
        if schema
            .keys()
            .any(|keyword| !allowed.contains(&keyword.as_str()))
        {
            return at.refuse("has other keywords beside `$ref`");
        }
        if let Some(name) = name
            && self.known.insert(name.to_owned())
        {
            self.pending.push(name.to_owned());
        }
        let target = name.map_or_else(|| "#".to_owned(), |name| format!("#/$defs/{name}"));
        let target = json!({"$ref": target});
        // Keywords next to a reference are not supported.
        strict.retain(|keyword, _| matches!(keyword.as_str(), "description" | "title"));
        if strict.is_empty() {
            return Ok(target);
        }
        strict.insert("anyOf".to_owned(), json!([target]));
        Ok(Value::Object(strict))
    }
}
