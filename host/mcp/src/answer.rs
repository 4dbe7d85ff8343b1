//! Conversion of a finished call into a `tools/call` result.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ErrorData, MetaObject};
use serde_json::Value;
use toolhost_contract::{CallError, ErrorClass, ToolName, UserId};
use toolhost_kernel::{Entry, Report};

use crate::ask::Ended;
use crate::content::{self, SendValue};
use crate::shared::Shared;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Request data that is needed to build the result when the call ends.
pub(crate) struct Answering {
    pub(crate) shared: Arc<Shared>,
    /// The user who may read results that are stored because they are too long for a message.
    pub(crate) owner: UserId,
    /// Canonical tool name and input, if the client uses the names of a profile.
    pub(crate) asked: Option<(String, Value)>,
    /// The request uses the stateless protocol.
    pub(crate) modern: bool,
}

impl Answering {
    pub(crate) fn answer(&self, ended: Ended) -> Result<CallToolResult, ErrorData> {
        let registry = self.shared.kernel.registry();
        let tool = match &ended {
            Ok(report) => report.tool.clone(),
            Err(()) => None,
        };
        let mut result = match ended {
            Ok(report) => match &self.asked {
                None => self.native(report)?,
                Some((tool, input)) => self.in_profile(tool, input, report),
            },
            Err(()) => content::failed(&CallError::internal("the call panicked")),
        };
        let entry = tool.and_then(|name| registry.get(name.as_str()));
        let schema = entry.and_then(|entry| entry.tool.output_schema.as_ref());
        self.shared.kept.shorten(&mut result, &self.owner, schema);
        self.sign(&mut result.meta);
        Ok(result)
    }

    /// Adds the server info that the stateless protocol requires. Older protocols do not define it.
    pub(crate) fn sign(&self, meta: &mut Option<MetaObject>) {
        if self.modern {
            sign(&self.shared, meta);
        }
    }

    /// Renders the result in the format of the profile.
    fn in_profile(&self, tool: &str, input: &Value, report: Report) -> CallToolResult {
        let registry = self.shared.kernel.registry();
        let lens = registry.lens(self.shared.profile, self.shared.others);
        let canonical = report.tool.as_ref().map_or(tool, ToolName::as_str);
        let shown = lens.render(canonical, input, &report.result);
        let hints = registry.get(canonical).map(Entry::hints);
        let value = match hints {
            Some(hints) if self.shared.schemas.include(hints) => SendValue::Always,
            _ => SendValue::IfSame,
        };
        content::undoable(content::rendered(shown, value), &report.commits)
    }

    fn native(&self, report: Report) -> Result<CallToolResult, ErrorData> {
        match (report.result, report.tool) {
            (Ok(outcome), tool) => {
                let registry = self.shared.kernel.registry();
                let entry = tool.as_ref().and_then(|name| registry.get(name.as_str()));
                let schemas = self.shared.schemas;
                let value = if entry.is_some_and(|one| schemas.lists(&one.tool, one.hints())) {
                    SendValue::Always
                } else {
                    SendValue::IfSame
                };
                let result = content::result(outcome, value);
                Ok(content::undoable(result, &report.commits))
            }
            // The protocol requires a JSON-RPC error for an unknown tool.
            (Err(error), None) if error.class == ErrorClass::NotRegistered => Err(
                ErrorData::invalid_params(error.for_model(), Some(content::error_details(&error))),
            ),
            // The call may have committed changes before it failed.
            (Err(error), _) => Ok(content::undoable(content::failed(&error), &report.commits)),
        }
    }
}

pub(crate) fn sign(shared: &Shared, meta: &mut Option<MetaObject>) {
    let meta = meta.get_or_insert_default();
    meta.0.insert(SERVER_INFO.to_owned(), shared.name.clone());
}
