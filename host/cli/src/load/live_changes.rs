//! Changes of a running host: its plugins, the servers of its configuration, and discovered tools.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};

use tokio::task::JoinSet;
use toolhost::{PluginChangeError, PluginChanges};
use toolhost_contract::{CallId, UserId, text};
use toolhost_mcp_client::plugin_name;
use toolhost_ui::{Permission, UiServer};

use super::servers::{ConfiguredServer, ServerStorage};
use super::{RunningHost, describe_broken, servers};
use crate::control::{ControlAnswer, ControlRequest};
use crate::exit::CliError;
use crate::settings::{CliSettings, DiscoverySettings, server_programs};
use crate::terminal::note;

impl RunningHost {
    /// Executes a request of the control socket, and reports it on standard error too.
    pub async fn control(&self, request: ControlRequest) -> ControlAnswer {
        let before = self.registry_problems();
        let answer = match request {
            // Not reported: the link is for the user who asked.
            ControlRequest::OpenPage { address } => return self.open_page(address).await,
            ControlRequest::AddPlugin { path } => to_answer(self.loaded.add_plugin(&path).await),
            ControlRequest::RemovePlugin { name } => {
                to_answer(self.loaded.remove_plugin(&name).await)
            }
            ControlRequest::ReloadPlugins { name } => {
                to_answer(self.loaded.reload_plugins(name.as_deref()).await)
            }
            ControlRequest::ReloadPackages => to_answer(Ok(self.loaded.reload_packages().await)),
            ControlRequest::ReloadServers => self.reload_servers().await,
            ControlRequest::DetachCall { call } => self.detach(call),
            // Not reported here if the call belongs to another host.
            ControlRequest::CancelCall { call } => return self.cancel(call),
        };
        self.report_change(answer, &before)
    }

    /// Reports a change, and the problems of the registry that were not among those before it.
    fn report_change(&self, mut answer: ControlAnswer, before: &[String]) -> ControlAnswer {
        let mut problems = self.registry_problems();
        problems.retain(|problem| !before.contains(problem));
        answer.errors.extend(problems);
        report(&answer);
        answer
    }

    /// The tools that are left out, and the A/B tests that do not apply.
    fn registry_problems(&self) -> Vec<String> {
        let registry = self.kernel.registry();
        let unavailable = registry.unavailable().iter().map(ToString::to_string);
        let tests = registry.ab_test_problems().iter().cloned();
        unavailable.chain(tests).collect()
    }

    fn cancel(&self, call: String) -> ControlAnswer {
        let call = CallId(call);
        if !self.kernel.cancel(&call) {
            return ControlAnswer::failed("no such call is running");
        }
        let answer = ControlAnswer {
            changes: vec![format!("stopped call {call}")],
            errors: Vec::new(),
        };
        report(&answer);
        answer
    }

    async fn open_page(&self, address: Option<SocketAddr>) -> ControlAnswer {
        let Some(page) = &self.page else {
            return ControlAnswer::failed("this host serves no page; `host run` and `host dev` do");
        };
        let address = address.unwrap_or(UiServer::DEFAULT_ADDRESS);
        let block_address = self.loaded.block_address();
        let opened = page.open(&self.kernel, address, Permission::ReadWrite, block_address);
        match opened.await {
            Ok(link) => ControlAnswer {
                changes: vec![link],
                errors: Vec::new(),
            },
            Err(CliError { error, .. }) => ControlAnswer::failed(&format!("{error:#}")),
        }
    }

    /// Only the local user reaches the control socket.
    fn detach(&self, call: String) -> ControlAnswer {
        let call = CallId(call);
        match self.kernel.detach(&call, &UserId::Local) {
            Ok(()) => ControlAnswer {
                changes: vec![format!(
                    "the command of call {call} moves to the background"
                )],
                errors: Vec::new(),
            },
            Err(error) => ControlAnswer::failed(&error.to_string()),
        }
    }

    /// Reloads plugins after a change in a watched directory. Reports each failure once.
    pub async fn reload_changed_plugins(&self) {
        let (before, problems) = (self.loaded.loaded(), self.registry_problems());
        let mut changes = match self.loaded.reload_plugins(None).await {
            Ok(changes) => changes,
            Err(error) => return note(&format!("error: {error}")),
        };
        changes.failed.retain(|broken| {
            let mut known = before.broken.iter();
            !known.any(|known| known.path == broken.path && known.reason == broken.reason)
        });
        self.report_change(to_answer(Ok(changes)), &problems);
    }

    /// Gets the descriptions of all tools again after a change of the environment.
    pub async fn refresh_descriptions(&self, environment: Vec<(String, String)>) {
        let changes = self.loaded.refresh_descriptions(environment).await;
        report(&to_answer(Ok(changes)));
    }

