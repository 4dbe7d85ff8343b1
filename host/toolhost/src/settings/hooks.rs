//! Settings of hooks.

use std::time::Duration;

use toolhost_contract::PluginName;
use toolhost_kernel::hooks::{CommandHook, HookEvent, Matcher, OnFailure};

#[derive(Debug, Clone)]
pub struct HookSettings {
    pub name: String,
    pub matcher: Matcher,
    pub on: Vec<HookEvent>,
    pub on_failure: OnFailure,
    pub timeout: Duration,
    pub kind: HookKind,
}

#[derive(Debug, Clone)]
pub enum HookKind {
    Command(CommandHook),
    Plugin(PluginName),
    ReadCache { ttl: Duration },
}

impl HookSettings {
    /// Whether the hook can decide about a call.
    pub fn is_deciding(&self) -> bool {
        self.on.contains(&HookEvent::BeforeTool) && !matches!(self.kind, HookKind::ReadCache { .. })
    }

    /// Whether the hook is notified of the messages of sessions.
    pub fn wants_messages(&self) -> bool {
        self.on.contains(&HookEvent::MessagesChanged)
    }

    /// A description for display.
    pub fn describe(&self) -> String {
        let target = match &self.kind {
            HookKind::Command(command) => format!("command {}", command.program.display()),
            HookKind::Plugin(plugin) => format!("plugin {plugin}"),
            HookKind::ReadCache { .. } => "read-cache".to_owned(),
        };
        format!("{} ({target})", self.name)
    }
}
