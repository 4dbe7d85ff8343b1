//! Sema's project configuration: tools that were allowed for good, and switches that skip questions.

use serde_json::Value;

use super::{Imported, Reader, rule};
use crate::policy::diagnostic::{Diagnostic, Source};
use crate::policy::{Decision, Tier};

/// What each switch stops asking about.
const SWITCHES: [(&str, &str); 4] = [
    ("skipFileEditPermission", "Edit"),
    ("skipBashExecPermission", "Bash"),
    ("skipSkillPermission", "Skill"),
    ("skipMCPToolPermission", "mcp__*"),
];

/// Takes the members that speak of permissions; the configuration holds much else, which is not ours to judge.
///
/// `allowedTools` names tools and not their bytes, so the entries become rules and not approvals.
pub fn sema(value: &Value, tier: Tier, source: &Source) -> Result<Imported, Diagnostic> {
    let reader = Reader::new(value, "", source)?;
    let mut rules = reader.rules("allowedTools", Decision::Allow, tier)?;
    for (switch, form) in SWITCHES {
        if reader.flag(switch)? {
            let mut rule = rule(Decision::Allow, form.to_owned(), tier, source);
            rule.reason = Some(switch.to_owned());
            rules.push(rule);
        }
    }
    Ok(Imported {
        rules,
        ..Imported::default()
    })
}
