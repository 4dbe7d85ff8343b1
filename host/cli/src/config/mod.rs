//! The keys of `toolhost.toml` as typed values. `settings.rs` merges them with the command line.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use toolhost_contract::LimitsTable;
use toolhost_kernel::Durability;
use toolhost_packages::Identity;

mod ab_test;
mod edited_file;
mod expand;
mod external_access;
mod file;
#[cfg(test)]
mod fuzz;
mod hook;
mod key_case;
mod mcp;
mod other_systems;
mod policy;
mod positions;
mod project;
mod read;
mod rule_text;
mod toml_edits;
mod tools;
mod values;

pub use ab_test::AbTestTable;
pub use edited_file::EditedFile;
pub use expand::expand_variables;
pub use external_access::ProgramName;
pub use file::Config;
pub use hook::{HookTable, HookTarget, OnFailure};
pub use key_case::to_snake_case;
pub use mcp::McpTable;
pub use other_systems::{McpServer, SandboxSetting, SandboxTable, Secret, WebSearch};
pub use policy::{ImportKind, PermissionTable, PolicyTable};
pub use project::ProjectTable;
pub use read::{FileFormat, parse, parse_value, read, read_trusted};
pub use rule_text::RuleText;
pub use toml_edits::{push_item, remove_entry, remove_item};
pub use values::{Bound, PathEntry, UseTools, Variable};

/// How many calls of each kind run concurrently.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolsTable {
    pub all: Option<NonZeroUsize>,
    pub network: Option<NonZeroUsize>,
    pub processes: Option<NonZeroUsize>,
    pub agents: Option<NonZeroUsize>,
    pub interactive: Option<NonZeroUsize>,
}

/// Settings of one plugin. A list that is present replaces the global one for this plugin, so a shorter list grants
/// less.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PluginTable {
    pub allowed_paths: Option<Vec<PathEntry>>,
    pub env: Option<Vec<Variable>>,
    pub limits: LimitsTable,
    pub exclusive: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheTable {
    pub dir: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreTable {
    pub enabled: Option<bool>,
    pub dir: Option<String>,
    pub durability: Option<Durability>,
}

/// Limits on the age and size of stored data.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionTable {
    pub records_age: Option<Bound<Duration>>,
    pub records_size: Option<Bound<u64>>,
    pub undo_age: Option<Bound<Duration>>,
    pub undo_size: Option<Bound<u64>>,
    pub cache_age: Option<Bound<Duration>>,
    pub cache_size: Option<Bound<u64>>,
    pub logs_age: Option<Bound<Duration>>,
}

/// The authors whose plugins the host loads.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SignaturesTable {
    /// Files of public keys.
    pub keys: Vec<String>,
    /// Authors of keyless signatures.
    pub identities: Vec<Identity>,
    /// A file with the certificate authorities and logs of Sigstore.
    pub trusted_root: Option<String>,
    pub required: bool,
    /// For packages from certain sources. The first that matches applies.
    pub rule: Vec<SignatureRule>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignatureRule {
    /// A reference; `*` at its end matches any rest.
    pub from: String,
    #[serde(default)]
    pub keys: Vec<String>,
    #[serde(default)]
    pub identities: Vec<Identity>,
    #[serde(default)]
    pub required: bool,
}

#[cfg(test)]
mod tests;
