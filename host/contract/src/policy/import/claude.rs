//! Import of the `permissions` in Claude Code settings.

use serde_json::Value;

use super::{Imported, MemberReader};
use crate::policy::diagnostic::{Diagnostic, RuleSource};
use crate::policy::{Decision, Tier};

/// Imports `permissions` from a settings object; other members are ignored.
pub fn claude(value: &Value, tier: Tier, source: &RuleSource) -> Result<Imported, Diagnostic> {
    MemberReader::new(value, "", source)?;
    let Some(permissions) = value.get("permissions") else {
        return Ok(Imported::default());
    };
    let reader = MemberReader::new(permissions, "permissions.", source)?;
    reader.reject_unknown(&[
        "allow",
        "ask",
        "deny",
        "defaultMode",
        "additionalDirectories",
        "disableBypassPermissionsMode",
    ])?;
    let mut rules = reader.rules("deny", Decision::Deny, tier)?;
    rules.extend(reader.rules("ask", Decision::Ask, tier)?);
    rules.extend(reader.rules("allow", Decision::Allow, tier)?);
    let disable_yolo = match reader.string("disableBypassPermissionsMode")? {
        None => false,
        Some("disable") => true,
        Some(_) => {
            return Err(reader.error("disableBypassPermissionsMode", "can only be `disable`"));
        }
    };
    Ok(Imported {
        rules,
        mode: reader.mode("defaultMode")?,
        disable_yolo,
        directories: reader.list("additionalDirectories")?,
        ..Imported::default()
    })
}
