//! One `[[ab_test]]`: which implementations of a tool are compared, and what keeps its variant.

use serde::Deserialize;
use toolhost_contract::{PluginName, ToolName, VersionReq};
use toolhost_kernel::AbKey;

use super::values;

/// More would be a mistake, and each is looked up whenever a plugin comes or goes.
const MAX_VARIANTS: usize = 16;
const MAX_WEIGHT: u32 = 1_000_000;

/// One comparison that makes sense as a whole.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
pub struct AbTestTable {
    pub tool: ToolName,
    pub variants: Vec<toolhost_kernel::Variant>,
    pub key: AbKey,
    /// Where it begins. Only TOML knows.
    pub line: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
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

impl TryFrom<Written> for AbTestTable {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written {
            tool,
            variants,
            key,
        } = written;
        if !(2..=MAX_VARIANTS).contains(&variants.len()) {
            return Err(format!(
                "ab_test of `{tool}` has {} variants; give it 2 to {MAX_VARIANTS}",
                variants.len()
            ));
        }
        for (number, variant) in (1..).zip(&variants) {
            if variant.version.is_none() && variant.plugin.is_none() {
                return Err(format!(
                    "variant {number} of `{tool}` says neither `version` nor `plugin`"
                ));
            }
            if !(1..=MAX_WEIGHT).contains(&variant.weight) {
                return Err(format!(
                    "variant {number} of `{tool}` has weight {}; give it 1 to {MAX_WEIGHT}, or leave it out",
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
