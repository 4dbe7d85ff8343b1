//! `host add`, `list`, `info`, `remove` and `update`.

use clap::Args;
use toolhost_contract::units::format_size;
use toolhost_contract::{PluginName, text};
use toolhost_packages::{Change, LockedPlugin};

use super::show::{describe, describe_grants, describe_update, origin, short_source, title};
use super::{
    AcceptArgs, Packages, ask, change_project_lock, not_installed, notify_running_hosts,
    parse_reference, refuse_unsigned, relative_to, store,
};
use crate::exit::{CliError, Exit, OrExit, current_directory};
use crate::json;
use crate::terminal::style::table;
use crate::terminal::{note, print};

pub const ADD_HELP: &str = "\
Examples:
  host add registry.example.org/ann/notes:1.2 --key ann.pub
  host add ./notes.wasm
  host add 'https://example.org/notes.wasm#sha256=DIGEST'

Nothing is granted: `host run` grants what its options and your configuration allow.";

#[derive(Debug, Args)]
pub struct AddArgs {
    /// `REGISTRY/NAME[:TAG][@DIGEST]`, `https://…#sha256=DIGEST`, or a file
    #[arg(value_name = "REFERENCE")]
    pub reference: String,

    /// Name of the plugin, for a component without a manifest
    #[arg(long, value_parser = parse_name)]
    pub name: Option<PluginName>,

    #[command(flatten)]
    pub accept: AcceptArgs,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Name of an installed plugin, or a reference
    #[arg(value_name = "NAME|REFERENCE")]
    pub name: String,

    #[command(flatten)]
    pub accept: AcceptArgs,
}

#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Name of an installed plugin
    pub name: String,
}

#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// Names of installed plugins [default: all]
    pub names: Vec<String>,

    /// Show what would change, and change nothing
    #[arg(long)]
    pub preview: bool,

    #[command(flatten)]
    pub accept: AcceptArgs,
}

fn parse_name(name: &str) -> Result<PluginName, String> {
    PluginName::parse(name).map_err(|error| error.to_string())
}

pub async fn add(args: AddArgs) -> Result<Exit, CliError> {
    let packages = Packages::open(args.accept.config.as_ref())?;
    let source = parse_reference(&args.reference)?;
    let options = packages.options_for(&source, &args.accept)?;
    let candidate = packages
        .candidate(&source, args.name.as_ref(), &options, None)
        .await?;
    let locked = &candidate.locked;
    if candidate.old.as_ref() == Some(locked) && packages.is_intact(locked) {
        let message = format!("{} {} is installed", locked.name, locked.version);
        print(&message).or_exit(Exit::Internal)?;
        return Ok(Exit::Ok);
    }
    print(&describe(&candidate, &packages.settings)).or_exit(Exit::Internal)?;
    refuse_unsigned(locked, &args.accept)?;
    ask("install it?", args.accept.yes)?;
    let added = packages.commit(candidate)?;
    installed(&[added], ProjectLock::Add)?;
    Ok(Exit::Ok)
}

/// Which entries of the lock file of a project a command changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectLock {
    /// Those of the installed packages, and new ones.
    Add,
    /// Those that it has.
    Update,
}

/// Reports installed versions, and makes the project and running hosts use them.
pub fn installed(added: &[LockedPlugin], project: ProjectLock) -> Result<(), CliError> {
    let directory = current_directory()?;
    for plugin in added {
        let message = format!("installed {} {}", plugin.name, plugin.version);
        print(&message).or_exit(Exit::Internal)?;
    }
    notify_running_hosts();
    change_project_lock(|lock| {
        for plugin in added {
            if project == ProjectLock::Add || lock.get(plugin.name.as_str()).is_some() {
                lock.insert(relative_to(&directory, plugin.clone()));
            }
        }
    });
    Ok(())
}

