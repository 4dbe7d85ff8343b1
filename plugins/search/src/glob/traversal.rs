//! Directory traversal and matching of `glob`.

use std::fs;
use std::ops::ControlFlow;
use std::time::SystemTime;

use toolhost_sdk::prelude::*;

use super::plan::Plan;
use super::rendering::{answer, keep_first};
use super::{EntryKind, Input, Sort};
use crate::disk::Kind;
use crate::glob_set::{Case, NameGlobs};
use crate::ignore_rules::AppliedRules;
use crate::search_path::SearchPath;
use crate::time_limit::{self, SearchClock, StopReason};
use crate::walk::{Entry, Options, SkipCounts, walk};

/// Limit of entries kept for sorting; the rest is only counted.
const MOST_SORTED: usize = 50_000;

/// The results of a search.
#[derive(Default)]
pub struct GlobResults {
    /// Candidates for the result, unordered.
    pub found: Vec<GlobMatch>,
    pub total: usize,
    pub tally: SkipCounts,
    pub timed_out: bool,
    /// The pattern has no slash and matched below the top directory.
    pub widened: bool,
    /// Parameters that would have found something.
    pub hints: Vec<String>,
}

/// A matching entry.
pub struct GlobMatch {
    pub path: String,
    /// Read only if it decides the order.
    pub modified: Option<SystemTime>,
}

pub fn run(cx: &Context, input: &Input) -> Result<Outcome> {
    let clock = SearchClock::start(cx);
    let base = SearchPath::find(cx, &input.path)?;
    if !base.metadata(&input.path)?.is_dir() {
        let text = format!("`{}` is a file; glob searches directories", input.path);
        return Err(Error::invalid_input(text)
            .code("search_path_not_a_directory")
            .recommend("set the directory in `path` and the file in `pattern`"));
    }
    let plan = Plan::new(cx, &base, &input.pattern)?;
    let mut findings = GlobResults::default();
    let timed = input.sort != Sort::Path;
    let (tally, flow) = search(&plan, input, &clock, &mut |entry| {
        findings.widened |= plan.anywhere && entry.below.contains('/');
        findings.found.push(GlobMatch {
            path: entry.path.to_owned(),
            modified: timed.then(|| entry.dir.modified(entry.name)).flatten(),
        });
        findings.total += 1;
        // A list of all files of a large tree would exceed the memory of a plugin.
        if findings.found.len() >= 2 * MOST_SORTED {
            keep_first(&mut findings.found, MOST_SORTED, input.sort);
        }
        ControlFlow::Continue(())
    })?;
    findings.tally = tally;
    match flow {
        ControlFlow::Break(StopReason::Cancelled) => return Err(time_limit::cancelled()),
        ControlFlow::Break(StopReason::Time) => findings.timed_out = true,
        ControlFlow::Break(StopReason::Enough) | ControlFlow::Continue(()) => {}
    }
    if plan.pattern.is_none() {
        findings.found.extend(itself(&plan, input)?);
        findings.total = findings.found.len();
    }
    if findings.found.is_empty() && !findings.timed_out {
        findings.hints = hints(&plan, input, &clock.optional_work(), tally);
    }
    Ok(answer(input, &base, findings))
}

/// The result if the pattern is an existing path.
fn itself(plan: &Plan, input: &Input) -> Result<Option<GlobMatch>> {
    let metadata = fs::symlink_metadata(plan.start.path())?;
    let kind = if metadata.is_file() {
        Kind::File
    } else if metadata.is_dir() {
        Kind::Directory
    } else {
        Kind::Other
    };
    Ok(wanted(input.kind, kind).then(|| GlobMatch {
        path: plan.start.path().to_owned(),
        modified: metadata.modified().ok(),
    }))
}

fn search(
    plan: &Plan,
    input: &Input,
    clock: &SearchClock<'_>,
    visit: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<StopReason>,
) -> Result<(SkipCounts, ControlFlow<StopReason>)> {
    let Some(pattern) = &plan.pattern else {
        return Ok((SkipCounts::default(), ControlFlow::Continue(())));
    };
    let case = if input.case_sensitive {
        Case::Sensitive
    } else {
        Case::Insensitive
    };
    let names = NameGlobs::wanted([pattern.as_str()], case)?;
    let never = NameGlobs::unwanted(input.exclude.iter().map(String::as_str), case)?;
    let excluded = |entry: &Entry<'_>| never.matches(entry);
    let options = Options {
        honour: AppliedRules {
            git: input.respect_git_ignore,
            tool: input.respect_tool_ignore,
        },
        dot: input.dot,
        depth: depth(plan, pattern),
        excluded: &excluded,
    };
    let walked = walk(&plan.start, &options, clock, &mut |entry| {
        if wanted(input.kind, entry.kind) && names.matches_below(entry) {
            visit(entry)
        } else {
            ControlFlow::Continue(())
        }
    });
    walked.map_err(|error| {
        let text = format!("cannot list `{}`: {error}", plan.start.shown());
        Error::failed(text)
            .code("glob_execution_error")
            .recommend("set `path` to one of its subdirectories")
    })
}

/// Without `**`, the number of slashes determines the depth of matches.
fn depth(plan: &Plan, pattern: &str) -> usize {
    if plan.anywhere || pattern.contains("**") || pattern.contains('{') {
        usize::MAX
    } else {
        pattern.matches('/').count()
    }
}

fn wanted(wanted: EntryKind, kind: Kind) -> bool {
    match wanted {
        EntryKind::File => kind == Kind::File,
        EntryKind::Dir => kind == Kind::Directory,
        EntryKind::Any => true,
    }
}

/// Finds other parameters that would have found something.
fn hints(plan: &Plan, input: &Input, clock: &SearchClock<'_>, tally: SkipCounts) -> Vec<String> {
    let mut hints = Vec::new();
    if plan.pattern.is_none() {
        hints.push(format!(
            "`kind = \"any\"` would find {}",
            plan.start.shown()
        ));
        return hints;
    }
    let hint = |parameters: &str, input: Input| {
        let mut found = None;
        // Errors of this optional search are ignored.
        let _ = search(plan, &input, clock, &mut |entry| {
            found = Some(entry.shown.to_owned());
            ControlFlow::Break(StopReason::Enough)
        });
        found.map(|path| format!("{parameters} would find it, for example {path}"))
    };
    let other = input.clone();
    if input.case_sensitive {
        let case_sensitive = false;
        hints.extend(hint(
            "`case_sensitive = false`",
            Input {
                case_sensitive,
                ..other.clone()
            },
        ));
    }
    if !input.dot {
        let dot = true;
        hints.extend(hint(
            "`dot = true`",
            Input {
                dot,
                ..other.clone()
            },
        ));
    }
    if input.kind != EntryKind::Any {
        let kind = EntryKind::Any;
        hints.extend(hint("`kind = \"any\"`", Input { kind, ..other }));
    }
    let (git, tool) = (tally.git > 0, tally.tool > 0);
    let ways = [
        (git, false, "`respect_git_ignore = false`"),
        (false, tool, "`respect_tool_ignore = false`"),
        (
            git && tool,
            git && tool,
            "`respect_git_ignore = false` and `respect_tool_ignore = false`",
        ),
    ];
    for (git, tool, parameters) in ways {
        if hints.is_empty() && (git || tool) {
            let other = Input {
                respect_git_ignore: input.respect_git_ignore && !git,
                respect_tool_ignore: input.respect_tool_ignore && !tool,
                ..input.clone()
            };
            hints.extend(hint(parameters, other));
        }
    }
    hints
}
