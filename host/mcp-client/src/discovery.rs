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
use toolhost_process::{Exit, Launcher, PipedCommand, PipedRan, run_piped};

use crate::adopt::{Accept, Adopted, LeftOut};
use crate::approvals::{Approvals, Change};
use crate::config::{Hidden, Program, ServerConfig, TIMEOUT, Way};
use crate::stdio::Stdio;

mod declarations;

pub(crate) use declarations::declarations;

/// Timeout of the discovery command.
const DISCOVERY: Duration = Duration::from_secs(10);
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
pub struct Ground {
    pub launcher: Launcher,
    /// The host's own environment variables.
    pub host: Vec<(String, String)>,
    pub accept: Arc<Accept>,
}

#[derive(Debug)]
pub struct Discovered {
    pub tools: Vec<Adopted>,
    pub left_out: Vec<LeftOut>,
    /// Tools that are left out because they differ from what was approved.
    pub changed: Vec<Change>,
    pub digest: Digest,
}

impl Discovery {
    /// Both commands, as displayed for approval.
    pub fn shown(&self) -> String {
        let shown = |words: &[String]| self.as_server(words).shown();
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

    fn as_server(&self, words: &[String]) -> ServerConfig {
        ServerConfig {
            name: String::new(),
            way: Way::Stdio(self.program(words)),
            include: Vec::new(),
            exclude: Vec::new(),
            timeout: TIMEOUT,
            trust: false,
        }
    }

    fn program(&self, words: &[String]) -> Program {
        Program {
            command: words.first().map_or("", String::as_str).into(),
            args: words.iter().skip(1).cloned().map(Into::into).collect(),
            env: BTreeMap::<String, Hidden>::new(),
            cwd: self.cwd.clone(),
        }
    }

    fn command(&self, ground: &Ground, words: &[String]) -> PipedCommand {
        let stdio = Stdio {
            server: String::new(),
            program: self.program(words),
            launcher: ground.launcher.clone(),
            host: ground.host.clone(),
        };
        stdio.command()
    }

    /// Runs the discovery command and parses its output. An error is a complete message.
    pub async fn discover(&self, ground: &Ground) -> Result<Discovered, String> {
        let command = self.command(ground, &self.discover);
        let ran = timeout(
            DISCOVERY,
            run_piped(&ground.launcher, &command, &[], MAX_LIST),
        )
        .await;
        let ran = ran
            .map_err(|_| {
                format!(
                    "the discovery command did not finish within {} s",
                    DISCOVERY.as_secs()
                )
            })?
            .map_err(|error| format!("the discovery command: {error}"))?;
        if ran.exit != Exit::Code(0) {
            return Err(format!(
                "the discovery command failed: {}; it wrote: {}",
                words_of(ran.exit),
                text::inline(ran.stderr.text().trim(), 500)
            ));
        }
        if ran.stdout.cut {
            return Err(format!(
                "the discovery command wrote more than {MAX_LIST} bytes"
            ));
        }
        let (tools, left_out) = declarations(&ran.stdout.text(), &*ground.accept)?;
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
    pub fn hold_against(
        &mut self,
        approvals: &Approvals,
        name: &str,
        digest: Digest,
    ) -> Result<(), String> {
        let judged = approvals
            .compare(name, digest, std::mem::take(&mut self.tools))
            .map_err(|error| error.to_string())?;
        self.tools = judged.same;
        let changed = judged.changed.iter();
        self.left_out
            .extend(changed.map(|change| LeftOut::changed(name, change)));
        self.changed = judged.changed;
        Ok(())
    }
}

/// The discovered tools, as a backend of the kernel.
pub struct DiscoveredTools {
    tools: Vec<Descriptor>,
    own: HashMap<ToolName, String>,
    discovery: Discovery,
    ground: Ground,
}

impl DiscoveredTools {
    pub fn new(discovery: Discovery, ground: Ground, found: &Discovered) -> Self {
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
            ground,
        }
    }

    pub(crate) async fn run(&self, call: Call, limit: Duration) -> Result<Outcome, CallError> {
        let own = self.own.get(&call.tool).ok_or_else(|| {
            CallError::new(
                ErrorClass::NotRegistered,
                format!("the tool `{}` no longer exists", call.tool),
            )
        })?;
        let Some(words) = &self.discovery.call else {
            return Err(CallError::new(
                ErrorClass::Unavailable,
                "no command is configured to run discovered tools",
            )
            .code("not_configured")
            .recommend("set tools.call_command in the configuration"));
        };
        let mut words = words.clone();
        words.push(own.clone());
        let command = self.discovery.command(&self.ground, &words);
        let input = call.input.to_string();
        let running = run_piped(
            &self.ground.launcher,
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

/// the result of a successful run is its standard output; that of a failed run is a full report.
fn outcome(ran: &PipedRan) -> Outcome {
    let (stdout, stderr) = (ran.stdout.text(), ran.stderr.text());
    let cut = ran.stdout.cut || ran.stderr.cut;
    let mut outcome = match ran.exit {
        Exit::Code(0) if stderr.is_empty() => Outcome::text(stdout),
        Exit::Code(0) => Outcome::text(report(&stdout, &stderr, None, Some(ran.exit))),
        exit => failed(report(&stdout, &stderr, None, Some(exit))),
    };
    if cut {
        outcome.llm.push(toolhost_contract::Part::Text(format!(
            "(output was truncated to {MAX_OUTPUT} bytes)"
        )));
    }
    outcome
}

fn failed(words: String) -> Outcome {
    Outcome {
        error: Some(Failure::new(
            "discovered_tool_execution_error",
            text::block(&words, 2_000),
        )),
        ..Outcome::text(words)
    }
}

fn report(stdout: &str, stderr: &str, error: Option<&str>, exit: Option<Exit>) -> String {
    let or = |text: &str, none: &str| {
        let text = text.trim_end();
        if text.is_empty() {
            none.to_owned()
        } else {
            text.to_owned()
        }
    };
    let (code, signal) = match exit {
        Some(Exit::Code(code)) => (code.to_string(), String::new()),
        Some(Exit::Signal(signal)) => (String::new(), signal.to_string()),
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

fn words_of(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
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
        sink.depends_on_more();
        Box::pin(self.run(call, grant.timeout()))
    }

    /// An external program can have any effect.
    fn reaches_out(&self, _tool: &Descriptor) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