pub fn list(args: &ListArgs) -> Result<Exit, CliError> {
    let installed = store()?.installed()?;
    let shown = if args.json {
        json::pretty(&installed.plugins()).or_exit(Exit::Internal)?
    } else if installed.plugins().is_empty() {
        "nothing is installed; install a plugin with `host add`".to_owned()
    } else {
        let rows = installed.plugins().iter().map(|plugin| {
            vec![
                plugin.name.to_string(),
                plugin.version.clone(),
                plugin.tools.len().to_string(),
                format_size(plugin.size),
                if plugin.signer.is_some() { "yes" } else { "no" }.to_owned(),
                short_source(&plugin.source),
            ]
        });
        table(
            &["PLUGIN", "VERSION", "TOOLS", "SIZE", "SIGNED", "FROM"],
            rows,
        )
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

pub async fn info(args: InfoArgs) -> Result<Exit, CliError> {
    let packages = Packages::open(args.accept.config.as_ref())?;
    let installed = packages.store.installed()?;
    if PluginName::parse(&args.name).is_ok() {
        let Some(plugin) = installed.get(&args.name) else {
            return Err(not_installed(&args.name, &installed));
        };
        let mut lines = vec![title(plugin, "")];
        lines.extend(origin(plugin));
        lines.push(format!(
            "  file       {}",
            packages.store.file(plugin).display()
        ));
        lines.push("  needs".to_owned());
        lines.extend(plugin.needs.iter().map(|need| format!("    {need}")));
        if plugin.needs.is_empty() {
            lines.push("    nothing".to_owned());
        }
        lines.push("  tools".to_owned());
        let tools = plugin.tools.iter();
        lines.extend(tools.map(|tool| {
            let effect = text::escape_line(&tool.effect, 20);
            format!("    {} ({effect})", tool.name)
        }));
        print(&lines.join("\n")).or_exit(Exit::Internal)?;
        return Ok(Exit::Ok);
    }
    let source = parse_reference(&args.name)?;
    let options = packages.options_for(&source, &args.accept)?;
    let candidate = packages.candidate(&source, None, &options, None).await?;
    print(&describe(&candidate, &packages.settings)).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

pub fn remove(args: &RemoveArgs) -> Result<Exit, CliError> {
    let store = store()?;
    let Some(removed) = store.remove(&args.name)? else {
        return Err(not_installed(&args.name, &store.installed()?));
    };
    let message = format!("removed {} {}", removed.name, removed.version);
    print(&message).or_exit(Exit::Internal)?;
    notify_running_hosts();
    change_project_lock(|lock| {
        lock.remove(&args.name);
    });
    Ok(Exit::Ok)
}

pub async fn update(args: UpdateArgs) -> Result<Exit, CliError> {
    let packages = Packages::open(args.accept.config.as_ref())?;
    let names: Vec<String> = if args.names.is_empty() {
        let installed = packages.store.installed()?;
        let names = installed.plugins().iter();
        names.map(|one| one.name.to_string()).collect()
    } else {
        args.names.clone()
    };
    let mut updated = Vec::new();
    let mut failure = None;
    for name in names {
        match update_one(&packages, &args, &name).await {
            Ok(changed) => updated.extend(changed),
            Err(CliError { exit, error }) => {
                let error = text::escape_lines(&format!("{error:#}"), 4_000);
                note(&format!("error: {name} was not updated: {error}"));
                failure = failure.or(Some(exit));
            }
        }
    }
    if !updated.is_empty() {
        installed(&updated, ProjectLock::Update)?;
    }
    Ok(failure.unwrap_or(Exit::Ok))
}

/// Updates one plugin. Returns the new version, or `None` if it is the installed one or only a preview is wanted.
async fn update_one(
    packages: &Packages,
    args: &UpdateArgs,
    name: &str,
) -> Result<Option<LockedPlugin>, CliError> {
    let old = packages.installed(name)?;
    packages.refresh_revocations(&old).await?;
    let options = args.accept.options(old.signer.clone())?;
    let candidate = packages
        .candidate(&old.source, Some(&old.name), &options, None)
        .await?;
    if candidate.locked.name != old.name {
        let message = format!("the new version has the name {}", candidate.locked.name);
        return Err(CliError::new(Exit::Denied, message));
    }
    if candidate.locked == old && packages.is_intact(&old) {
        let message = format!("{} {} is up to date", old.name, old.version);
        print(&message).or_exit(Exit::Internal)?;
        return Ok(None);
    }
    if candidate.locked == old {
        let message = format!("the file of {} {} is damaged", old.name, old.version);
        print(&message).or_exit(Exit::Internal)?;
    } else {
        print(&describe_update(&candidate, &old)).or_exit(Exit::Internal)?;
        print(&describe_grants(&candidate, &packages.settings)).or_exit(Exit::Internal)?;
    }
    if args.preview {
        return Ok(None);
    }
    if candidate.changes.iter().any(Change::grows) {
        refuse_unsigned(&candidate.locked, &args.accept)?;
        ask(
            "the changes marked with ! need approval; install it?",
            args.accept.yes,
        )?;
    }
    packages.commit(candidate).map(Some)
}
