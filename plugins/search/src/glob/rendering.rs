//! Ordering and rendering of the results of `glob`.

use std::cmp::{Ordering, Reverse};
use std::fmt::Write;
use std::time::{Duration, SystemTime};

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::file_name;

use super::traversal::{GlobMatch, GlobResults};
use super::{EntryKind, Ignored, Input, Output, Sort};
use crate::result_limit;
use crate::search_path::SearchPath;

/// For the order `gem`, files changed within this time come first.
const NEW: Duration = Duration::from_hours(24);

pub fn answer(input: &Input, base: &SearchPath, mut findings: GlobResults) -> Outcome {
    let total = findings.total;
    let (offset, limit) = (input.offset as usize, input.limit as usize);
    let found = first(
        &mut findings.found,
        offset.saturating_add(limit),
        input.sort,
    );
    let shown = |found: &GlobMatch| {
        let path = if input.absolute {
            &found.path
        } else {
            base.show(&found.path)
        };
        path.to_owned()
    };
    let mut matches: Vec<String> = found.iter().skip(offset).map(shown).collect();
    let mut lines: Vec<_> = matches.iter().map(|path| file_name(path)).collect();
    lines.truncate(result_limit::fitting(lines.iter().map(AsRef::as_ref)));
    let mut text = lines
        .iter()
        .fold(String::new(), |text, line| text + line + "\n");
    let count = lines.len();
    matches.truncate(count);
    let truncated = total > offset.saturating_add(count);

    let summary = summary(input, total);
    if !text.is_empty() {
        text.push('\n');
    }
    for note in notes(input, base, &findings, &summary, matches.len(), truncated) {
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
                git: findings.tally.git,
                tool: findings.tally.tool,
            },
            timed_out: findings.timed_out,
        })
}

/// Drops all but the first `count` in the given order.
pub fn keep_first(found: &mut Vec<GlobMatch>, count: usize, sort: Sort) {
    let count = first(found, count, sort).len();
    found.truncate(count);
}

/// The first `count` in the given order. The rest stays unsorted, because there may be hundreds of thousands.
fn first(found: &mut [GlobMatch], count: usize, sort: Sort) -> &[GlobMatch] {
    let new = SystemTime::now().checked_sub(NEW);
    let by_time = |found: &GlobMatch| Reverse(found.modified);
    let by_time_if_new =
        |found: &GlobMatch| Reverse(found.modified.filter(|time| Some(*time) > new));
    let order = |left: &GlobMatch, right: &GlobMatch| {
        let times = match sort {
            Sort::Path => Ordering::Equal,
            Sort::Mtime => by_time(left).cmp(&by_time(right)),
            Sort::Gem => by_time_if_new(left).cmp(&by_time_if_new(right)),
        };
        times.then_with(|| left.path.cmp(&right.path))
    };
    let count = count.min(found.len());
    if (1..found.len()).contains(&count) {
        found.select_nth_unstable_by(count - 1, order);
    }
    found[..count].sort_unstable_by(order);
    &found[..count]
}

fn summary(input: &Input, total: usize) -> String {
    let (one, many) = match input.kind {
        EntryKind::File => ("file", "files"),
        EntryKind::Dir => ("directory", "directories"),
        EntryKind::Any => ("entry", "entries"),
    };
    match total {
        0 => format!("no {one} matches `{}`", input.pattern),
        1 => format!("1 {one} matches `{}`", input.pattern),
        _ => format!("{total} {many} match `{}`", input.pattern),
    }
}

fn notes(
    input: &Input,
    base: &SearchPath,
    findings: &GlobResults,
    summary: &str,
    count: usize,
    truncated: bool,
) -> Vec<String> {
    let tally = findings.tally;
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
    notes.extend(findings.hints.iter().cloned());
    if findings.widened {
        let pattern = &input.pattern;
        notes.push(format!(
            "a pattern without `/` matches at any depth; `./{pattern}` matches only in this directory"
        ));
    }
    if findings.timed_out {
        notes.push(
            "the search stopped at the time limit; narrow it with `path` or a longer prefix"
                .to_owned(),
        );
    }
    let offset = input.offset;
    if truncated {
        let next = u64::from(offset) + count as u64;
        notes.push(format!(
            "showing {count} from {offset}; more exist: continue with `offset = {next}`"
        ));
    } else if count == 0 && offset > 0 && !findings.found.is_empty() {
        notes.push(format!("no results from `offset = {offset}`"));
    }
    notes
}
