//! The request that a tool receives for a call.

use toolhost_contract::policy::Mode;
use toolhost_contract::{Access, Call};
use toolhost_vfs::Scope;

use crate::api::v0_1::types;

/// Converts a call into what its tool receives.
pub(crate) fn for_call(call: &Call, scope: &Scope, mode: Mode) -> types::Request {
    let caller = &call.caller;
    types::Request {
        call_id: call.id.0.clone(),
        tool: call.tool.as_str().to_owned(),
        input: serde_json::to_string(&call.input).expect("values serialize to JSON"),
        context: types::Context {
            agent_id: caller.agent.clone(),
            parent_agent_id: caller.parent_agent.clone(),
            session_id: caller.session.clone().into(),
            task_id: caller.task.clone(),
            user_id: caller.user.name().map(str::to_owned),
            mode: mode.to_string(),
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
