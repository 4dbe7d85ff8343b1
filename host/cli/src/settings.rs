//! The effective settings, merged from the command line and the configuration file.
//!
//! Every accepted key is resolved here to absolute paths, numbers and rules; other modules only read [`Settings`].

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use toolhost::mcp_servers::program_files;
use toolhost::{
    Excludes, HookSettings, HostPaths, PluginSettings, RetentionSettings, command_files,
};
use toolhost_contract::PluginName;
use toolhost_formats::profile::UnmappedTools;
use toolhost_hostfiles::check_directory;
use toolhost_kernel::{AbTest, schedule};
use toolhost_mcp_client::{AccessLog, Discovery};
use toolhost_packages::{Identity, PublicKey, Signer, SigstoreRoot, TrustPolicy, TrustRule};

use crate::config::{
    self, AbTestTable, Bound, Config, FileFormat, PathEntry, PluginTable, PoolsTable,
    RetentionTable, SignaturesTable, StoreTable, UseTools, Variable, expand_variables,
};
use crate::exit::{CliError, Exit, OrExit, current_directory};
use crate::host_args::HostArgs;
use crate::shipped_plugins;

mod external_access;
mod hooks;
mod mcp;
mod paths;
mod policy;
mod project;
mod server_sandbox;
mod servers;

pub use mcp::McpSettings;
pub use policy::RuleLists;
pub use servers::{DiscoverySettings, ServerSettings};

use paths::{assign_guest_paths, check_rooted_paths, merge_paths};

#[derive(Debug, Clone)]
pub struct CliSettings {
    /// Settings of the library.
    pub core: toolhost::Settings,
    /// The rules given as forms, as written.
    pub lists: RuleLists,
    /// Other MCP servers.
    pub servers: Vec<ServerSettings>,
    pub discovery: Option<DiscoverySettings>,
    /// Warnings about settings that have no effect.
    pub warnings: Vec<String>,
    pub verbose: bool,
    /// Whether records are enabled but there is no directory for them.
    pub lacks_state_dir: bool,
    pub mcp: McpSettings,
    /// Files that are hidden in all directories.
    pub excludes: Excludes,
    /// The directory of the table `[project."DIR"]` that applies.
    pub project: Option<PathBuf>,
    /// Records what sandboxes of servers refuse.
    pub record: Option<AccessLog>,
    /// The command line, to read the configuration again.
    pub args: Box<HostArgs>,
}

/// The environment that settings depend on, injected for tests.
#[derive(Clone, Copy)]
pub struct SettingsEnv<'a> {
    pub directory: &'a Path,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a file that the configuration refers to.
    pub read: &'a dyn Fn(&Path) -> Result<String, String>,
    /// Whether a user can be prompted.
    pub interactive: bool,
    /// The directory of the plugins that were installed with the program.
    pub shipped_plugins: Option<&'a Path>,
}

impl CliSettings {
    /// Reads the configuration file, if any, and applies the command line over it.
    pub fn load(args: &HostArgs) -> Result<Self, CliError> {
        Self::load_for(args, std::io::stdin().is_terminal())
    }

    /// Like [`Settings::load`], for a client program that answers prompts.
    pub fn load_interactive(args: &HostArgs) -> Result<Self, CliError> {
        Self::load_for(args, true)
    }

    fn load_for(args: &HostArgs, interactive: bool) -> Result<Self, CliError> {
        let directory = current_directory()?;
        let file = match &args.config {
            Some(file) => Some(directory.join(file)),
            // A file that cannot be accessed is an error later, because its deny rules must not be ignored.
            None => HostPaths::from_env(variable)
                .config_file()
                .filter(|file| file.try_exists().unwrap_or(true)),
        };
        let config = file
            .as_deref()
            .map(config::read)
            .transpose()
            .or_exit(Exit::Config)?
            .unwrap_or_default();
        Self::resolve_here(args, config, file, interactive)
    }

    /// The settings if the user's configuration file had this text.
    pub fn of_text(file: &Path, text: &str) -> Result<Self, CliError> {
        let config = config::parse(file, FileFormat::Toml, text).or_exit(Exit::Config)?;
        Self::resolve_here(&HostArgs::default(), config, Some(file.to_owned()), false)
    }

