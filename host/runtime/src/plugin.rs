//! A loaded component with what the operator grants it: a backend of the kernel.

use std::sync::Arc;

use toolhost_contract::{
    Access, Backend, BoxFuture, Call, CallError, Descriptor, FileAccess, Grant, Limits, Outcome,
    PluginName, Sink,
};
use toolhost_vfs::Scope;

use crate::api::v0_1::{self, types};
use crate::files::Files;
use crate::instance::{self, Setting};
use crate::load::Loaded;

/// What the operator gives a plugin. Each call gets of it what its own grant says, never more.
pub struct PluginGrants {
    pub scope: Scope,
    pub env: Vec<(String, String)>,
    pub limits: Limits,
}

pub struct Plugin {
    loaded: Loaded,
    limits: Limits,
    nothing: Files,
    read_only: Files,
    granted: Files,
    env: Vec<(String, String)>,
}

impl Plugin {
    pub fn new(loaded: Loaded, grants: PluginGrants) -> std::io::Result<Self> {
        Ok(Self {
            loaded,
            limits: grants.limits,
            nothing: Files::new(Scope::empty())?,
            read_only: Files::new(grants.scope.read_only())?,
            granted: Files::new(grants.scope)?,
            env: grants.env,
        })
    }

    pub fn name(&self) -> &PluginName {
        &self.loaded.manifest().name
    }

    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    async fn run(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> Result<Outcome, CallError> {
        let files = match grant.files() {
            FileAccess::Nothing => &self.nothing,
            FileAccess::ReadOnly => &self.read_only,
            FileAccess::AsGranted => &self.granted,
        };
        let request = request(call, files.scope());
        let setting = Setting {
            limits: &self.limits,
            files: files.clone(),
            env: if grant.environment() { &self.env } else { &[] },
            timeout: grant.timeout(),
            sink,
        };
        let output = self.limits.output;
        instance::run(self.loaded.pre(), setting, async |plugin, store| {
            plugin
                .toolhost_plugin_tool()
                .call_call(store, &request)
                .await
        })
        .await?
        .map_err(v0_1::error)
        .and_then(|outcome| v0_1::outcome(outcome, output))
    }
}

impl Backend for Plugin {
    fn tools(&self) -> &[Descriptor] {
        self.loaded.tools()
    }

    fn invoke(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(self.run(call, grant, sink))
    }
}

fn request(call: Call, scope: &Scope) -> types::Request {
    let caller = call.caller;
    types::Request {
        call_id: call.id.0,
        tool: call.tool.as_str().to_owned(),
        input: call.input.to_string(),
        context: types::Context {
            agent_id: caller.agent_id,
            parent_agent_id: caller.parent_agent_id,
            session_id: caller.session_id,
            task_id: caller.task_id,
            user_id: caller.user_id,
            mode: "default".to_owned(),
            roots: scope
                .roots()
                .iter()
                .map(|root| types::Root {
                    path: root.guest().to_owned(),
                    access: match root.access() {
                        toolhost_vfs::Access::ReadOnly => Access::ReadOnly.as_str().to_owned(),
                        toolhost_vfs::Access::ReadWrite => Access::ReadWrite.as_str().to_owned(),
                    },
                })
                .collect(),
            extra: None,
        },
    }
}
