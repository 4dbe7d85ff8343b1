//! Storage of long result texts, which are truncated in the message.
//!
//! The message contains the beginning of the text and a resource link. The user who made the call can read the
//! resource from this process until it expires or is evicted.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, Resource, ResourceContents};
use serde_json::{Value, json};
use toolhost_contract::units::format_size;
use toolhost_contract::{UserId, text};

use crate::truncate_structured::truncate_strings;
use crate::ttl_cache::{CacheQuota, CacheUsage, TtlCache};

/// Maximum size of a text that is sent in full, in bytes.
const MAX_INLINE: usize = 256 << 10;
/// How much of a longer text is sent, in bytes.
const PREVIEW: usize = 64 << 10;
/// How long a text is stored.
const TTL: Duration = Duration::from_mins(15);
/// Limits for stored texts, per user and in total.
const QUOTA: CacheQuota = CacheQuota {
    ttl: TTL,
    per_owner: CacheUsage {
        entries: 32,
        bytes: 32 << 20,
    },
    total: CacheUsage {
        entries: 256,
        bytes: 64 << 20,
    },
};
const SCHEME: &str = "toolhost://result/";

pub(crate) struct ResultStore(Mutex<TtlCache<String>>);

impl Default for ResultStore {
    fn default() -> Self {
        Self(Mutex::new(TtlCache::new(QUOTA)))
    }
}

impl ResultStore {
    /// Truncates long texts and stores them for `owner`. The structured content remains valid for `schema`.
    pub(crate) fn truncate(
        &self,
        result: &mut CallToolResult,
        owner: &UserId,
        schema: Option<&Value>,
    ) {
        let is_long = |block: &ContentBlock| matches!(block, ContentBlock::Text(text) if text.text.len() > MAX_INLINE);
        if result.content.iter().any(is_long) {
            let blocks = std::mem::take(&mut result.content);
            for block in blocks {
                match block {
                    ContentBlock::Text(text) if text.text.len() > MAX_INLINE => {
                        let (note, link) = self.truncate_text(text.text, owner);
                        result.content.push(ContentBlock::text(note));
                        result.content.extend(link.map(ContentBlock::resource_link));
                    }
                    block => result.content.push(block),
                }
            }
        }
        if let Some(structured) = &mut result.structured_content {
            truncate_strings(structured, schema, MAX_INLINE, |text| {
                self.truncate_text(text, owner).0
            });
        }
    }

    /// Returns the beginning with a note where to find the rest, and a link to the full text.
    fn truncate_text(&self, whole: String, owner: &UserId) -> (String, Option<Resource>) {
        let size = whole.len();
        let shown = text::head(&whole, PREVIEW).to_owned();
        let rest = format_size((size - shown.len()) as u64);
        let Some(uri) = self.store(whole, owner) else {
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
    fn store(&self, whole: String, owner: &UserId) -> Option<String> {
        let mut texts = self.lock();
        // Results often contain the same text as content and as structured content.
        if let Some(id) = texts.refresh(owner, |text| *text == whole) {
            return Some(format!("{SCHEME}{id}"));
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).ok()?;
        let id = format!("{:032x}", u128::from_be_bytes(id));
        let uri = format!("{SCHEME}{id}");
        texts.insert(id, owner, whole.len(), whole).then_some(uri)
    }

    /// Returns a stored text of this owner. Texts of other owners are reported as not found.
    pub(crate) fn read(&self, uri: &str, owner: &UserId) -> Result<ResourceContents, ErrorData> {
        let mut texts = self.lock();
        let found = uri.strip_prefix(SCHEME).and_then(|id| texts.get(id, owner));
        let Some(found) = found else {
            let shown = text::escape_line(uri, 200);
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
        self.lock().remove_expired();
    }

    fn lock(&self) -> MutexGuard<'_, TtlCache<String>> {
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
    fn link(store: &ResultStore, text: &str, owner: &UserId) -> Option<String> {
        let mut result = result(text);
        store.truncate(&mut result, owner, None);
        result.content.into_iter().find_map(|block| match block {
            ContentBlock::ResourceLink(link) => Some(link.uri),
            _ => None,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_text_is_truncated_and_readable_by_its_owner_until_it_expires() {
        let store = ResultStore::default();
        assert_eq!(link(&store, &"x".repeat(MAX_INLINE), &me()), None);
        let long = "ä".repeat(MAX_INLINE);
        let mut cut = result(&long);
        store.truncate(&mut cut, &me(), None);
        assert!(json!(cut).to_string().len() < PREVIEW + 2_000);
        let uri = link(&store, &long, &me()).unwrap();
        let ResourceContents::TextResourceContents { text, .. } = store.read(&uri, &me()).unwrap()
        else {
            panic!("text")
        };
        assert_eq!(text, long);
        assert!(store.read(&uri, &UserId::token("you")).is_err());
        assert!(store.read("toolhost://result/", &me()).is_err());
        assert!(store.read("file:///etc/passwd", &me()).is_err());
        tokio::time::advance(TTL).await;
        assert!(store.read(&uri, &me()).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn structured_text_is_truncated_and_stored_once() {
        let long = "x".repeat(3 * MAX_INLINE);
        let schema = |of_b: Value| json!({"properties": {"b": of_b}});
        for (schema, both) in [
            (Some(schema(json!({"type": "string"}))), true),
            (Some(schema(json!({"pattern": "^x*$"}))), false),
            (None, true),
        ] {
            let store = ResultStore::default();
            let mut result = result(&long);
            let value = json!({"n": 1, "a": long, "b": long});
            result.structured_content = Some(value.clone());
            store.truncate(&mut result, &me(), schema.as_ref());
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
            assert!(store.read(&links[0], &me()).is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_quota_of_each_owner_is_enforced() {
        let store = ResultStore::default();
        let long = |at: usize| format!("{}{at}", "x".repeat(MAX_INLINE));
        let first = link(&store, &long(0), &me()).unwrap();
        let other = link(&store, &long(0), &UserId::token("you")).unwrap();
        for at in 0..QUOTA.per_owner.entries {
            link(&store, &long(1 + at), &me()).unwrap();
        }
        assert!(store.read(&first, &me()).is_err());
        assert!(store.read(&other, &UserId::token("you")).is_ok());
        let huge = "x".repeat(QUOTA.per_owner.bytes + 1);
        assert_eq!(link(&store, &huge, &me()), None);
        // Two users who fill the cache evict each other's texts.
        let half = QUOTA.total.bytes / 2 - 1;
        for at in 0..4 {
            let owner = UserId::token(["ann", "bob"][at % 2]);
            link(&store, &"x".repeat(half - at), &owner).unwrap();
        }
        assert!(store.read(&other, &UserId::token("you")).is_ok());
    }
}
