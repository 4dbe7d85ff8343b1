//! The services in native tests: session state lasts as long as its context, all other services return configured
//! answers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Backend;
use crate::services::http::{Request, Response};
use crate::services::process::{Chunk, Command, Job, RunOutput};
use crate::services::{Agent, BackgroundCall, FileObservation, ToolSummary};
use crate::{Context, Error, Outcome, Part, Result};

type Answer = Box<dyn FnMut(Value) -> Result<Value>>;
type Server = Box<dyn FnMut(&Request) -> Result<Response>>;

#[derive(Default)]
pub(crate) struct Services {
    shelf: RefCell<BTreeMap<String, Value>>,
    observations: RefCell<BTreeMap<String, FileObservation>>,
    answers: RefCell<BTreeMap<String, Answer>>,
    server: RefCell<Option<Server>>,
}

impl fmt::Debug for Services {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Services")
            .field("shelf", &self.shelf)
            .finish_non_exhaustive()
    }
}

/// For tests.
impl Context {
    /// Configures a service: `process.run`, `process.start`, `process.jobs`, `process.read`, `process.write`,
    /// `process.kill`, `user.ask`, `user.change-mode`, `user.request-permissions`, `agents.agents`, `agents.run`,
    /// `tools.tools`, `tools.call`, `tools.start`, `tools.running`, `tools.wait`, `tools.stop`, `resources.resources`,
    /// `resources.read`. The closure receives the arguments as an object and returns the result as JSON; an outcome is
    /// `{"text", "structured", "error"}`.
    #[must_use]
    pub fn with_service(
        self,
        name: &str,
        answer: impl FnMut(Value) -> Result<Value> + 'static,
    ) -> Self {
        let services = &self.backend.services;
        services
            .answers
            .borrow_mut()
            .insert(name.to_owned(), Box::new(answer));
        self
    }

    /// Configures the network.
    #[must_use]
    pub fn with_http(self, server: impl FnMut(&Request) -> Result<Response> + 'static) -> Self {
        *self.backend.services.server.borrow_mut() = Some(Box::new(server));
        self
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the host has the same methods, and may refuse"
)]
impl Backend {
    fn answer<T: DeserializeOwned>(&self, service: &str, input: Value) -> Result<T> {
        let mut answers = self.services.answers.borrow_mut();
        let answer = answers.get_mut(service).ok_or_else(|| {
            let message = format!("no `{service}` configured; set it up with `with_service`");
            Error::denied(message).code("service_not_granted")
        })?;
        let value = answer(input)?;
        serde_json::from_value(value).map_err(|error| {
            Error::failed(format!("the test's answer for `{service}` does not fit")).cause(error)
        })
    }

    pub(crate) fn get(&self, key: &str) -> Result<Option<Value>> {
        Ok(self.services.shelf.borrow().get(key).cloned())
    }

    pub(crate) fn set(&self, key: &str, value: Option<Value>) -> Result<()> {
        let mut shelf = self.services.shelf.borrow_mut();
        match value {
            Some(value) => shelf.insert(key.to_owned(), value),
            None => shelf.remove(key),
        };
        Ok(())
    }

    pub(crate) fn record_observation(&self, observation: &FileObservation) -> Result<()> {
        let mut observations = self.services.observations.borrow_mut();
        observations.insert(observation.path.clone(), observation.clone());
        Ok(())
    }

    pub(crate) fn last_observation(&self, path: &str) -> Result<Option<FileObservation>> {
        Ok(self.services.observations.borrow().get(path).cloned())
    }

    pub(crate) fn run_program(&self, command: &Command) -> Result<RunOutput> {
        self.answer("process.run", json!(command))
    }

    pub(crate) fn start_program(&self, command: &Command) -> Result<Job> {
        self.answer("process.start", json!(command))
    }

    pub(crate) fn jobs(&self) -> Result<Vec<Job>> {
        self.answer("process.jobs", json!({}))
    }