    fn resolve_here(
        args: &HostArgs,
        config: Config,
        file: Option<PathBuf>,
        interactive: bool,
    ) -> Result<Self, CliError> {
        let file = file.map(|file| in_real_directory(&file));
        let directory = current_directory()?;
        let shipped_plugins = shipped_plugins::find();
        let world = SettingsEnv {
            directory: &directory,
            variable: &variable,
            read: &|file| config::read_trusted(file).map_err(|error| error.to_string()),
            interactive,
            shipped_plugins: shipped_plugins.as_deref(),
        };
        let host_paths = HostPaths::from_env(variable);
        if let Some(state) = &host_paths.state {
            check_directory(state).or_exit(Exit::Config)?;
        }
        Self::resolve(args, config, file, host_paths, &world)
            .map_err(|message| CliError::new(Exit::Config, message))
    }

    pub fn resolve(
        args: &HostArgs,
        mut config: Config,
        config_file: Option<PathBuf>,
        mut host_paths: HostPaths,
        world: &SettingsEnv<'_>,
    ) -> Result<Self, String> {
        let world = &SettingsEnv {
            // The user of an MCP client.
            interactive: world.interactive || config.mcp.ask == Some(true),
            ..*world
        };
        // Paths in the file are relative to the file, paths on the command line to the working directory.
        let directory = config_file.as_deref().and_then(Path::parent);
        let base = directory.unwrap_or(world.directory);
        let file = FileContext {
            file: config_file.as_deref(),
            base,
            world,
        };
        let of_file = |path: &str| file.path(path);
        let mut core = plain_settings(args, &config);
        core.store = store_dir(args, &config.store, &host_paths, &file)?;
        core.project = world.directory.into();
        let (project, excludes) = add_paths(&mut core, args, &mut config, &file)?;
        add_tools(&mut core, args, &mut config);
        core.external_access = external_access::resolve(
            &args.external_access,
            &mut config,
            world.directory,
            &of_file,
        )?;
        if let Some(search) = &config.web_search {
            external_access::apply_web_search(&mut core.external_access, search, world.variable)
                .map_err(|error| file.locate(error))?;
        }
        set_cache_dir(&mut host_paths, config.cache.dir.as_deref(), &file)?;
        core.ab_tests = ab_tests(config.ab_test, config_file.as_deref());
        core.hooks = hooks::resolve(config.hook, world, &of_file)?;
        let resolved = policy::resolve(&policy::PolicyInputs {
            args,
            config: &config.policy,
            permission: &config.permission,
            rules: config.rules,
            file: config_file.as_deref(),
            base,
            core: &core,
            world,
            of_file: &of_file,
            has_callback: core.hooks.iter().any(HookSettings::is_deciding),
        })?;
        core.policy = resolved.policy;
        core.disabled_tools.extend(resolved.hidden);
        core.only_tools.extend(resolved.only_tools);
        let servers = config.mcp_servers.unwrap_or_default().0;
        core.packages = host_paths.state.as_deref().map(toolhost::package_store);
        core.host_paths = host_paths;
        let servers = servers::servers(servers, base, &core, world);
        let discovery = servers::discovery(
            config.tool_discovery_command.as_deref(),
            config.tool_call_command.as_deref(),
            base,
        )
        .map_err(|error| file.locate(error))?;
        let mcp = McpSettings::resolve(&config.mcp, of_file)?;
        core.read_only = resolved.files;
        add_trust(&mut core, &config.signatures, &file)?;
        core.read_only
            .extend(server_programs(&servers, discovery.as_ref()));
        core.config_file = config_file;
        core.secrets = mcp.state_key.iter().cloned().collect();
        let mut warnings = resolved.warnings;
        warnings.extend(check_rooted_paths(&core));
        Ok(Self {
            lacks_state_dir: core.store.is_none() && !is_store_disabled(args, &config.store),
            core,
            servers,
            discovery,
            lists: resolved.lists,
            warnings,
            verbose: args.verbose,
            mcp,
            excludes,
            project,
            record: None,
            args: Box::new(args.clone()),
        })
    }

    /// Whether servers or a discovery command can provide tools in addition to plugins.
    pub fn has_servers(&self) -> bool {
        self.discovery.is_some() || self.servers.iter().any(|server| server.enabled)
    }

