//! Rules of other systems, read into ours. Each reader takes what its system documents and refuses the rest: a key
//! that is passed over in silence may have been the one that said no.

use serde_json::{Map, Value};

use super::diagnostic::{Diagnostic, Source};
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

/// A list is not longer than this; a person wrote it.
const MAX_ENTRIES: usize = 2_000;

/// What another system's configuration says, in our words.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    pub rules: Vec<RuleSpec>,
    pub mode: Option<Mode>,
    pub disable_yolo: bool,
    pub disable_always_allow: bool,
    /// Only these tools are shown to the model.
    pub core: Option<Vec<String>>,
    /// These tools are not shown to the model.
    pub hidden: Vec<String>,
    /// Further directories that file tools may use.
    pub directories: Vec<String>,
}

/// Reads members one by one, and errors on those that nobody read.
struct Reader<'a> {
    members: &'a Map<String, Value>,
    /// Where the members stand, such as `permissions.`.
    prefix: &'static str,
    source: &'a Source,
}

impl<'a> Reader<'a> {
    fn new(value: &'a Value, prefix: &'static str, source: &'a Source) -> Result<Self, Diagnostic> {
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

    fn wrong(&self, key: &str, what: &str) -> Diagnostic {
        Diagnostic::error(self.source, format!("`{}{key}` {what}", self.prefix))
    }

    fn only(&self, known: &[&str]) -> Result<(), Diagnostic> {
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
        Err(self.wrong(&text::inline(key, 60), &format!("is not known; {near}")))
    }

    fn list(&self, key: &str) -> Result<Vec<String>, Diagnostic> {
        let items = match self.members.get(key) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(items)) if items.len() <= MAX_ENTRIES => items,
            Some(_) => {
                return Err(self.wrong(
                    key,
                    &format!("is not a list of at most {MAX_ENTRIES} texts"),
                ));
            }
        };
        items
            .iter()
            .map(|item| {
                item.as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| self.wrong(key, "holds something that is no text"))
            })
            .collect()
    }

    fn flag(&self, key: &str) -> Result<bool, Diagnostic> {
        match self.members.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong(key, "is neither true nor false")),
        }
    }

    fn word(&self, key: &str) -> Result<Option<&'a str>, Diagnostic> {
        match self.members.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(word)) => Ok(Some(word)),
            Some(_) => Err(self.wrong(key, "is not a text")),
        }
    }

    fn mode(&self, key: &str) -> Result<Option<Mode>, Diagnostic> {
        let word = self.word(key)?;
        word.map(|word| {
            word.parse()
                .map_err(|error: super::UnknownMode| self.wrong(key, &format!("is wrong: {error}")))
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

fn rule(decision: Decision, form: String, tier: Tier, source: &Source) -> RuleSpec {
    RuleSpec::new(decision, form).tier(tier).at(source.clone())
}
