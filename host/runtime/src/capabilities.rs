//! Capabilities granted to a plugin, other than files and variables, and the part that one call gets.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use toolhost_contract::policy::{ReadGuard, is_address};
use toolhost_contract::{Capability, Descriptor, Effect};

use toolhost_net::NetClient;
use toolhost_process::JobOwner;

use crate::http::{NetAccess, has_addresses};
use crate::path_view::PathView;
use crate::programs::{AuthorizedAction, CallPrograms, ProgramGrant};

/// Granted by the operator and requested by the manifest.
#[derive(Debug, Clone, Default)]
pub struct Capabilities {
    pub session: bool,
    pub user: bool,
    pub agents: bool,
    pub resources: bool,
    /// Names of tools that it may call; `*` for all tools.
    pub tools: Arc<[String]>,
    /// Hosts to which requests may go.
    pub net: Option<NetGrant>,
    pub programs: Option<ProgramGrant>,
}

/// Network access allowed by the operator, and the hosts that the plugin's manifest requests (`None` for all).
#[derive(Clone)]
pub struct NetGrant {
    pub net: NetClient,
    pub requested: Option<NetClient>,
}

impl fmt::Debug for NetGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetGrant").finish_non_exhaustive()
    }
}

/// Capabilities of one call.
#[derive(Clone, Default)]
pub struct CallCapabilities {
    pub session: bool,
    pub user: bool,
    pub resources: bool,
    pub list_tools: bool,
    pub agents: bool,
    /// Names of tools that it may call.
    pub tools: Arc<[String]>,
    /// Whether it may stop background calls of its session.
    pub stop_tools: bool,
    pub net: Option<NetAccess>,
    pub programs: Option<CallPrograms>,
    /// Directories that programs may access.
    pub directories: Arc<[PathView]>,
    /// Read rules, which also apply to programs.
    pub read_guard: Option<Arc<ReadGuard>>,
}

impl Capabilities {
    /// Capabilities of a call of `tool`.
    ///
    /// A tool that declares `requires` gets nothing else. Sub-agents and other tools have effects, so only a tool
    /// that is not read-only and requires them explicitly gets them.
    pub fn of(
        &self,
        tool: &Descriptor,
        input: &Value,
        user: Option<&str>,
        owner: &JobOwner,
        authorized: AuthorizedAction,
    ) -> CallCapabilities {
        let effect = tool.effect();
        if effect == Effect::Pure {
            return CallCapabilities::default();
        }
        let acts = effect > Effect::Reads;
        let named = |need: Capability| tool.requires_capability(need.as_str());
        let calls_tools = acts && named(Capability::Tools);
        let destinations = tool.destinations(input).unwrap_or_default();
        let destinations = destinations.into_iter().filter(|text| is_address(text));
        let destinations: Vec<String> = destinations.collect();
        CallCapabilities {
            session: self.session && may_use(tool, Capability::Session),
            user: self.user && may_use(tool, Capability::User),
            resources: self.resources && may_use(tool, Capability::Resources),
            list_tools: !self.tools.is_empty() && named(Capability::Tools),
            agents: self.agents
                && acts
                && named(Capability::Agents)
                && !starts_in_background(tool, input),
            tools: if calls_tools {
                Arc::clone(&self.tools)
            } else {
                Arc::default()
            },
            stop_tools: calls_tools && !self.tools.is_empty(),
            directories: Arc::default(),
            read_guard: None,
            programs: self
                .programs
                .clone()
                .filter(|_| may_use(tool, Capability::Process))
                .map(|grant| CallPrograms::new(grant, owner.clone(), acts, authorized)),
            net: self
                .net
                .as_ref()
                .filter(|_| {
                    // A read-only tool without `open_world` is treated as offline, unless its input contains an
                    // address.
                    let says = match tool.annotations.open_world {
                        Some(says) => says,
                        None => acts || has_addresses(input),
                    };
                    may_use(tool, Capability::Net) && says
                })
                .map(|grant| {
                    let own = |net: &NetClient| net.for_user(user);
                    NetAccess::new(
                        own(&grant.net),
                        grant.requested.as_ref().map(own),
                        !acts,
                        input,
                        &destinations,
                    )
                }),
        }
    }
}

impl Capabilities {
    /// Whether a call of this tool can send data off the host, or start a process.
    pub fn can_send_out(&self, tool: &Descriptor) -> bool {
        // Read-only tools only send requests, which are checked by their address.
        if tool.effect() <= Effect::Reads {
            return false;
        }
        let agents = self.agents && tool.requires_capability("agents");
        let programs = self.programs.is_some() && may_use(tool, Capability::Process);
        let net = self.net.is_some()
            && may_use(tool, Capability::Net)
            && tool.annotations.open_world != Some(false);
        agents || programs || net
    }
}

impl Capabilities {
    /// Whether a call of this tool, or a process that it starts, can receive data from another machine.
    pub fn can_receive_external(&self, tool: &Descriptor) -> bool {
        if tool.effect() == Effect::Pure {
            return false;
        }
        let acts = tool.effect() > Effect::Reads;
        let named = |need: Capability| tool.requires_capability(need.as_str());
        let net = self.net.is_some()
            && may_use(tool, Capability::Net)
            && tool.annotations.open_world != Some(false);
        let networked = |grant: &ProgramGrant| grant.network;
        let programs =
            self.programs.as_ref().is_some_and(networked) && may_use(tool, Capability::Process);
        let others = self.agents && named(Capability::Agents)
            || !self.tools.is_empty() && named(Capability::Tools);
        net || acts && (programs || others)
    }
}

