//! Service interfaces that a call can use: checks the call's capability and delegates to its `Services`.

mod convert;
mod process;

use std::sync::Arc;

use serde_json::Value;
use toolhost_contract::exact_integers::check_integers;
use toolhost_contract::{Failure, FileObservation, Services, UserQuestion, text};
use wasmtime::component::HasSelf;

use self::convert::{background, failure, invalid_json, outcome, parts, refused, tool_error};
use super::types;
use crate::state::State;

mod bindings {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1",
        world: "services",
        imports: {
            "toolhost:plugin/user": async,
            "toolhost:plugin/agents.run": async,
            "toolhost:plugin/tools.call": async,
            "toolhost:plugin/tools.wait": async,
            "toolhost:plugin/resources": async,
            "toolhost:plugin/process": async,
        },
        with: {
            "toolhost:plugin/types@0.1.0": crate::api::v0_1::toolhost::plugin::types,
        },
    });
}

use bindings::toolhost::plugin::process as programs;
use bindings::toolhost::plugin::{agents, resources, session, tools, user};

/// Maximum size of one JSON argument, in bytes.
const MAX_JSON: usize = 1 << 20;
const MAX_REASON: usize = 16 << 10;

/// Functions of the service interfaces, to detect components built against a later version.
pub const FUNCTIONS: [(&str, &[&str]); 6] = [
    (
        "session",
        &["get", "set", "record-observation", "last-observation"],
    ),
    (
        "process",
        &["run", "start", "jobs", "read", "write", "kill"],
    ),
    ("user", &["ask", "change-mode", "request-permissions"]),
    ("agents", &["agents", "run"]),
    (
        "tools",
        &["tools", "call", "start", "running", "wait", "stop"],
    ),
    ("resources", &["resources", "read"]),
];

pub fn add_to_linker(linker: &mut wasmtime::component::Linker<State>) -> wasmtime::Result<()> {
    programs::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    session::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    user::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    agents::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    tools::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    resources::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    Ok(())
}

impl State {
    /// Like [`Self::services`], for results that depend on state outside the read set.
    fn untracked_services(
        &self,
        allowed: bool,
        capability: &str,
    ) -> Result<Arc<dyn Services>, types::Failure> {
        self.sink.mark_untracked_dependency();
        self.services(allowed, capability)
    }

    /// The services of the call, if it has the capability.
    fn services(
        &self,
        allowed: bool,
        capability: &str,
    ) -> Result<Arc<dyn Services>, types::Failure> {
        let services = allowed.then(|| self.sink.services()).flatten();
        services.ok_or_else(|| {
            failure(Failure {
                recommendations: vec![format!(
                    "the plugin's manifest must request `{capability}`, the tool must include it in `requires` if that is set, \
                     and the host must offer it"
                )],
                ..Failure::new(
                    "service_not_granted",
                    format!("this call was not granted `{capability}`"),
                )
            })
        })
    }
}

impl session::Host for State {
    fn get(&mut self, key: String) -> Result<Option<String>, types::Failure> {
        let services = self.untracked_services(self.allowed.session, "session")?;
        let value = services.session_get(&key).map_err(failure)?;
        Ok(value.map(|value| value.to_string()))
    }

    fn set(&mut self, key: String, value: Option<String>) -> Result<(), types::Failure> {
        let services = self.untracked_services(self.allowed.session, "session")?;
        let value = value.as_deref().map(json).transpose()?;
        services.session_set(&key, value).map_err(failure)
    }

    fn record_observation(
        &mut self,
        observation: session::FileObservation,
    ) -> Result<(), types::Failure> {
        let services = self.services(self.allowed.session, "session")?;
        let observation = FileObservation {
            path: observation.path,
            sha256: observation.sha256,
            lines: observation.lines,
        };
        services.record_observation(observation).map_err(failure)
    }

    fn last_observation(
        &mut self,
        path: String,
    ) -> Result<Option<session::FileObservation>, types::Failure> {
        let services = self.untracked_services(self.allowed.session, "session")?;
        Ok(services
            .last_observation(&path)
            .map(|observation| session::FileObservation {
                path: observation.path,
                sha256: observation.sha256,
                lines: observation.lines,
            }))
    }
}

