//! Pagination of the tool list with opaque cursors.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::model::{ErrorData, Tool};
use serde_json::json;
use toolhost_contract::text;

/// Number of tools per page.
const PAGE_SIZE: usize = 100;
/// Prefix of a cursor before encoding.
const CURSOR_PREFIX: &str = "tools:";

/// Returns the page at `cursor` and the cursor of the next page.
pub(crate) fn page<'a>(
    tools: &'a [Tool],
    cursor: Option<&str>,
) -> Result<(&'a [Tool], Option<String>), ErrorData> {
    let start = match cursor {
        None => 0,
        Some(cursor) => decode_cursor(cursor)
            .filter(|start| *start < tools.len())
            .ok_or_else(|| invalid_cursor(cursor))?,
    };
    let end = tools.len().min(start + PAGE_SIZE);
    let next = (end < tools.len()).then(|| URL_SAFE_NO_PAD.encode(format!("{CURSOR_PREFIX}{end}")));
    Ok((&tools[start..end], next))
}

fn decode_cursor(cursor: &str) -> Option<usize> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let start: usize = std::str::from_utf8(&bytes)
        .ok()?
        .strip_prefix(CURSOR_PREFIX)?
        .parse()
        .ok()?;
    (start > 0 && start.is_multiple_of(PAGE_SIZE)).then_some(start)
}

fn invalid_cursor(cursor: &str) -> ErrorData {
    let shown = text::escape_line(cursor, 80);
    ErrorData::invalid_params(
        format!("invalid cursor `{shown}`; list again without a cursor"),
        Some(json!({"cursor": shown})),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rmcp::model::JsonObject;

    use super::*;

    fn tools(count: usize) -> Vec<Tool> {
        let schema = Arc::new(JsonObject::new());
        (0..count)
            .map(|number| Tool::new(format!("t{number}"), "", Arc::clone(&schema)))
            .collect()
    }

    #[test]
    fn every_tool_is_on_one_page() {
        for count in [0, 1, PAGE_SIZE, PAGE_SIZE + 1, 250] {
            let tools = tools(count);
            let (mut names, mut cursor) = (Vec::new(), None);
            loop {
                let (page, next) = page(&tools, cursor.as_deref()).unwrap();
                names.extend(page.iter().map(|tool| tool.name.clone()));
                cursor = next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(names.len(), count);
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }

    #[test]
    fn an_invalid_cursor_is_an_error() {
        let tools = tools(150);
        let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for cursor in [
            String::new(),
            "2".to_owned(),
            "\u{1b}[2J".to_owned(),
            encoded("tools:0"),
            encoded("tools:7"),
            encoded("tools:200"),
            encoded("tools:-100"),
            encoded("prompts:100"),
        ] {
            let error = page(&tools, Some(&cursor)).unwrap_err();
            assert_eq!(error.code.0, -32602, "{cursor}");
            assert!(!error.message.contains('\u{1b}'));
        }
        assert_eq!(
            page(&tools, Some(&encoded("tools:100"))).unwrap().0.len(),
            50
        );
    }
}
