//! `host plugins`: lists loaded plugins with their grants, and why others could not be loaded; changes the plugins of a
//! running host.

mod details;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueHint};
use serde_json::{Value, json};
use toolhost::{HostPaths, ServedPlugin};
use toolhost_contract::units::{format_duration, format_size};
use toolhost_contract::{Digest, text};

use super::load_for_listing;
use crate::control::{ControlAnswer, ControlRequest, running_hosts, select_host};
use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::ListArgs;
use crate::json;
use crate::load::RunningHost;
use crate::terminal::style::{Style, table};
use crate::terminal::{note, print};

pub const HELP: &str = "\
Examples:
  host plugins --plugins ./plugins --allow-path .    all plugins with what they are granted
  host plugins files                                 what one plugin can read, change, contact and start
  host plugins add ./notes.wasm                      add a plugin to a running host";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PluginsArgs {
    #[command(subcommand)]
    pub command: Option<PluginsCommand>,

    /// Show what this plugin can read, change, contact and start
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    #[command(flatten)]
    pub list: ListArgs,
}

/// Changes of a running host. They last until it exits.
#[derive(Debug, Subcommand)]
pub enum PluginsCommand {
    /// Add a plugin to a running host, or load a changed file again
    Add(AddArgs),
    /// Remove a plugin from a running host; calls that run are completed
    Remove(NamedArgs),
    /// Load changed and new plugin files, and remove plugins whose file is gone
    Reload(ReloadArgs),
}

#[derive(Debug, Args)]
pub struct AddArgs {
    /// Plugin file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    #[command(flatten)]
    pub target: TargetArgs,
}

#[derive(Debug, Args)]
pub struct NamedArgs {
    /// Name of a plugin, as `host plugins` prints it
    pub name: String,

    #[command(flatten)]
    pub target: TargetArgs,
}

#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// Name of a plugin, as `host plugins` prints it [default: all]
    pub name: Option<String>,

    #[command(flatten)]
    pub target: TargetArgs,
}

#[derive(Debug, Args)]
pub struct TargetArgs {
    /// Process id of the host, if several are running
    #[arg(long, value_name = "PID")]
    pub pid: Option<String>,
}

pub async fn plugins(args: PluginsArgs) -> Result<Exit, CliError> {
    match args.command {
        None => list(args.list, args.name.as_deref()).await,
        Some(PluginsCommand::Add(args)) => {
            let path = std::path::absolute(args.file).or_exit(Exit::Usage)?;
            change(&args.target, ControlRequest::AddPlugin { path })
        }
        Some(PluginsCommand::Remove(args)) => change(
            &args.target,
            ControlRequest::RemovePlugin { name: args.name },
        ),
        Some(PluginsCommand::Reload(args)) => change(
            &args.target,
            ControlRequest::ReloadPlugins { name: args.name },
        ),
    }
}

/// Sends a change to a running host and prints its answer.
pub fn change(target: &TargetArgs, request: ControlRequest) -> Result<Exit, CliError> {
    let paths = HostPaths::from_env(|name| std::env::var(name).ok());
    let hosts = running_hosts(paths.state.as_deref());
    let answer = select_host(hosts, target.pid.as_deref())?.send(request)?;
    print_answer(&answer)
}

/// Prints what changed, and errors on standard error.
pub fn print_answer(answer: &ControlAnswer) -> Result<Exit, CliError> {
    for change in &answer.changes {
        print(&text::escape_lines(change, 2_000)).or_exit(Exit::Internal)?;
    }
    for error in &answer.errors {
        note(&format!("error: {}", text::escape_lines(error, 4_000)));
    }
    if !answer.errors.is_empty() {
        return Ok(Exit::ToolFailed);
    }
    if answer.changes.is_empty() {
        print("nothing changed").or_exit(Exit::Internal)?;
    }
    Ok(Exit::Ok)
}

