//! Tools that a command of the project lists and another command runs, compatible with Gemini CLI.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use toolhost_contract::{
    Backend, BoxFuture, Call, CallError, Descriptor, Digest, ErrorClass, Failure, Grant, Outcome,
    Sink, ToolName, text,
};
use toolhost_process::{ExitReason, Launcher, PipedCommand, PipedResult, run_piped};

use crate::approvals::{Approvals, ToolChange};
use crate::config::{HiddenValue, ServerConfig, ServerProgram, TIMEOUT, TransportConfig};
use crate::directory_limits::{self, ServerFiles};
use crate::sandbox::ServerSandbox;
use crate::stdio::StdioDialer;
use crate::tool_conversion::{AdoptedTool, ExcludedTool, ToolCheck};

mod declarations;

pub(crate) use declarations::declarations;

/// Timeout of the discovery command.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_LIST: usize = 4 << 20;
/// Maximum bytes of each output stream of a call.
const MAX_OUTPUT: usize = 4 << 20;

#[derive(Debug, Clone)]
pub struct Discovery {
    pub discover: Vec<String>,
    pub call: Option<Vec<String>>,
    pub cwd: PathBuf,
}

/// The host's resources that a discovery needs.
#[derive(Clone)]
pub struct DiscoveryContext {
    pub launcher: Launcher,
    /// The host's own environment variables.
    pub host: Vec<(String, String)>,
    pub accept: Arc<ToolCheck>,
}

#[derive(Debug)]
pub struct Discovered {
    pub tools: Vec<AdoptedTool>,
    pub left_out: Vec<ExcludedTool>,
    /// Tools that are left out because they differ from what was approved.
    pub changed: Vec<ToolChange>,
    pub digest: Digest,
}

impl Discovery {
    /// Both commands, as displayed for approval.
    pub fn description(&self) -> String {
        let shown = |command: &[String]| self.as_server(command).description();
        let mut out = format!("to list tools:\n  {}", shown(&self.discover));
        if let Some(call) = &self.call {
            let _ = write!(
                out,
                "\nto call one, with its name appended:\n  {}",
                shown(call)
            );
        }
        out
    }

    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        hash.update(self.as_server(&self.discover).digest().0);
        if let Some(call) = &self.call {
            hash.update(self.as_server(call).digest().0);
        }
        Digest(hash.finalize().into())
    }

    fn as_server(&self, command: &[String]) -> ServerConfig {
        ServerConfig {
            name: String::new(),
            transport: TransportConfig::Stdio(self.program(command)),
            include: Vec::new(),
            exclude: Vec::new(),
            timeout: TIMEOUT,
            is_trusted: false,
        }
    }

    fn program(&self, command: &[String]) -> ServerProgram {
        ServerProgram {
            command: command.first().map_or("", String::as_str).into(),
            args: command.iter().skip(1).cloned().map(Into::into).collect(),
            env: BTreeMap::<String, HiddenValue>::new(),
            cwd: self.cwd.clone(),
            sandbox: ServerSandbox::Unconfined,
        }
    }

    fn command(&self, context: &DiscoveryContext, command: &[String]) -> PipedCommand {
        let stdio = StdioDialer {
            server: String::new(),
            program: self.program(command),
            launcher: context.launcher.clone(),
            host: context.host.clone(),
            sandbox: None,
        };
        stdio.command(None)
    }

    /// Runs the discovery command and parses its output. An error is a complete message.
    pub async fn discover(&self, context: &DiscoveryContext) -> Result<Discovered, String> {
        let command = self.command(context, &self.discover);
        let ran = timeout(
            DISCOVERY_TIMEOUT,
            run_piped(&context.launcher, &command, &[], MAX_LIST),
        )
        .await;
        let ran = ran
            .map_err(|_| {
                format!(
                    "the discovery command did not finish within {} s",
                    DISCOVERY_TIMEOUT.as_secs()
                )
            })?
            .map_err(|error| format!("the discovery command: {error}"))?;
        if ran.exit != ExitReason::Code(0) {
            return Err(format!(
                "the discovery command failed: {}; it wrote: {}",
                exit_text(ran.exit),
                text::escape_line(ran.stderr.text().trim(), 500)
            ));
        }
        if ran.stdout.is_truncated {
            return Err(format!(
                "the discovery command wrote more than {MAX_LIST} bytes"
            ));
        }
        let (tools, left_out) = declarations(&ran.stdout.text(), &*context.accept)?;
        let mut hash = Sha256::new();
        hash.update(self.digest().0);
        for one in &tools {
            hash.update(one.definition.digest.0);
        }
        Ok(Discovered {
            tools,
            left_out,
            changed: Vec::new(),
            digest: Digest(hash.finalize().into()),
        })
    }
}

