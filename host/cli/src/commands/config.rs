//! `host config check`: checks the configuration file and prints the resulting settings.

use std::fmt::Display;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Subcommand, ValueHint};
use toolhost::grants::ScopeOpener;
use toolhost::{
    AllowedPath, Excludes, ExternalAccessSettings, HookKind, HookSettings, PluginSettings,
    RetentionSettings,
};
use toolhost_contract::policy::OnHeadlessAsk;
use toolhost_contract::units::{format_duration, format_size};
use toolhost_contract::{PluginName, text};
use toolhost_formats::profile::Profile;
use toolhost_kernel::{NoPrompter, OnDuplicate};
use toolhost_packages::{Signer, TrustPolicy};

use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::HostArgs;
use crate::load::{LoadPurpose, load_without_servers};
use crate::settings::{CliSettings, McpSettings, ServerSettings};
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
    lines.add("hidden paths", hidden_paths(&settings.excludes));
    lines.add("env", &core.env);
    add_external_access(&mut lines, &core.external_access);
    lines.add("mode", [core.policy.mode()]);
    lines.add(
        "without a terminal",
        match core.policy.on_headless_ask() {
            OnHeadlessAsk::Deny => None,
            OnHeadlessAsk::Defer => Some("questions are stored (on_headless_ask = defer)"),
            OnHeadlessAsk::Callback => Some("hooks answer (on_headless_ask = callback)"),
        },
    );
    lines.add("allow", &settings.lists.allow);
    lines.add("ask", &settings.lists.ask);
    lines.add("deny", &settings.lists.deny);
    let others = settings.lists.other_count;
    lines.add("other rules", (others > 0).then_some(others));
    lines.add("hooks", core.hooks.iter().map(HookSettings::describe));
    lines.add("servers", settings.servers.iter().map(describe_server));
    let discovery = settings.discovery.iter();
    lines.add(
        "discovery command",
        discovery.map(|settings| settings.discovery.discover.join(" ")),
    );
    add_client_requests(&mut lines, &settings.mcp);
    add_trust(&mut lines, &core.trust);
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
        add_plugin(&mut lines, name, own);
    }
    lines.add(
        "cache",
        core.host_paths.cache.iter().map(|path| path.display()),
    );
    let store = core.store.as_ref();
    let store = store.map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    lines.add("store", [store]);
    add_retention(&mut lines, &core.retention);
    for warning in &settings.warnings {
        lines.add("warning", [warning]);
    }
    lines.0.join("\n")
}

fn add_external_access(lines: &mut Summary, access: &ExternalAccessSettings) {
    lines.add("allowed hosts", &access.hosts);
    lines.add("denied hosts", &access.denied_hosts);
    lines.add("programs", &access.programs);
    lines.add(
        "network of programs",
        access.program_network.then_some("allowed"),
    );
    lines.add(
        "sandbox of programs",
        access.unconfined.then_some("none (unconfined)"),
    );
    lines.add("memory", access.memory.iter().map(|path| path.display()));
    lines.add("skills", access.skills.iter().map(|path| path.display()));
    for agent in &access.agents {
        let label = format!("agent {}", agent.info.name);
        lines.add(&label, [agent.command.join(" ")]);
    }
    for secret in &access.secrets {
        // The name of the variable, but no value.
        let label = format!("secret {}", secret.name);
        let hosts = secret.hosts.join(", ");
        lines.add(&label, [format!("{:?}, for {hosts}", secret.value)]);
    }
}

fn describe_server(server: &ServerSettings) -> String {
    let state = if server.enabled { "" } else { ", disabled" };
    match &server.config {
        Ok(config) => {
            let is_unconfined = config.transport_name() == "stdio" && !config.is_confined();
            let sandbox = if is_unconfined { ", not sandboxed" } else { "" };
            let trust = if config.is_trusted { ", trusted" } else { "" };
            let transport = config.transport_name();
            format!("{} ({transport}{sandbox}{trust}{state})", server.name)
        }
        Err(reason) => format!("{}: {reason}", server.name),
    }
}

