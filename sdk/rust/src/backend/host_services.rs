//! The host services in a component, one import per method.

use serde_json::Value;

use super::Backend;
use crate::bindings::toolhost::plugin::types as wit;
use crate::bindings::toolhost::plugin::{agents, process, resources, session, tools, user};
use crate::services::http::{Request, Response};
use crate::services::process::{Chunk, Command, ExitStatus, Job, RunOutput};
use crate::services::{Agent, BackgroundCall, FileObservation, ToolSummary};
use crate::{Error, Outcome, Part, Result};

fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text)
        .map_err(|error| Error::failed("the host's answer is not JSON").cause(error))
}

impl Backend {
    pub(crate) fn get(&self, key: &str) -> Result<Option<Value>> {
        session::get(key)?.as_deref().map(parse).transpose()
    }

    pub(crate) fn set(&self, key: &str, value: Option<Value>) -> Result<()> {
        let text = value.map(|value| value.to_string());
        Ok(session::set(key, text.as_deref())?)
    }

    pub(crate) fn record_observation(&self, observation: &FileObservation) -> Result<()> {
        Ok(session::record_observation(&session::FileObservation {
            path: observation.path.clone(),
            sha256: observation.sha256.clone(),
            lines: observation.lines,
        })?)
    }

    pub(crate) fn last_observation(&self, path: &str) -> Result<Option<FileObservation>> {
        let observation = session::last_observation(path)?;
        Ok(observation.map(|observation| FileObservation {
            path: observation.path,
            sha256: observation.sha256,
            lines: observation.lines,
        }))
    }

    pub(crate) fn run_program(&self, command: &Command) -> Result<RunOutput> {
        let finished = process::run(&command.into())?;
        Ok(RunOutput {
            stdout: finished.stdout,
            stderr: finished.stderr,
            combined: finished.combined,
            stdout_total: whole(finished.stdout_total),
            stderr_total: whole(finished.stderr_total),
            pid: finished.pid,
            exit_status: finished.exit_status.into(),
            output_file: finished.output_file,
            hints: finished.hints,
        })
    }

    pub(crate) fn start_program(&self, command: &Command) -> Result<Job> {
        Ok(process::start(&command.into())?.into())
    }

    pub(crate) fn jobs(&self) -> Result<Vec<Job>> {
        Ok(process::jobs()?.into_iter().map(Into::into).collect())
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "the contract counts in f64, exact up to 8 petabytes"
    )]
    pub(crate) fn read_job(&self, id: &str, after: u64, max: u32, wait_ms: u32) -> Result<Chunk> {
        let chunk = process::read(id, after as f64, max, wait_ms)?;
        Ok(Chunk {
            bytes: chunk.bytes,
            next: whole(chunk.next),
            dropped: whole(chunk.dropped),
            job: chunk.job.into(),
        })
    }

    pub(crate) fn write_job(&self, id: &str, bytes: &[u8]) -> Result<()> {
        Ok(process::write(id, bytes)?)
    }

    pub(crate) fn kill_job(&self, id: &str, signal: &str) -> Result<Job> {
        Ok(process::kill(id, signal)?.into())
    }

    pub(crate) fn fetch(&self, request: &Request) -> Result<Response> {
        super::fetch::fetch(request)
    }

    pub(crate) fn ask(&self, questions: &Value) -> Result<Value> {
        parse(&user::ask(&questions.to_string())?)
    }

    pub(crate) fn change_mode(&self, to: &str, reason: &str) -> Result<String> {
        Ok(user::change_mode(to, reason)?)
    }

    pub(crate) fn request_permissions(&self, request: &Value) -> Result<Value> {
        parse(&user::request_permissions(&request.to_string())?)
    }

    pub(crate) fn agents(&self) -> Result<Vec<Agent>> {
        let agents = agents::agents()?;
        let agent = |agents::Agent { name, description }| Agent { name, description };
        Ok(agents.into_iter().map(agent).collect())
    }

    pub(crate) fn run_agent(&self, task: &Value) -> Result<Value> {
        parse(&agents::run(&task.to_string())?)
    }

    pub(crate) fn tools(&self) -> Result<Vec<ToolSummary>> {
        let tools = tools::tools()?;
        tools
            .into_iter()
            .map(|tool| {
                Ok(ToolSummary {
                    name: tool.name,
                    plugin: tool.plugin,
                    description: tool.description,
                    input_schema: parse(&tool.input_schema)?,
                    aliases: tool.aliases,
                    tags: tool.tags,
                    can_background: tool.can_background,
                })
            })
            .collect()
    }

    pub(crate) fn call_tool(&self, tool: &str, input: &Value) -> Result<Outcome> {
        Ok(tools::call(tool, &input.to_string())?.into())
    }

    pub(crate) fn start_tool(
        &self,
        tool: &str,
        input: &Value,
        timeout_ms: Option<u32>,
    ) -> Result<BackgroundCall> {
        Ok(tools::start(tool, &input.to_string(), timeout_ms)?.into())
    }

    pub(crate) fn running_tools(&self) -> Result<Vec<BackgroundCall>> {
        Ok(tools::running()?.into_iter().map(Into::into).collect())
    }

    pub(crate) fn wait_tool(&self, id: &str, wait_ms: u32) -> Result<Option<Result<Outcome>>> {
        let end = tools::wait(id, wait_ms)?;
        Ok(end.map(|end| end.map(Into::into).map_err(Into::into)))
    }

    pub(crate) fn stop_tool(&self, id: &str) -> Result<BackgroundCall> {
        Ok(tools::stop(id)?.into())
    }

    pub(crate) fn resources(&self, server: Option<&str>) -> Result<Value> {
        parse(&resources::resources(server)?)
    }

    pub(crate) fn read_resource(&self, uri: &str, server: Option<&str>) -> Result<Vec<Part>> {
        let parts = resources::read(uri, server)?;
        Ok(parts.into_iter().map(Into::into).collect())
    }
}

