//! What the session knows of a file, and whether an edit may rely on it.

use toolhost_sdk::prelude::*;

use crate::path::Target;

/// Must a file have been read before it is edited? The text to replace has to be there, and only once: whoever can say
/// it knows enough. So a session that remembers nothing, and an agent that was shown the file by other means, can edit.
pub const REQUIRE_READ: bool = false;

/// SHA-256 of the file as the model has last seen it.
pub fn seen(cx: &Context, target: &Target) -> Option<String> {
    let sight = cx.last_seen(&target.path.display().to_string());
    sight.ok().flatten().map(|sight| sight.sha256)
}

/// What an edit may assume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The model knows the file as it is, or nobody asks for that.
    Fresh,
    /// The file is another one now, but the text of the edit is still there, once: it is clear what is meant.
    Changed,
    /// The file is another one now.
    Stale,
    /// The model cannot know what is in the file.
    NotRead,
}

/// Judges by content, never by time: a file that is written again as it was has not changed.
pub fn freshness(seen: Option<&str>, now: &str, exact_once: bool, require: bool) -> Freshness {
    match seen {
        None if require => Freshness::NotRead,
        None => Freshness::Fresh,
        Some(seen) if seen.eq_ignore_ascii_case(now) => Freshness::Fresh,
        Some(_) if exact_once => Freshness::Changed,
        Some(_) => Freshness::Stale,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_305_what_was_read_has_to_be_what_is_there() {
        for (seen, exact_once, require, expected) in [
            (None, false, false, Freshness::Fresh),
            (None, true, false, Freshness::Fresh),
            (None, false, true, Freshness::NotRead),
            (None, true, true, Freshness::NotRead),
            (Some("aa"), false, true, Freshness::Fresh),
            (Some("AA"), false, false, Freshness::Fresh),
            (Some("bb"), true, true, Freshness::Changed),
            (Some("bb"), true, false, Freshness::Changed),
            (Some("bb"), false, true, Freshness::Stale),
            (Some("bb"), false, false, Freshness::Stale),
        ] {
            let answer = freshness(seen, "aa", exact_once, require);
            assert_eq!(answer, expected, "{seen:?} {exact_once} {require}");
        }
    }
}
