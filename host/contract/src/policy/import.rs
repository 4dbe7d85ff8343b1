//! Import of rules from other systems. Each reader accepts the documented keys and rejects unknown ones, because an
//! ignored key could be a deny.

use serde_json::{Map, Value};

use super::diagnostic::{Diagnostic, RuleSource};
use super::{Decision, Mode, RuleSpec, Tier};
use crate::{nearest, text};

mod claude;
mod gemini;
mod kode;
mod sema;

pub use claude::claude;
pub use gemini::{gemini_policy, gemini_settings};
pub use kode::kode;
pub use sema::sema;

/// Maximum length of a list.
const MAX_ENTRIES: usize = 2_000;

/// The imported configuration of another system.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    pub rules: Vec<RuleSpec>,
    pub mode: Option<Mode>,
    pub disable_yolo: bool,
    pub disable_always_allow: bool,
    /// If set, only these tools are listed to the model.
    pub visible_tools: Option<Vec<String>>,
    /// Tools that are not listed to the model.
    pub hidden_tools: Vec<String>,
    /// Additional directories that file tools may use.
    pub directories: Vec<String>,
}

/// Reads the members of an object and reports unknown ones.
struct MemberReader<'a> {
    members: &'a Map<String, Value>,
    /// Path of the object, such as `permissions.`.
    prefix: &'static str,
    source: &'a RuleSource,
}

impl<'a> MemberReader<'a> {
    fn new(
        value: &'a Value,
        prefix: &'static str,
        source: &'a RuleSource,
    ) -> Result<Self, Diagnostic> {
        let members = value.as_object().ok_or_else(|| {
            let name = prefix.trim_end_matches('.');
            let name = if name.is_empty() {
                "the configuration"
            } else {
                name
            };
            Diagnostic::error(source, format!("{name} is not an object"))
        })?;
        Ok(Self {
            members,
            prefix,
            source,
        })
    }

    fn error(&self, key: &str, problem: &str) -> Diagnostic {
        Diagnostic::error(self.source, format!("`{}{key}` {problem}", self.prefix))
    }

    fn reject_unknown(&self, known: &[&str]) -> Result<(), Diagnostic> {
        let Some(key) = self
            .members
            .keys()
            .find(|key| !known.contains(&key.as_str()))
        else {
            return Ok(());
        };
        let near = match nearest(key, known.iter().copied(), 1).first() {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("expected one of: {}", known.join(", ")),
        };
        Err(self.error(
            &text::escape_line(key, 60),
            &format!("is not known; {near}"),
        ))
    }

    fn list(&self, key: &str) -> Result<Vec<String>, Diagnostic> {
        let items = match self.members.get(key) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(items)) if items.len() <= MAX_ENTRIES => items,
            Some(_) => {
                return Err(self.error(
                    key,
                    &format!("is not a list of at most {MAX_ENTRIES} strings"),
                ));
            }
        };
        items
            .iter()
            .map(|item| {
                item.as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| self.error(key, "contains a value that is not a string"))
            })
            .collect()
    }

    fn flag(&self, key: &str) -> Result<bool, Diagnostic> {
        match self.members.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.error(key, "is not a boolean")),
        }
    }

    fn string(&self, key: &str) -> Result<Option<&'a str>, Diagnostic> {
        match self.members.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.error(key, "is not a string")),
        }
    }

    fn mode(&self, key: &str) -> Result<Option<Mode>, Diagnostic> {
        let name = self.string(key)?;
        name.map(|name| {
            name.parse()
                .map_err(|error: super::UnknownMode| self.error(key, &format!("is wrong: {error}")))
        })
        .transpose()
    }

    fn rules(
        &self,
        key: &str,
        decision: Decision,
        tier: Tier,
    ) -> Result<Vec<RuleSpec>, Diagnostic> {
        let forms = self.list(key)?;
        Ok(forms
            .into_iter()
            .map(|form| rule(decision, form, tier, self.source))
            .collect())
    }
}

fn rule(decision: Decision, form: String, tier: Tier, source: &RuleSource) -> RuleSpec {
    RuleSpec::new(decision, form).tier(tier).at(source.clone())
}
