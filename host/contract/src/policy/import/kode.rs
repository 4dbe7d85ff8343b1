//! Import of Kode's `PermissionConfig`: a mode and three lists of tools.

use serde_json::Value;

use super::{Imported, MemberReader, rule};
use crate::policy::diagnostic::{Diagnostic, RuleSource};
use crate::policy::{Decision, Tier};

/// Imports the configuration itself, or an agent template that contains it as `permission`.
///
/// Kode checks the lists in the order deny, allow, ask. A tool in both of the last two runs without a prompt, so it
/// is omitted from the ask rules, which would take precedence here.
pub fn kode(value: &Value, tier: Tier, source: &RuleSource) -> Result<Imported, Diagnostic> {
    let template = value.get("id").is_some() || value.get("permission").is_some();
    let (value, prefix) = match (template, value.get("permission")) {
        (true, Some(permission)) => (permission, "permission."),
        (true, None) => return Ok(Imported::default()),
        (false, _) => (value, ""),
    };
    let reader = MemberReader::new(value, prefix, source)?;
    reader.reject_unknown(&[
        "mode",
        "requireApprovalTools",
        "autoAllowTools",
        "autoDenyTools",
    ])?;
    let allowed = reader.list("autoAllowTools")?;
    let mut rules = reader.rules("autoDenyTools", Decision::Deny, tier)?;
    rules.extend(reader.rules("autoAllowTools", Decision::Allow, tier)?);
    let ask_names = reader.list("requireApprovalTools")?;
    let ask_names = ask_names.into_iter().filter(|name| !allowed.contains(name));
    rules.extend(ask_names.map(|name| rule(Decision::Ask, name, tier, source)));
    Ok(Imported {
        rules,
        mode: reader.mode("mode")?,
        ..Imported::default()
    })
}
