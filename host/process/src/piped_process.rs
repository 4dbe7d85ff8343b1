//! Programs whose pipes belong to the caller, for protocols such as MCP over stdio. The program runs under a warden, so
//! none of its processes outlives the host.

use std::any::Any;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal as Number;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::piped_sandbox::{
    PipedSandbox, PreparedSandbox, RefusedAccesses, prepare, receive_listener,
};
use crate::spawn::{ProgramStdio, WardenConnection, spawn};
use crate::wire::{LaunchRequest, LaunchSockets, WardenCommand, WardenReport};
use crate::{
    AllowedPrograms, Command, ExitReason, Input, Launcher, OpenPath, ProcessError, ProcessLimits,
};

/// How long to wait for the end after SIGKILL, because a process can hang in the kernel.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// A program to start. The caller must have the user's approval for exactly this command.
#[derive(Debug, Clone)]
pub struct PipedCommand {
    /// A name to look up in `path`, or an absolute path.
    pub program: String,
    pub arguments: Vec<String>,
    pub cwd: PathBuf,
    /// The complete environment.
    pub variables: Vec<(String, String)>,
    /// Directories in which a name is looked up; absolute.
    pub path: Vec<PathBuf>,
    /// `None`: the program has all rights of the user.
    pub sandbox: Option<PipedSandbox>,
}

/// A running program. Dropping it kills the program and its descendants.
pub struct PipedProcess {
    warden: WardenConnection,
    pid: i32,
    /// How the program itself ended, once it has.
    exit: Option<ExitReason>,
    is_gone: bool,
    kept: Option<Box<dyn Any + Send + Sync>>,
}

/// The host's ends of the program's pipes.
pub struct Pipes {
    pub stdin: pipe::Sender,
    pub stdout: pipe::Receiver,
    pub stderr: pipe::Receiver,
    /// Listens in the network of a program with [`crate::PipedNetwork::Proxy`]. Nothing else connects it to the outside.
    pub proxy: Option<TcpListener>,
    /// With [`PipedSandbox::record`].
    pub refused: Option<RefusedAccesses>,
}

impl PipedProcess {
    pub async fn start(
        launcher: &Launcher,
        command: &PipedCommand,
    ) -> Result<(PipedProcess, Pipes), ProcessError> {
        let arguments: Vec<&str> = command.arguments.iter().map(String::as_str).collect();
        let cwd = OpenPath::directory(&command.cwd)?;
        let mut checked = Command::new(&command.program, &arguments, cwd.clone());
        checked.input = Input::Open;
        checked.validate()?;
        let program = AllowedPrograms::Any.find(&command.program, &command.path)?;
        let ends = ProgramStdio::create(&checked)?;
        let prepared = prepare_sandbox(command, &program).await?;
        let (sandbox_rules, held, proxy, record) = match prepared {
            Some(PreparedSandbox {
                rules,
                held,
                proxy,
                record,
            }) => (Some(rules), held, proxy, record),
            None => (None, Vec::new(), None, None),
        };
        let request = LaunchRequest {
            program,
            name: command.program.clone(),
            arguments: command.arguments.clone(),
            variables: command.variables.clone(),
            limits: ProcessLimits::default(),
            tty: false,
            sandbox_rules,
            sockets: LaunchSockets {
                proxy: proxy.as_ref().map(|(_, index)| *index),
                record: record.as_ref().map(|(_, index)| *index),
            },
            launcher: crate::start::to_strings(&launcher.args),
        };
        let (line, pid, stdout, stderr, stdin) = spawn(launcher, &request, (&cwd, held), ends)
            .await
            .map_err(|error| match error {
                ProcessError::Directory { reason, .. } => ProcessError::Directory {
                    path: command.cwd.clone(),
                    reason,
                },
                other => other,
            })?;
        let socket = |source| ProcessError::Io {
            subject: "a socket",
            source,
        };
        let proxy = proxy
            .map(|(socket, _)| receive_listener(&socket))
            .transpose()
            .map_err(socket)?;
        let refused = record.map(|(socket, _)| RefusedAccesses::new(socket));
        let refused = refused.transpose().map_err(socket)?;
        let pipes = Pipes {
            stdin: stdin.expect("the input was requested as open").into_pipe(),
            stdout: stdout.into_pipe(),
            stderr: stderr.expect("pipes have a standard error").into_pipe(),
            proxy,
            refused,
        };
        let piped = PipedProcess {
            warden: line,
            pid,
            exit: None,
            is_gone: false,
            kept: None,
        };
        Ok((piped, pipes))
    }

    /// Keeps a value until the program has ended.
    pub fn keep(&mut self, value: Box<dyn Any + Send + Sync>) {
        self.kept = Some(value);
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until the program itself has ended. Cancel safe.
    pub async fn wait(&mut self) -> ExitReason {
        loop {
            if let Some(exit) = self.exit {
                return exit;
            }
            self.read_report().await;
        }
    }

    /// Ends the program gracefully. The caller has closed its input; the program gets `patience` to exit, then SIGTERM
    /// and `patience` again, then it is killed with SIGKILL together with all remaining processes.
    pub async fn end(mut self, patience: Duration) -> ExitReason {
        if timeout(patience, self.wait()).await.is_err() {
            self.warden
                .send(WardenCommand::Signal(Number::TERM.as_raw()))
                .await;
            let _ = timeout(patience, self.wait()).await;
        }
        self.warden.send(WardenCommand::Kill).await;
        let all_gone = async {
            while !self.is_gone {
                self.read_report().await;
            }
        };
        let _ = timeout(KILL_TIMEOUT, all_gone).await;
        let exit = self.exit.unwrap_or(ExitReason::Lost);
        self.warden.close().await;
        exit
    }

    async fn read_report(&mut self) {
        match self.warden.next().await {
            Some(WardenReport::Ended { code, signal, .. }) => {
                let exit = code
                    .map(ExitReason::Code)
                    .or(signal.map(ExitReason::Signal));
                self.exit = Some(exit.unwrap_or(ExitReason::Lost));
            }
            Some(WardenReport::Crowded) => self.exit = Some(ExitReason::TooManyProcesses),
            // Without a warden there are no further reports.
            None
            | Some(WardenReport::Gone | WardenReport::Started { .. } | WardenReport::Failed(_)) => {
                self.is_gone = true;
                self.exit.get_or_insert(ExitReason::Lost);
            }
        }
    }
}

async fn prepare_sandbox(
    command: &PipedCommand,
    program: &Path,
) -> Result<Option<PreparedSandbox>, ProcessError> {
    let Some(sandbox) = command.sandbox.clone() else {
        return Ok(None);
    };
    let program = program.to_owned();
    let prepared = tokio::task::spawn_blocking(move || prepare(&sandbox, &program).map(Some));
    prepared.await.map_err(|error| ProcessError::Unconfined {
        lacks: error.to_string(),
    })?
}
