//! What the command line and the configuration file mean together: absolute paths, numbers, rules. Every key that is
//! accepted ends up here, and whoever runs something reads only this.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::policy::{Decision, Mount, Places as PolicyPlaces, RuleSpec, Source};
use toolhost_contract::{Access, LimitsTable, PluginName, Policy, PolicySpec, ToolName};
use toolhost_kernel::{Durability, schedule};

use crate::args::HostArgs;
use crate::config::{self, Config, OnDuplicate, PathEntry, Pattern, UseTools, Variable, expand};
use crate::exit::{Exit, Failure, OrExit};
use crate::places::Places;

#[derive(Debug, Clone)]
pub struct Settings {
    /// Folders of plugins, or plugin files.
    pub plugins: Vec<PathBuf>,
    /// For every plugin that has no list of its own.
    pub paths: Vec<AllowedPath>,
    pub env: BTreeSet<Variable>,
    /// What the file says about single plugins.
    pub per_plugin: BTreeMap<PluginName, PluginSettings>,
    pub policy: Arc<Policy>,
    /// The rules that are only names, as they were written.
    pub lists: RuleLists,
    pub tool_timeouts: BTreeMap<ToolName, Duration>,
    pub disabled_tools: BTreeSet<ToolName>,
    /// When there is a list, tools that are not on it are disabled.
    pub only_tools: Option<Vec<ToolName>>,
    pub timeout: Option<Duration>,
    /// Typed on the command line: nothing runs longer.
    pub max_timeout: Option<Duration>,
    pub pools: schedule::Limits,
    pub on_duplicate: OnDuplicate,
    pub places: Places,
    /// Where records are kept; None: nowhere.
    pub store: Option<PathBuf>,
    pub durability: Durability,
    /// The folder that approvals "in this project" are for.
    pub project: PathBuf,
    /// The configuration file that was read.
    pub config_file: Option<PathBuf>,
    pub verbose: bool,
}

/// Forms of tools by decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleLists {
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
}

impl RuleLists {
    fn specs(&self, file: &str) -> Vec<RuleSpec> {
        [
            (Decision::Deny, &self.deny),
            (Decision::Ask, &self.ask),
            (Decision::Allow, &self.allow),
        ]
        .into_iter()
        .flat_map(|(decision, forms)| {
            forms
                .iter()
                .map(move |form| RuleSpec::new(decision, form).at(Source::file(file)))
        })
        .collect()
    }
}

/// A folder to grant. `guest` is the name that guests know it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedPath {
    pub host: PathBuf,
    pub guest: String,
    pub access: Access,
    pub dangerous: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginSettings {
    pub paths: Option<Vec<AllowedPath>>,
    pub env: Option<BTreeSet<Variable>>,
    pub limits: LimitsTable,
}

