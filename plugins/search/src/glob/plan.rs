//! Takes a pattern apart: where to walk, and what to look for there.

use std::fs;

use toolhost_sdk::prelude::*;

use crate::place::Place;

/// What makes a name a pattern.
const SPECIAL: [char; 5] = ['*', '?', '[', '{', '\\'];

pub struct Plan {
    pub start: Place,
    /// Relative to `start`; `None` when the pattern is the path of something that is there.
    pub pattern: Option<String>,
    /// The pattern has no slash and so holds at any depth.
    pub anywhere: bool,
}

impl Plan {
    /// Walks as little of the tree below `base` as the pattern allows.
    pub fn new(cx: &Context, base: &Place, pattern: &str) -> Result<Self> {
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
        // `app/[id]/page.tsx` is a pattern to us and a path to others; where that path exists, it is meant.
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
            // Perhaps only the letter case is another.
            return Ok(Self {
                start: base.clone(),
                pattern: Some(format!("/{pattern}")),
                anywhere: false,
            });
        }
        // The slash in front keeps a rest of one name from holding at any depth.
        Ok(Self {
            start,
            pattern: Some(format!("/{rest}")),
            anywhere: false,
        })
    }
}

/// The directories that the pattern begins with, and the rest of it. The last name always belongs to the rest.
fn fixed<'a>(cx: &Context, base: &Place, pattern: &'a str) -> Result<(Place, &'a str)> {
    let mut end = 0;
    for (at, _) in pattern.match_indices('/') {
        let name = &pattern[end..at];
        // A directory called `[id]` is itself, as in a path. One called `*` is not what people mean by `*`.
        let is_name = || locate(cx, base, &pattern[..at]).is_ok_and(|place| exists(&place));
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

fn locate(cx: &Context, base: &Place, path: &str) -> Result<Place> {
    let absolute = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", base.path())
    };
    Place::locate(cx, &absolute).map_err(|error| match Place::locate(cx, path) {
        // The message names what was written, not what became of it.
        Err(plain) if error.kind() == ErrorKind::Denied => plain,
        _ => error,
    })
}

fn exists(place: &Place) -> bool {
    fs::symlink_metadata(place.path()).is_ok()
}