    /// The paths of `--plugins`, as [`plugins`] resolved them.
    pub fn typed_plugins(&self) -> &[PathBuf] {
        let typed = self.args.plugins.len();
        self.core.plugins.get(..typed).unwrap_or_default()
    }
}

/// The configuration file, for paths in it and errors about it.
struct FileContext<'a> {
    file: Option<&'a Path>,
    base: &'a Path,
    world: &'a SettingsEnv<'a>,
}

impl FileContext<'_> {
    /// Adds the file to an error.
    fn locate(&self, error: String) -> String {
        match self.file {
            Some(file) => format!("{}: {error}", file.display()),
            None => error,
        }
    }

    fn path(&self, path: &str) -> Result<PathBuf, String> {
        let expanded = expand_variables(path, self.world.variable);
        let expanded = expanded.map_err(|error| self.locate(error))?;
        Ok(absolute(self.base, Path::new(&expanded)))
    }

    fn entries(&self, entries: Vec<PathEntry>) -> Result<Vec<(PathBuf, PathEntry)>, String> {
        let entries = entries.into_iter();
        entries
            .map(|entry| Ok((self.path(&entry.path)?, entry)))
            .collect()
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The variable overrides the file, for tests and for machines where the cache must be elsewhere.
fn set_cache_dir(
    host_paths: &mut HostPaths,
    dir: Option<&str>,
    file: &FileContext<'_>,
) -> Result<(), String> {
    if let Some(dir) = dir
        && (file.world.variable)("TOOLHOST_CACHE_DIR").is_none()
    {
        host_paths.cache = Some(file.path(dir)?);
    }
    Ok(())
}

fn unmapped_tools(args: &HostArgs) -> UnmappedTools {
    if args.profile_only {
        UnmappedTools::Hidden
    } else {
        UnmappedTools::default()
    }
}

/// The settings that need no resolution.
fn plain_settings(args: &HostArgs, config: &Config) -> toolhost::Settings {
    toolhost::Settings {
        profile_view: (
            args.profile.or(config.profile).unwrap_or_default(),
            unmapped_tools(args),
        ),
        timeout: config.timeout,
        max_timeout: args.timeout,
        pools: pool_limits(&config.pools),
        on_duplicate: args
            .on_duplicate
            .or(config.on_duplicate)
            .unwrap_or_default(),
        durability: config.store.durability.unwrap_or_default(),
        retention: retention(&config.retention),
        ..toolhost::Settings::default()
    }
}

fn plugins(
    args: &HostArgs,
    config: &Config,
    of_project: Vec<PathBuf>,
    file: &FileContext<'_>,
) -> Result<Vec<PathBuf>, String> {
    let directory = file.world.directory;
    let typed = args
        .plugins
        .iter()
        .map(|path| Ok(absolute(directory, path)));
    let written = config.plugins.iter().map(|path| file.path(path));
    let all = typed.chain(of_project.into_iter().map(Ok)).chain(written);
    let mut plugins: Vec<PathBuf> = all.collect::<Result<_, String>>()?;
    let installed = file.world.shipped_plugins;
    if config.shipped_plugins == Some(true) && installed.is_none() {
        let message = "`shipped_plugins`: no plugins were installed with this program";
        return Err(file.locate(message.to_owned()));
    }
    if config.shipped_plugins.unwrap_or(plugins.is_empty()) {
        plugins.extend(installed.map(Path::to_owned));
    }
    Ok(plugins)
}

/// Adds plugins, paths and variables. Returns the directory of the project whose table applies, and what is hidden.
fn add_paths(
    core: &mut toolhost::Settings,
    args: &HostArgs,
    config: &mut Config,
    file: &FileContext<'_>,
) -> Result<(Option<PathBuf>, Excludes), String> {
    let project = project::select(config, file)?;
    core.plugins = plugins(args, config, project.plugins, file)?;
    let directory = file.world.directory;
    let typed = args.allow_path.iter().cloned();
    let typed = typed
        .map(|entry| (absolute(directory, Path::new(&entry.path)), entry))
        .collect();
    let written = file.entries(config.allowed_paths.take().unwrap_or_default())?;
    let written = merge_paths(project.paths, written);
    let excludes = Excludes {
        defaults: !args.no_default_excludes && config.default_excludes.unwrap_or(true),
        patterns: [&config.exclude_paths, &args.exclude_path]
            .map(Vec::as_slice)
            .concat(),
    };
    core.paths = assign_guest_paths(merge_paths(typed, written), &excludes);
    core.per_plugin = per_plugin(std::mem::take(&mut config.plugin), file, &excludes)?;
    core.env = variable_names(args.allow_env.iter().chain(&config.env));
    Ok((project.directory, excludes))
}

fn add_tools(core: &mut toolhost::Settings, args: &HostArgs, config: &mut Config) {
    core.listed_tools = args
        .tools
        .clone()
        .or(config.list_tools.take())
        .unwrap_or_default();
    for (name, table) in std::mem::take(&mut config.tools.by_name) {
        core.tool_timeouts
            .extend(table.timeout.map(|timeout| (name.clone(), timeout)));
        core.tool_versions
            .extend(table.version.map(|version| (name.clone(), version)));
        if table.enabled == Some(false) {
            core.disabled_tools.insert(name.to_string());
        }
    }
    match config.use_tools.take() {
        None => {}
        Some(UseTools::Only(names)) => {
            core.only_tools
                .push(names.iter().map(ToString::to_string).collect());
        }
        Some(UseTools::Switches(switches)) => {
            let off = switches.into_iter().filter(|(_, on)| !on);
            core.disabled_tools
                .extend(off.map(|(name, _)| name.to_string()));
        }
    }
}

/// Returns the directory of the store. The variable overrides the file, for tests.
fn store_dir(
    args: &HostArgs,
    table: &StoreTable,
    paths: &HostPaths,
    file: &FileContext<'_>,
) -> Result<Option<PathBuf>, String> {
    match &table.dir {
        _ if is_store_disabled(args, table) => Ok(None),
        Some(dir) if (file.world.variable)("TOOLHOST_STATE_DIR").is_none() => {
            file.path(dir).map(Some)
        }
        _ => Ok(paths.store_dir()),
    }
}

fn is_store_disabled(args: &HostArgs, table: &StoreTable) -> bool {
    args.no_store || table.enabled == Some(false)
}

fn variable_names<'a>(names: impl IntoIterator<Item = &'a Variable>) -> BTreeSet<String> {
    names.into_iter().map(ToString::to_string).collect()
}

