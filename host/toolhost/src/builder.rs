//! [`Builder`] for a [`Host`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::policy::{Decision, RuleSpec};
use toolhost_contract::{
    Access, Backend, CallId, Descriptor, Mode, NoSink, Policy, PolicySpec, Principal, SessionKey,
};
use toolhost_formats::profile::Profile;
use toolhost_kernel::hooks::HookEntry;
use toolhost_kernel::{
    Agents, BatchCall, BatchError, BatchRequest, CallRequest, DetachError, Durability, PluginInfo,
    Prompter, Report, Resources, Stats, Subscription, ToolInfo,
};
use toolhost_process::Launcher;
use toolhost_runtime::Compiler;

use crate::error::Error;
use crate::host_paths::HostPaths;
use crate::load::{Host, HostParts, LoadPurpose, MessageSink};
use crate::settings::{AllowedPath, Excludes, Settings, guest_name, policy_mounts};

/// Configures and builds a [`Host`]. Grants nothing by default.
#[must_use]
pub struct Builder {
    parts: HostParts,
    policy: PolicySpec,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    pub fn new() -> Self {
        let mut host_paths = HostPaths::from_env(|name| std::env::var(name).ok());
        // The program `host` keeps its records there. This host does not use them, and its tools cannot access them.
        let state_of_program = host_paths.state.take();
        let settings = Settings {
            host_paths,
            secrets: state_of_program.into_iter().collect(),
            ..Settings::default()
        };
        Self {
            parts: HostParts::new(settings, LoadPurpose::Run),
            policy: PolicySpec {
                interactive: false,
                ..PolicySpec::default()
            },
        }
    }

    fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.parts.settings);
        self
    }

    /// Adds a directory of plugins or one `.wasm` file. Relative paths are relative to the current directory.
    pub fn plugins(self, path: impl AsRef<Path>) -> Self {
        self.settings(|settings| settings.plugins.push(absolute(path.as_ref())))
    }

    /// Grants a directory or a single file to every plugin that requests files.
    ///
    /// Guests see the first path as `/workspace` and further paths as `/extra/1`, `/extra/2`, …, or at their position
    /// in a directory that was granted before. Files that usually contain secrets are excluded.
    pub fn allow_path(self, path: impl AsRef<Path>, access: Access) -> Self {
        self.settings(|settings| {
            let host = absolute(path.as_ref());
            settings.paths.push(AllowedPath {
                guest: guest_name(&settings.paths, &host),
                host,
                access,
                dangerous: false,
                exclude: Excludes::default(),
            });
        })
    }

    /// Grants an environment variable of this process.
    pub fn allow_env(self, name: impl Into<String>) -> Self {
        self.settings(|settings| {
            settings.env.insert(name.into());
        })
    }

    /// Grants a network host: `example.org`, `https://*.example.org:8443`. Private addresses must be named explicitly.
    pub fn allow_host(self, rule: impl Into<String>) -> Self {
        self.settings(|settings| settings.external_access.hosts.push(rule.into()))
    }

    /// Grants a program by name. Requires [`Builder::launcher`].
    pub fn allow_program(self, name: impl Into<String>) -> Self {
        self.settings(|settings| settings.external_access.programs.push(name.into()))
    }

    /// Sets the agent whose tool names and formats [`Host::turn`], [`Host::tools_for`] and [`Host::front_end_events`] use.
    /// [`Host::call`] uses canonical names.
    pub fn profile(self, profile: Profile) -> Self {
        self.settings(|settings| settings.profile_view.0 = profile)
    }

    pub fn mode(mut self, mode: Mode) -> Self {
        self.policy.mode = mode;
        self
    }

    /// Changes any other part of the policy, except the granted paths, which [`Builder::build`] adds.
    pub fn policy(mut self, change: impl FnOnce(&mut PolicySpec)) -> Self {
        change(&mut self.policy);
        self
    }

    /// Adds a rule: `write_file`, `Edit(src/**)`, `files/*`, `Bash(git *)`.
    pub fn rule(self, decision: Decision, form: impl Into<String>) -> Self {
        self.rule_with(RuleSpec::new(decision, form.into()))
    }

    pub fn rule_with(mut self, rule: RuleSpec) -> Self {
        self.policy.rules.push(rule);
        self
    }

    /// Sets the prompter, usually a [`crate::CallbackPrompter`].
    pub fn prompter(mut self, prompter: Arc<dyn Prompter>) -> Self {
        self.policy.interactive = true;
        self.parts.prompter = prompter;
        self
    }

    /// Adds native tools. They run with all privileges of this process, but rules, records and hooks apply to them.
    pub fn backend(mut self, info: PluginInfo, backend: Arc<dyn Backend>) -> Self {
        self.parts.backends.push((info, backend));
        self
    }

    pub fn hook(mut self, hook: HookEntry) -> Self {
        self.parts.hooks.push(hook);
        self
    }

    /// Sets the sub-agents that tools can use.
    pub fn agents(mut self, agents: Arc<dyn Agents>) -> Self {
        self.parts.agents = Some(agents);
        self
    }

    pub fn resources(mut self, resources: Arc<dyn Resources>) -> Self {
        self.parts.resources = Some(resources);
        self
    }

    /// Stores records, approvals and undo data in this directory. Without one, nothing outlives the host.
    pub fn store(self, dir: impl AsRef<Path>, durability: Durability) -> Self {
        self.settings(|settings| {
            settings.store = Some(absolute(dir.as_ref()));
            settings.durability = durability;
        })
    }

    /// Sets the directory for compiled plugins, by default in the user's cache directory. Its content is executed
    /// unverified, so other users must not have write access.
    pub fn cache(self, dir: impl AsRef<Path>) -> Self {
        self.settings(|settings| settings.host_paths.cache = Some(absolute(dir.as_ref())))
    }

    /// Sets the directory for state, such as the own directories of sandboxed MCP servers. Tools cannot access it.
    pub fn state(self, dir: impl AsRef<Path>) -> Self {
        self.settings(|settings| settings.host_paths.state = Some(absolute(dir.as_ref())))
    }

    /// Sets the maximum duration of every call.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.settings(|settings| settings.max_timeout = Some(timeout))
    }

    /// Sets where plugins are compiled: by default in this process, without limits on time and memory. For untrusted
    /// plugins, use a child process whose program calls [`crate::compile_worker`].
    pub fn compiler(mut self, compiler: Compiler) -> Self {
        self.parts.compiler = compiler;
        self
    }

    /// Sets the launcher of programs: a program, usually this one, that calls [`crate::become_program`] at its start.
    pub fn launcher(mut self, launcher: Launcher) -> Self {
        self.parts.launcher = Some(launcher);
        self
    }

    /// Sets the receiver of notes and warnings, during loading and from MCP servers.
    pub fn on_message(mut self, say: MessageSink) -> Self {
        self.parts.on_message = say;
        self
    }

    /// Changes any other setting, except the policy: see [`Builder::policy`].
    pub fn with_settings(self, change: impl FnOnce(&mut Settings)) -> Self {
        self.settings(change)
    }

    /// Loads the plugins and builds the host.
    ///
    /// A plugin that cannot be loaded is listed in [`Host::loaded`] and does not affect the others.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings are invalid, or if a hook or a tool that another depends on is missing.
    pub async fn build(mut self) -> Result<Host, Error> {
        if !self.parts.settings.has_plugins() && self.parts.backends.is_empty() {
            return Err(Error::NoPlugins);
        }
        let unused = &self.parts.settings.policy;
        if *unused.spec() != PolicySpec::default() || unused.mode() != Mode::default() {
            let error = "`Settings::policy` is set with `with_settings`, where it has no effect; use \
                         `Builder::policy`, `Builder::mode` and `Builder::rule`";
            return Err(Error::Settings(error.to_owned()));
        }
        self.policy.path_context.root = Some(self.parts.settings.project.display().to_string());
        self.policy.path_context.mounts = policy_mounts(&self.parts.settings.paths);
        self.policy.plugin_mounts = self.parts.settings.plugin_mounts();
        let policy = Policy::new(self.policy).map_err(|found| {
            let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
            Error::Settings(lines.join("\n"))
        })?;
        self.parts.settings.policy = Arc::new(policy);
        let host = self.parts.load(|_| {}).await?;
        if host.missing.is_empty() {
            Ok(host)
        } else {
            Err(Error::Settings(host.missing.join("\n")))
        }
    }
}

