//! Splits a glob into the directory to traverse and the pattern to match.

use std::fs;

use toolhost_sdk::prelude::*;

use crate::search_path::SearchPath;

/// Characters that make a name a pattern.
const SPECIAL: [char; 5] = ['*', '?', '[', '{', '\\'];

pub struct Plan {
    pub start: SearchPath,
    /// Relative to `start`; `None` if the pattern is an existing path.
    pub pattern: Option<String>,
    /// The pattern has no slash, so it matches at any depth.
    pub anywhere: bool,
}

impl Plan {
    /// Restricts the traversal below `base` to what the pattern can match.
    pub fn new(cx: &Context, base: &SearchPath, pattern: &str) -> Result<Self> {
        let pattern = pattern.trim_end_matches('/');
        if !pattern.contains('/') {
            let is_name = pattern.contains(SPECIAL) && exists(&base.join(pattern));
            let pattern = if is_name {
                globset::escape(pattern)
            } else {
                pattern.to_owned()
            };
            return Ok(Self {
                start: base.clone(),
                pattern: Some(pattern),
                anywhere: true,
            });
        }
        let pattern = pattern.trim_start_matches("./");
        let whole = locate(cx, base, pattern)?;
        // `app/[id]/page.tsx` is a valid glob and a common path; an existing path takes precedence.
        if exists(&whole) {
            return Ok(Self {
                start: whole,
                pattern: None,
                anywhere: false,
            });
        }
        let (start, rest) = fixed(cx, base, pattern)?;
        if !fs::metadata(start.path()).is_ok_and(|metadata| metadata.is_dir())
            && !pattern.starts_with('/')
        {
            // Only the case may differ.
            return Ok(Self {
                start: base.clone(),
                pattern: Some(format!("/{pattern}")),
                anywhere: false,
            });
        }
        // A leading slash keeps a single remaining name from matching at any depth.
        Ok(Self {
            start,
            pattern: Some(format!("/{rest}")),
            anywhere: false,
        })
    }
}

/// The fixed leading directories of the pattern, and the rest, which always includes the last component.
fn fixed<'a>(cx: &Context, base: &SearchPath, pattern: &'a str) -> Result<(SearchPath, &'a str)> {
    let mut end = 0;
    for (at, _) in pattern.match_indices('/') {
        let name = &pattern[end..at];
        // A directory named `[id]` is taken literally; one named `*` is not.
        let is_name = || locate(cx, base, &pattern[..at]).is_ok_and(|path| exists(&path));
        if name.contains(['*', '?']) || name.contains(SPECIAL) && !is_name() {
            break;
        }
        end = at + 1;
    }
    let (prefix, rest) = pattern.split_at(end);
    let start = if prefix.is_empty() {
        base.clone()
    } else {
        locate(cx, base, prefix)?
    };
    Ok((start, rest))
}

fn locate(cx: &Context, base: &SearchPath, path: &str) -> Result<SearchPath> {
    let absolute = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", base.path())
    };
    SearchPath::locate(cx, &absolute).map_err(|error| match SearchPath::locate(cx, path) {
        // The message names the original path.
        Err(plain) if error.kind() == ErrorKind::Denied => plain,
        _ => error,
    })
}

fn exists(path: &SearchPath) -> bool {
    fs::symlink_metadata(path.path()).is_ok()
}
