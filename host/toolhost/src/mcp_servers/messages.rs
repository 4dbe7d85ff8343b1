//! Messages to the operator about the tools of a server.
//!
//! They are short and rate-limited, because a server can change its list of tools every second.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use toolhost_contract::text;
use toolhost_mcp_client::ExcludedTool;

/// Maximum number of tools named for each kind of problem.
const MAX_NAMED: usize = 3;
/// The same with `--verbose`.
const MAX_NAMED_VERBOSE: usize = 100;
/// Maximum number of messages about one server while the host runs.
const MAX_MESSAGES: usize = 20;

/// The last message about each server, and the number of messages.
#[derive(Default)]
pub struct MessageLimiter(Mutex<HashMap<String, (String, usize)>>);

impl MessageLimiter {
    /// Returns `message` unless it repeats the last message or the limit is reached.
    pub fn filter(&self, server: &str, message: String) -> Option<String> {
        let mut messages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, times) = messages.entry(server.to_owned()).or_default();
        if *last == message || *times >= MAX_MESSAGES {
            return None;
        }
        last.clone_from(&message);
        if message.is_empty() {
            return None;
        }
        *times += 1;
        Some(if *times == MAX_MESSAGES {
            format!(
                "{message}\nwarning: server `{server}`: its tools change too often; no further messages about them"
            )
        } else {
            message
        })
    }
}

/// How to report the tools of a source that are not served.
pub struct ExclusionReport<'a> {
    /// For example ``server `NAME` ``.
    pub source: &'a str,
    /// How the user reviews tools that are new or changed.
    pub review: &'a str,
    /// Names more of them.
    pub verbose: bool,
}

impl ExclusionReport<'_> {
    /// Returns one line for each kind of problem, or nothing.
    pub fn message(&self, left_out: &[ExcludedTool]) -> String {
        let Self {
            source,
            review,
            verbose,
        } = *self;
        let (changed, others): (Vec<_>, Vec<_>) = left_out.iter().partition(|one| one.is_changed);
        let few = if verbose {
            MAX_NAMED_VERBOSE
        } else {
            MAX_NAMED
        };
        let mut lines = Vec::new();
        if !changed.is_empty() {
            let names: Vec<_> = changed.iter().take(few).map(|one| &*one.tool).collect();
            let more = match changed.len().saturating_sub(few) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            lines.push(format!(
                "warning: {source}: not served until approved, because new or changed: {}{more}; {review}",
                names.join(", ")
            ));
        }
        lines.extend(others.iter().take(few).map(|one| {
            let reason = text::escape_line(&one.reason, 500);
            format!(
                "warning: {source}: tool {} is not served: {reason}",
                one.tool
            )
        }));
        match others.len().saturating_sub(few) {
            0 => {}
            more if verbose => lines.push(format!(
                "warning: {source}: {more} more tools are not served"
            )),
            more => lines.push(format!(
                "warning: {source}: {more} more tools are not served; --verbose lists them"
            )),
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn left_out(changed: usize, others: usize) -> Vec<ExcludedTool> {
        let one = |at: usize, changed| ExcludedTool {
            is_changed: changed,
            ..ExcludedTool::new(&format!("t{at}"), "it is\nbad".repeat(200))
        };
        let changed = (0..changed).map(|at| one(at, true));
        changed
            .chain((0..others).map(|at| one(at, false)))
            .collect()
    }

    fn report(verbose: bool) -> ExclusionReport<'static> {
        ExclusionReport {
            source: "s",
            review: "look",
            verbose,
        }
    }

    #[test]
    fn changed_tools_are_named_in_one_line() {
        expect!["warning: s: not served until approved, because new or changed: t0, t1, t2 and 47 more; look"]
            .assert_eq(&report(false).message(&left_out(50, 0)));
        assert_eq!(report(true).message(&[]), "");
        for (verbose, lines) in [(false, 1 + 3 + 1), (true, 1 + 100 + 1)] {
            let message = report(verbose).message(&left_out(2_000, 2_000));
            assert_eq!(message.lines().count(), lines);
            assert!(message.len() < 700 * lines + 1_000, "{}", message.len());
        }
    }

    #[test]
    fn repeated_messages_are_suppressed_and_limited() {
        let limiter = MessageLimiter::default();
        let anew = |server: &str, message: &str| limiter.filter(server, message.to_owned());
        assert_eq!(anew("a", ""), None);
        assert_eq!(anew("a", "x").as_deref(), Some("x"));
        assert_eq!(anew("a", "x"), None);
        assert_eq!(anew("b", "x").as_deref(), Some("x"));
        // No problem in between.
        assert_eq!(anew("a", ""), None);
        assert_eq!(anew("a", "x").as_deref(), Some("x"));
        let messages: Vec<_> = (0..1_000)
            .filter_map(|at| anew("a", &at.to_string()))
            .collect();
        assert_eq!(messages.len(), MAX_MESSAGES - 2);
        assert!(messages.last().unwrap().contains("no further messages"));
    }
}
