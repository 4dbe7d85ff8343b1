//! Storage of long result texts, which are truncated in the message.
//!
//! The message contains the beginning of the text and a resource link. The user who made the call can read the
//! resource from this process until it expires or is evicted.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, Resource, ResourceContents};
use serde_json::{Value, json};
use toolhost_contract::units::show_size;
use toolhost_contract::{UserId, text};

use crate::cuttable::cut_texts;
use crate::shelf::{Load, Room, Shelf};

/// Maximum size of a text that is sent in full, in bytes.
const LONG: usize = 256 << 10;
/// How much of a longer text is sent, in bytes.
const SHOWN: usize = 64 << 10;
/// How long a text is stored.
const TIME: Duration = Duration::from_mins(15);
/// Limits for stored texts, per user and in total.
const ROOM: Room = Room {
    time: TIME,
    of_one: Load {
        things: 32,
        bytes: 32 << 20,
    },
    of_all: Load {
        things: 256,
        bytes: 64 << 20,
    },
};
const SCHEME: &str = "toolhost://result/";

pub(crate) struct Kept(Mutex<Shelf<String>>);

impl Default for Kept {
    fn default() -> Self {
        Self(Mutex::new(Shelf::new(ROOM)))
    }
}

impl Kept {
    /// Truncates long texts and stores them for `owner`. The structured content remains valid for `schema`.
    pub(crate) fn shorten(
        &self,
        result: &mut CallToolResult,
        owner: &UserId,
        schema: Option<&Value>,
    ) {
        let is_long = |block: &ContentBlock| matches!(block, ContentBlock::Text(text) if text.text.len() > LONG);
        if result.content.iter().any(is_long) {
            let blocks = std::mem::take(&mut result.content);
            for block in blocks {
                match block {
                    ContentBlock::Text(text) if text.text.len() > LONG => {
                        let (note, link) = self.cut(text.text, owner);
                        result.content.push(ContentBlock::text(note));
                        result.content.extend(link.map(ContentBlock::resource_link));
                    }
                    block => result.content.push(block),
                }
            }
        }
        if let Some(structured) = &mut result.structured_content {
            cut_texts(structured, schema, LONG, |text| self.cut(text, owner).0);
        }
    }

    /// Returns the beginning with a note where to find the rest, and a link to the full text.
    fn cut(&self, whole: String, owner: &UserId) -> (String, Option<Resource>) {
        let size = whole.len();
        let shown = text::head(&whole, SHOWN).to_owned();
        let rest = show_size((size - shown.len()) as u64);
        let Some(uri) = self.keep(whole, owner) else {
            let note = format!("{shown}\n… {rest} more, too large to store; request a part of it");
            return (note, None);
        };
        let note = format!("{shown}\n… {rest} more; full text, for a limited time: {uri}");
        let mut link = Resource::new(uri, "full text");
        link.mime_type = Some("text/plain".to_owned());
        link.size = u64::try_from(size).ok();
        (note, Some(link))
    }

    /// Stores a text and returns its URI, or `None` if it exceeds the user's quota.
    fn keep(&self, whole: String, owner: &UserId) -> Option<String> {
        let mut texts = self.texts();
        // Results often contain the same text as content and as structured content.
        if let Some(id) = texts.again(owner, |text| *text == whole) {
            return Some(format!("{SCHEME}{id}"));
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).ok()?;
        let id = format!("{:032x}", u128::from_be_bytes(id));
        let uri = format!("{SCHEME}{id}");
        texts.put(id, owner, whole.len(), whole).then_some(uri)
    }

    /// Returns a stored text of this owner. Texts of other owners are reported as not found.
    pub(crate) fn read(&self, uri: &str, owner: &UserId) -> Result<ResourceContents, ErrorData> {
        let mut texts = self.texts();
        let found = uri.strip_prefix(SCHEME).and_then(|id| texts.get(id, owner));
        let Some(found) = found else {
            let shown = text::inline(uri, 200);
            return Err(ErrorData::resource_not_found(
                format!("resource {shown} does not exist or has expired; call the tool again"),
                Some(json!({"uri": shown})),
            ));
        };
        Ok(ResourceContents::TextResourceContents {
            uri: uri.to_owned(),
            mime_type: Some("text/plain".to_owned()),
            text: found.clone(),
            meta: None,
        })
    }