impl user::Host for State {
    async fn ask(&mut self, questions: String) -> Result<String, types::Failure> {
        let services = self.untracked_services(self.allowed.user, "user")?;
        let queries = UserQuestion::parse(&questions).map_err(failure)?;
        let _stopped = self.deadline.pause();
        let replies = services.ask_user(queries).await.map_err(failure)?;
        serde_json::to_string(&replies).map_err(|error| invalid_json(&error))
    }

    async fn change_mode(&mut self, to: String, reason: String) -> Result<String, types::Failure> {
        let services = self.untracked_services(self.allowed.user, "user")?;
        let reason = text::head(&reason, MAX_REASON).to_owned();
        let _stopped = self.deadline.pause();
        services.change_mode(to, reason).await.map_err(failure)
    }

    async fn request_permissions(&mut self, wish: String) -> Result<String, types::Failure> {
        let services = self.untracked_services(self.allowed.user, "user")?;
        let wish = json(&wish)?;
        let _stopped = self.deadline.pause();
        let given = services.request_permissions(wish).await.map_err(failure)?;
        Ok(given.to_string())
    }
}

impl agents::Host for State {
    fn agents(&mut self) -> Result<Vec<agents::Agent>, types::Failure> {
        let services = self.untracked_services(self.allowed.agents, "agents")?;
        let agent = |agent: toolhost_contract::AgentInfo| agents::Agent {
            name: agent.name,
            description: agent.description,
        };
        Ok(services.agents().into_iter().map(agent).collect())
    }

    async fn run(&mut self, task: String) -> Result<String, types::Failure> {
        let services = self.untracked_services(self.allowed.agents, "agents")?;
        let task = json(&task)?;
        let _stopped = self.deadline.pause();
        let result = services.run_agent(task).await.map_err(failure)?;
        Ok(result.to_string())
    }
}

impl tools::Host for State {
    fn tools(&mut self) -> Result<Vec<tools::Summary>, types::Failure> {
        let services = self.untracked_services(self.allowed.list_tools, "tools")?;
        let summary = |tool: toolhost_contract::VisibleTool| tools::Summary {
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
        let allowed = !self.allowed.tools.is_empty();
        let services = self.untracked_services(allowed, "tools")?;
        services.stop_tool(&id).map(background).map_err(failure)
    }
}

impl State {
    fn tool_services(&self, tool: &str) -> Result<Arc<dyn Services>, types::Failure> {
        let services = self.untracked_services(!self.allowed.tools.is_empty(), "tools")?;
        if self.allowed.may_call(tool) {
            return Ok(services);
        }
        let shown = text::escape_line(tool, 80);
        Err(refused(format!(
            "the plugin's manifest does not list `{shown}` as a tool that it calls"
        )))
    }
}

impl resources::Host for State {
    async fn resources(&mut self, server: Option<String>) -> Result<String, types::Failure> {
        let services = self.untracked_services(self.allowed.resources, "resources")?;
        let list = services.resources(server).await.map_err(failure)?;
        Ok(list.to_string())
    }

    async fn read(
        &mut self,
        uri: String,
        server: Option<String>,
    ) -> Result<Vec<types::Part>, types::Failure> {
        let services = self.untracked_services(self.allowed.resources, "resources")?;
        let found = services.read_resource(uri, server).await.map_err(failure)?;
        parts(found)
    }
}

fn json(text: &str) -> Result<Value, types::Failure> {
    if text.len() > MAX_JSON {
        let size = text.len();
        return Err(failure(Failure::new(
            "invalid_json",
            format!("JSON of {size} bytes; the limit is {MAX_JSON}"),
        )));
    }
    check_integers(text.as_bytes())
        .map_err(|error| failure(Failure::new("invalid_json", error.to_string())))?;
    serde_json::from_str(text).map_err(|error| invalid_json(&error))
}
