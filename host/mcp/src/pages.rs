//! Pagination of the tool list with opaque cursors.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::model::{ErrorData, Tool};
use serde_json::json;
use toolhost_contract::text;

/// Number of tools per page.
const PAGE: usize = 100;
/// Prefix of a cursor before encoding.
const MARK: &str = "tools:";

/// Returns the page at `cursor` and the cursor of the next page.
pub(crate) fn page<'a>(
    tools: &'a [Tool],
    cursor: Option<&str>,
) -> Result<(&'a [Tool], Option<String>), ErrorData> {
    let start = match cursor {
        None => 0,
        Some(cursor) => position(cursor)
            .filter(|start| *start < tools.len())
            .ok_or_else(|| unknown(cursor))?,
    };
    let end = tools.len().min(start + PAGE);
    let next = (end < tools.len()).then(|| URL_SAFE_NO_PAD.encode(format!("{MARK}{end}")));
    Ok((&tools[start..end], next))
}

fn position(cursor: &str) -> Option<usize> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let start: usize = std::str::from_utf8(&bytes)
        .ok()?
        .strip_prefix(MARK)?
        .parse()
        .ok()?;
    (start > 0 && start.is_multiple_of(PAGE)).then_some(start)
}

fn unknown(cursor: &str) -> ErrorData {
    let shown = text::inline(cursor, 80);
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
        for count in [0, 1, PAGE, PAGE + 1, 250] {
            let tools = tools(count);
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let (page, next) = page(&tools, cursor.as_deref()).unwrap();
                seen.extend(page.iter().map(|tool| tool.name.clone()));
                cursor = next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen.len(), count);
            seen.dedup();
            assert_eq!(seen.len(), count);
        }
    }

    #[test]
    fn a_cursor_that_we_did_not_make_is_an_error() {
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