    pub(crate) fn sweep(&self) {
        self.texts().sweep();
    }

    fn texts(&self) -> MutexGuard<'_, Shelf<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> UserId {
        UserId::token("me")
    }

    fn result(text: &str) -> CallToolResult {
        CallToolResult::success(vec![ContentBlock::text(text)])
    }

    /// Returns the URI of the link in a truncated result.
    fn link(kept: &Kept, text: &str, owner: &UserId) -> Option<String> {
        let mut result = result(text);
        kept.shorten(&mut result, owner, None);
        result.content.into_iter().find_map(|block| match block {
            ContentBlock::ResourceLink(link) => Some(link.uri),
            _ => None,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_text_is_cut_and_can_be_read_by_its_owner_for_a_while() {
        let kept = Kept::default();
        assert_eq!(link(&kept, &"x".repeat(LONG), &me()), None);
        let long = "ä".repeat(LONG);
        let mut cut = result(&long);
        kept.shorten(&mut cut, &me(), None);
        assert!(json!(cut).to_string().len() < SHOWN + 2_000);
        let uri = link(&kept, &long, &me()).unwrap();
        let ResourceContents::TextResourceContents { text, .. } = kept.read(&uri, &me()).unwrap()
        else {
            panic!("text")
        };
        assert_eq!(text, long);
        assert!(kept.read(&uri, &UserId::token("you")).is_err());
        assert!(kept.read("toolhost://result/", &me()).is_err());
        assert!(kept.read("file:///etc/passwd", &me()).is_err());
        tokio::time::advance(TIME).await;
        assert!(kept.read(&uri, &me()).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_structured_text_is_cut_as_well_and_kept_once() {
        let long = "x".repeat(3 * LONG);
        let schema = |of_b: Value| json!({"properties": {"b": of_b}});
        for (schema, both) in [
            (Some(schema(json!({"type": "string"}))), true),
            (Some(schema(json!({"pattern": "^x*$"}))), false),
            (None, true),
        ] {
            let kept = Kept::default();
            let mut result = result(&long);
            let value = json!({"n": 1, "a": long, "b": long});
            result.structured_content = Some(value.clone());
            kept.shorten(&mut result, &me(), schema.as_ref());
            let links = result.content.iter().filter_map(|block| match block {
                ContentBlock::ResourceLink(link) => Some(link.uri.clone()),
                _ => None,
            });
            let links: Vec<String> = links.collect();
            let cut = result.structured_content.unwrap();
            assert_eq!(cut["n"], json!(1));
            assert!(cut["a"].as_str().unwrap().ends_with(&links[0]));
            assert_eq!(cut["a"] == cut["b"], both);
            assert!(both || cut["b"] == value["b"]);
            assert!(kept.read(&links[0], &me()).is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_keeps_more_than_their_room() {
        let kept = Kept::default();
        let long = |at: usize| format!("{}{at}", "x".repeat(LONG));
        let first = link(&kept, &long(0), &me()).unwrap();
        let other = link(&kept, &long(0), &UserId::token("you")).unwrap();
        for at in 0..ROOM.of_one.things {
            link(&kept, &long(1 + at), &me()).unwrap();
        }
        assert!(kept.read(&first, &me()).is_err());
        assert!(kept.read(&other, &UserId::token("you")).is_ok());
        let huge = "x".repeat(ROOM.of_one.bytes + 1);
        assert_eq!(link(&kept, &huge, &me()), None);
        // Two users who fill the cache evict each other's texts.
        let half = ROOM.of_all.bytes / 2 - 1;
        for at in 0..4 {
            let owner = UserId::token(["ann", "bob"][at % 2]);
            link(&kept, &"x".repeat(half - at), &owner).unwrap();
        }
        assert!(kept.read(&other, &UserId::token("you")).is_ok());
    }
}
