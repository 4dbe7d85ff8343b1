//! Whether an edit may rely on what the session knows about a file.

use toolhost_sdk::prelude::*;

use crate::path::Target;

/// Whether a file must be read before it is edited. Unique `old_string` text already proves enough knowledge, so
/// sessions without state and agents that saw the file by other means can edit.
pub const REQUIRE_READ: bool = false;

/// SHA-256 of the file as last seen by the model.
pub fn observed_sha256(cx: &Context, target: &Target) -> Option<String> {
    let observation = cx.last_observation(&target.path.display().to_string());
    observation
        .ok()
        .flatten()
        .map(|observation| observation.sha256)
}

/// What an edit may assume about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The model knows the current file, or knowledge is not required.
    Fresh,
    /// The file changed, but the text to replace still occurs exactly once.
    Changed,
    /// The file changed.
    Stale,
    /// The model has not seen the file.
    NotRead,
}

/// Compares content, not times: a file rewritten with the same content has not changed.
pub fn freshness(observed: Option<&str>, now: &str, exact_once: bool, require: bool) -> Freshness {
    match observed {
        None if require => Freshness::NotRead,
        None => Freshness::Fresh,
        Some(observed) if observed.eq_ignore_ascii_case(now) => Freshness::Fresh,
        Some(_) if exact_once => Freshness::Changed,
        Some(_) => Freshness::Stale,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_305_the_file_must_match_what_was_read() {
        for (observed, exact_once, require, expected) in [
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
            let answer = freshness(observed, "aa", exact_once, require);
            assert_eq!(answer, expected, "{observed:?} {exact_once} {require}");
        }
    }
}
