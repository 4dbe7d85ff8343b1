//! Converts a server's results for a model: every kind of content has its part, and everything is bounded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use toolhost_contract::{CallError, ErrorClass, Failure, Outcome, Part, text};

/// Maximum size of all blocks of a result together.
pub const MAX_BYTES: usize = 16 << 20;
pub const MAX_BLOCKS: usize = 1_000;
const MAX_NAME: usize = 200;
const MAX_URI: usize = 4_000;
/// Maximum size of a failure's message; the parts contain all of it.
const MAX_MESSAGE: usize = 2_000;

/// Converts the result of a call.
pub fn outcome(server: &str, result: CallToolResult) -> Result<Outcome, CallError> {
    let llm = parts(server, result.content)?;
    let structured = result.structured_content;
    let size = structured
        .as_ref()
        .map_or(0, |value| value.to_string().len());
    if size > MAX_BYTES {
        return Err(too_large(server, size));
    }
    let mut outcome = Outcome {
        llm,
        structured,
        ..Outcome::default()
    };
    if result.is_error == Some(true) {
        let text = outcome.model_text();
        let message = if text.trim().is_empty() || text == "(no output)" {
            format!("the tool of the server `{server}` failed without a reason")
        } else {
            text::escape_lines(&text, MAX_MESSAGE)
        };
        outcome.error = Some(Failure::new("mcp_tool_error", message));
    }
    Ok(outcome)
}

pub fn parts(server: &str, blocks: Vec<ContentBlock>) -> Result<Vec<Part>, CallError> {
    if blocks.len() > MAX_BLOCKS {
        let found = blocks.len();
        return Err(output_limit_error(format!(
            "the server `{server}` returned {found} blocks of content, the limit is {MAX_BLOCKS}"
        )));
    }
    let mut budget = Budget {
        server,
        left: MAX_BYTES,
    };
    blocks.into_iter().map(|block| budget.part(block)).collect()
}

/// Converts the contents of a resource.
pub fn contents(server: &str, contents: Vec<ResourceContents>) -> Result<Vec<Part>, CallError> {
    if contents.len() > MAX_BLOCKS {
        let found = contents.len();
        return Err(output_limit_error(format!(
            "the server `{server}` returned {found} contents, the limit is {MAX_BLOCKS}"
        )));
    }
    let mut budget = Budget {
        server,
        left: MAX_BYTES,
    };
    contents
        .into_iter()
        .map(|one| budget.resource(one))
        .collect()
}

struct Budget<'a> {
    server: &'a str,
    left: usize,
}

impl Budget<'_> {
    fn part(&mut self, block: ContentBlock) -> Result<Part, CallError> {
        Ok(match block {
            ContentBlock::Text(content) => {
                self.spend(content.text.len())?;
                Part::Text(content.text)
            }
            ContentBlock::Image(content) => Part::Image {
                data: self.bytes(&content.data)?,
                media_type: media_type(Some(&content.mime_type)),
            },
            ContentBlock::Audio(content) => Part::Audio {
                data: self.bytes(&content.data)?,
                media_type: media_type(Some(&content.mime_type)),
            },
            ContentBlock::Resource(content) => self.resource(content.resource)?,
            ContentBlock::ResourceLink(link) => {
                self.spend(link.uri.len() + link.name.len())?;
                Part::ResourceLink {
                    uri: text::escape_line(&link.uri, MAX_URI),
                    name: Some(text::escape_line(&link.name, MAX_NAME))
                        .filter(|name| !name.is_empty()),
                    media_type: link.mime_type.map(|kind| media_type(Some(&kind))),
                }
            }
            // A kind of a later protocol revision.
            _ => Part::Other {
                kind: "unknown".to_owned(),
                text: None,
            },
        })
    }

    fn resource(&mut self, contents: ResourceContents) -> Result<Part, CallError> {
        Ok(match contents {
            ResourceContents::TextResourceContents { text, .. } => {
                self.spend(text.len())?;
                Part::Text(text)
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => Part::File {
                data: self.bytes(&blob)?,
                media_type: media_type(mime_type.as_deref()),
                name: uri
                    .rsplit('/')
                    .next()
                    .map(|name| text::escape_line(name, MAX_NAME)),
                uri: Some(text::escape_line(&uri, MAX_URI)),
            },
            _ => Part::Other {
                kind: "resource".to_owned(),
                text: None,
            },
        })
    }

    fn spend(&mut self, size: usize) -> Result<(), CallError> {
        self.left = self
            .left
            .checked_sub(size)
            .ok_or_else(|| too_large(self.server, MAX_BYTES - self.left + size))?;
        Ok(())
    }

    fn bytes(&mut self, encoded: &str) -> Result<Vec<u8>, CallError> {
        self.spend(encoded.len())?;
        STANDARD.decode(encoded.as_bytes()).map_err(|_| {
            CallError::new(
                ErrorClass::Failed,
                format!(
                    "the server `{}` returned data that is not base64",
                    self.server
                ),
            )
            .code("mcp_bad_response")
        })
    }
}

