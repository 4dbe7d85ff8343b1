//! Messages to the operator about the tools of a server.
//!
//! They are short and rate-limited, because a server can change its list of tools every second.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use toolhost_contract::text;
use toolhost_mcp_client::LeftOut;

/// Maximum number of tools named for each kind of problem.
const FEW: usize = 3;
/// The same with `--verbose`.
const MANY: usize = 100;
/// Maximum number of messages about one server while the host runs.
const OFTEN: usize = 20;

/// The last message about each server, and the number of messages.
#[derive(Default)]
pub struct Said(Mutex<HashMap<String, (String, usize)>>);

impl Said {
    /// Returns `words` unless they repeat the last message or the limit is reached.
    pub fn anew(&self, server: &str, words: String) -> Option<String> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, times) = said.entry(server.to_owned()).or_default();
        if *last == words || *times >= OFTEN {
            return None;
        }
        last.clone_from(&words);
        if words.is_empty() {
            return None;
        }
        *times += 1;
        Some(if *times == OFTEN {
            format!(
                "{words}\nwarning: server `{server}`: its tools change too often; no further messages about them"
            )
        } else {
            words
        })
    }
}

/// The message about tools that are left out. `approved` is the name to pass to `host mcp approve`.
pub fn of_left_out(whose: &str, approved: &str, left_out: &[LeftOut], verbose: bool) -> String {
    let (changed, others): (Vec<_>, Vec<_>) = left_out.iter().partition(|one| one.changed);
    let few = if verbose { MANY } else { FEW };
    let mut lines = Vec::new();
    if !changed.is_empty() {
        let names: Vec<_> = changed.iter().take(few).map(|one| &*one.tool).collect();
        let more = match changed.len().saturating_sub(few) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        lines.push(format!(
            "warning: {whose}: not served until approved, because new or changed: {}{more}; review with `host mcp approve \
             {approved}`",
            names.join(", ")
        ));
    }
    lines.extend(others.iter().take(few).map(|one| {
        let reason = text::inline(&one.reason, 500);
        format!(
            "warning: {whose}: tool {} is not served: {reason}",
            one.tool
        )
    }));
    match others.len().saturating_sub(few) {
        0 => {}
        more if verbose => lines.push(format!(
            "warning: {whose}: {more} more tools are not served"
        )),
        more => lines.push(format!(
            "warning: {whose}: {more} more tools are not served; --verbose lists them"
        )),
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn left_out(changed: usize, others: usize) -> Vec<LeftOut> {
        let one = |at: usize, changed| LeftOut {
            changed,
            ..LeftOut::new(&format!("t{at}"), "it is\nbad".repeat(200))
        };
        let changed = (0..changed).map(|at| one(at, true));
        changed
            .chain((0..others).map(|at| one(at, false)))
            .collect()
    }

    #[test]
    fn changed_tools_are_named_in_one_line_however_many_they_are() {
        expect!["warning: s: not served until approved, because new or changed: t0, t1, t2 and 47 more; review with `host mcp approve n`"]
            .assert_eq(&of_left_out("s", "n", &left_out(50, 0), false));
        assert_eq!(of_left_out("s", "n", &[], true), "");
        for (verbose, lines) in [(false, 1 + 3 + 1), (true, 1 + 100 + 1)] {
            let words = of_left_out("s", "n", &left_out(2_000, 2_000), verbose);
            assert_eq!(words.lines().count(), lines);
            assert!(words.len() < 700 * lines + 1_000, "{}", words.len());
        }
    }

    #[test]
    fn the_same_is_said_once_and_nothing_for_ever() {
        let said = Said::default();
        let anew = |server: &str, words: &str| said.anew(server, words.to_owned());
        assert_eq!(anew("a", ""), None);
        assert_eq!(anew("a", "x").as_deref(), Some("x"));
        assert_eq!(anew("a", "x"), None);
        assert_eq!(anew("b", "x").as_deref(), Some("x"));
        // No problem in between.
        assert_eq!(anew("a", ""), None);
        assert_eq!(anew("a", "x").as_deref(), Some("x"));
        let told: Vec<_> = (0..1_000)
            .filter_map(|at| anew("a", &at.to_string()))
            .collect();
        assert_eq!(told.len(), OFTEN - 2);
        assert!(told.last().unwrap().contains("no further messages"));
    }
}
