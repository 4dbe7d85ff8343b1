//! Dependency checks: licenses, bans and sources (`deny.toml`), and unused dependencies.

use std::process::Command;

use anyhow::{Context, Result};

use crate::job::Job;
use crate::{clients, shell};

/// Excludes security advisories, whose database has to be cloned. `just deny` checks them.
pub fn check(job: &Job) -> Result<()> {
    let Some(programs) = clients::supply_chain(job)? else {
        return Ok(());
    };
    let mut deny = Command::new(programs.join("cargo-deny"));
    deny.args([
        "--locked",
        "--log-level=error",
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]);
    shell::run(deny.current_dir(&job.root)).context("a dependency is not allowed by deny.toml")?;
    let mut shear = Command::new(programs.join("cargo-shear"));
    shell::run(shear.arg("--locked").current_dir(&job.root))
        .context("a declared dependency is unused: remove it from its Cargo.toml")
}
