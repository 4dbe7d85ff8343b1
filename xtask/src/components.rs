//! Build of WebAssembly components: the shipped plugins and the test guests.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::job::{Job, Profile};
use crate::shell;
use crate::target::TARGET;

/// The plugin directories under `plugins/`: packages with a manifest.
pub fn plugins(job: &Job) -> Result<Vec<String>> {
    names_in(&job.root.join("plugins"), |path| {
        let plugin = path.join("Cargo.toml").is_file() && path.join("plugin.toml").is_file();
        if plugin { path.file_name() } else { None }
    })
}

/// The names of the examples in `tests/guests`.
pub fn guests(job: &Job) -> Result<Vec<String>> {
    let examples = job.root.join("tests/guests/examples");
    if !examples.is_dir() {
        return Ok(Vec::new());
    }
    names_in(&examples, |path| {
        let file = path.extension().is_some_and(|extension| extension == "rs");
        if file || path.join("main.rs").is_file() {
            path.file_stem()
        } else {
            None
        }
    })
}

pub fn build_plugins(job: &Job) -> Result<()> {
    let names = plugins(job)?;
    let together: Vec<&[String]> = match job.profile {
        // Builds shared dependencies once and in parallel.
        Profile::Dev => names.chunks(names.len().max(1)).collect(),
        // In one cargo invocation, a shared dependency has the features that any plugin needs. `files` would get the Unicode
        // tables of `search`: 0.3 MB that the host overwrites after each call.
        Profile::Release => names.chunks(1).collect(),
    };
    for names in together {
        let mut cargo = component_build(job);
        // The host may be built at the same time, with a progress bar in the same line of the terminal.
        cargo.env("CARGO_TERM_PROGRESS_WHEN", "never");
        for name in names {
            cargo.args(["--package", name]);
        }
        shell::run(&mut cargo)?;
    }
    Ok(())
}

/// Embeds each manifest into its component; `host pack` validates the manifest.
pub fn pack_plugins(job: &Job) -> Result<()> {
    for name in plugins(job)? {
        let output = format!("plugins/{name}.wasm");
        shell::run(
            Command::new(job.host())
                .arg("pack")
                .arg(built(job, Path::new(""), &name))
                .args([
                    "--manifest",
                    &format!("plugins/{name}/plugin.toml"),
                    "--output",
                    &output,
                ])
                .current_dir(&job.root),
        )
        .with_context(|| format!("plugin `{name}` was not packed"))?;
        let size = fs::metadata(job.root.join(&output))
            .with_context(|| format!("`host pack` left no {output}"))?;
        shell::note(&format!("{output}  {} kB", size.len().div_ceil(1000)));
    }
    Ok(())
}

pub fn build_guests(job: &Job) -> Result<()> {
    let folder = job.target.join("guests");
    // Emptied first, so that deleted guests are not tested.
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("empty {}", folder.display()))?;
    }
    let names = guests(job)?;
    if names.is_empty() {
        return Ok(());
    }
    shell::run(component_build(job).args(["--package", "guests", "--examples"]))?;
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    for name in names {
        let from = built(job, Path::new("examples"), &name);
        fs::copy(&from, folder.join(format!("{name}.wasm"))).with_context(|| {
            format!(
                "no {}: has the example `{name}` the crate-type \"cdylib\"?",
                from.display()
            )
        })?;
    }
    Ok(())
}

fn component_build(job: &Job) -> Command {
    let mut cargo = job.cargo("build");
    cargo.args(["--profile", job.profile.of_plugins(), "--target", TARGET]);
    cargo
}

/// The path of a crate's component, named like the crate in Rust code.
fn built(job: &Job, folder: &Path, name: &str) -> PathBuf {
    let file = format!("{}.wasm", name.replace('-', "_"));
    job.target
        .join(TARGET)
        .join(job.profile.of_plugins())
        .join(folder)
        .join(file)
}

/// The names that `name` returns for the entries of `folder`, sorted.
fn names_in(folder: &Path, name: impl Fn(&Path) -> Option<&OsStr>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        names.extend(name(&path).map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}
