//! The interface `tools`.

use std::sync::Arc;

use toolhost_contract::{Services, VisibleTool, text};

use super::bindings::toolhost::plugin::tools;
use super::convert::{background, failure, outcome, refused, tool_error};
use super::{json, types};
use crate::state::State;

/// Its functions, to detect components built against a later version.
pub(super) const FUNCTIONS: &[&str] = &["tools", "call", "start", "running", "wait", "stop"];

impl tools::Host for State {
    fn tools(&mut self) -> Result<Vec<tools::Summary>, types::Failure> {
        let services = self.untracked_services(self.allowed.list_tools, "tools")?;
        let summary = |tool: VisibleTool| tools::Summary {
            name: tool.name,
            plugin: tool.plugin,
            description: tool.description,
            input_schema: tool.input_schema.to_string(),
            aliases: tool.aliases,
            tags: tool.tags,
            can_background: tool.can_background,
        };
        Ok(services.tools().into_iter().map(summary).collect())
    }

    async fn call(
        &mut self,
        tool: String,
        input: String,
    ) -> Result<types::Outcome, types::ToolError> {
        let services = self
            .tool_services(&tool)
            .map_err(types::ToolError::Denied)?;
        let input = json(&input).map_err(types::ToolError::InvalidInput)?;
        let _stopped = self.deadline.pause();
        match services.call_tool(tool, input).await {
            Ok(done) => outcome(done).map_err(types::ToolError::Failed),
            Err(error) => Err(tool_error(error)),
        }
    }

    fn start(
        &mut self,
        tool: String,
        input: String,
        timeout_ms: Option<u32>,
    ) -> Result<tools::Background, types::Failure> {
        let services = self.tool_services(&tool)?;
        let input = json(&input)?;
        let started = services.start_tool(tool, input, timeout_ms);
        started.map(background).map_err(failure)
    }

    fn running(&mut self) -> Result<Vec<tools::Background>, types::Failure> {
        let services = self.untracked_services(self.allowed.list_tools, "tools")?;
        Ok(services
            .running_tools()
            .into_iter()
            .map(background)
            .collect())
    }

    async fn wait(
        &mut self,
        id: String,
        wait_ms: u32,
    ) -> Result<Option<Result<types::Outcome, types::ToolError>>, types::Failure> {
        let services = self.untracked_services(self.allowed.list_tools, "tools")?;
        let end = services.wait_tool(id, wait_ms).await.map_err(failure)?;
        Ok(end.map(|end| match end {
            Ok(done) => outcome(done).map_err(types::ToolError::Failed),
            Err(error) => Err(tool_error(error)),
        }))
    }

    fn stop(&mut self, id: String) -> Result<tools::Background, types::Failure> {
        let services = self.untracked_services(self.allowed.stop_tools, "tools")?;
        services.stop_tool(&id).map(background).map_err(failure)
    }
}

impl State {
    fn tool_services(&self, tool: &str) -> Result<Arc<dyn Services>, types::Failure> {
        let services = self.untracked_services(!self.allowed.tools.is_empty(), "tools");
        let services = services.map_err(|mut failure| {
            let effect = "a tool that is declared read-only cannot call other tools";
            failure.recommendations.push(effect.to_owned());
            failure
        })?;
        if self.allowed.may_call(tool) {
            return Ok(services);
        }
        let shown = text::escape_line(tool, 80);
        Err(refused(format!(
            "the plugin's manifest does not list `{shown}` as a tool that it calls"
        )))
    }
}
