//! Conversion of a finished call into a `tools/call` result.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ErrorData, MetaObject};
use serde_json::Value;
use toolhost_contract::{CallError, ErrorClass, ToolName, UserId};
use toolhost_formats::profile::ProfiledRegistry;
use toolhost_kernel::{Report, ToolEntry};

use crate::content::{self, StructuredContentPolicy};
use crate::prompts::CallEnd;
use crate::server_state::ServerState;

const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// Request data that is needed to build the result when the call ends.
pub(crate) struct ResultBuilder {
    pub(crate) shared: Arc<ServerState>,
    /// The user who may read results that are stored because they are too long for a message.
    pub(crate) owner: UserId,
    /// Canonical tool name and input, if the client uses the names of a profile.
    pub(crate) canonical_call: Option<(String, Value)>,
    /// The request uses the stateless protocol.
    pub(crate) modern: bool,
}

impl ResultBuilder {
    pub(crate) fn build(&self, ended: CallEnd) -> Result<CallToolResult, ErrorData> {
        let registry = self.shared.kernel.registry();
        let tool = match &ended {
            Ok(report) => report.tool.clone(),
            Err(()) => None,
        };
        let mut result = match ended {
            Ok(report) => match &self.canonical_call {
                None => self.native_result(report)?,
                Some((tool, input)) => self.profile_result(tool, input, report),
            },
            Err(()) => content::error_result(&CallError::internal("the call panicked")),
        };
        let entry = tool.and_then(|name| registry.get(name.as_str()));
        let schema = entry.and_then(|entry| entry.tool.output_schema.as_ref());
        self.shared
            .results
            .truncate(&mut result, &self.owner, schema);
        self.add_server_info(&mut result.meta);
        Ok(result)
    }

    /// Adds the server info that the stateless protocol requires. Older protocols do not define it.
    pub(crate) fn add_server_info(&self, meta: &mut Option<MetaObject>) {
        if self.modern {
            add_server_info(&self.shared, meta);
        }
    }

    /// Renders the result in the format of the profile.
    fn profile_result(&self, tool: &str, input: &Value, report: Report) -> CallToolResult {
        let registry = self.shared.kernel.registry();
        let profiled = ProfiledRegistry::new(
            self.shared.profile,
            self.shared.others,
            registry.descriptors(),
        );
        let canonical = report.tool.as_ref().map_or(tool, ToolName::as_str);
        let shown = profiled.render(canonical, input, &report.result);
        let hints = registry.get(canonical).map(ToolEntry::hints);
        let value = match hints {
            Some(hints) if self.shared.schemas.includes(hints) => StructuredContentPolicy::Always,
            _ => StructuredContentPolicy::IfEqualToText,
        };
        let envelope = profiled.envelope_without_value(canonical, input, &shown, report.times());
        let failure = profiled.tool_failure(canonical, input, &shown, &report.result);
        let result = content::profile_result(shown, value);
        let result = content::with_envelope(result, envelope, failure.as_ref());
        content::with_undo_ids(result, &report.commits)
    }

    fn native_result(&self, report: Report) -> Result<CallToolResult, ErrorData> {
        match (report.result, report.tool) {
            (Ok(outcome), tool) => {
                let registry = self.shared.kernel.registry();
                let entry = tool.as_ref().and_then(|name| registry.get(name.as_str()));
                let schemas = self.shared.schemas;
                let value = if entry.is_some_and(|one| schemas.lists_schema(&one.tool, one.hints()))
                {
                    StructuredContentPolicy::Always
                } else {
                    StructuredContentPolicy::IfEqualToText
                };
                let result = content::tool_result(outcome, value);
                Ok(content::with_undo_ids(result, &report.commits))
            }
            // The protocol requires a JSON-RPC error for an unknown tool.
            (Err(error), None) if error.class == ErrorClass::NotRegistered => Err(
                ErrorData::invalid_params(error.for_model(), Some(content::error_details(&error))),
            ),
            // The call may have committed changes before it failed.
            (Err(error), _) => Ok(content::with_undo_ids(
                content::error_result(&error),
                &report.commits,
            )),
        }
    }
}

pub(crate) fn add_server_info(shared: &ServerState, meta: &mut Option<MetaObject>) {
    let meta = meta.get_or_insert_default();
    meta.0
        .insert(SERVER_INFO_KEY.to_owned(), shared.server_info.clone());
}
