//! Walks as little of the tree as the pattern allows, and lists what fits.

use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::time::SystemTime;

use toolhost_sdk::prelude::*;

use super::{Ignored, Input, Output, Sort, Wanted};
use crate::clock::{self, Clock, Stop};
use crate::names::{Case, Names};
use crate::place::Place;
use crate::rules::Honour;
use crate::walk::{Entry, Kind, Options, Tally, walk};

/// What makes a name a pattern.
const SPECIAL: [char; 5] = ['*', '?', '[', '{', '\\'];

pub fn run(cx: &Context, input: &Input) -> Result<Outcome> {
    let mut clock = Clock::start(cx);
    let base = Place::find(cx, &input.path)?;
    if !base.metadata(&input.path)?.is_dir() {
        let text = format!("`{}` is a file; glob searches directories", input.path);
        return Err(Error::invalid_input(text).code("path_not_a_directory"));
    }
    let search = Search::plan(cx, &base, input)?;
    let mut found = Vec::new();
    let (tally, flow) = search.walk(input, &mut clock, &mut found)?;
    let timed_out = match flow {
        ControlFlow::Break(Stop::Cancelled) => return Err(clock::cancelled()),
        ControlFlow::Break(Stop::Time) => true,
        ControlFlow::Break(Stop::Enough) | ControlFlow::Continue(()) => false,
    };
    let widened = search.anywhere && found.iter().any(|found| found.deeper);
    Ok(answer(input, &base, found, tally, timed_out, widened))
}

/// A pattern taken apart: where to walk, and what to look for there.
struct Search {
    start: Place,
    /// Relative to `start`; `None` when the pattern is the path of something that is there.
    pattern: Option<String>,
    /// The pattern has no slash and so holds at any depth.
    anywhere: bool,
}

/// An entry that fits.
struct Found {
    path: String,
    shown: String,
    /// It does not lie in the directory that was searched, but below that.
    deeper: bool,
}

impl Search {
    fn plan(cx: &Context, base: &Place, input: &Input) -> Result<Self> {
        let pattern = input.pattern.trim_end_matches('/');
        let join = |path: &str| {
            let absolute = if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("{}/{path}", base.path())
            };
            Place::find(cx, &absolute).map_err(|error| match Place::find(cx, path) {
                // The message names what was written, not what became of it.
                Err(plain) if error.kind() == ErrorKind::Denied => plain,
                _ => error,
            })
        };
        if !pattern.contains('/') {
            return Ok(Self {
                start: base.clone(),
                pattern: Some(pattern.to_owned()),
                anywhere: true,
            });
        }
        let pattern = pattern.trim_start_matches("./");
        let whole = join(pattern)?;
        // `app/[id]/page.tsx` is a pattern to us and a path to others; where that path exists, it is meant.
        if fs::symlink_metadata(whole.path()).is_ok() {
            return Ok(Self {
                start: whole,
                pattern: None,
                anywhere: false,
            });
        }
        let fixed = match pattern.find(SPECIAL) {
            Some(special) => pattern[..special].rfind('/').map_or(0, |at| at + 1),
            None => pattern.rfind('/').map_or(0, |at| at + 1),
        };
        let (prefix, rest) = pattern.split_at(fixed);
        let start = if prefix.is_empty() {
            base.clone()
        } else {
            join(prefix)?
        };
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

    fn walk(
        &self,
        input: &Input,
        clock: &mut Clock<'_>,
        found: &mut Vec<Found>,
    ) -> Result<(Tally, ControlFlow<Stop>)> {
        let Some(pattern) = &self.pattern else {
            let kind = fs::symlink_metadata(self.start.path())?.file_type();
            let kind = if kind.is_file() {
                Kind::File
            } else if kind.is_dir() {
                Kind::Directory
            } else {
                Kind::Other
            };
            if wanted(input.kind, kind) {
                let (path, shown) = (self.start.path().to_owned(), self.start.shown().to_owned());
                found.push(Found {
                    path,
                    shown,
                    deeper: false,
                });
            }
            return Ok((Tally::default(), ControlFlow::Continue(())));
        };
        let case = if input.case_sensitive {
            Case::Sensitive
        } else {
            Case::Insensitive
        };
        let names = Names::wanted([pattern.as_str()], case)?;
        let never = Names::unwanted(input.exclude.iter().map(String::as_str), case)?;
        let excluded = |entry: &Entry<'_>| never.matches(entry);
        let options = Options {
            honour: Honour {
                git: input.respect_git_ignore,
                tool: input.respect_tool_ignore,
            },
            dot: input.dot,
            depth: self.depth(pattern),
            excluded: &excluded,
        };
        Ok(walk(&self.start, &options, clock, &mut |entry| {
            if wanted(input.kind, entry.kind) && names.matches_below(entry) {
                let deeper = entry.below.contains('/');
                found.push(Found {
                    path: entry.path.to_owned(),
                    shown: entry.shown.to_owned(),
                    deeper,
                });
            }
            ControlFlow::Continue(())
        }))
    }

