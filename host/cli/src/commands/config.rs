//! `host config check`: checks the configuration file and prints the resulting settings.

use std::fmt::Display;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Subcommand, ValueHint};
use toolhost::grants::ScopeOpener;
use toolhost::{AllowedPath, HookKind, HookSettings};
use toolhost_contract::text;
use toolhost_contract::units::format_duration;
use toolhost_kernel::NoPrompter;

use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::HostArgs;
use crate::load::{LoadPurpose, load_without_servers};
use crate::settings::CliSettings;
use crate::terminal::{note, print};

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check every key, value, path and name, and print the resulting settings
    ///
    /// Names of plugins, tools and hooks are compared with the plugins that the configuration names, so these are loaded.
    Check {
        /// Configuration file [default: the user's toolhost.toml]
        #[arg(value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
    },
}

pub async fn check(file: Option<PathBuf>) -> Result<Exit, CliError> {
    let settings = CliSettings::load(&HostArgs {
        config: file,
        ..HostArgs::default()
    })?;
    let Some(file) = &settings.core.config_file else {
        let location = settings
            .core
            .host_paths
            .config_file()
            .map(|file| format!(" at {}", file.display()))
            .unwrap_or_default();
        let mut message =
            format!("no configuration file{location}; all settings have their defaults");
        if let Some(store) = &settings.core.store {
            let _ = write!(message, "\nrecords: {}", store.display());
        }
        print(&message).or_exit(Exit::Internal)?;
        return Ok(Exit::Ok);
    };
    if let Some(missing) = settings.core.plugins.iter().find(|path| !path.exists()) {
        let message = format!(
            "{}: plugin directory `{}` does not exist",
            file.display(),
            missing.display()
        );
        return Err(CliError::new(Exit::Config, message));
    }
    // A grant can only be checked by opening its directory.
    ScopeOpener::new(&settings.core)
        .map_err(|error| error.context(file.display().to_string()))
        .or_exit(Exit::Config)?;
    let shown = summary(&settings);
    let mut problems = missing_programs(&settings.core.hooks);
    if settings.core.has_plugins() {
        problems.extend(unknown_names(settings).await?);
    }
    if problems.is_empty() {
        print(&format!("{shown}\nok")).or_exit(Exit::Internal)?;
        return Ok(Exit::Ok);
    }
    print(&shown).or_exit(Exit::Internal)?;
    for problem in problems {
        note(&format!("error: {problem}"));
    }
    Ok(Exit::Config)
}

/// Names of plugins, tools and hooks that match nothing. Loading reports what cannot be loaded.
async fn unknown_names(settings: CliSettings) -> Result<Vec<String>, CliError> {
    let has_servers = settings.has_servers();
    let prompter = Arc::new(NoPrompter);
    // Servers are not started.
    let host = load_without_servers(settings, prompter, LoadPurpose::List, |_| {});
    let host = Box::pin(host).await?;
    let mut problems = host.unmatched_names();
    // Those of tools of servers are not known.
    problems.retain(|problem| !has_servers || !problem.contains("mcp__"));
    // Loading has reported these already.
    if !host.loaded.loaded().broken.is_empty() {
        problems.push("names are not checked, because a plugin could not be loaded".to_owned());
    } else if !host.loaded.missing.is_empty() {
        problems.push("the configuration needs plugins that are not loaded".to_owned());
    }
    Ok(problems)
}

/// Programs of hooks that do not exist.
fn missing_programs(hooks: &[HookSettings]) -> Vec<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let exists = |program: &Path| {
        let is_name = program.components().count() == 1;
        let mut directories = std::env::split_paths(&path);
        program.is_file()
            || (is_name && directories.any(|directory| directory.join(program).is_file()))
    };
    let missing = hooks.iter().filter_map(|hook| match &hook.kind {
        HookKind::Command(command) if !exists(&command.program) => Some(format!(
            "hook `{}`: the program `{}` does not exist",
            text::escape_line(&hook.name, 80),
            text::escape_line(&command.program.to_string_lossy(), 1_000)
        )),
        HookKind::Command(_) | HookKind::Plugin(_) | HookKind::ReadCache { .. } => None,
    });
    missing.collect()
}

