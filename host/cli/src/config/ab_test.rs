//! `[[ab_test]]` tables: the compared implementations of a tool, and the key that selects a variant.

use serde::Deserialize;
use toolhost_contract::{PluginName, ToolName, VersionReq};
use toolhost_kernel::AbKey;

use super::values;

/// Bounds the lookups when a plugin is registered or removed.
const MAX_VARIANTS: usize = 16;
const MAX_WEIGHT: u32 = 1_000_000;

/// A validated A/B test.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "AbTestFields")]
pub struct AbTestTable {
    pub tool: ToolName,
    pub variants: Vec<toolhost_kernel::Variant>,
    pub key: AbKey,
    /// The line where the table begins. Known only for TOML.
    pub line: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AbTestFields {
    tool: ToolName,
    variants: Vec<Variant>,
    #[serde(default)]
    key: Key,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    #[serde(default, deserialize_with = "values::text")]
    version: Option<VersionReq>,
    plugin: Option<PluginName>,
    weight: u32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Key {
    #[default]
    Session,
    Task,
    Call,
}

impl TryFrom<AbTestFields> for AbTestTable {
    type Error = String;

    fn try_from(written: AbTestFields) -> Result<Self, String> {
        let AbTestFields {
            tool,
            variants,
            key,
        } = written;
        if !(2..=MAX_VARIANTS).contains(&variants.len()) {
            return Err(format!(
                "ab_test of `{tool}` has {} variants; specify 2 to {MAX_VARIANTS}",
                variants.len()
            ));
        }
        for (number, variant) in (1..).zip(&variants) {
            if variant.version.is_none() && variant.plugin.is_none() {
                return Err(format!(
                    "variant {number} of `{tool}` has neither `version` nor `plugin`"
                ));
            }
            if !(1..=MAX_WEIGHT).contains(&variant.weight) {
                return Err(format!(
                    "variant {number} of `{tool}` has weight {}; use 1 to {MAX_WEIGHT}, or remove the variant",
                    variant.weight
                ));
            }
        }
        let variants = variants
            .into_iter()
            .map(|variant| toolhost_kernel::Variant {
                version: variant.version,
                plugin: variant.plugin,
                weight: variant.weight,
            });
        Ok(Self {
            tool,
            variants: variants.collect(),
            key: match key {
                Key::Session => AbKey::Session,
                Key::Task => AbKey::Task,
                Key::Call => AbKey::Call,
            },
            line: None,
        })
    }
}
