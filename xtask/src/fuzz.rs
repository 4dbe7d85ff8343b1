//! `cargo xtask fuzz [TARGET] [--minutes N]`: search for inputs that break a reader of untrusted input, with libFuzzer.
//!
//! A target is an ordinary test that `cargo test` runs on its corpus. cargo-bolero compiles it with coverage
//! instrumentation. Inputs with new coverage go to `fuzz/corpus` in the target directory; an input that fails goes to
//! `__fuzz__` next to the target, where every later `cargo test` runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::job::Job;
use crate::shell;

const CARGO_BOLERO: &str = "0.13.5";
const DEFAULT_MINUTES: u32 = 20;

/// The name of a target on the command line, its package, its directory of sources and its test.
struct Target {
    name: &'static str,
    package: &'static str,
    sources: &'static str,
    test: &'static str,
}

const TARGETS: &[Target] = &[
    target(
        "manifest",
        "toolhost-contract",
        "host/contract/src",
        "fuzz::fuzz_manifest",
    ),
    target(
        "rule-file",
        "toolhost-contract",
        "host/contract/src",
        "fuzz::fuzz_rule_file",
    ),
    target(
        "rule-form",
        "toolhost-contract",
        "host/contract/src",
        "fuzz::fuzz_rule_form",
    ),
    target(
        "rule-path",
        "toolhost-contract",
        "host/contract/src/policy",
        "policy::fuzz::fuzz_path",
    ),
    target(
        "rule-address",
        "toolhost-contract",
        "host/contract/src/policy",
        "policy::fuzz::fuzz_address",
    ),
    target(
        "rule-import",
        "toolhost-contract",
        "host/contract/src/policy",
        "policy::fuzz::fuzz_import",
    ),
    target(
        "shell",
        "toolhost-shell-syntax",
        "host/shell-syntax/src",
        "fuzz::fuzz_shell",
    ),
    target(
        "model-turn",
        "toolhost-formats",
        "host/formats/src",
        "fuzz::fuzz_model_turn",
    ),
    target(
        "units",
        "toolhost-contract",
        "host/contract/src",
        "fuzz::fuzz_units_and_text",
    ),
    target(
        "component",
        "toolhost-runtime",
        "host/runtime/src",
        "fuzz::fuzz_component_scan",
    ),
    target(
        "returned",
        "toolhost-runtime",
        "host/runtime/src/api/v0_1",
        "api::v0_1::fuzz::fuzz_returned",
    ),
    target(
        "store-row",
        "toolhost-store",
        "host/store/src/tests",
        "tests::fuzz::fuzz_row",
    ),
    target(
        "config",
        "toolhost-cli",
        "host/cli/src/config",
        "config::fuzz::fuzz_config",
    ),
    target(
        "audit-export",
        "toolhost-cli",
        "host/cli/src/commands/audit",
        "commands::audit::fuzz::fuzz_export",
    ),
    target(
        "mcp-line",
        "toolhost-mcp-server",
        "host/mcp-server/src/transport",
        "transport::fuzz::fuzz_line",
    ),
    target(
        "mcp-body",
        "toolhost-mcp-server",
        "host/mcp-server/src/http",
        "http::fuzz::fuzz_body",
    ),
    target(
        "mcp-head",
        "toolhost-mcp-server",
        "host/mcp-server/src/http",
        "http::fuzz::fuzz_head",
    ),
    target(
        "server",
        "toolhost-mcp-client",
        "host/mcp-client/src",
        "fuzz::fuzz_server",
    ),
    target(
        "server-tools",
        "toolhost-mcp-client",
        "host/mcp-client/src",
        "fuzz::fuzz_tools",
    ),
    target(
        "server-answer",
        "toolhost-mcp-client",
        "host/mcp-client/src/web/bounded",
        "web::bounded::fuzz::fuzz_answer",
    ),
    target(
        "server-events",
        "toolhost-mcp-client",
        "host/mcp-client/src/web/bounded",
        "web::bounded::fuzz::fuzz_events",
    ),
    target(
        "login-metadata",
        "toolhost-mcp-client",
        "host/mcp-client/src/login",
        "login::fuzz::fuzz_metadata",
    ),
    target(
        "login-callback",
        "toolhost-mcp-client",
        "host/mcp-client/src/login",
        "login::fuzz::fuzz_callback",
    ),
    target("path", "files", "plugins/files/src", "fuzz::fuzz_path"),
    target(
        "edit",
        "files",
        "plugins/files/src/edit",
        "edit::fuzz::fuzz_edit",
    ),
    target(
        "patch",
        "files",
        "plugins/files/src/patch",
        "patch::fuzz::fuzz_patch",
    ),
    target(
        "text",
        "files",
        "plugins/files/src",
        "fuzz::fuzz_text_encodings",
    ),
    target(
        "notebook",
        "files",
        "plugins/files/src",
        "fuzz::fuzz_notebook",
    ),
    target("html", "web", "plugins/web/src", "fuzz::fuzz_html"),
    target(
        "skill",
        "agent",
        "plugins/agent/src/skill",
        "skill::skill_store::fuzz::fuzz_skill",
    ),
    target(
        "memory-name",
        "memory",
        "plugins/memory/src/memory",
        "memory::name::tests::fuzz_name",
    ),
];

