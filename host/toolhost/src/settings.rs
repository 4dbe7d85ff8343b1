//! Settings of a host, as absolute paths and values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::policy::Mount;
use toolhost_contract::{
    Access, Limits, LimitsTable, PluginName, Policy, ToolName, ToolSet, VersionReq,
};
use toolhost_formats::profile::{Profile, UnmappedTools};
use toolhost_kernel::{AbTest, Durability, OnDuplicate, schedule};
use toolhost_packages::{PackageStore, TrustPolicy};

use crate::host_paths::HostPaths;
use crate::host_resources::OUTPUT_PATH;
use crate::turn::ProfileView;

mod commands;
mod external_access;
mod hooks;
mod retention;

pub use commands::command_files;
pub use external_access::{AgentSettings, ExternalAccessSettings, SecretSettings, SecretValue};
pub use hooks::{HookKind, HookSettings};
pub use retention::RetentionSettings;

#[derive(Debug, Clone)]
pub struct Settings {
    /// Directories of plugins, or plugin files.
    pub plugins: Vec<PathBuf>,
    /// Paths for plugins without their own list.
    pub paths: Vec<AllowedPath>,
    /// Names of environment variables that plugins may request.
    pub env: BTreeSet<String>,
    pub external_access: ExternalAccessSettings,
    pub per_plugin: BTreeMap<PluginName, PluginSettings>,
    pub policy: Arc<Policy>,
    /// Hooks in the order in which they run; the cache is last.
    pub hooks: Vec<HookSettings>,
    pub tool_timeouts: BTreeMap<ToolName, Duration>,
    /// The version that is selected by a tool's name.
    pub tool_versions: BTreeMap<ToolName, VersionReq>,
    pub ab_tests: Vec<AbTest>,
    /// Disabled tools, by any of their names.
    pub disabled_tools: BTreeSet<String>,
    /// The tools that are listed for models; the others can be found with `tool_search`.
    pub listed_tools: ToolSet,
    /// The agent whose names and formats the model uses, and which other tools it sees.
    pub profile_view: ProfileView,
    /// Tools that are not in all of these lists are disabled.
    pub only_tools: Vec<Vec<String>>,
    pub timeout: Option<Duration>,
    /// Maximum duration of every call.
    pub max_timeout: Option<Duration>,
    pub pools: schedule::PoolLimits,
    /// Number of users with separate quotas, to size the pool of sandboxes.
    pub users: usize,
    pub on_duplicate: OnDuplicate,
    pub host_paths: HostPaths,
    /// Directory of the store; `None` keeps no records.
    pub store: Option<PathBuf>,
    pub durability: Durability,
    pub retention: RetentionSettings,
    /// The keys whose plugins the host loads.
    pub trust: TrustPolicy,
    /// The store whose packages are loaded together with `plugins`.
    pub packages: Option<PackageStore>,
    /// Directory of the project that project-scoped approvals apply to.
    pub project: PathBuf,
    /// The configuration file. No tool may write to it.
    pub config_file: Option<PathBuf>,
    /// Other files that control permissions: rules, imported settings, programs of hooks. No tool may write to them.
    pub read_only: Vec<PathBuf>,
    /// Files that no tool may see, such as keys.
    pub secrets: Vec<PathBuf>,
}

/// A directory or file to grant. `guest` is its guest path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedPath {
    pub host: PathBuf,
    pub guest: String,
    pub access: Access,
    pub dangerous: bool,
    pub exclude: Excludes,
}

/// The guest path of a directory that is granted after `before`. A directory inside one of those keeps its relative
/// path, so that every path resolves to the innermost grant.
pub fn guest_name(before: &[AllowedPath], host: &Path) -> String {
    let below = before
        .iter()
        .filter_map(|outer| {
            let rest = host.strip_prefix(&outer.host).ok()?;
            let steps: Option<Vec<&str>> = rest
                .components()
                .map(|step| match step {
                    Component::Normal(name) => name.to_str(),
                    _ => None,
                })
                .collect();
            let steps = steps.filter(|steps| !steps.is_empty())?;
            Some((outer, steps.join("/")))
        })
        .min_by_key(|(_, rest)| rest.len());
    if let Some((outer, rest)) = below {
        return format!("{}/{rest}", outer.guest.trim_end_matches('/'));
    }
    let mut names = std::iter::once("/workspace".to_owned())
        .chain((1..).map(|number| format!("/extra/{number}")));
    names
        .find(|name| before.iter().all(|path| path.guest != *name))
        .expect("numbers do not run out")
}

/// The table by which a policy resolves guest paths.
pub fn policy_mounts(paths: &[AllowedPath]) -> Vec<Mount> {
    let mounts = paths.iter().map(|path| {
        // Changes are reported with canonical paths.
        let host = path.host.canonicalize();
        Mount {
            guest: path.guest.clone(),
            host: host
                .unwrap_or_else(|_| path.host.clone())
                .display()
                .to_string(),
        }
    });
    mounts.collect()
}

/// Files that a grant hides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excludes {
    /// Files that usually contain secrets.
    pub defaults: bool,
    /// Patterns as in a `.gitignore`.
    pub patterns: Vec<String>,
}