    pub(crate) fn read_job(&self, id: &str, after: u64, max: u32, wait_ms: u32) -> Result<Chunk> {
        let input = json!({"id": id, "after": after, "max": max, "wait_ms": wait_ms});
        self.answer("process.read", input)
    }

    pub(crate) fn write_job(&self, id: &str, bytes: &[u8]) -> Result<()> {
        self.answer("process.write", json!({"id": id, "bytes": bytes}))
    }

    pub(crate) fn kill_job(&self, id: &str, signal: &str) -> Result<Job> {
        self.answer("process.kill", json!({"id": id, "signal": signal}))
    }

    pub(crate) fn fetch(&self, request: &Request) -> Result<Response> {
        let mut server = self.services.server.borrow_mut();
        let server = server.as_mut().ok_or_else(|| {
            Error::denied("no network configured; set it up with `with_http`")
                .code("host_not_allowed")
        })?;
        let mut response = server(request)?;
        if response.body.len() > request.max_bytes {
            response.body.truncate(request.max_bytes);
            response.truncated = true;
        }
        Ok(response)
    }

    pub(crate) fn ask(&self, questions: &Value) -> Result<Value> {
        self.answer("user.ask", questions.clone())
    }

    pub(crate) fn change_mode(&self, to: &str, reason: &str) -> Result<String> {
        self.answer("user.change-mode", json!({"to": to, "reason": reason}))
    }

    pub(crate) fn request_permissions(&self, request: &Value) -> Result<Value> {
        self.answer("user.request-permissions", request.clone())
    }

    pub(crate) fn agents(&self) -> Result<Vec<Agent>> {
        self.answer("agents.agents", json!({}))
    }

    pub(crate) fn run_agent(&self, task: &Value) -> Result<Value> {
        self.answer("agents.run", task.clone())
    }

    pub(crate) fn tools(&self) -> Result<Vec<ToolSummary>> {
        self.answer("tools.tools", json!({}))
    }

    pub(crate) fn call_tool(&self, tool: &str, input: &Value) -> Result<Outcome> {
        let value: Value = self.answer("tools.call", json!({"tool": tool, "input": input}))?;
        Ok(outcome(value))
    }

    pub(crate) fn start_tool(
        &self,
        tool: &str,
        input: &Value,
        timeout_ms: Option<u32>,
    ) -> Result<BackgroundCall> {
        let input = json!({"tool": tool, "input": input, "timeout_ms": timeout_ms});
        self.answer("tools.start", input)
    }

    pub(crate) fn running_tools(&self) -> Result<Vec<BackgroundCall>> {
        self.answer("tools.running", json!({}))
    }

    pub(crate) fn wait_tool(&self, id: &str, wait_ms: u32) -> Result<Option<Result<Outcome>>> {
        let end: Option<Value> =
            self.answer("tools.wait", json!({"id": id, "wait_ms": wait_ms}))?;
        Ok(end.map(|end| Ok(outcome(end))))
    }

    pub(crate) fn stop_tool(&self, id: &str) -> Result<BackgroundCall> {
        self.answer("tools.stop", json!({"id": id}))
    }

    pub(crate) fn resources(&self, server: Option<&str>) -> Result<Value> {
        self.answer("resources.resources", json!({"server": server}))
    }

    pub(crate) fn read_resource(&self, uri: &str, server: Option<&str>) -> Result<Vec<Part>> {
        let text: String = self.answer("resources.read", json!({"uri": uri, "server": server}))?;
        Ok(vec![Part::text(text)])
    }
}

fn outcome(mut value: Value) -> Outcome {
    let text = value["text"].as_str().map(str::to_owned);
    let mut outcome = text.map_or_else(Outcome::new, Outcome::text);
    outcome.structured = value.get_mut("structured").map(Value::take);
    outcome.error = value["error"].as_str().map(Error::failed);
    outcome
}