    /// Without `**`, a pattern says by its slashes how deep its matches lie.
    fn depth(&self, pattern: &str) -> usize {
        let deep = self.anywhere || pattern.contains("**") || pattern.contains('{');
        if deep {
            usize::MAX
        } else {
            pattern.matches('/').count()
        }
    }
}

fn wanted(wanted: Wanted, kind: Kind) -> bool {
    match wanted {
        Wanted::File => kind == Kind::File,
        Wanted::Dir => kind == Kind::Directory,
        Wanted::Any => true,
    }
}

fn answer(
    input: &Input,
    base: &Place,
    mut found: Vec<Found>,
    tally: Tally,
    timed_out: bool,
    widened: bool,
) -> Outcome {
    match input.sort {
        Sort::Path => found.sort_by(|left, right| left.shown.cmp(&right.shown)),
        Sort::Mtime => {
            let time = |found: &Found| {
                fs::symlink_metadata(&found.path).and_then(|metadata| metadata.modified())
            };
            found.sort_by_cached_key(|found| {
                (
                    std::cmp::Reverse(time(found).unwrap_or(SystemTime::UNIX_EPOCH)),
                    found.shown.clone(),
                )
            });
        }
    }
    let total = found.len();
    let (offset, limit) = (input.offset as usize, input.limit as usize);
    let truncated = total > offset.saturating_add(limit);
    let matches: Vec<String> = found
        .into_iter()
        .skip(offset)
        .take(limit)
        .map(|found| found.shown)
        .collect();

    let (one, many) = match input.kind {
        Wanted::File => ("file", "files"),
        Wanted::Dir => ("directory", "directories"),
        Wanted::Any => ("entry", "entries"),
    };
    let summary = match total {
        0 => format!("no {one} matches `{}`", input.pattern),
        1 => format!("1 {one} matches `{}`", input.pattern),
        _ => format!("{total} {many} match `{}`", input.pattern),
    };
    let mut head = format!("{summary} in {}", base.shown());
    let ignored = tally.git + tally.tool;
    if ignored > 0 {
        let _ = write!(
            head,
            "; {ignored} ignored (git: {}, tool: {})",
            tally.git, tally.tool
        );
    }
    if tally.unreadable > 0 {
        let _ = write!(head, "; {} unreadable", tally.unreadable);
    }
    let mut notes = vec![head];
    if total == 0 && ignored > 0 {
        notes.push(
            "ignored files are found with `respect_git_ignore = false` and `respect_tool_ignore = false`".to_owned(),
        );
    }
    if widened {
        let pattern = &input.pattern;
        notes.push(format!(
            "a pattern without `/` holds at any depth; `./{pattern}` would mean this directory only"
        ));
    }
    if timed_out {
        notes.push(
            "the time was up before everything was seen; narrow it down with `path` or a longer prefix".to_owned(),
        );
    }
    if truncated {
        let next = offset + matches.len();
        notes.push(format!(
            "showing {} from {offset}; there are more: continue with `offset = {next}`",
            matches.len()
        ));
    }
    let mut text = matches
        .iter()
        .fold(String::new(), |text, path| text + path + "\n");
    if !text.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "[{note}]");
    }
    Outcome::text(text.trim_end())
        .summary(summary)
        .structured(&Output {
            count: matches.len() as u64,
            matches,
            total_known: total as u64,
            truncated,
            ignored: Ignored {
                git: tally.git,
                tool: tally.tool,
            },
            timed_out,
        })
}
