//! Who denied a call, and which rule would allow similar calls.

use serde_json::Value;
use toolhost_store::CallRow;

/// The rule, hook, mode or user that denied the call.
pub fn denied_by(row: &CallRow) -> Option<String> {
    let by = text(row, "/approval/decidedBy")?;
    Some(match by.strip_prefix("hook:") {
        Some(hook) => format!("hook {hook}"),
        None if by == "policy" => match (text(row, "/error/code"), text(row, "/mode")) {
            (Some("policy_violation"), Some(mode)) => {
                format!("mode {mode}, because no rule allows it")
            }
            (Some("capability_missing"), _) => "the sandbox, because it was not granted".to_owned(),
            _ => "the policy".to_owned(),
        },
        None if text(row, "/error/code") == Some("user_denied") => format!("the user ({by})"),
        None => format!("rule {by}"),
    })
}

/// What to do so that such calls are allowed, the shortest way first.
pub fn ways_to_allow(row: &CallRow) -> Vec<String> {
    let by = text(row, "/approval/decidedBy").unwrap_or_default();
    let remedy = text(row, "/error/remedy").unwrap_or_default();
    let remedy = remedy.strip_prefix("to allow it: ").unwrap_or(remedy);
    let mut ways = Vec::new();
    let rules = suggested_rules(remedy);
    if !rules.is_empty() {
        ways.push(format!("host policy allow {}", rules.join(" ")));
    }
    if !remedy.is_empty() {
        ways.push(remedy.to_owned());
    } else if let Some(hook) = by.strip_prefix("hook:") {
        ways.push(format!(
            "change the hook `{hook}`, or its matcher, in the configuration file"
        ));
    } else if text(row, "/error/code") == Some("user_denied") {
        ways.push("call again, and answer y or a".to_owned());
    }
    ways
}

/// The rules of `--allow-tool` in a remedy, quoted for a shell as they are there.
fn suggested_rules(remedy: &str) -> Vec<&str> {
    let parts = remedy.split("--allow-tool ").skip(1);
    let rule = |part: &'_ str| -> Option<usize> {
        let end = match part.strip_prefix('\'') {
            Some(quoted) => quoted.find('\'')? + 2,
            None => part.find([' ', ',', ';']).unwrap_or(part.len()),
        };
        (end > 0).then_some(end)
    };
    parts
        .filter_map(|part| rule(part).map(|end| &part[..end]))
        .collect()
}

fn text<'a>(row: &'a CallRow, pointer: &str) -> Option<&'a str> {
    row.record.pointer(pointer).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(by: &str, code: &str, remedy: Option<&str>, expected: (&str, &[&str])) {
        let row = crate::testing::call_row(json!({
            "mode": "plan",
            "approval": {"decidedBy": by},
            "error": {"code": code, "remedy": remedy},
        }));
        let shown = denied_by(&row);
        assert_eq!(
            (shown.as_deref(), ways_to_allow(&row)),
            (
                Some(expected.0),
                expected.1.iter().map(|way| (*way).to_owned()).collect(),
            )
        );
    }

    #[test]
    fn a_denial_names_who_denied_and_what_allows_the_kind() {
        let flags = "to allow it: run host with --allow-tool 'write_file(./a b.txt)' --allow-tool grep, or put x";
        check(
            "policy",
            "policy_violation",
            Some(flags),
            (
                "mode plan, because no rule allows it",
                &[
                    "host policy allow 'write_file(./a b.txt)' grep",
                    "run host with --allow-tool 'write_file(./a b.txt)' --allow-tool grep, or put x",
                ],
            ),
        );
        check(
            "user:1",
            "policy_violation",
            Some("to allow it: remove or narrow rule user:1 deny `x` (--deny-tool)"),
            (
                "rule user:1",
                &["remove or narrow rule user:1 deny `x` (--deny-tool)"],
            ),
        );
        check(
            "hook:guard",
            "hook_denied",
            None,
            (
                "hook guard",
                &["change the hook `guard`, or its matcher, in the configuration file"],
            ),
        );
        check(
            "cli",
            "user_denied",
            None,
            ("the user (cli)", &["call again, and answer y or a"]),
        );
        check(
            "policy",
            "capability_missing",
            Some("start the host with x"),
            (
                "the sandbox, because it was not granted",
                &["start the host with x"],
            ),
        );
    }
}