const fn target(
    name: &'static str,
    package: &'static str,
    sources: &'static str,
    test: &'static str,
) -> Target {
    Target {
        name,
        package,
        sources,
        test,
    }
}

pub fn run(job: &Job) -> Result<()> {
    let (chosen, minutes) = read(job)?;
    let program = install(job)?;
    for target in chosen {
        shell::note(&format!("fuzzing {} for {minutes} minutes", target.name));
        shell::run(&mut target.command(job, &program, minutes)?)
            .with_context(|| format!("target `{}` found a failing input", target.name))?;
    }
    Ok(())
}

fn read(job: &Job) -> Result<(Vec<&'static Target>, u32)> {
    let (mut chosen, mut minutes) = (Vec::new(), DEFAULT_MINUTES);
    let mut arguments = job.rest.iter().map(|argument| argument.to_string_lossy());
    while let Some(argument) = arguments.next() {
        if argument == "--minutes" {
            let number = arguments.next().unwrap_or_default();
            minutes = number
                .parse()
                .with_context(|| format!("`--minutes {number}`: write a whole number"))?;
        } else if let Some(target) = TARGETS.iter().find(|target| target.name == argument) {
            chosen.push(target);
        } else {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            bail!(
                "`{argument}` is not a fuzz target; targets: {}",
                names.join(", ")
            );
        }
    }
    if chosen.is_empty() {
        chosen = TARGETS.iter().collect();
    }
    Ok((chosen, minutes))
}

/// The program cargo-bolero, compiled into the target directory the first time.
fn install(job: &Job) -> Result<PathBuf> {
    let root = job
        .target
        .join("fuzz")
        .join(format!("cargo-bolero-{CARGO_BOLERO}"));
    let program = root.join("bin/cargo-bolero");
    if !program.is_file() {
        let mut cargo = job.cargo("install");
        cargo
            .args([
                "--locked",
                "--no-default-features",
                "--features",
                "libfuzzer",
            ])
            .arg(format!("cargo-bolero@{CARGO_BOLERO}"))
            .arg("--root")
            .arg(&root);
        shell::run(&mut cargo)?;
    }
    Ok(program)
}

impl Target {
    /// Returns the directory of the target's corpus and crashes. bolero names it after the module path and the test name
    /// without `fuzz_`.
    fn data_dir(&self, root: &Path) -> PathBuf {
        let test = self.test.replace("::fuzz_", "::").replace("::", "__");
        root.join(self.sources).join("__fuzz__").join(test)
    }

    fn command(&self, job: &Job, program: &PathBuf, minutes: u32) -> Result<Command> {
        let data_dir = self.data_dir(&job.root);
        let found = job.target.join("fuzz/corpus").join(self.name);
        for dir in [&data_dir.join("corpus"), &found] {
            std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        }
        let mut command = Command::new(program);
        command
            .args(["test", "--sanitizer", "NONE", "--rustc-bootstrap"])
            .args(["--package", self.package])
            .arg("--target-dir")
            .arg(job.target.join("fuzz/build"))
            .arg("--corpus-dir")
            .arg(&found)
            .arg("--crashes-dir")
            .arg(data_dir.join("crashes"))
            .arg("--engine-args")
            .arg(data_dir.join("corpus"))
            .arg("-T")
            .arg(format!("{minutes}min"))
            .arg(self.test)
            .current_dir(&job.root);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_corpus_and_a_row_in_the_documentation() {
        // When it runs: a build directory can be shared by checkouts.
        let package = std::env::var("CARGO_MANIFEST_DIR").unwrap();
        let root = Path::new(&package).join("..");
        let docs = std::fs::read_to_string(root.join("docs/fuzzing.md")).unwrap();
        for target in TARGETS {
            let corpus = target.data_dir(&root).join("corpus");
            let files = std::fs::read_dir(&corpus).map_or(0, Iterator::count);
            assert!(files > 0, "{} is empty", corpus.display());
            let name = target.name;
            assert!(
                docs.contains(&format!("`{name}`")),
                "{name} is not in docs/fuzzing.md"
            );
        }
    }
}
