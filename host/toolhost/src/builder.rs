//! A host in a few lines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::policy::{self, Decision, Mount, RuleSpec};
use toolhost_contract::{
    Access, Backend, Descriptor, Mode, NoSink, Policy, PolicySpec, Principal, SessionKey,
};
use toolhost_kernel::hooks::HookEntry;
use toolhost_kernel::{
    Agents, BatchCall, BatchError, BatchRequest, CallRequest, Durability, PluginInfo, Prompter,
    Report, Resources, Subscription,
};
use toolhost_process::Launcher;
use toolhost_runtime::Compiler;

use crate::error::Error;
use crate::load::{Host, Parts, Purpose, Say};
use crate::places::Places;
use crate::settings::{AllowedPath, Excludes, Settings, guest_name};

/// The session of calls that name none.
const SESSION: &str = "main";

/// What a [`Host`] may do. Grants nothing by itself.
#[must_use]
pub struct Builder {
    parts: Parts,
    policy: PolicySpec,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    pub fn new() -> Self {
        let settings = Settings {
            places: Places {
                state: None,
                ..Places::find(|name| std::env::var(name).ok())
            },
            ..Settings::default()
        };
        Self {
            parts: Parts::new(settings, Purpose::Run),
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

    /// A folder of plugins, or one `.wasm`. Relative paths are relative to the current directory.
    pub fn plugins(self, place: impl AsRef<Path>) -> Self {
        self.settings(|settings| settings.plugins.push(absolute(place.as_ref())))
    }

    /// Grants a folder, or a single file, to every plugin that asks for files. Guests know the first as `/workspace` and
    /// the others as `/extra/1`, `/extra/2`, …, or by their place in a folder granted before; files that mostly hold secrets are left out.
    pub fn allow_path(self, place: impl AsRef<Path>, access: Access) -> Self {
        self.settings(|settings| {
            let host = absolute(place.as_ref());
            settings.paths.push(AllowedPath {
                guest: guest_name(&settings.paths, &host),
                host,
                access,
                dangerous: false,
                exclude: Excludes::default(),
            });
        })
    }

    /// Grants a variable of this process.
    pub fn allow_env(self, name: impl Into<String>) -> Self {
        self.settings(|settings| {
            settings.env.insert(name.into());
        })
    }

    /// Grants an address: `example.org`, `https://*.example.org:8443`. Private addresses by their name only.
    pub fn allow_host(self, rule: impl Into<String>) -> Self {
        self.settings(|settings| settings.beyond.hosts.push(rule.into()))
    }

    /// Grants a program by its name. Needs a [`Builder::launcher`].
    pub fn allow_program(self, name: impl Into<String>) -> Self {
        self.settings(|settings| settings.beyond.programs.push(name.into()))
    }

    pub fn mode(mut self, mode: Mode) -> Self {
        self.policy.mode = mode;
        self
    }

    /// A rule: `write_file`, `Edit(src/**)`, `files/*`, `Bash(git *)`.
    pub fn rule(self, decision: Decision, form: impl Into<String>) -> Self {
        self.rule_with(RuleSpec::new(decision, form.into()))
    }

    pub fn rule_with(mut self, rule: RuleSpec) -> Self {
        self.policy.rules.push(rule);
        self
    }

    /// Who is asked: a [`crate::Callback`], mostly.
    pub fn prompter(mut self, prompter: Arc<dyn Prompter>) -> Self {
        self.policy.interactive = true;
        self.parts.prompter = prompter;
        self
    }

    /// Tools that are no components: they run with all rights of this process, and go the same way of rules, records and
    /// hooks.
    pub fn backend(mut self, info: PluginInfo, backend: Arc<dyn Backend>) -> Self {
        self.parts.backends.push((info, backend));
        self
    }

    pub fn hook(mut self, hook: HookEntry) -> Self {
        self.parts.hooks.push(hook);
        self
    }

    /// Who runs the tasks that tools hand to sub-agents.
    pub fn agents(mut self, agents: Arc<dyn Agents>) -> Self {
        self.parts.agents = Some(agents);
        self
    }

    pub fn resources(mut self, resources: Arc<dyn Resources>) -> Self {
        self.parts.resources = Some(resources);
        self
    }

    /// Keeps records, approvals and what changes replaced, in this folder. Without one, nothing outlives the host.
    pub fn store(self, dir: impl AsRef<Path>, durability: Durability) -> Self {
        self.settings(|settings| {
            settings.store = Some(absolute(dir.as_ref()));
            settings.durability = durability;
        })
    }

    /// Where compiled plugins are kept; the user's cache folder by default. What lies there is run as it is, so nobody
    /// else may write to it.
    pub fn cache(self, dir: impl AsRef<Path>) -> Self {
        self.settings(|settings| settings.places.cache = Some(absolute(dir.as_ref())))
    }

    /// No call runs longer.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.settings(|settings| settings.max_timeout = Some(timeout))
    }

    /// Where plugins are compiled: in this process by default, without limits of time and memory. For plugins that you do
    /// not trust name a child process, whose program calls [`crate::compile_worker`].
    pub fn compiler(mut self, compiler: Compiler) -> Self {
        self.parts.compiler = compiler;
        self
    }

    /// What starts programs: a program, mostly this one, that calls [`crate::become_program`] first of all.
    pub fn launcher(mut self, launcher: Launcher) -> Self {
        self.parts.launcher = Some(launcher);
        self
    }

    /// Hears what a person should know while plugins are loaded.
    pub fn say(mut self, say: Say) -> Self {
        self.parts.say = say;
        self
    }

    /// Everything that is not said above.
    pub fn change(self, change: impl FnOnce(&mut Settings)) -> Self {
        self.settings(change)
    }

    /// Loads the plugins. A plugin that cannot be loaded is in [`Host::broken`] and stops no other; what a plugin or a
    /// setting needs and is not there is an error.
    pub async fn build(mut self) -> Result<Host, Error> {
        if self.parts.settings.plugins.is_empty() && self.parts.backends.is_empty() {
            return Err(Error::NoPlugins);
        }
        let mounts = self.parts.settings.paths.iter().map(|path| {
            let host = path.host.canonicalize();
            Mount {
                guest: path.guest.clone(),
                host: host
                    .unwrap_or_else(|_| path.host.clone())
                    .display()
                    .to_string(),
            }
        });
        self.policy.places = policy::Places {
            root: Some(self.parts.settings.project.display().to_string()),
            mounts: mounts.collect(),
            ..policy::Places::default()
        };
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
    /// One call, by any name of the tool.
    pub async fn call(&self, tool: &str, input: serde_json::Value) -> Report {
        let id = toolhost_contract::CallId(format!("c-{}", toolhost_kernel::id::random()));
        let request = CallRequest::new(id, tool, input, caller());
        self.kernel.call(request, Arc::new(NoSink)).await
    }

    /// The calls of one turn: one report for each, in their order, whatever happens.
    pub async fn batch(&self, calls: Vec<BatchCall>) -> Result<Vec<Report>, BatchError> {
        let request = BatchRequest {
            id: format!("b-{}", toolhost_kernel::id::random()),
            caller: caller(),
            calls,
            strategy: toolhost_kernel::schedule::Strategy::default(),
            within: toolhost_kernel::Within::default(),
        };
        self.kernel.schedule(request, Arc::new(NoSink)).await
    }

    /// What happens from now on.
    pub fn events(&self) -> Subscription {
        self.kernel.subscribe(None, None)
    }

    /// What a model may call.
    pub fn tools(&self) -> Vec<Arc<Descriptor>> {
        let registry = self.kernel.registry();
        registry
            .list()
            .map(|entry| Arc::clone(&entry.tool))
            .collect()
    }
}

fn caller() -> Principal {
    Principal::in_session(&SessionKey::local(SESSION))
}

fn absolute(place: &Path) -> PathBuf {
    std::path::absolute(place).unwrap_or_else(|_| place.to_owned())
}