impl Host {
    /// Calls a tool by any of its names.
    pub async fn call(&self, tool: &str, input: serde_json::Value) -> Report {
        let id = CallId(format!("c-{}", toolhost_kernel::id::random()));
        let request = CallRequest::new(id, tool, input, self.caller());
        self.kernel.call(request, Arc::new(NoSink)).await
    }

    /// Runs the calls of one turn. Returns one report for each call, in call order.
    pub async fn batch(&self, calls: Vec<BatchCall>) -> Result<Vec<Report>, BatchError> {
        let request = BatchRequest {
            id: format!("b-{}", toolhost_kernel::id::random()),
            caller: self.caller(),
            calls,
            strategy: toolhost_kernel::schedule::Strategy::default(),
            context: toolhost_kernel::CallContext::default(),
        };
        self.kernel.schedule(request, Arc::new(NoSink)).await
    }

    /// The session of calls made with [`Host::call`], [`Host::batch`] and [`Host::turn`]. Each host has its own.
    pub fn session(&self) -> &SessionKey {
        &self.session
    }

    pub(crate) fn caller(&self) -> Principal {
        Principal::in_session(&self.session)
    }

    /// Moves the running command of a call to the background. The call ends with a result that names the job.
    pub fn detach(&self, call: &CallId) -> Result<(), DetachError> {
        self.kernel.detach(call, &self.session.user)
    }

    /// Subscribes to events from now on.
    pub fn events(&self) -> Subscription {
        self.kernel.subscribe(None, None)
    }

    /// The tools that a model can call.
    pub fn tools(&self) -> Vec<Arc<Descriptor>> {
        let registry = self.kernel.registry();
        registry
            .list()
            .map(|entry| Arc::clone(&entry.tool))
            .collect()
    }

    /// The tools of a category that a model can call.
    pub fn tools_in_category(&self, category: &str) -> Vec<Arc<Descriptor>> {
        let registry = self.kernel.registry();
        let tools = registry.list_by_category(category);
        tools.map(|entry| Arc::clone(&entry.tool)).collect()
    }

    /// The tools that a model can call, sorted by display name.
    pub fn tools_by_display_name(&self) -> Vec<Arc<Descriptor>> {
        let registry = self.kernel.registry();
        let tools = registry.list_by_display_name().into_iter();
        tools.map(|entry| Arc::clone(&entry.tool)).collect()
    }

    /// All tools, also those that the configuration disables.
    pub fn tool_infos(&self) -> Vec<ToolInfo> {
        self.kernel.registry().infos()
    }

    /// The number of tools, in total and by category, and the calls of each tool since the start of this host.
    pub fn stats(&self) -> Stats {
        self.kernel.registry().stats()
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_cannot_access_the_state_of_the_program() {
        let program = HostPaths::from_env(|name| std::env::var(name).ok());
        let settings = Builder::new().parts.settings;
        assert_eq!(settings.host_paths.state, None);
        let hidden = crate::grants::protected_paths(&settings);
        let is_hidden = |state| hidden.iter().any(|hidden| hidden.path == state);
        assert!(program.state.is_none_or(is_hidden));
    }
}