/// What MCP clients are asked for.
fn add_client_requests(lines: &mut Summary, mcp: &McpSettings) {
    let features = [
        ("questions", mcp.prompts),
        ("sampling", mcp.sampling),
        ("roots", mcp.roots),
    ];
    let used = features.into_iter().filter(|(_, is_used)| *is_used);
    lines.add("used of MCP clients", used.map(|(name, _)| name));
    let key = mcp.state_key.iter();
    lines.add("key of questions", key.map(|path| path.display()));
}

fn add_trust(lines: &mut Summary, trust: &TrustPolicy) {
    let rule = |signers: &[Signer], required: bool| {
        let need = if required { "required" } else { "optional" };
        let count = crate::terminal::count(signers.len(), "trusted author");
        (required || !signers.is_empty()).then(|| format!("{need}, {count}"))
    };
    lines.add("signatures", rule(&trust.signers, trust.required));
    for own in &trust.rules {
        let text = rule(&own.signers, own.required);
        let text = text.unwrap_or_else(|| "not checked".to_owned());
        lines.add(&format!("signatures of {}", own.from), [text]);
    }
}

fn add_plugin(lines: &mut Summary, name: &PluginName, own: &PluginSettings) {
    if let Some(paths) = &own.paths {
        lines.add_list(&format!("directories of {name}"), &format_paths(paths));
    }
    if let Some(env) = &own.env {
        let names: Vec<String> = env.iter().cloned().collect();
        lines.add_list(&format!("env of {name}"), &names);
    }
    let limits = &own.limits;
    let sizes = [
        ("memory", limits.memory),
        ("output", limits.output),
        ("stdout", limits.stdout),
    ];
    let sizes = sizes.into_iter();
    let sizes = sizes.filter_map(|(name, size)| Some(format!("{name} {}", format_size(size?))));
    let timeout = limits.timeout;
    let timeout = timeout.map(|timeout| format!("timeout {}", format_duration(timeout)));
    lines.add(&format!("limits of {name}"), sizes.chain(timeout));
    if own.may_run_alone {
        lines.add("exclusive", [name]);
    }
}

/// The limits of stored data that differ from the defaults.
fn add_retention(lines: &mut Summary, own: &RetentionSettings) {
    let usual = RetentionSettings::default();
    let ages = [
        ("records_age", own.records_age, usual.records_age),
        ("undo_age", own.undo_age, usual.undo_age),
        ("cache_age", own.cache_age, usual.cache_age),
        ("logs_age", own.logs_age, usual.logs_age),
    ];
    let sizes = [
        ("records_size", own.records_size, usual.records_size),
        ("undo_size", own.undo_size, usual.undo_size),
        ("cache_size", own.cache_size, usual.cache_size),
    ];
    let ages = ages.map(|(name, own, usual)| (name, own != usual, own.map(format_duration)));
    let sizes = sizes.map(|(name, own, usual)| (name, own != usual, own.map(format_size)));
    let changed = ages
        .into_iter()
        .chain(sizes)
        .filter(|(_, differs, _)| *differs);
    let shown = changed.map(|(name, _, limit)| {
        let limit = limit.unwrap_or_else(|| "unlimited".to_owned());
        format!("{name} {limit}")
    });
    lines.add("retention", shown);
}

fn add_tools(lines: &mut Summary, core: &toolhost::Settings) {
    let (profile, _) = core.profile_view;
    lines.add(
        "profile",
        (profile != Profile::default()).then(|| profile.as_str()),
    );
    lines.add(
        "tools with the same name",
        match core.on_duplicate {
            OnDuplicate::Error => None,
            OnDuplicate::Replace => Some("the later one is used (on_duplicate = replace)"),
            OnDuplicate::Qualify => Some("have qualified names (on_duplicate = qualify)"),
        },
    );
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

/// What is hidden in all directories, if it is not the default.
fn hidden_paths(excludes: &Excludes) -> Vec<&str> {
    if *excludes == Excludes::default() {
        return Vec::new();
    }
    let secrets = if excludes.defaults {
        "secrets"
    } else {
        "no secrets (default_excludes = false)"
    };
    let patterns = excludes.patterns.iter().map(String::as_str);
    std::iter::once(secrets).chain(patterns).collect()
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