/// What of the world the meaning depends on, handed in so that tests have another world.
pub struct World<'a> {
    pub directory: &'a Path,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Settings {
    /// Reads the configuration file, if there is one, and puts the command line over it.
    pub fn load(args: &HostArgs) -> Result<Self, Failure> {
        let directory = std::env::current_dir().or_exit(Exit::Internal)?;
        let variable = |name: &str| std::env::var(name).ok();
        let world = World {
            directory: &directory,
            variable: &variable,
        };
        let places = Places::find(variable);
        let file = match &args.config {
            Some(file) => Some(directory.join(file)),
            // A file that cannot be looked at is an error further down: its deny rules must not vanish silently.
            None => places
                .config_file()
                .filter(|file| file.try_exists().unwrap_or(true)),
        };
        let config = file
            .as_deref()
            .map(config::read)
            .transpose()
            .or_exit(Exit::Config)?
            .unwrap_or_default();
        Self::resolve(args, config, file, places, &world)
            .map_err(|message| Failure::new(Exit::Config, message))
    }

    pub fn resolve(
        args: &HostArgs,
        config: Config,
        config_file: Option<PathBuf>,
        mut places: Places,
        world: &World<'_>,
    ) -> Result<Self, String> {
        // Paths of a file are relative to the file, paths of the command line to where it was typed.
        let base = config_file
            .as_deref()
            .and_then(Path::parent)
            .unwrap_or(world.directory);
        let of_file = |path: &str| -> Result<PathBuf, String> {
            let expanded = expand(path, world.variable).map_err(|error| {
                config_file
                    .as_ref()
                    .map(|file| format!("{}: {error}", file.display()))
                    .unwrap_or(error)
            })?;
            Ok(absolute(base, Path::new(&expanded)))
        };
        let entries_of_file =
            |entries: Vec<PathEntry>| -> Result<Vec<(PathBuf, PathEntry)>, String> {
                entries
                    .into_iter()
                    .map(|entry| Ok((of_file(&entry.path)?, entry)))
                    .collect()
            };

        let mut plugins: Vec<PathBuf> = args
            .plugins
            .iter()
            .map(|path| absolute(world.directory, path))
            .collect();
        for path in &config.plugins {
            plugins.push(of_file(path)?);
        }
        let typed = args.allow_path.iter().cloned();
        let typed = typed
            .map(|entry| (absolute(world.directory, Path::new(&entry.path)), entry))
            .collect();
        let paths = number(merge(typed, entries_of_file(config.allowed_paths)?));

        let mut per_plugin = BTreeMap::new();
        for (name, table) in config.plugin {
            let paths = table
                .allowed_paths
                .map(entries_of_file)
                .transpose()?
                .map(number);
            let env = table.env.map(BTreeSet::from_iter);
            per_plugin.insert(
                name,
                PluginSettings {
                    paths,
                    env,
                    limits: table.limits,
                },
            );
        }

        let mut disabled_tools = BTreeSet::new();
        let mut tool_timeouts = BTreeMap::new();
        for (name, table) in config.tools {
            if let Some(timeout) = table.timeout {
                tool_timeouts.insert(name.clone(), timeout);
            }
            if table.enabled == Some(false) {
                disabled_tools.insert(name);
            }
        }
        let mut only_tools = None;
        match config.use_tools {
            None => {}
            Some(UseTools::Only(names)) => only_tools = Some(names),
            Some(UseTools::Switches(switches)) => {
                disabled_tools.extend(
                    switches
                        .into_iter()
                        .filter(|(_, on)| !on)
                        .map(|(name, _)| name),
                );
            }
        }
        // The variable is for tests and for machines where the cache must be elsewhere: it beats the file.
        if let Some(dir) = config.cache.dir
            && (world.variable)("TOOLHOST_CACHE_DIR").is_none()
        {
            places.cache = Some(of_file(&dir)?);
        }
        let lists = RuleLists {
            allow: patterns(&args.allow_tool, &config.policy.allow),
            ask: patterns(&[], &config.policy.ask),
            deny: patterns(&args.deny_tool, &config.policy.deny),
        };
        let file = config_file
            .as_ref()
            .map_or_else(String::new, |file| file.display().to_string());
        let mounts = paths.iter().map(|path| Mount {
            guest: path.guest.clone(),
            host: path.host.display().to_string(),
        });
        let spec = PolicySpec {
            mode: args.mode.or(config.policy.mode).unwrap_or_default(),
            rules: lists.specs(&file),
            places: PolicyPlaces {
                home: (world.variable)("HOME").filter(|home| home.starts_with('/')),
                root: Some(base.display().to_string()),
                mounts: mounts.collect(),
                ..PolicyPlaces::default()
            },
            headless: config.policy.on_headless_ask.unwrap_or_default(),
            disable_yolo: config.policy.disable_yolo,
            disable_always_allow: config.policy.disable_always_allow,
            ..PolicySpec::default()
        };
        let policy = Policy::new(spec).map_err(|wrong| {
            let lines: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            lines.join("\n")
        })?;
        let all = config.concurrency.map(std::num::NonZeroUsize::get);
        let pools = schedule::Limits {
            all: all.unwrap_or(schedule::Limits::default().all),
            ..schedule::Limits::default()
        };
        let store = match args.no_store || config.store.enabled == Some(false) {
            true => None,
            false => match config.store.dir {
                Some(dir) if (world.variable)("TOOLHOST_STATE_DIR").is_none() => {
                    Some(of_file(&dir)?)
                }
                _ => places.store(),
            },
        };
        Ok(Self {
            plugins,
            paths,
            env: args.allow_env.iter().cloned().chain(config.env).collect(),
            per_plugin,
            policy: Arc::new(policy),
            lists,
            tool_timeouts,
            disabled_tools,
            only_tools,
            timeout: config.timeout,
            max_timeout: args.timeout,
            pools,
            on_duplicate: args
                .on_duplicate
                .or(config.on_duplicate)
                .unwrap_or(OnDuplicate::Error),
            places,
            store,
            durability: config.store.durability.unwrap_or_default().into(),
            project: world.directory.to_owned(),
            config_file,
            verbose: args.verbose,
        })
    }

    pub fn kernel(&self) -> toolhost_kernel::Settings {
        let capped = |timeout: Duration| self.max_timeout.map_or(timeout, |max| timeout.min(max));
        toolhost_kernel::Settings {
            policy: Arc::clone(&self.policy),
            pools: self.pools,
            project: Some(self.project.display().to_string()),
            on_duplicate: match self.on_duplicate {
                OnDuplicate::Error => toolhost_kernel::OnDuplicate::Error,
                OnDuplicate::Replace => toolhost_kernel::OnDuplicate::Replace,
                OnDuplicate::Qualify => toolhost_kernel::OnDuplicate::Qualify,
            },
            timeout: self.timeout.map(capped).or(self.max_timeout),
            tool_timeouts: self
                .tool_timeouts
                .iter()
                .map(|(name, time)| (name.to_string(), capped(*time)))
                .collect(),
            disabled_tools: self
                .disabled_tools
                .iter()
                .map(ToString::to_string)
                .collect(),
            ..toolhost_kernel::Settings::default()
        }
    }

    /// How long calls of a plugin may take. What the operator says about this plugin holds; what the plugin's author
    /// wishes holds only below the operator's general word.
    pub fn plugin_timeout(&self, plugin: &PluginName, wish: Option<Duration>) -> Option<Duration> {
        let by_operator = self
            .per_plugin
            .get(plugin)
            .and_then(|plugin| plugin.limits.timeout);
        let by_author = wish.map(|wish| self.timeout.map_or(wish, |general| wish.min(general)));
        by_operator
            .or(by_author)
            .map(|time| self.max_timeout.map_or(time, |max| time.min(max)))
    }
}