impl CallCapabilities {
    /// Whether the call's input determines which program runs.
    pub fn is_bound(&self) -> bool {
        self.programs
            .as_ref()
            .is_some_and(|programs| programs.may_change && programs.is_bound())
    }

    /// Only the authorized command, or the end of the authorized task.
    pub fn only_programs(self, folders: Arc<[PathView]>) -> Self {
        Self {
            agents: false,
            net: None,
            tools: Arc::default(),
            directories: folders,
            ..self
        }
    }

    /// Without effects that cannot be staged.
    pub fn without_external_effects(self) -> Self {
        Self {
            agents: false,
            net: None,
            programs: None,
            tools: Arc::default(),
            stop_tools: false,
            ..self
        }
    }

    pub fn may_call(&self, tool: &str) -> bool {
        self.tools.iter().any(|name| name == "*" || name == tool)
    }
}

/// Whether the tool requires the capability. A tool that declares no requirements may use all capabilities of its
/// plugin.
pub fn may_use(tool: &Descriptor, need: Capability) -> bool {
    tool.requires.is_empty() || tool.requires_capability(need.as_str())
}

/// Whether the tool uses the plugin's directories. A tool that requires only other capabilities sees none.
pub fn uses_files(tool: &Descriptor) -> bool {
    [
        Capability::FsRead,
        Capability::FsWrite,
        Capability::Memory,
        Capability::Skills,
        // A program runs in the directories of its call.
        Capability::Process,
    ]
    .into_iter()
    .any(|need| may_use(tool, need))
}

/// Whether a call with this input can only call other tools and use session state.
pub fn delegates(tool: &Descriptor, input: &Value) -> bool {
    let harmless = [Capability::Tools.as_str(), Capability::Session.as_str()];
    starts_in_background(tool, input)
        || tool.requires_capability(harmless[0])
            && tool
                .requires
                .iter()
                .all(|name| harmless.contains(&name.as_str()))
}

/// Whether the call starts its task in the background: a tool for sub-agents then only calls itself, without
/// sub-agents, and the call that it starts is authorized separately.
fn starts_in_background(tool: &Descriptor, input: &Value) -> bool {
    let used = [Capability::Agents.as_str(), Capability::Tools.as_str()];
    tool.can_background
        && input["run_in_background"] == Value::Bool(true)
        && used.iter().all(|name| tool.requires_capability(name))
        && tool.requires.len() == used.len()
}

#[cfg(test)]
mod tests {
    use toolhost_contract::ToolName;

    use super::*;

    fn check(read_only: bool, requires: &[&str], expected: &str) {
        let mut tool = Descriptor::new(ToolName::parse("x").unwrap(), "x");
        tool.annotations.read_only = Some(read_only);
        tool.requires = requires.iter().map(ToString::to_string).collect();
        let all = Capabilities {
            session: true,
            user: true,
            agents: true,
            resources: true,
            tools: Arc::new(["read_file".to_owned()]),
            net: None,
            programs: None,
        };
        let allowed = all.of(
            &tool,
            &Value::Null,
            None,
            &JobOwner::default(),
            AuthorizedAction::Anything,
        );
        let names = [
            (allowed.session, "session"),
            (allowed.user, "user"),
            (allowed.resources, "resources"),
            (allowed.list_tools, "list"),
            (allowed.agents, "agents"),
            (allowed.may_call("read_file"), "call"),
            (allowed.may_call("write_file"), "call others"),
            (uses_files(&tool), "files"),
            (delegates(&tool, &Value::Null), "delegates"),
        ];
        let names: Vec<_> = names
            .iter()
            .filter(|(holds, _)| *holds)
            .map(|(_, name)| *name)
            .collect();
        assert_eq!(names.join(" "), expected, "{read_only} {requires:?}");
    }

    #[test]
    fn a_call_gets_what_its_tool_requires() {
        check(true, &[], "session user resources files");
        check(false, &[], "session user resources files");
        check(true, &["session"], "session");
        check(true, &["tools"], "list delegates");
        check(false, &["tools"], "list call delegates");
        check(false, &["tools", "session"], "session list call delegates");
        check(false, &["tools", "fs.read"], "list call files");
        check(true, &["memory", "session"], "session files");
        check(true, &["agents"], "");
        check(false, &["agents"], "agents");
        check(false, &["agents", "tools"], "list agents call");
    }

    #[test]
    fn a_task_in_the_background_gets_no_sub_agents() {
        let all = Capabilities {
            agents: true,
            tools: Arc::new(["*".to_owned()]),
            ..Capabilities::default()
        };
        let check = |requires: &[&str], can_background, input: &Value, expected: [bool; 2]| {
            let mut tool = Descriptor::new(ToolName::parse("task").unwrap(), "x");
            tool.can_background = can_background;
            tool.requires = requires.iter().map(ToString::to_string).collect();
            let owner = JobOwner::default();
            let allowed = all.of(&tool, input, None, &owner, AuthorizedAction::Anything);
            let found = [allowed.agents, delegates(&tool, input)];
            assert_eq!(found, expected, "{requires:?} {can_background} {input}");
        };
        let both = ["agents", "tools"];
        let background = serde_json::json!({"run_in_background": true});
        check(&both, true, &background, [false, true]);
        check(&both, false, &background, [true, false]);
        let foreground = serde_json::json!({"run_in_background": false});
        check(&both, true, &foreground, [true, false]);
        check(
            &both,
            true,
            &serde_json::json!({"run_in_background": "true"}),
            [true, false],
        );
        check(&["agents"], true, &background, [true, false]);
        check(
            &["agents", "tools", "session"],
            true,
            &background,
            [true, false],
        );
    }
}
