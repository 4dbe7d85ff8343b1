//! What a recorded call accessed, in a few words for a list.

use serde_json::Value;
use toolhost_contract::path_members::PATH_MEMBERS;
use toolhost_contract::text;
use toolhost_store::CallRow;

/// Maximum length of the text.
const MAX_CHARS: usize = 60;

/// The command, host or path that the input of a call names. `None` if it names nothing of these.
pub fn access(row: &CallRow) -> Option<String> {
    let input = row.record.get("inputPreview")?;
    let text = |name: &str| input.get(name).and_then(first_text);
    let named = ["command", "cmd"]
        .into_iter()
        .find_map(text)
        .map(ToOwned::to_owned)
        .or_else(|| ["url", "urls"].into_iter().find_map(text).map(host))
        .or_else(|| {
            let path = PATH_MEMBERS.into_iter().find_map(text);
            path.map(ToOwned::to_owned)
        })
        .or_else(|| {
            let destinations = row.record.get("destinations")?;
            first_text(destinations).map(ToOwned::to_owned)
        })?;
    Some(text::escape_line(&named, MAX_CHARS))
}

/// A text, or the first one of a list and the number of the others.
fn first_text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Array(list) => list.first()?.as_str(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// The host of an address.
fn host(address: &str) -> String {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = &rest[..end];
    host.rsplit_once('@')
        .map_or(host, |(_, host)| host)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_accesses_what_its_input_names() {
        for (input, destinations, expected) in [
            (
                json!({"path": "a.txt", "content": "x"}),
                json!(null),
                Some("a.txt"),
            ),
            (
                json!({"command": "git push\u{1b}"}),
                json!(null),
                Some("git push\\u{1b}"),
            ),
            (
                json!({"url": "https://me:secret@docs.rs:8443/a?b"}),
                json!(null),
                Some("docs.rs:8443"),
            ),
            (
                json!({"urls": ["http://a.example/"]}),
                json!(null),
                Some("a.example"),
            ),
            (json!({"paths": ["a", "b"]}), json!(null), Some("a")),
            (json!({"pattern": "TODO"}), json!(null), None),
            (
                json!({"to": 3}),
                json!(["ann@example.org"]),
                Some("ann@example.org"),
            ),
            (json!("text"), json!(null), None),
        ] {
            let row = crate::testing::call_row(json!({
                "inputPreview": input, "destinations": destinations,
            }));
            assert_eq!(access(&row).as_deref(), expected, "{input}");
        }
    }
}