fn absolute(base: &Path, path: &Path) -> PathBuf {
    // `components` drops `.`, so that `--allow-path .` reads well in messages; `..` stays, for it means what the
    // file system says.
    base.join(path).components().collect()
}

fn patterns(typed: &[Pattern], of_file: &[Pattern]) -> Vec<String> {
    typed
        .iter()
        .chain(of_file)
        .map(|pattern| pattern.as_str().to_owned())
        .collect()
}

/// What was typed comes first, so that the first folder typed is /workspace, and wins over the file's word on the same
/// folder.
fn merge(
    typed: Vec<(PathBuf, PathEntry)>,
    of_file: Vec<(PathBuf, PathEntry)>,
) -> Vec<(PathBuf, PathEntry)> {
    let known: BTreeSet<PathBuf> = typed.iter().map(|(path, _)| path.clone()).collect();
    typed
        .into_iter()
        .chain(
            of_file
                .into_iter()
                .filter(|(path, _)| !known.contains(path)),
        )
        .collect()
}

fn number(entries: Vec<(PathBuf, PathEntry)>) -> Vec<AllowedPath> {
    let mut names =
        std::iter::once("/workspace".to_owned()).chain((1..).map(|n| format!("/extra/{n}")));
    entries
        .into_iter()
        .map(|(host, entry)| AllowedPath {
            host,
            guest: entry
                .guest
                .or_else(|| names.next())
                .expect("there is always another number"),
            access: entry.access,
            dangerous: entry.dangerous,
        })
        .collect()
}

#[cfg(test)]
mod tests;
