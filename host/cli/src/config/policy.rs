//! Permission settings of a file: `[policy]`, and `permission` in Kode's format.

use serde::Deserialize;
use serde_json::{Value, json};
use toolhost_contract::Mode;
use toolhost_contract::policy::OnHeadlessAsk;

use super::{RuleText, values};

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyTable {
    #[serde(deserialize_with = "values::text")]
    pub mode: Option<Mode>,
    #[serde(deserialize_with = "values::text")]
    pub on_headless_ask: Option<OnHeadlessAsk>,
    pub disable_yolo: bool,
    pub disable_always_allow: bool,
    pub allow: Vec<RuleText>,
    pub ask: Vec<RuleText>,
    pub deny: Vec<RuleText>,
    /// Paths whose changes need approval even where edits are allowed, in addition to the built-in ones.
    pub protected: Vec<String>,
    /// Directory for plans, writable in mode `plan`.
    pub plan_dir: Option<String>,
    /// Files with `[[rule]]` tables.
    pub rules: Vec<String>,
    pub import: Vec<Import>,
}

/// A file with the permissions of another system.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Import {
    pub kind: ImportKind,
    pub file: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImportKind {
    Kode,
    Gemini,
    Sema,
    Claude,
}

/// Kode's `PermissionConfig`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PermissionTable {
    #[serde(deserialize_with = "values::text")]
    pub mode: Option<Mode>,
    pub require_approval_tools: Vec<RuleText>,
    pub auto_allow_tools: Vec<RuleText>,
    pub auto_deny_tools: Vec<RuleText>,
}

impl PermissionTable {
    /// The table in Kode's format, for the importer.
    pub fn to_value(&self) -> Value {
        let texts = |forms: &[RuleText]| {
            forms
                .iter()
                .map(|form| json!(form.as_str()))
                .collect::<Vec<_>>()
        };
        json!({
            "mode": self.mode.map(Mode::as_str),
            "requireApprovalTools": texts(&self.require_approval_tools),
            "autoAllowTools": texts(&self.auto_allow_tools),
            "autoDenyTools": texts(&self.auto_deny_tools),
        })
    }
}
