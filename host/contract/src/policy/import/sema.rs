//! Import of Sema's project configuration: allowed tools and switches that skip prompts.

use serde_json::Value;

use super::{Imported, MemberReader, rule};
use crate::policy::diagnostic::{Diagnostic, RuleSource};
use crate::policy::{Decision, Tier};

/// The tools that each switch allows.
const SWITCHES: [(&str, &str); 4] = [
    ("skipFileEditPermission", "Edit"),
    ("skipBashExecPermission", "Bash"),
    ("skipSkillPermission", "Skill"),
    ("skipMCPToolPermission", "mcp__*"),
];

/// Imports the members for permissions; the configuration contains many others, which are ignored.
///
/// `allowedTools` contains names without digests, so its entries become rules, not approvals.
pub fn sema(value: &Value, tier: Tier, source: &RuleSource) -> Result<Imported, Diagnostic> {
    let reader = MemberReader::new(value, "", source)?;
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
