//! `x-mcp-header` annotations: arguments that clients copy into HTTP headers for routing.
//!
//! A client rejects a tool with an invalid annotation, so only valid ones are listed.

use std::collections::HashSet;

use rmcp::model::JsonObject;
use serde_json::Value;

const KEYWORD: &str = "x-mcp-header";

/// Copies the valid annotations from the tool's own schema into the listed schema.
pub(crate) fn copy_annotations(own: &Value, listed: &mut JsonObject) {
    let Some(properties) = own.get("properties").and_then(Value::as_object) else {
        return;
    };
    let mut seen = HashSet::new();
    for (name, property) in properties {
        let Some(header) = header(property) else {
            continue;
        };
        if !seen.insert(header.to_ascii_lowercase()) {
            continue;
        }
        let shown = listed
            .get_mut("properties")
            .and_then(|properties| properties.get_mut(name));
        if let Some(Value::Object(shown)) = shown {
            shown.insert(KEYWORD.to_owned(), header.into());
        }
    }
}

/// Returns the header name of a valid annotation. Proxies log headers, so secrets are excluded.
fn header(property: &Value) -> Option<&str> {
    let header = property.get(KEYWORD)?.as_str()?;
    let is_token = !header.is_empty()
        && header
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    let is_plain = matches!(
        property.get("type").and_then(Value::as_str),
        Some("string" | "integer" | "boolean")
    );
    let is_secret = property.get("writeOnly") == Some(&Value::Bool(true))
        || property.get("format").and_then(Value::as_str) == Some("password");
    (is_token && is_plain && !is_secret).then_some(header)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(property: &Value, expected: bool) {
        let own = json!({"properties": {"a": property}});
        let mut listed = json!({"properties": {"a": {}}});
        copy_annotations(&own, listed.as_object_mut().unwrap());
        let shown = &listed["properties"]["a"][KEYWORD];
        assert_eq!(!shown.is_null(), expected, "{property}");
    }

    #[test]
    fn only_primitive_non_secret_arguments_may_be_headers() {
        check(&json!({"type": "string", KEYWORD: "Region"}), true);
        check(&json!({"type": "integer", KEYWORD: "N"}), true);
        check(&json!({"type": "string"}), false);
        check(&json!({"type": "string", KEYWORD: ""}), false);
        check(&json!({"type": "string", KEYWORD: "a b"}), false);
        check(&json!({"type": "string", KEYWORD: 7}), false);
        check(&json!({"type": "number", KEYWORD: "N"}), false);
        check(&json!({"type": "object", KEYWORD: "N"}), false);
        check(
            &json!({"type": "string", "format": "password", KEYWORD: "N"}),
            false,
        );
        check(
            &json!({"type": "string", "writeOnly": true, KEYWORD: "N"}),
            false,
        );
    }

    #[test]
    fn header_names_are_unique() {
        let own = json!({"properties": {
            "a": {"type": "string", KEYWORD: "Region"}, "b": {"type": "string", KEYWORD: "region"},
        }});
        let mut listed = json!({"properties": {"a": {}, "b": {}}});
        copy_annotations(&own, listed.as_object_mut().unwrap());
        assert_eq!(
            listed,
            json!({"properties": {"a": {KEYWORD: "Region"}, "b": {}}})
        );
    }
}