/// The lines of a summary. Settings without a value have no line.
#[derive(Default)]
struct Summary(Vec<String>);

impl Summary {
    fn add<T: Display>(&mut self, label: &str, values: impl IntoIterator<Item = T>) {
        let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
        if !values.is_empty() {
            self.0.push(format!("{label}: {}", values.join(", ")));
        }
    }

    /// A list that is present and empty has a line.
    fn add_list(&mut self, label: &str, values: &[String]) {
        let none = ["none".to_owned()];
        self.add(label, if values.is_empty() { &none[..] } else { values });
    }
}

fn summary(settings: &CliSettings) -> String {
    let core = &settings.core;
    let mut lines = Summary::default();
    lines.add("file", core.config_file.iter().map(|file| file.display()));
    lines.add(
        "project",
        settings.project.iter().map(|directory| directory.display()),
    );
    lines.add("plugins", core.plugins.iter().map(|path| path.display()));
    lines.add("directories", format_paths(&core.paths));
    lines.add("env", &core.env);
    lines.add("mode", [core.policy.mode()]);
    lines.add("allow", &settings.lists.allow);
    lines.add("ask", &settings.lists.ask);
    lines.add("deny", &settings.lists.deny);
    let others = settings.lists.other_count;
    lines.add("other rules", (others > 0).then_some(others));
    lines.add("hooks", core.hooks.iter().map(HookSettings::describe));
    lines.add(
        "servers",
        settings.servers.iter().map(|server| match &server.config {
            Ok(config) => format!("{} ({})", server.name, config.transport_name()),
            Err(reason) => format!("{}: {reason}", server.name),
        }),
    );
    let pools = core.pools;
    let pools = [
        ("all", pools.all),
        ("network", pools.network),
        ("processes", pools.processes),
        ("agents", pools.agents),
        ("interactive", pools.interactive),
    ];
    lines.add(
        "pools",
        pools.map(|(name, number)| format!("{name} {number}")),
    );
    lines.add("timeout", core.timeout.map(format_duration));
    add_tools(&mut lines, core);
    for (name, own) in &core.per_plugin {
        if let Some(paths) = &own.paths {
            lines.add_list(&format!("directories of {name}"), &format_paths(paths));
        }
        if let Some(env) = &own.env {
            let names: Vec<String> = env.iter().cloned().collect();
            lines.add_list(&format!("env of {name}"), &names);
        }
        if own.may_run_alone {
            lines.add("exclusive", [name]);
        }
    }
    lines.add(
        "cache",
        core.host_paths.cache.iter().map(|path| path.display()),
    );
    let store = core.store.as_ref();
    let store = store.map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    lines.add("store", [store]);
    for warning in &settings.warnings {
        lines.add("warning", [warning]);
    }
    lines.0.join("\n")
}

fn add_tools(lines: &mut Summary, core: &toolhost::Settings) {
    lines.add("disabled tools", &core.disabled_tools);
    for list in &core.only_tools {
        lines.add("only tools", list);
    }
    lines.add("listed tools", core.listed_tools.words());
    for (name, time) in &core.tool_timeouts {
        lines.add(&format!("timeout of {name}"), [format_duration(*time)]);
    }
    for (name, version) in &core.tool_versions {
        lines.add(&format!("version of {name}"), [version]);
    }
    for test in &core.ab_tests {
        let variants = test.variants.iter();
        let variants = variants.map(|variant| format!("{variant}, weight {}", variant.weight));
        lines.add(&format!("compared for {}", test.tool), variants);
    }
}

fn format_paths(paths: &[AllowedPath]) -> Vec<String> {
    paths
        .iter()
        .map(|path| {
            let exclude = &path.exclude;
            let secrets = exclude.defaults.then_some("secrets");
            let out: Vec<&str> = secrets
                .into_iter()
                .chain(exclude.patterns.iter().map(String::as_str))
                .collect();
            let without = match out.as_slice() {
                [] => String::new(),
                out => format!(", without {}", out.join(", ")),
            };
            format!(
                "{} = {} ({}{without})",
                path.guest,
                path.host.display(),
                path.access.as_str()
            )
        })
        .collect()
}