impl Default for Excludes {
    fn default() -> Self {
        Self {
            defaults: true,
            patterns: Vec::new(),
        }
    }
}

impl Excludes {
    /// All patterns. Later ones take precedence, so that `!NAME` re-includes a default.
    pub fn all_patterns(&self) -> Vec<String> {
        let defaults = self.defaults.then_some(toolhost_vfs::DEFAULT_EXCLUDES);
        let defaults = defaults.into_iter().flatten().map(ToString::to_string);
        defaults.chain(self.patterns.iter().cloned()).collect()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginSettings {
    pub paths: Option<Vec<AllowedPath>>,
    pub env: Option<BTreeSet<String>>,
    pub limits: LimitsTable,
    /// Its exclusive tools run alone: calls of all users wait for them. Otherwise they are serial.
    pub may_run_alone: bool,
}

impl Default for Settings {
    /// Grants nothing and keeps nothing.
    fn default() -> Self {
        Self {
            plugins: Vec::new(),
            paths: Vec::new(),
            env: BTreeSet::new(),
            external_access: ExternalAccessSettings::default(),
            per_plugin: BTreeMap::new(),
            policy: Arc::default(),
            hooks: Vec::new(),
            tool_timeouts: BTreeMap::new(),
            tool_versions: BTreeMap::new(),
            ab_tests: Vec::new(),
            disabled_tools: BTreeSet::new(),
            listed_tools: ToolSet::default(),
            profile_view: (Profile::default(), UnmappedTools::default()),
            only_tools: Vec::new(),
            timeout: None,
            max_timeout: None,
            pools: schedule::PoolLimits::default(),
            users: 1,
            on_duplicate: OnDuplicate::default(),
            host_paths: HostPaths::default(),
            store: None,
            durability: Durability::default(),
            retention: RetentionSettings::default(),
            trust: TrustPolicy::default(),
            packages: None,
            project: std::env::current_dir().unwrap_or_default(),
            config_file: None,
            read_only: Vec::new(),
            secrets: Vec::new(),
        }
    }
}

impl Settings {
    /// Whether there are plugins to load: files, directories or installed packages.
    pub fn has_plugins(&self) -> bool {
        // A store that cannot be read is reported when plugins are loaded.
        let is_empty = |store: &PackageStore| {
            let installed = store.installed();
            installed.is_ok_and(|installed| installed.plugins().is_empty())
        };
        !self.plugins.is_empty() || self.packages.as_ref().is_some_and(|store| !is_empty(store))
    }

    /// The tables by which a policy resolves guest paths of plugins with their own directories.
    pub fn plugin_mounts(&self) -> BTreeMap<PluginName, Vec<Mount>> {
        let plugins = self.per_plugin.iter();
        plugins
            .filter_map(|(name, own)| Some((name.clone(), policy_mounts(own.paths.as_deref()?))))
            .collect()
    }

    /// The settings of the kernel.
    pub fn kernel(&self) -> toolhost_kernel::KernelSettings {
        toolhost_kernel::KernelSettings {
            policy: Arc::clone(&self.policy),
            pools: self.pools,
            project: Some(self.project.display().to_string()),
            on_duplicate: self.on_duplicate,
            timeout: self.timeout,
            max_timeout: self.max_timeout.unwrap_or(Limits::MAX_TIMEOUT),
            tool_timeouts: self
                .tool_timeouts
                .iter()
                .map(|(name, time)| (name.to_string(), *time))
                .collect(),
            disabled_tools: self.disabled_tools.clone(),
            only_tools: self.only_tools.clone(),
            listed_tools: self.listed_tools.clone(),
            tool_versions: self
                .tool_versions
                .iter()
                .map(|(name, version)| (name.to_string(), version.clone()))
                .collect(),
            ab_tests: self.ab_tests.clone(),
            provided_directories: self.provided_directories(),
            ..toolhost_kernel::KernelSettings::default()
        }
    }

    /// The directories that the host provides to tools: as guests name them, and for memory, which tools change, also
    /// as the host does.
    fn provided_directories(&self) -> Arc<[String]> {
        let memory = self.external_access.memory.as_ref();
        let memory = memory.map(|memory| memory.display().to_string());
        let guests = [OUTPUT_PATH, "/memory", "/skills"].map(str::to_owned);
        guests.into_iter().chain(memory).collect()
    }

    /// The time limit for calls of a plugin. The operator's limit for this plugin takes precedence over the manifest's
    /// limit, which is capped by the operator's general one.
    pub fn plugin_timeout(
        &self,
        plugin: &PluginName,
        requested: Option<Duration>,
    ) -> Option<Duration> {
        let by_operator = self
            .per_plugin
            .get(plugin)
            .and_then(|plugin| plugin.limits.timeout);
        let by_author = requested.map(|requested| {
            self.timeout
                .map_or(requested, |general| requested.min(general))
        });
        by_operator
            .or(by_author)
            .map(|time| self.max_timeout.map_or(time, |max| time.min(max)))
    }
}