async fn list(args: ListArgs, name: Option<&str>) -> Result<Exit, CliError> {
    let host = load_for_listing(&args.host).await?;
    let shown = match (name, args.json) {
        (Some(name), json) => {
            let now = host.loaded.loaded();
            let served = find(&now.plugins, name)?;
            if json {
                json::pretty(&served_to_json(served)).or_exit(Exit::Internal)?
            } else {
                plugin_details(&host, served)
            }
        }
        (None, true) => json::pretty(&to_json(&host)).or_exit(Exit::Internal)?,
        (None, false) => plugin_table(&host),
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(if host.loaded.loaded().plugins.is_empty() {
        Exit::NoPlugin
    } else {
        Exit::Ok
    })
}

/// What a loaded plugin can access.
pub fn plugin_details(host: &RunningHost, served: &ServedPlugin) -> String {
    details::describe(
        served,
        &host.settings.core,
        &host.kernel.registry(),
        Style::of(&std::io::stdout()),
    )
}

/// The loaded plugin with this name.
pub fn find<'a>(
    plugins: &'a [Arc<ServedPlugin>],
    name: &str,
) -> Result<&'a ServedPlugin, CliError> {
    let found = plugins
        .iter()
        .find(|served| served.manifest.name.as_str() == name);
    found.map(|served| &**served).ok_or_else(|| {
        let names: Vec<&str> = plugins
            .iter()
            .map(|served| served.manifest.name.as_str())
            .collect();
        let message = format!(
            "no plugin `{}` is loaded; loaded plugins: {}",
            text::escape_line(name, 80),
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        );
        CliError::new(Exit::Usage, message)
    })
}

pub fn plugin_table(host: &RunningHost) -> String {
    let now = host.loaded.loaded();
    let loaded = now.plugins.iter().map(|served| {
        vec![
            served.manifest.name.to_string(),
            served.manifest.version.clone(),
            short_digest(served.digest),
            served.tools.len().to_string(),
            format_grants(served),
        ]
    });
    let broken = now.broken.iter().map(|broken| {
        let path = &broken.path;
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        let dash = || "-".to_owned();
        vec![
            text::escape_line(&name, 64),
            dash(),
            dash(),
            dash(),
            format!("broken: {}", text::escape_line(&broken.reason, 300)),
        ]
    });
    table(
        &["PLUGIN", "VERSION", "DIGEST", "TOOLS", "GRANTED"],
        loaded.chain(broken),
    )
}

/// A prefix of the digest that is long enough to distinguish builds.
fn short_digest(digest: Digest) -> String {
    digest
        .to_string()
        .chars()
        .take("sha256:".len() + 12)
        .collect()
}

fn format_grants(served: &ServedPlugin) -> String {
    let mut grants: Vec<String> = served
        .directories
        .iter()
        .map(|folder| {
            format!(
                "{} = {} ({})",
                folder.guest,
                text::escape_line(&folder.host.to_string_lossy(), 200),
                folder.access
            )
        })
        .collect();
    grants.extend(served.env.iter().map(|name| format!("${name}")));
    grants.extend(
        served
            .capability_names
            .iter()
            .map(|name| text::escape_line(name, 80)),
    );
    if grants.is_empty() {
        grants.push("nothing".to_owned());
    }
    grants.push(format_size(served.limits.memory));
    grants.extend(served.limits.timeout.map(format_duration));
    grants.join(", ")
}

fn to_json(host: &RunningHost) -> Value {
    let now = host.loaded.loaded();
    let loaded = now.plugins.iter().map(|served| served_to_json(served));
    let broken = now.broken.iter();
    let broken = broken
        .map(|broken| json!({"file": broken.path.to_string_lossy(), "reason": broken.reason}));
    json!({"plugins": loaded.collect::<Vec<_>>(), "broken": broken.collect::<Vec<_>>()})
}

fn served_to_json(served: &ServedPlugin) -> Value {
    json!({
            "name": served.manifest.name,
            "version": served.manifest.version,
            "description": served.manifest.description,
            "file": served.path.to_string_lossy(),
            "size": served.size,
            "digest": served.digest.to_string(),
            "tools": served.tools,
            "needs": json::needs(&served.manifest),
            "granted": {
                "folders": served.directories.iter().map(|folder| json!({
                    "guest": folder.guest, "host": folder.host.to_string_lossy(), "access": folder.access,
                })).collect::<Vec<_>>(),
                "env": served.env,
                "beyond": served.capability_names,
            },
            "limits": json::limits(&served.limits),
    })
}