/// A media type such as `image/png`, restricted to characters that are safe to print.
fn media_type(declared: Option<&str>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/+-._; =".contains(c);
    declared
        .filter(|kind| kind.contains('/') && kind.len() <= 100 && kind.chars().all(plain))
        .unwrap_or("application/octet-stream")
        .to_owned()
}

fn too_large(server: &str, size: usize) -> CallError {
    output_limit_error(format!(
        "the server `{server}` returned {size} bytes, the limit is {MAX_BYTES}"
    ))
}

fn output_limit_error(message: String) -> CallError {
    CallError::new(ErrorClass::OutputLimit, message).recommend("request less at once")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    fn check(result: Value, expected: Expect) {
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        let shown = match outcome("one", result) {
            Ok(outcome) => format!(
                "{:?}\nstructured: {:?}\nerror: {:?}\n",
                outcome.llm,
                outcome.structured,
                outcome.error.map(|error| error.message)
            ),
            Err(error) => format!("{} ({})", error, error.code),
        };
        expected.assert_eq(&shown);
    }

    // R-422, R-424
    #[test]
    fn r_422_every_kind_of_content_is_converted() {
        check(
            json!({"content": [
                {"type": "text", "text": "hi"},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                {"type": "audio", "data": "aGk=", "mimeType": "bad\u{1b}"},
                {"type": "resource", "resource": {"uri": "a://b/c.txt", "text": "inside"}},
                {"type": "resource", "resource": {"uri": "a://b/c.bin", "blob": "aGk=", "mimeType": "x/y"}},
                {"type": "resource_link", "uri": "a://\u{1b}", "name": "n"},
            ], "structuredContent": {"a": 1}}),
            expect![[r#"
                [Text("hi"), Image { data: [104, 105], media_type: "image/png" }, Audio { data: [104, 105], media_type: "application/octet-stream" }, Text("inside"), File { data: [104, 105], media_type: "x/y", uri: Some("a://b/c.bin"), name: Some("c.bin") }, ResourceLink { uri: "a://\\u{1b}", name: Some("n"), media_type: None }]
                structured: Some(Object {"a": Number(1)})
                error: None
            "#]],
        );
    }

    #[test]
    fn a_tool_failure_is_not_a_host_error() {
        check(
            json!({"content": [{"type": "text", "text": "no such city"}], "isError": true}),
            expect![[r#"
                [Text("no such city")]
                structured: None
                error: Some("no such city")
            "#]],
        );
        check(
            json!({"content": [], "isError": true}),
            expect![[r#"
                []
                structured: None
                error: Some("the tool of the server `one` failed without a reason")
            "#]],
        );
    }

    #[test]
    fn oversized_and_invalid_results_are_refused() {
        check(
            json!({"content": [{"type": "image", "data": "!", "mimeType": "image/png"}]}),
            expect!["the server `one` returned data that is not base64 (mcp_bad_response)"],
        );
        check(
            json!({"content": vec![json!({"type": "text", "text": ""}); 1_001]}),
            expect![[r#"
                the server `one` returned 1001 blocks of content, the limit is 1000
                - request less at once (output_limit)"#]],
        );
        check(
            json!({"content": [{"type": "text", "text": "x".repeat(9 << 20)}, {"type": "text", "text": "x".repeat(9 << 20)}]}),
            expect![[r#"
                the server `one` returned 18874368 bytes, the limit is 16777216
                - request less at once (output_limit)"#]],
        );
    }
}
