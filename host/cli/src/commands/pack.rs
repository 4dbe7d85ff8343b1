//! `host pack`: embeds a manifest in a component to make a plugin.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueHint};
use toolhost::{HostPaths, environment};
use toolhost_authoring::Project;
use toolhost_contract::Manifest;
use toolhost_hostfiles::{read_regular, replace_file};

use crate::authoring::build;
use crate::exit::{CliError, Exit, OrExit};
use crate::load::runtime;
use crate::terminal::{note, print};

/// Above the limits of a component or a manifest, so that their own checks report these.
pub const MAX_INPUT: u64 = 64 << 20;

#[derive(Debug, Args)]
pub struct PackArgs {
    /// Component built by the compiler, or directory of a project, which is built
    #[arg(value_name = "COMPONENT.wasm|PROJECT", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub component: PathBuf,

    /// Manifest of the plugin (plugin.toml) [default: that of the project]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub manifest: Option<PathBuf>,

    /// Output file [default: NAME.wasm in the current directory, where NAME is the plugin's name]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Write the file even if hosts refuse to load it
    #[arg(long)]
    pub force: bool,
}

pub async fn pack(args: &PackArgs) -> Result<Exit, CliError> {
    let read = |path: &Path| {
        read_regular(path, MAX_INPUT).with_context(|| format!("read {}", path.display()))
    };
    let (component_file, manifest_file) = inputs(args).await?;
    let component = read(&component_file).or_exit(Exit::Usage)?;
    let manifest = read(&manifest_file).or_exit(Exit::Usage)?;
    let file = manifest_file.display().to_string();
    let manifest = String::from_utf8(manifest)
        .map_err(|_| CliError::new(Exit::Config, format!("{file}: not UTF-8 text")))?;
    let parsed = Manifest::parse(&file, &manifest).or_exit(Exit::Config)?;
    let cache = HostPaths::from_env(|name| std::env::var(name).ok()).cache;
    let tools = runtime(cache, 1)?
        .packed_tools(
            &component_file,
            &component,
            &parsed,
            &environment::samples(),
        )
        .await;
    let section = tools.as_ref().ok().and_then(Option::as_deref);
    let packed = toolhost_runtime::pack(&component_file, &component, &file, &manifest, section)
        .or_exit(Exit::NoPlugin)?;
    match &tools {
        Err(error) if args.force => note(&format!("warning: hosts refuse this plugin: {error}")),
        Err(error) => {
            let message = format!(
                "hosts refuse this plugin: {error}; correct it, or write the file with --force"
            );
            return Err(CliError::new(Exit::NoPlugin, message));
        }
        Ok(_) => {}
    }
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}.wasm", parsed.name)));
    let same = |path: &Path| path.canonicalize().ok();
    if args.output.is_none()
        && same(&output).is_some_and(|output| Some(output) == same(&component_file))
    {
        let message = format!(
            "{} would be replaced; name another file with --output",
            output.display()
        );
        return Err(CliError::new(Exit::Usage, message));
    }
    // Atomically, so that a host that loads the directory never sees a partial file.
    replace_file(&output, &packed)
        .with_context(|| format!("write {}", output.display()))
        .or_exit(Exit::Usage)?;
    print(&output.display().to_string()).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// The component and the manifest. A project is built first.
async fn inputs(args: &PackArgs) -> Result<(PathBuf, PathBuf), CliError> {
    if !args.component.is_dir() {
        let manifest = args.manifest.clone().ok_or_else(|| {
            CliError::new(Exit::Usage, "--manifest FILE is required for a component")
        })?;
        return Ok((args.component.clone(), manifest));
    }
    let root = std::path::absolute(&args.component).or_exit(Exit::Usage)?;
    let project = Project::read(&root).or_exit(Exit::Config)?;
    build(&project).await?;
    Ok((
        project.component,
        args.manifest.clone().unwrap_or(project.manifest),
    ))
}