    /// Reads the servers of the configuration again: stops those that were removed or changed, starts the others, and
    /// runs the discovery command again.
    async fn reload_servers(&self) -> ControlAnswer {
        // The discovery of the start must not overwrite the result of this one.
        self.wait_for_servers().await;
        let _reloading = self.reloading.lock().await;
        let settings = match CliSettings::load(&self.settings.args) {
            Ok(settings) => settings,
            Err(CliError { error, .. }) => return ControlAnswer::failed(&format!("{error:#}")),
        };
        let mut answer = ControlAnswer::default();
        let keep = ServerStorage::from_settings(&settings);
        let (current, ended) = self.take_servers(&settings);
        for server in ended {
            let name = server.name.clone();
            let gone = settings.servers.iter().all(|one| one.name != name);
            if let servers::ServerStatus::Started(running) = server.status {
                running.stop().await;
            }
            let removed = self.kernel.unregister(&plugin_name(&name));
            if gone || removed {
                let verb = if gone { "removed" } else { "stopped" };
                answer.changes.push(format!("{verb} server {name}"));
            }
        }
        let mut started = Vec::new();
        for server in &settings.servers {
            if current.contains(&server.name) {
                continue;
            }
            let programs = server_programs(std::slice::from_ref(server), None);
            let whose = format!("server `{}`", server.name);
            if let Err(reason) = self.refuse_writable_programs(&whose, &programs) {
                answer.errors.push(reason);
                continue;
            }
            let server = ConfiguredServer::start(server, &settings, &keep, &self.on_server_event());
            if let servers::ServerStatus::Started(running) = &server.status {
                started.push(Arc::clone(running.shared()));
            }
            self.lock_servers().configured.push(server);
        }
        servers::wait_until_started(&started).await;
        let changed = self.relist(&current).await;
        {
            let servers = self.lock_servers();
            self.resources.set(&servers);
            let new = servers.configured.iter();
            let is_changed = |name: &String| !current.contains(name) || changed.contains(name);
            for server in new.filter(|server| is_changed(&server.name)) {
                self.describe_server(server, &mut answer);
            }
        }
        self.rediscover(&settings, &keep, &mut answer).await;
        answer
    }

    /// Lists the tools of these servers again, because the user can have approved others. Returns the names of those whose
    /// tools have changed.
    async fn relist(&self, names: &[String]) -> Vec<String> {
        let mut listing = JoinSet::new();
        for shared in self.lock_servers().started() {
            if names.contains(&shared.config.name) {
                let shared = Arc::clone(shared);
                listing.spawn(async move {
                    let has_changed = shared.has_changed(servers::STARTUP_TIMEOUT).await;
                    has_changed.then(|| shared.config.name.clone())
                });
            }
        }
        listing.join_all().await.into_iter().flatten().collect()
    }

    /// Splits the servers into those that stay and those that have to end. Returns the names of the former.
    fn take_servers(&self, settings: &CliSettings) -> (Vec<String>, Vec<ConfiguredServer>) {
        let mut servers = self.lock_servers();
        let (stay, ended) = servers.configured.drain(..).partition(|server| {
            let mut wanted = settings.servers.iter();
            wanted.any(|wanted| wanted.name == server.name && server.is_current(wanted))
        });
        servers.configured = stay;
        let names = servers.configured.iter();
        (names.map(|server| server.name.clone()).collect(), ended)
    }

    fn lock_servers(&self) -> MutexGuard<'_, servers::Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn describe_server(&self, server: &ConfiguredServer, answer: &mut ControlAnswer) {
        let name = &server.name;
        match server.state() {
            ("disabled", _) => {}
            (state, Some(reason)) => {
                let reason = text::escape_lines(&reason, 1_000);
                answer
                    .errors
                    .push(format!("server `{name}`: {state}: {reason}"));
            }
            (state, None) => {
                let registry = self.kernel.registry();
                let plugin = plugin_name(name);
                let tools = registry.list().filter(|entry| entry.plugin.name == plugin);
                let tools = count_tools(tools.count());
                answer
                    .changes
                    .push(format!("server {name}: {state}, {tools}"));
            }
        }
    }

    /// Runs the discovery command again. Its tools are replaced in one step.
    async fn rediscover(
        &self,
        settings: &CliSettings,
        keep: &ServerStorage,
        answer: &mut ControlAnswer,
    ) {
        let plugin = plugin_name(DiscoverySettings::PLUGIN);
        let Some(discovery) = &settings.discovery else {
            if self.kernel.unregister(&plugin) {
                answer
                    .changes
                    .push("removed the discovered tools".to_owned());
            }
            return;
        };
        let programs = server_programs(&[], Some(discovery));
        if let Err(reason) = self.refuse_writable_programs("the discovery command", &programs) {
            self.kernel.unregister(&plugin);
            answer.errors.push(reason);
            return;
        }
        match servers::discover(discovery, settings.verbose, keep, &self.kernel).await {
            Ok(tools) => answer
                .changes
                .push(format!("the discovery command: {}", count_tools(tools))),
            Err(reason) => answer.errors.push(reason),
        }
    }

    /// Refuses programs that a tool could replace. At the start such files are made read-only for tools.
    fn refuse_writable_programs(&self, whose: &str, programs: &[PathBuf]) -> Result<(), String> {
        let writable = programs.iter().find(|path| self.loaded.is_writable(path));
        writable.map_or(Ok(()), |path| {
            Err(format!(
                "{whose}: {} is in a directory that tools can write to; restart the host, which protects the file",
                text::escape_line(&path.to_string_lossy(), 400)
            ))
        })
    }
}

fn to_answer(changes: Result<PluginChanges, PluginChangeError>) -> ControlAnswer {
    match changes {
        Ok(PluginChanges { changes, failed }) => ControlAnswer {
            changes: changes.iter().map(ToString::to_string).collect(),
            errors: failed
                .iter()
                .map(|broken| describe_broken(broken))
                .collect(),
        },
        Err(error) => ControlAnswer::failed(&error.to_string()),
    }
}

fn count_tools(number: usize) -> String {
    format!("{number} tool{}", if number == 1 { "" } else { "s" })
}

fn report(answer: &ControlAnswer) {
    for change in &answer.changes {
        note(change);
    }
    for error in &answer.errors {
        note(&format!("error: {error}"));
    }
}