fn per_plugin(
    tables: BTreeMap<PluginName, PluginTable>,
    file: &FileContext<'_>,
    excludes: &Excludes,
) -> Result<BTreeMap<PluginName, PluginSettings>, String> {
    let settings = |table: PluginTable| -> Result<PluginSettings, String> {
        let entries = table.allowed_paths.map(|entries| file.entries(entries));
        let env = table.env.map(|names| variable_names(&names));
        Ok(PluginSettings {
            paths: entries
                .transpose()?
                .map(|entries| assign_guest_paths(entries, excludes)),
            env,
            limits: table.limits,
            may_run_alone: table.exclusive,
        })
    };
    let tables = tables.into_iter();
    tables
        .map(|(name, table)| Ok((name, settings(table)?)))
        .collect()
}

/// The A/B tests with their position in the file.
fn ab_tests(tables: Vec<AbTestTable>, file: Option<&Path>) -> Vec<AbTest> {
    let file = file.map(|file| file.display().to_string());
    let tables = tables.into_iter();
    let position = |line: Option<usize>| match (&file, line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        (file, _) => file.clone().unwrap_or_default(),
    };
    let test = |table: AbTestTable| AbTest {
        at: position(table.line),
        tool: table.tool,
        variants: table.variants,
        key: table.key,
    };
    tables.map(test).collect()
}

/// The path with the real path of its directory, so that the approvals of servers and the commands for a running host do
/// not depend on how `--config` is spelled. A link in the last component is kept: the paths in the file are relative to the
/// directory of the link.
pub fn in_real_directory(file: &Path) -> PathBuf {
    let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else {
        return file.to_owned();
    };
    let real = directory.canonicalize();
    real.map_or_else(|_| file.to_owned(), |real| real.join(name))
}

