//! Execution of a `grep` query over the files below a path.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::time::SystemTime;

use toolhost_sdk::prelude::*;

use super::collector::Collector;
use super::files::{Files, Filter, SearchStats};
use super::hints::hints;
use super::{FileMatches, Input, OutputMode, rendering};
use crate::ignore_rules::AppliedRules;
use crate::query::Query;
use crate::search_path::SearchPath;
use crate::time_limit::{self, SearchClock, StopReason};

/// Lines of context added automatically, by the maximum number of matches.
const AUTO_CONTEXT: &[(u64, usize)] = &[(1, 50), (3, 15)];

/// The results of a search.
#[derive(Default)]
pub struct GrepResults {
    /// Files that the result may show, in traversal order; with lines only in mode `content`.
    pub files: Vec<FileMatches>,
    /// In mode `files_with_matches`: the newest files that a result may need, the oldest on top.
    pub newest: BinaryHeap<MatchingFile>,
    pub total_matches: u64,
    pub total_files: u64,
    /// Matching lines or files that are not shown.
    pub truncated: bool,
    pub timed_out: bool,
    pub searched: SearchStats,
    pub notes: Vec<String>,
}

/// A matching file. Older files sort later.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct MatchingFile {
    pub modified: Reverse<Option<SystemTime>>,
    pub path: String,
}

pub fn run(cx: &Context, input: &Input) -> Result<Outcome> {
    let clock = SearchClock::start(cx);
    let query = Query::new(
        &input.pattern,
        input.exclude_pattern.as_deref(),
        input.reading(),
    )?;
    let filter = Filter::new(input)?;
    let start = SearchPath::find(cx, &input.path)?;
    let files = Files {
        is_file: start.metadata(&input.path)?.is_file(),
        start: &start,
        filter: &filter,
        around: match input.output_mode {
            OutputMode::Content => input.around().unwrap_or((0, 0)),
            OutputMode::FilesWithMatches | OutputMode::Count => (0, 0),
        },
        multiline: query.multiline,
    };
    let honour = AppliedRules {
        git: !input.no_ignore,
        tool: !input.no_ignore,
    };

    let mut findings = GrepResults {
        notes: query.note.iter().cloned().collect(),
        ..GrepResults::default()
    };
    let mut collector = Collector::new(cx, input, &query);
    let (searched, flow) = files.each(honour, &clock, &mut |file| {
        collector.window(&mut findings, file, clock.is_slow())
    })?;
    collector.finish(&mut findings);
    collector.live.end();
    findings.searched = searched;
    match flow {
        ControlFlow::Break(StopReason::Cancelled) => return Err(time_limit::cancelled()),
        ControlFlow::Break(StopReason::Time) => findings.timed_out = true,
        ControlFlow::Break(StopReason::Enough) | ControlFlow::Continue(()) => {}
    }
    findings.searched.binary += collector.binary;
    findings.searched.files -= collector.binary;
    if findings.total_matches == 0 && !findings.timed_out {
        let hints = hints(
            &files,
            input,
            &clock.optional_work(),
            findings.searched.tally,
        );
        findings.notes.extend(hints);
    } else if input.output_mode == OutputMode::Content
        && input.around().is_none()
        && input.auto_context
    {
        let lines = AUTO_CONTEXT
            .iter()
            .find(|(matches, _)| findings.total_matches <= *matches)
            .map(|(_, lines)| *lines);
        if let Some(lines) = lines {
            collector.widen(&mut findings, &start, lines, &clock);
        }
    }
    Ok(rendering::write(input, &start, findings))
}
