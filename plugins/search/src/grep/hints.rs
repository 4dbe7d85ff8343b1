//! Suggestions of other parameters when nothing matches. They cost a little time and save the model calls.

use std::ops::ControlFlow;

use super::Input;
use super::files::{Files, Skip};
use crate::ignore_rules::AppliedRules;
use crate::query::{PatternOptions, Query};
use crate::scan::MatchedLines;
use crate::time_limit::{SearchClock, StopReason};
use crate::walk::SkipCounts;

pub fn hints(
    files: &Files<'_>,
    input: &Input,
    clock: &SearchClock<'_>,
    tally: SkipCounts,
) -> Vec<String> {
    let reading = input.reading();
    let mut hints = Vec::new();
    let hint = |parameters: &str, reading: PatternOptions, honour: AppliedRules| {
        let exclude = input.exclude_pattern.as_deref();
        let query = Query::new(&input.pattern, exclude, reading).ok()?;
        let mut found = None;
        // Errors of this optional search are ignored.
        let _ = files.each(honour, clock, &mut |file| {
            if MatchedLines::new(&query, file.window).next().is_none() {
                return ControlFlow::Continue(());
            }
            found = Some(file.shown.to_owned());
            ControlFlow::Break(Skip::All(StopReason::Enough))
        });
        found.map(|file| format!("{parameters} would find it, for example in {file}"))
    };
    if input.inverted() {
        return hints;
    }
    let honour = AppliedRules {
        git: !input.no_ignore,
        tool: !input.no_ignore,
    };
    let everything = AppliedRules {
        git: false,
        tool: false,
    };
    let any_case = PatternOptions {
        case_insensitive: true,
        ..reading
    };
    let as_text = PatternOptions {
        fixed: true,
        ..reading
    };
    let letters = input.pattern.chars().any(char::is_alphabetic) && !reading.case_insensitive;
    let special = regex_syntax::escape(&input.pattern) != input.pattern && !reading.fixed;
    let ignored = tally.git + tally.tool > 0;
    if letters {
        hints.extend(hint("`case_insensitive = true`", any_case, honour));
    }
    if special {
        hints.extend(hint("`fixed_strings = true`", as_text, honour));
    }
    if ignored {
        hints.extend(hint("`no_ignore = true`", reading, everything));
    }
    if letters && ignored && hints.is_empty() {
        let both = "`case_insensitive = true` with `no_ignore = true`";
        hints.extend(hint(both, any_case, everything));
    }
    hints
}