impl Discovered {
    /// Leaves out tools that differ from what the user approved.
    pub fn retain_approved(
        &mut self,
        approvals: &Approvals,
        name: &str,
        digest: Digest,
    ) -> Result<(), String> {
        let resolved = approvals
            .compare(name, digest, std::mem::take(&mut self.tools))
            .map_err(|error| error.to_string())?;
        self.tools = resolved.same;
        let changed = resolved.changed.iter();
        self.left_out
            .extend(changed.map(|change| ExcludedTool::changed(name, change)));
        self.changed = resolved.changed;
        Ok(())
    }
}

/// The discovered tools, as a backend of the kernel.
pub struct DiscoveredTools {
    tools: Vec<Descriptor>,
    own: HashMap<ToolName, String>,
    discovery: Discovery,
    context: DiscoveryContext,
}

impl DiscoveredTools {
    pub fn new(discovery: Discovery, context: DiscoveryContext, found: &Discovered) -> Self {
        let own = found
            .tools
            .iter()
            .map(|one| (one.descriptor.name.clone(), one.definition.tool.clone()));
        Self {
            own: own.collect(),
            tools: found
                .tools
                .iter()
                .map(|one| one.descriptor.clone())
                .collect(),
            discovery,
            context,
        }
    }

    pub(crate) async fn run(&self, call: Call, limit: Duration) -> Result<Outcome, CallError> {
        let own = self.own.get(&call.tool).ok_or_else(|| {
            CallError::new(
                ErrorClass::NotRegistered,
                format!("the tool `{}` no longer exists", call.tool),
            )
        })?;
        let Some(arguments) = &self.discovery.call else {
            return Err(CallError::new(
                ErrorClass::Unavailable,
                "no command is configured to run discovered tools",
            )
            .code("not_configured")
            .recommend("set tools.call_command in the configuration"));
        };
        let mut arguments = arguments.clone();
        arguments.push(own.clone());
        let command = self.discovery.command(&self.context, &arguments);
        let input = call.input.to_string();
        let running = run_piped(
            &self.context.launcher,
            &command,
            input.as_bytes(),
            MAX_OUTPUT,
        );
        match timeout(limit, running).await {
            Ok(Ok(ran)) => Ok(outcome(&ran)),
            Ok(Err(error)) => Ok(failed(report("", "", Some(&error.to_string()), None))),
            Err(_) => Err(CallError::timed_out(limit)),
        }
    }
}

/// The result of a successful run is its standard output; that of a failed run is a full report.
fn outcome(ran: &PipedResult) -> Outcome {
    let (stdout, stderr) = (ran.stdout.text(), ran.stderr.text());
    let cut = ran.stdout.is_truncated || ran.stderr.is_truncated;
    let mut outcome = match ran.exit {
        ExitReason::Code(0) if stderr.is_empty() => Outcome::text(stdout),
        ExitReason::Code(0) => Outcome::text(report(&stdout, &stderr, None, Some(ran.exit))),
        exit => failed(report(&stdout, &stderr, None, Some(exit))),
    };
    if cut {
        outcome.llm.push(toolhost_contract::Part::Text(format!(
            "(output was truncated to {MAX_OUTPUT} bytes)"
        )));
    }
    outcome
}

fn failed(report: String) -> Outcome {
    Outcome {
        error: Some(Failure::new(
            "discovered_tool_execution_error",
            text::escape_lines(&report, 2_000),
        )),
        ..Outcome::text(report)
    }
}

fn report(stdout: &str, stderr: &str, error: Option<&str>, exit: Option<ExitReason>) -> String {
    let or = |text: &str, none: &str| {
        let text = text.trim_end();
        if text.is_empty() {
            none.to_owned()
        } else {
            text.to_owned()
        }
    };
    let (code, signal) = match exit {
        Some(ExitReason::Code(code)) => (code.to_string(), String::new()),
        Some(ExitReason::Signal(signal)) => (String::new(), signal.to_string()),
        _ => (String::new(), String::new()),
    };
    format!(
        "Stdout: {}\nStderr: {}\nError: {}\nExit Code: {}\nSignal: {}",
        or(stdout, "(empty)"),
        or(stderr, "(empty)"),
        or(error.unwrap_or_default(), "(none)"),
        or(&code, "(none)"),
        or(&signal, "(none)"),
    )
}

fn exit_text(exit: ExitReason) -> String {
    match exit {
        ExitReason::Code(code) => format!("exit code {code}"),
        ExitReason::Signal(signal) => format!("signal {signal}"),
        other => format!("{other:?}").to_lowercase(),
    }
}

impl Backend for DiscoveredTools {
    fn tools(&self) -> &[Descriptor] {
        &self.tools
    }

    fn invoke(
        &self,
        call: Call,
        grant: Grant,
        sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        sink.mark_untracked_dependency();
        Box::pin(async move {
            self.check_directory_limits(grant.directory_limits())?;
            self.run(call, grant.timeout()).await
        })
    }

    fn check_directory_limits(&self, limits: &[Arc<[String]>]) -> Result<(), CallError> {
        let access = ServerFiles::Any("it runs without a sandbox");
        directory_limits::check("the command of discovered tools", &access, limits)
    }

    /// An external program can have any effect.
    fn has_external_effects(&self, _tool: &Descriptor) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