/// Converts a count of the contract.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of this kind saturates"
)]
fn whole(count: f64) -> u64 {
    count as u64
}

impl From<&Command> for process::Command {
    fn from(command: &Command) -> Self {
        Self {
            program: command.program.clone(),
            arguments: command.arguments.clone(),
            cwd: command.cwd.clone(),
            environment: command.environment.clone(),
            stdin: command.stdin.clone(),
            timeout_ms: command.timeout_ms,
            inactivity_timeout_ms: command.inactivity_timeout_ms,
            tty: command.tty,
            label: if command.label.is_empty() {
                command.program.clone()
            } else {
                command.label.clone()
            },
        }
    }
}

impl From<process::ExitStatus> for ExitStatus {
    fn from(exit_status: process::ExitStatus) -> Self {
        Self {
            kind: exit_status.kind,
            code: exit_status.code,
            signal: exit_status.signal,
            duration_ms: exit_status.duration_ms,
        }
    }
}

impl From<process::Job> for Job {
    fn from(job: process::Job) -> Self {
        Self {
            id: job.id,
            pid: job.pid,
            label: job.label,
            state: job.state,
            started_ms: job.started_ms,
            output_bytes: whole(job.output_bytes),
            exit_status: job.exit_status.map(Into::into),
            output_file: job.output_file,
            hints: job.hints,
        }
    }
}

impl From<tools::Background> for BackgroundCall {
    fn from(background: tools::Background) -> Self {
        Self {
            id: background.id,
            tool: background.tool,
            state: background.state,
            started_ms: background.started_ms,
        }
    }
}

impl From<wit::ToolError> for Error {
    fn from(error: wit::ToolError) -> Self {
        use crate::ErrorKind;
        let (kind, failure) = match error {
            wit::ToolError::InvalidInput(failure) => (ErrorKind::InvalidInput, failure),
            wit::ToolError::NotFound(failure) => (ErrorKind::NotFound, failure),
            wit::ToolError::Denied(failure) => (ErrorKind::Denied, failure),
            wit::ToolError::Interrupted(failure) => (ErrorKind::Interrupted, failure),
            wit::ToolError::Unavailable(failure) => (ErrorKind::Unavailable, failure),
            wit::ToolError::Failed(failure) => (ErrorKind::Failed, failure),
        };
        Self {
            kind,
            ..failure.into()
        }
    }
}