fn absolute(base: &Path, path: &Path) -> PathBuf {
    // `components` drops `.`, so that `--allow-path .` reads well in messages. `..` is kept, because symlinks determine
    // its meaning.
    base.join(path).components().collect()
}

/// The programs and scripts of other MCP servers. Plugins must not write to them, because they run with the operator's
/// privileges.
pub fn server_programs(
    servers: &[ServerSettings],
    discovery: Option<&DiscoverySettings>,
) -> Vec<PathBuf> {
    let configs = servers
        .iter()
        .filter_map(|server| server.config.as_ref().ok());
    let of_servers = configs.map(program_files);
    let of_discovery = discovery.into_iter().flat_map(|settings| {
        let Discovery {
            discover,
            call,
            cwd,
        } = &settings.discovery;
        let commands = std::iter::once(discover).chain(call);
        commands.filter_map(|command| {
            let (program, arguments) = command.split_first()?;
            Some(command_files(cwd, program, arguments))
        })
    });
    of_servers.chain(of_discovery).flatten().collect()
}

fn add_trust(
    core: &mut toolhost::Settings,
    table: &SignaturesTable,
    file: &FileContext<'_>,
) -> Result<(), String> {
    let mut read = |keys: &[String], identities: &[Identity], required: bool| {
        if required && keys.is_empty() && identities.is_empty() {
            let message =
                "`required` in `signatures` needs `keys` or `identities`, the trusted authors";
            return Err(file.locate(message.to_owned()));
        }
        let paths = keys.iter().map(|path| file.path(path));
        let paths: Vec<PathBuf> = paths.collect::<Result<_, _>>()?;
        let keys = paths
            .iter()
            .map(|path| PublicKey::read(path).map(Signer::Key));
        let mut signers = keys
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| file.locate(format!("`signatures.keys`: {error}")))?;
        signers.extend(identities.iter().cloned().map(Signer::Identity));
        core.read_only.extend(paths);
        Ok(signers)
    };
    let signers = read(&table.keys, &table.identities, table.required)?;
    let rules = table.rule.iter().map(|rule| {
        Ok(TrustRule {
            from: toolhost_packages::source_pattern(&rule.from)
                .map_err(|error| file.locate(format!("`signatures.rule.from`: {error}")))?,
            signers: read(&rule.keys, &rule.identities, rule.required)?,
            required: rule.required,
        })
    });
    let rules = rules.collect::<Result<_, String>>()?;
    let mut root = SigstoreRoot::default();
    if let Some(path) = &table.trusted_root {
        let path = file.path(path)?;
        root = SigstoreRoot::read(&path)
            .map_err(|error| file.locate(format!("`signatures.trusted_root`: {error}")))?;
        core.read_only.push(path);
    }
    core.trust = TrustPolicy {
        signers,
        root,
        required: table.required,
        rules,
    };
    Ok(())
}

fn retention(table: &RetentionTable) -> RetentionSettings {
    fn or<T: Copy>(bound: Option<Bound<T>>, usual: Option<T>) -> Option<T> {
        bound.map_or(usual, |Bound(limit)| limit)
    }
    let usual = RetentionSettings::default();
    RetentionSettings {
        records_age: or(table.records_age, usual.records_age),
        records_size: or(table.records_size, usual.records_size),
        undo_age: or(table.undo_age, usual.undo_age),
        undo_size: or(table.undo_size, usual.undo_size),
        cache_age: or(table.cache_age, usual.cache_age),
        cache_size: or(table.cache_size, usual.cache_size),
        logs_age: or(table.logs_age, usual.logs_age),
    }
}

fn pool_limits(pools: &PoolsTable) -> schedule::PoolLimits {
    let usual = schedule::PoolLimits::default();
    let or = |number: Option<NonZeroUsize>, usual| number.map_or(usual, NonZeroUsize::get);
    schedule::PoolLimits {
        all: or(pools.all, usual.all),
        network: or(pools.network, usual.network),
        processes: or(pools.processes, usual.processes),
        agents: or(pools.agents, usual.agents),
        interactive: or(pools.interactive, usual.interactive),
    }
}

#[cfg(test)]
mod grant_tests;
#[cfg(test)]
mod tests;
