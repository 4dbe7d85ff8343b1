//! `[project."DIR"]`: settings for a host that is started in a directory. `host init` writes them.

use serde::Deserialize;
use toolhost_contract::Mode;

use super::{PathEntry, values};

/// Paths are relative to the directory of the project.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectTable {
    /// Added to the general list.
    pub plugins: Vec<String>,
    /// These come before the general list, and override an entry for the same directory.
    pub allowed_paths: Vec<PathEntry>,
    /// Added to the general list.
    pub allowed_hosts: Vec<String>,
    /// Overrides the general mode.
    #[serde(deserialize_with = "values::text")]
    pub mode: Option<Mode>,
}
